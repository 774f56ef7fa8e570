//! Flow keys: the fields that packets of one flow share.

use core::hint::select_unpredictable;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The widest flow key: addresses, ports, protocol and VLAN tags of one packet, in its direction.
///
/// Fields that the chosen key does not use are zero, so that equality of keys is equality of flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey {
    /// IP version, 4 or 6; 0 for a flow identified by a hash alone.
    pub version: u8,
    /// Protocol of the transport header (protocolIdentifier).
    pub protocol: u8,
    /// Source address in network byte order; an IPv4 address fills the first four bytes.
    pub source: [u8; 16],
    /// Destination address, as `source`.
    pub destination: [u8; 16],
    /// Source port, 0 where the packet has none.
    pub source_port: u16,
    /// Destination port, 0 where the packet has none.
    pub destination_port: u16,
    /// Outer and inner VLAN tag: 0 for none, else [`FlowKey::VLAN_PRESENT`] with the 12 bits of the id.
    pub vlan: [u16; 2],
}

impl FlowKey {
    /// Set in a VLAN field that holds a tag.
    pub const VLAN_PRESENT: u16 = 0x1000;

    /// Byte 0 of a compact key: distinguishes it from zero and from the digest of a wide key.
    pub(crate) const COMPACT_MARK: u8 = 0x04;

    /// Byte 0 of a compact key that is a hash alone.
    const HASH_MARK: u8 = 0x02;

    /// Set in byte 0 of every digest that represents a wide key in a table (see `flow`).
    pub const WIDE_MARK: u128 = 1 << 7;

    /// The key in 16 bytes, if it fits: IPv4 with at most one VLAN tag.
    ///
    /// Byte 0 a mark, 1 protocol, 2..4 VLAN, 4..8 source, 8..12 destination, 12..14 source port,
    /// 14..16 destination port (all in network byte order); never zero. This is the layout of a
    /// header without options from its TTL on, with the tag in place of the checksum, so the fast path
    /// makes a key with two loads and two masks.
    #[inline]
    #[must_use]
    pub const fn compact(&self) -> Option<u128> {
        if self.version != 4 || self.vlan[1] != 0 {
            return None;
        }
        let [s0, s1, s2, s3, ..] = self.source;
        let [d0, d1, d2, d3, ..] = self.destination;
        let [v0, v1] = self.vlan[0].to_be_bytes();
        let [p0, p1] = self.source_port.to_be_bytes();
        let [q0, q1] = self.destination_port.to_be_bytes();
        Some(u128::from_le_bytes([
            Self::COMPACT_MARK,
            self.protocol,
            v0,
            v1,
            s0,
            s1,
            s2,
            s3,
            d0,
            d1,
            d2,
            d3,
            p0,
            p1,
            q0,
            q1,
        ]))
    }

    /// The VLAN tag as part of a compact key.
    #[inline]
    pub(crate) const fn compact_vlan(tag: u16) -> u128 {
        (tag.swap_bytes() as u128) << 16
    }

    /// The compact key of a flow identified by a 32-bit hash alone: the hash is in bytes 4..8, in place
    /// of the source address.
    #[inline]
    #[must_use]
    pub const fn compact_hash(hash: u32) -> u128 {
        (hash.swap_bytes() as u128) << 32 | Self::HASH_MARK as u128
    }

    /// The hash of a flow that is identified by it alone (version 0).
    #[must_use]
    pub const fn hash(&self) -> Option<u32> {
        let [a, b, c, d, ..] = self.source;
        if self.version == 0 {
            Some(u32::from_be_bytes([a, b, c, d]))
        } else {
            None
        }
    }

    /// The key that [`FlowKey::compact`] or [`FlowKey::compact_hash`] packed.
    #[inline]
    #[must_use]
    pub const fn from_compact(compact: u128) -> Self {
        let (low, high) = (compact as u64, (compact >> 64) as u64);
        // Written as whole words: a wide load right after narrow stores would wait for them.
        Self {
            // The mark of a 5-tuple is its version; that of a hash has no bit of it.
            version: low as u8 & Self::COMPACT_MARK,
            protocol: (low >> 8) as u8,
            source: ((low >> 32) as u128).to_le_bytes(),
            destination: (high as u32 as u128).to_le_bytes(),
            source_port: ((high >> 32) as u16).swap_bytes(),
            destination_port: ((high >> 48) as u16).swap_bytes(),
            vlan: [((low >> 16) as u16).swap_bytes(), 0],
        }
    }

    /// A compact key with its endpoints in canonical order, and 1 if they were swapped for that.
    #[inline]
    #[must_use]
    pub fn compact_in_order(key: u128) -> (u128, u8) {
        // Any total order will do, so words are compared as they are. Select instead of branch: the
        // direction of packets on a link is unpredictable.
        const ADDRESS: u64 = !(u32::MAX as u64);
        let (low, high) = (key as u64, (key >> 64) as u64);
        let ports = (high >> 32) as u32;
        let there = low & ADDRESS | u64::from(ports);
        let back = high << 32 | u64::from(ports.rotate_left(16));
        let swapped = there > back;
        // Each word has its address in the upper half and the ports in the order that puts it first.
        let first = select_unpredictable(swapped, back, there);
        let second = select_unpredictable(swapped, there, back);
        let low = first & ADDRESS | low & !ADDRESS;
        let high = second >> 32 | first << 32;
        (u128::from(low) | u128::from(high) << 64, u8::from(swapped))
    }

    /// A compact key with its endpoints swapped: that of the other direction.
    #[inline]
    #[must_use]
    pub const fn compact_reversed(key: u128) -> u128 {
        let (low, high) = (key as u64, (key >> 64) as u64);
        let ports = ((high >> 32) as u32).rotate_left(16) as u64;
        let low_back = low & u32::MAX as u64 | high << 32;
        let high_back = low >> 32 | ports << 32;
        low_back as u128 | (high_back as u128) << 64
    }

    /// The key of the opposite direction.
    #[must_use]
    pub const fn reversed(&self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            ..*self
        }
    }

    /// Source address.
    #[must_use]
    pub fn source_address(&self) -> IpAddr {
        address(self.version, &self.source)
    }

    /// Destination address.
    #[must_use]
    pub fn destination_address(&self) -> IpAddr {
        address(self.version, &self.destination)
    }
}

fn address(version: u8, bytes: &[u8; 16]) -> IpAddr {
    if version == 4 {
        let [a, b, c, d, ..] = *bytes;
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    } else {
        IpAddr::V6(Ipv6Addr::from(*bytes))
    }
}
