//! Plausibility limits of capture files, independent of their headers.

use crate::frame::SnaplenErrors;

/// Maximum captured bytes of a packet on a network link type.
///
/// libpcap's limit is 262,144 (`MAXIMUM_SNAPLEN`). Linux can deliver merged packets of 512 KiB (BIG
/// TCP); this is twice that.
const MAX_PACKET_BYTES: u32 = 1 << 20;

/// Maximum captured bytes of a bus message. A D-Bus message may have 128 MiB (D-Bus Specification,
/// "Maximum message length"); USB transfers and EBHSCR frames can be large, too.
const MAX_MESSAGE_BYTES: u32 = 128 << 20;

/// LINKTYPE_ values of buses: USB (FreeBSD, Linux, Linux memory-mapped, USBPcap, Darwin), D-Bus,
/// EBHSCR.
const BUS_LINK_TYPES: [u16; 7] = [186, 189, 220, 249, 266, 231, 279];

/// Returns the snaplen to use for a declared one. 0 means no limit (pcapng, section 4.2; libpcap reads
/// pcap likewise). A snaplen greater than any packet of any link type is added to `errors` and treated
/// as no limit. Not only damaged headers have one: ns-3, which sets no limit, writes 2^32 - 1.
pub(super) fn effective_snaplen(declared: u32, errors: &mut SnaplenErrors) -> u32 {
    let is_invalid = declared > MAX_MESSAGE_BYTES;
    if is_invalid {
        *errors += SnaplenErrors {
            invalid: 1,
            invalid_max: declared,
            exceeded: 0,
        };
    }
    if is_invalid || declared == 0 {
        u32::MAX
    } else {
        declared
    }
}

/// Maximum bytes of a pcapng packet block besides the packet: header, and options such as comments.
pub(super) const MAX_BLOCK_OVERHEAD_BYTES: u32 = 1 << 20;

/// Maximum bytes of a pcapng section header or interface description.
pub(super) const MAX_DESCRIPTION_BYTES: u32 = 16 << 20;

/// Maximum interfaces of a pcapng section: 65,536 merged captures of 4 interfaces each.
pub(super) const MAX_INTERFACES: usize = 1 << 18;

/// Maximum captured bytes of a packet of this link type.
pub(super) fn max_captured_bytes(linktype: u16) -> u32 {
    if BUS_LINK_TYPES.contains(&linktype) {
        MAX_MESSAGE_BYTES
    } else {
        MAX_PACKET_BYTES
    }
}

/// Bytes of the pseudo-header that the capturing program prepended to each packet. The file counts them
/// in the original length although they never were on the wire.
///
/// Only link types with a complete packet after the pseudo-header: the same ones that Wireshark
/// subtracts before it counts bytes (capinfos' "data size").
pub(super) fn pseudo_header_bytes(linktype: u16) -> u32 {
    match linktype {
        // SunATM, MTP2 with pseudo-header, Bluetooth H4 with direction, Bluetooth Linux monitor.
        123 | 139 | 201 | 254 => 4,
        // Linux cooked IrDA and LAPD.
        144 | 177 => 16,
        // SITA, Linux I2C.
        196 | 209 => 5,
        // PPP with direction.
        204 => 1,
        // NFC LLCP.
        245 => 2,
        _ => 0,
    }
}
