//! The header of frames received on all interfaces at once: LINKTYPE_LINUX_SLL2, as `tcpdump -i any`
//! writes it. Interfaces have different link-layer headers, so the kernel delivers the packets without
//! them (`SOCK_DGRAM`), and their addresses separately.

use libc::sockaddr_ll;

/// Bytes of a header.
const HEADER_BYTES: usize = 20;

/// Bytes of a header and a VLAN tag.
pub(super) const HEADER_BYTES_MAX: usize = HEADER_BYTES + 4;

/// A VLAN tag that the kernel has stripped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VlanTag {
    pub(super) identifier: u16,
    pub(super) control: u16,
}

/// A header to put before a packet.
pub(super) struct Header {
    bytes: [u8; HEADER_BYTES_MAX],
    length: usize,
}

impl Header {
    /// Creates the header of a packet with this address. A VLAN tag follows the header, as if it were
    /// the packet's first protocol.
    pub(super) fn new(address: &sockaddr_ll, tag: Option<VlanTag>) -> Self {
        let mut bytes = [0; HEADER_BYTES_MAX];
        // The kernel stores the protocol in network byte order, the other numbers in the host's.
        let protocol = address.sll_protocol.to_ne_bytes();
        bytes[..2].copy_from_slice(&protocol);
        bytes[4..8].copy_from_slice(&address.sll_ifindex.to_be_bytes());
        bytes[8..10].copy_from_slice(&address.sll_hatype.to_be_bytes());
        bytes[10] = address.sll_pkttype;
        bytes[11] = address.sll_halen;
        bytes[12..HEADER_BYTES].copy_from_slice(&address.sll_addr);
        let Some(tag) = tag else {
            return Self {
                bytes,
                length: HEADER_BYTES,
            };
        };
        bytes[..2].copy_from_slice(&tag.identifier.to_be_bytes());
        bytes[HEADER_BYTES..HEADER_BYTES + 2].copy_from_slice(&tag.control.to_be_bytes());
        bytes[HEADER_BYTES + 2..].copy_from_slice(&protocol);
        Self {
            bytes,
            length: HEADER_BYTES_MAX,
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: sockaddr_ll = sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: 0x0800u16.to_be(),
        sll_ifindex: 7,
        sll_hatype: libc::ARPHRD_ETHER,
        sll_pkttype: libc::PACKET_OUTGOING,
        sll_halen: 6,
        sll_addr: [2, 0, 0, 0, 0, 1, 0, 0],
    };

    #[test]
    fn header_has_the_fields_of_sll2() {
        let expected = [8, 0, 0, 0, 0, 0, 0, 7, 0, 1, 4, 6, 2, 0, 0, 0, 0, 1, 0, 0];
        assert_eq!(Header::new(&ADDRESS, None).bytes(), expected);
    }

    #[test]
    fn vlan_tag_follows_the_header() {
        let tag = VlanTag {
            identifier: 0x88a8,
            control: 0x2005,
        };
        let header = Header::new(&ADDRESS, Some(tag));
        let bytes = header.bytes();
        assert_eq!(
            (&bytes[..2], &bytes[20..]),
            (&[0x88, 0xa8][..], &[0x20, 5, 8, 0][..])
        );
        assert_eq!(bytes[2..20], Header::new(&ADDRESS, None).bytes()[2..]);
    }
}
