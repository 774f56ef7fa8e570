//! The XOR of the fields, as FloWatcher computes it: as cheap and as weak as the sum, and the same for
//! both directions of a flow.

use super::add::fields;

/// Returns the XOR of the addresses (as 32-bit numbers), ports, VLAN and protocol.
#[inline]
pub(super) fn hash(key: u128) -> u32 {
    let [source, destination, ports, protocol_and_vlan] = fields(key);
    source
        ^ destination
        ^ ports >> 16
        ^ ports & 0xffff
        ^ protocol_and_vlan >> 16
        ^ protocol_and_vlan & 0xffff
}
