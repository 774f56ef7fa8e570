//! The sum of the fields, as FloWatcher computes it: the cheapest hash, and easy to make collide.

/// Returns the sum of the addresses (as 32-bit numbers), ports, VLAN and protocol, modulo 2^32.
#[inline]
pub(super) fn hash(key: u128) -> u32 {
    let [source, destination, ports, protocol_and_vlan] = fields(key);
    source
        .wrapping_add(destination)
        .wrapping_add(ports >> 16)
        .wrapping_add(ports & 0xffff)
        .wrapping_add(protocol_and_vlan >> 16)
        .wrapping_add(protocol_and_vlan & 0xffff)
}

/// Returns the fields of a table key as numbers: source, destination, ports (source in the upper half),
/// and protocol above the VLAN field. The mark in byte 0 is omitted.
#[inline]
pub(super) fn fields(key: u128) -> [u32; 4] {
    let [source, destination, ports] =
        [32, 64, 96].map(|shift| ((key >> shift) as u32).swap_bytes());
    let [_, protocol, vlan @ ..] = (key as u32).to_le_bytes();
    let protocol_and_vlan = u32::from(protocol) << 16 | u32::from(u16::from_be_bytes(vlan));
    [source, destination, ports, protocol_and_vlan]
}
