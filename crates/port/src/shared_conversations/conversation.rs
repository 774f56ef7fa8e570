//! Conversations, and when they were seen.

use crate::frame::Frame;
use std::net::{IpAddr, Ipv4Addr};
use wire::{Decapsulate, Fragment, LinkType};

/// The packets between two endpoints, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Conversation {
    /// Addresses and ports, the smaller endpoint first.
    endpoints: [(IpAddr, u16); 2],
    protocol: u8,
    vlan: [u16; 2],
}

impl Conversation {
    /// Returns the conversation of a packet and its direction, 1 or 2. `None` if it has none that could
    /// tell links apart: the same addresses of a group or of one link occur on every link.
    pub(super) fn of(link: LinkType, frame: &Frame<'_>) -> Option<(Self, u8)> {
        let headers = wire::dissect(link, frame.bytes, frame.wire_length, Decapsulate::No);
        if headers.no_flow.is_some() || !matches!(headers.fragment, Fragment::No | Fragment::Atomic)
        {
            return None;
        }
        let key = headers.key;
        let source = (key.source_address(), key.source_port);
        let destination = (key.destination_address(), key.destination_port);
        if is_local(source.0) || is_local(destination.0) {
            return None;
        }
        let (endpoints, direction) = if source <= destination {
            ([source, destination], 1)
        } else {
            ([destination, source], 2)
        };
        let conversation = Self {
            endpoints,
            protocol: key.protocol,
            vlan: key.vlan,
        };
        Some((conversation, direction))
    }
}

/// Whether an address has a meaning on one link only, or is one of a group.
fn is_local(address: IpAddr) -> bool {
    address.is_multicast()
        || address.is_unspecified()
        || address.is_loopback()
        || match address {
            IpAddr::V4(address) => address.is_link_local() || address == Ipv4Addr::BROADCAST,
            IpAddr::V6(address) => address.is_unicast_link_local(),
        }
}

/// A range of packet times, in nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) start_ns: i64,
    pub(super) end_ns: i64,
}

impl Range {
    /// The range between two times, in any order.
    pub(super) fn between(one_ns: i64, other_ns: i64) -> Self {
        Self {
            start_ns: one_ns.min(other_ns),
            end_ns: one_ns.max(other_ns),
        }
    }

    /// Adds another range, and what lies between.
    pub(super) fn extend(&mut self, other: &Self) -> &mut Self {
        self.start_ns = self.start_ns.min(other.start_ns);
        self.end_ns = self.end_ns.max(other.end_ns);
        self
    }

    /// Nanoseconds that both have in common; if there are none, minus those between them.
    pub(super) fn common_ns(&self, other: &Self) -> i64 {
        let end_ns = self.end_ns.min(other.end_ns);
        end_ns.saturating_sub(self.start_ns.max(other.start_ns))
    }

    pub(super) fn length_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// When a conversation was seen in one input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sighting {
    pub(super) range: Range,
    /// The sum of the directions seen.
    pub(super) directions: u8,
}

impl Sighting {
    pub(super) fn at(time_ns: i64, direction: u8) -> Self {
        Self {
            range: Range::between(time_ns, time_ns),
            directions: direction,
        }
    }

    pub(super) fn extend(&mut self, other: &Self) {
        self.range.extend(&other.range);
        self.directions |= other.directions;
    }
}
