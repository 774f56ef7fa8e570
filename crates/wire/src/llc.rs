//! LLC header with SNAP (IEEE 802.2, RFC 1042).

use crate::field::{bytes_at, u16_at};
use crate::packet_view::PacketView;
use crate::view::view;

mod field {
    pub(super) const LENGTH: usize = 8;
    pub(super) const SERVICE_ACCESS_POINTS: usize = 0;
    pub(super) const ETHER_TYPE: usize = 6;
}

/// Destination and source access point SNAP, unnumbered information, and the OUI 00-00-00, which
/// says that an EtherType follows (RFC 1042).
const ETHER_TYPE_FOLLOWS: [u8; 6] = [0xaa, 0xaa, 0x03, 0, 0, 0];

view! {
    /// View of an LLC header and the SNAP extension together.
    pub struct Snap(field::LENGTH);
}

impl Snap<'_> {
    /// The EtherType, where this is SNAP with one; `None` for every other LLC.
    #[must_use]
    pub fn ether_type(&self) -> Option<u16> {
        let points = bytes_at::<{ field::SERVICE_ACCESS_POINTS }, 6, _>(self.0);
        (points == ETHER_TYPE_FOLLOWS).then(|| u16_at::<{ field::ETHER_TYPE }, _>(self.0))
    }
}

/// Bytes of the least LLC header: two access points and a control field.
pub const LEAST_LENGTH: usize = 3;

/// Whether `packet` begins as SNAP does, as far as it was captured.
#[must_use]
pub fn is_snap(packet: &PacketView<'_>) -> bool {
    packet.bytes().starts_with(&ETHER_TYPE_FOLLOWS[..3])
}
