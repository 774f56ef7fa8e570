//! Strips a VLAN tag, so that the parsers of untagged frames apply.

use super::ipv4::{SimpleIpv4, simple_ipv4};
use super::ipv6::{SimpleIpv6, simple_ipv6};
use super::offset;
use super::portless::{Portless, portless_ipv4};
use crate::field::u16_at;
use crate::vlan::{self, Vlan};
use crate::{FlowKey, ether_type};

/// A frame without its VLAN tag: it starts later by the length of the tag, so that the fields after the tag
/// are at the offsets of an untagged frame. (The MAC addresses are not at theirs.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Untagged<'a> {
    /// Captured bytes.
    pub frame: &'a [u8],
    /// Length on the wire, in bytes.
    pub wire_length: u32,
    /// The tag, as in [`FlowKey::vlan`]; 0 for none.
    pub tag: u16,
}

impl<'a> Untagged<'a> {
    /// Strips the outer VLAN tag, if any, from an Ethernet frame of `wire_length` bytes.
    #[inline]
    #[must_use]
    pub fn new(frame: &'a [u8], wire_length: u32) -> Self {
        if let Some(start) = frame.first_chunk::<{ offset::VLAN + 2 }>()
            && u16_at::<{ offset::ETHER_TYPE }, _>(start) == ether_type::VLAN
            && let Some(rest) = wire_length.checked_sub(Vlan::LENGTH as u32)
        {
            let identifier = u16_at::<{ offset::VLAN }, _>(start) & vlan::IDENTIFIER_MASK;
            return Self {
                frame: &frame[Vlan::LENGTH..],
                wire_length: rest,
                tag: FlowKey::VLAN_PRESENT | identifier,
            };
        }
        Self {
            frame,
            wire_length,
            tag: 0,
        }
    }

    /// The EtherType after the tag; `None` if it was not captured.
    #[inline]
    #[must_use]
    pub fn ether_type(&self) -> Option<u16> {
        let start = self.frame.first_chunk::<{ offset::VLAN }>()?;
        Some(u16_at::<{ offset::ETHER_TYPE }, _>(start))
    }

    /// [`simple_ipv4`] of the frame, with the tag in the key.
    #[inline]
    #[must_use]
    pub fn simple_ipv4(&self) -> Option<SimpleIpv4> {
        let simple = simple_ipv4(self.frame, self.wire_length)?;
        let key = simple.key | FlowKey::compact_vlan(self.tag);
        Some(SimpleIpv4 { key, ..simple })
    }

    /// [`portless_ipv4`] of the frame, with the tag in the key.
    #[inline]
    #[must_use]
    pub fn portless_ipv4(&self) -> Option<Portless> {
        let portless = portless_ipv4(self.frame, self.wire_length)?;
        let key = portless.key | FlowKey::compact_vlan(self.tag);
        Some(Portless { key, ..portless })
    }

    /// [`simple_ipv6`] of the frame, with the tag in the key.
    #[inline]
    #[must_use]
    pub fn simple_ipv6(&self) -> Option<SimpleIpv6> {
        let mut simple = simple_ipv6(self.frame, self.wire_length)?;
        simple.key.vlan[0] = self.tag;
        Some(simple)
    }
}
