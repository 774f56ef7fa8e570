//! BSD loopback headers (LINKTYPE_NULL, LINKTYPE_LOOP): an address family in four bytes.

use crate::ether_type;
use crate::packet_view::{Cut, PacketView};

/// AF_INET, the same everywhere.
const IPV4: u32 = 2;
/// AF_INET6 of Linux, Windows, NetBSD and OpenBSD, FreeBSD, and macOS.
const IPV6: [u32; 5] = [10, 23, 24, 28, 30];

/// The byte order of the family field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyOrder {
    /// That of the capturing host, which the capture does not record: both are accepted (LINKTYPE_NULL).
    Host,
    /// Network byte order (LINKTYPE_LOOP).
    Network,
}

/// The protocol family of a packet on the loopback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// No family but an EtherType, which some hosts write in the last two bytes of LINKTYPE_NULL.
    EtherType(u16),
    /// Any other.
    Other,
}

/// Splits the family off.
///
/// # Errors
/// [`Cut`] where it is not whole.
pub fn split(packet: PacketView<'_>, order: FamilyOrder) -> Result<(Family, PacketView<'_>), Cut> {
    let (&field, rest) = packet.split::<4>()?;
    let network = u32::from_be_bytes(field);
    // No family number is ambiguous between byte orders.
    let other_order = match order {
        FamilyOrder::Host => network.swap_bytes(),
        FamilyOrder::Network => network,
    };
    let is = |number: u32| network == number || other_order == number;
    let [_, _, high, low] = field;
    let last = u16::from_be_bytes([high, low]);
    let family = if is(IPV4) {
        Family::Ipv4
    } else if IPV6.into_iter().any(is) {
        Family::Ipv6
    } else if order == FamilyOrder::Host && last >= ether_type::LEAST {
        Family::EtherType(last)
    } else {
        Family::Other
    };
    Ok((family, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(field: [u8; 4], order: FamilyOrder) -> Family {
        split(PacketView::new(&field, 4), order).unwrap().0
    }

    /// The numbers of AF_INET6 are those of the systems' own headers; see also the description of
    /// LINKTYPE_NULL and LINKTYPE_LOOP by tcpdump.org.
    #[test]
    fn host_order_families_are_read_in_either_byte_order() {
        for number in [10u32, 23, 24, 28, 30] {
            assert_eq!(
                family(number.to_le_bytes(), FamilyOrder::Host),
                Family::Ipv6
            );
            assert_eq!(
                family(number.to_be_bytes(), FamilyOrder::Host),
                Family::Ipv6
            );
            assert_eq!(
                family(number.to_be_bytes(), FamilyOrder::Network),
                Family::Ipv6
            );
            assert_eq!(
                family(number.to_le_bytes(), FamilyOrder::Network),
                Family::Other
            );
        }
        assert_eq!(family([2, 0, 0, 0], FamilyOrder::Host), Family::Ipv4);
        assert_eq!(family([0, 0, 0, 2], FamilyOrder::Network), Family::Ipv4);
        assert_eq!(family([0, 0, 0, 7], FamilyOrder::Host), Family::Other);
    }
}
