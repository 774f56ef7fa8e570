//! What is absurd in a capture file, whatever its headers say.

use crate::frame::SnapLengths;

/// Most captured bytes of a packet, of link types that carry network traffic.
///
/// libpcap's own limit is 262,144 (`MAXIMUM_SNAPLEN`); since Linux can hand over merged packets of
/// 512 KiB (BIG TCP) there is room for twice these.
const MAX_PACKET_BYTES: u32 = 1 << 20;

/// Most captured bytes of a message of a bus. A D-Bus message may have 128 MiB (D-Bus
/// Specification, "Maximum message length"); USB transfers and EBHSCR frames can be large too.
const MAX_MESSAGE_BYTES: u32 = 128 << 20;

/// LINKTYPE_ values of such buses: USB (FreeBSD, Linux, Linux memory-mapped, USBPcap, Darwin), D-Bus,
/// EBHSCR.
const BUSES: [u16; 7] = [186, 189, 220, 249, 266, 231, 279];

/// The most bytes that a packet has captured by the snap length that its header says, which is added
/// to `odd` if no packet of any link type can be as long: it is taken for no limit then, and so is 0
/// (pcapng, section 4.2; libpcap reads pcap so too). Not only damaged headers say such lengths: ns-3,
/// which sets no limit, writes 2^32 - 1.
pub(super) fn snap_length(said: u32, odd: &mut SnapLengths) -> u32 {
    let is_absurd = said > MAX_MESSAGE_BYTES;
    if is_absurd {
        *odd += SnapLengths {
            absurd: 1,
            absurd_max: said,
            exceeded: 0,
        };
    }
    if is_absurd || said == 0 {
        u32::MAX
    } else {
        said
    }
}

/// Bytes of a pcapng packet block besides its packet: its header, and options such as comments.
pub(super) const MAX_BLOCK_OVERHEAD_BYTES: u32 = 1 << 20;

/// Most bytes of a pcapng section header or interface description.
pub(super) const MAX_DESCRIPTION_BYTES: u32 = 16 << 20;

/// Most interfaces of a pcapng section: 65,536 captures of 4 interfaces each, merged.
pub(super) const MAX_INTERFACES: usize = 1 << 18;

/// The most bytes that a packet of this link type can have captured.
pub(super) fn most_captured_bytes(linktype: u16) -> u32 {
    if BUSES.contains(&linktype) {
        MAX_MESSAGE_BYTES
    } else {
        MAX_PACKET_BYTES
    }
}

/// Bytes at the start of each packet that never were on the wire, although the file counts them as
/// if they had been: a pseudo-header that the capturing program put there.
///
/// Only where the packet after it is a packet of its own; Wireshark takes the same ones off before
/// it counts bytes, which is what capinfos' "data size" says.
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
