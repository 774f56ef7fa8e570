//! The sum of the fields, as FloWatcher computes it: the cheapest hash of all, and one that an
//! outsider can make collide at will.

/// Addresses as 32-bit numbers, ports, VLAN and protocol, added up modulo 2^32.
#[inline(always)]
pub(super) fn hash(key: u128) -> u32 {
    let [source, destination, ports, protocol_and_vlan] = fields(key);
    source
        .wrapping_add(destination)
        .wrapping_add(ports >> 16)
        .wrapping_add(ports & 0xffff)
        .wrapping_add(protocol_and_vlan >> 16)
        .wrapping_add(protocol_and_vlan & 0xffff)
}

/// Source, destination, ports (source in the upper half), and protocol above the VLAN field: the
/// fields of a table key as numbers. The mark in byte 15 is left out.
#[inline(always)]
pub(super) fn fields(key: u128) -> [u32; 4] {
    let [source, destination, ports] =
        [0, 32, 64].map(|shift| ((key >> shift) as u32).swap_bytes());
    let rest = ((key >> 96) as u32).swap_bytes();
    [
        source,
        destination,
        ports,
        rest >> 24 << 16 | rest >> 8 & 0xffff,
    ]
}
