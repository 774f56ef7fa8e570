//! Flow keys: the fields that packets of one flow share.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The widest flow key: addresses, ports, protocol and VLAN tags of one packet, in its direction.
///
/// Fields that the chosen key does not use are zero, so that equality of keys is equality of flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey {
    /// IP version, 4 or 6; 0 for a flow that is known by a hash alone.
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

    /// Byte 15 of a compact key: tells it from all zeroes and from the digest of a wide key.
    pub(crate) const COMPACT_MARK: u8 = 0x04;

    /// Byte 15 of a compact key that is a hash alone.
    const HASH_MARK: u8 = 0x02;

    /// Set in byte 15 of every digest that stands for a wide key in a table (see `flow`).
    pub const WIDE_MARK: u128 = 1 << 127;

    /// The key in 16 bytes, where that is all of it: IPv4 with at most one VLAN tag.
    ///
    /// Bytes 0..4 source, 4..8 destination, 8..10 source port, 10..12 destination port (all in
    /// network byte order), 12 protocol, 13..15 VLAN, 15 a mark; never zero.
    #[inline]
    #[must_use]
    pub const fn compact(&self) -> Option<u128> {
        if self.version != 4 || self.vlan[1] != 0 {
            return None;
        }
        let [s0, s1, s2, s3, ..] = self.source;
        let [d0, d1, d2, d3, ..] = self.destination;
        let source = u32::from_le_bytes([s0, s1, s2, s3]) as u64;
        let destination = u32::from_le_bytes([d0, d1, d2, d3]) as u64;
        let ports = self.source_port.swap_bytes() as u64
            | (self.destination_port.swap_bytes() as u64) << 16;
        let rest = (self.protocol as u64) << 32 | (Self::COMPACT_MARK as u64) << 56;
        let addresses = source | destination << 32;
        Some(addresses as u128 | ((ports | rest) as u128) << 64 | Self::compact_vlan(self.vlan[0]))
    }

    /// The part of a compact key that is its VLAN tag.
    #[inline(always)]
    pub(crate) const fn compact_vlan(tag: u16) -> u128 {
        (tag.swap_bytes() as u128) << 104
    }

    /// The compact key of a flow that is known by a 32-bit hash alone: the hash in bytes 0..4, as an
    /// address would stand there.
    #[inline(always)]
    #[must_use]
    pub const fn compact_hash(hash: u32) -> u128 {
        hash.swap_bytes() as u128 | (Self::HASH_MARK as u128) << 120
    }

    /// The hash of a flow that is known by nothing else: its version is 0.
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
        let (addresses, rest) = (compact as u64, (compact >> 64) as u64);
        // Whole words, so that who reads them at once need not wait for their parts.
        Self {
            // The mark of a 5-tuple is its version; that of a hash has no bit of it.
            version: (rest >> 56) as u8 & Self::COMPACT_MARK,
            protocol: (rest >> 32) as u8,
            source: (addresses as u32 as u128).to_le_bytes(),
            destination: ((addresses >> 32) as u128).to_le_bytes(),
            source_port: (rest as u16).swap_bytes(),
            destination_port: ((rest >> 16) as u16).swap_bytes(),
            vlan: [((rest >> 40) as u16).swap_bytes(), 0],
        }
    }

    /// The same flow seen from the other side.
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
