//! MPLS label stack (RFC 3032 section 2.1) and the pseudowire control word (RFC 4385 section 3).

use crate::ether_type;
use crate::field::u32_at;
use crate::packet_view::PacketView;
use crate::view::view;

mod field {
    pub(super) const LENGTH: usize = 4;
    pub(super) const ENTRY: usize = 0;
}

/// Bit of an entry that ends the stack.
const BOTTOM_OF_STACK: u32 = 0x100;
/// Bits of an entry below the label.
const LABEL_SHIFT: u32 = 12;

/// Bytes of the control word that may stand before the Ethernet frame of a pseudowire.
pub const CONTROL_WORD_LENGTH: usize = 4;

/// Offset of the EtherType in an Ethernet header, to guess whether there is one.
const ETHER_TYPE_OFFSET: usize = 12;

view! {
    /// View of one entry of the label stack.
    pub struct Label(field::LENGTH);
}

impl Label<'_> {
    /// The label, 20 bits.
    #[must_use]
    pub const fn label(&self) -> u32 {
        u32_at::<{ field::ENTRY }, _>(self.0) >> LABEL_SHIFT
    }

    /// Whether this is the last label.
    #[inline]
    #[must_use]
    pub const fn is_bottom(&self) -> bool {
        u32_at::<{ field::ENTRY }, _>(self.0) & BOTTOM_OF_STACK != 0
    }
}

/// What follows the labels. They do not say; as load-balancing routers do, flowatch guesses from the
/// first nibble (RFC 4928 section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// An IPv4 packet.
    Ipv4,
    /// An IPv6 packet.
    Ipv6,
    /// An Ethernet frame after a control word of 4 bytes.
    ControlWord,
    /// An Ethernet frame.
    Ethernet,
    /// Anything else.
    Other,
}

/// Guesses what follows the labels before `packet`.
///
/// A first nibble of 0 is a control word, or the first address of an Ethernet frame without one. The
/// position of a common EtherType decides; in doubt it is a control word.
#[must_use]
pub fn payload(packet: &PacketView<'_>) -> Payload {
    match packet.first_nibble() {
        Some(4) => Payload::Ipv4,
        Some(6) => Payload::Ipv6,
        Some(0) => {
            let bytes = packet.bytes();
            let with_control_word = bytes.get(CONTROL_WORD_LENGTH..).is_some_and(looks_ethernet);
            if !with_control_word && looks_ethernet(bytes) {
                Payload::Ethernet
            } else {
                Payload::ControlWord
            }
        }
        _ => Payload::Other,
    }
}

fn looks_ethernet(bytes: &[u8]) -> bool {
    let Some(&[high, low]) = bytes
        .get(ETHER_TYPE_OFFSET..)
        .and_then(|rest| rest.first_chunk::<2>())
    else {
        return false;
    };
    matches!(
        u16::from_be_bytes([high, low]),
        ether_type::IPV4
            | ether_type::IPV6
            | ether_type::ARP
            | ether_type::VLAN
            | ether_type::SERVICE_VLAN
            | ether_type::MPLS
            | ether_type::PPPOE_SESSION
    )
}
