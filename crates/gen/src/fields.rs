//! Ranges of addresses and ports, and the flow keys they contain.

use crate::error::GeneratorError;
use crate::permutation::Permutation;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use wire::{FlowKey, ip_protocol};

/// The maximum number of addresses used from a range: enough for any population, and small enough for
/// the number of 5-tuples to fit into 126 bits, as [`Permutation`] requires.
const ADDRESSES_MAX: u128 = 1 << 44;

/// A range of addresses of one address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    version: u8,
    first: u128,
    count: u128,
}

impl AddressRange {
    /// Creates a range from `first` to `last`, inclusive.
    ///
    /// # Errors
    /// If the address families differ, or `last` is below `first`.
    pub fn new(first: IpAddr, last: IpAddr) -> Result<Self, GeneratorError> {
        let (version, first_number) = number(first);
        let (other, last_number) = number(last);
        if version != other || first_number > last_number {
            return Err(GeneratorError::new(format!(
                "invalid address range {first}-{last}"
            )));
        }
        Ok(Self {
            version,
            first: first_number,
            count: (last_number - first_number).saturating_add(1),
        })
    }

    /// The IP version, 4 or 6.
    #[must_use]
    pub fn version(&self) -> u8 {
        self.version
    }

    /// Whether the range contains an address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let (version, number) = number(address);
        version == self.version && number >= self.first && number - self.first < self.count
    }

    /// The number of addresses that flows use.
    pub(crate) fn used_count(&self) -> u128 {
        self.count.min(ADDRESSES_MAX)
    }

    /// The address at `index`, in network byte order and padded as in a flow key.
    #[inline]
    pub(crate) fn address(&self, index: u128) -> [u8; 16] {
        let address = self.first + index;
        if self.version == 4 {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&(address as u32).to_be_bytes());
            bytes
        } else {
            address.to_be_bytes()
        }
    }

    /// Maps 64 random bits to an address.
    #[inline]
    pub(crate) fn pick(&self, bits: u64) -> [u8; 16] {
        self.address((u128::from(bits) * self.used_count()) >> 64)
    }
}

fn number(address: IpAddr) -> (u8, u128) {
    match address {
        IpAddr::V4(address) => (4, u128::from(u32::from(address))),
        IpAddr::V6(address) => (6, u128::from(address)),
    }
}

impl FromStr for AddressRange {
    type Err = GeneratorError;

    /// Parses `10.0.0.1`, `10.0.0.0/8` or `10.0.0.1-10.0.0.9`, or the same with IPv6 addresses.
    fn from_str(text: &str) -> Result<Self, GeneratorError> {
        let invalid = || {
            GeneratorError::new(format!(
                "invalid address range '{text}': use 10.0.0.1, 10.0.0.0/8 or 10.0.0.1-10.0.0.9"
            ))
        };
        if let Some((first, last)) = text.split_once('-') {
            let first = first.parse().map_err(|_| invalid())?;
            let last = last.parse().map_err(|_| invalid())?;
            return Self::new(first, last);
        }
        let (address, length) = text.split_once('/').unwrap_or((text, ""));
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let (version, value) = number(address);
        let bits: u32 = if version == 4 { 32 } else { 128 };
        let length: u32 = match length {
            "" if !text.contains('/') => bits,
            length => length.parse().map_err(|_| invalid())?,
        };
        if length > bits {
            return Err(invalid());
        }
        let host_bits = bits - length;
        let mask = if host_bits == 128 {
            u128::MAX
        } else {
            (1 << host_bits) - 1
        };
        Ok(Self {
            version,
            first: value & !mask,
            count: mask.saturating_add(1),
        })
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = |number: u128| match self.version {
            4 => IpAddr::V4(Ipv4Addr::from(number as u32)),
            _ => IpAddr::V6(Ipv6Addr::from(number)),
        };
        let first = address(self.first);
        match self.count {
            1 => write!(f, "{first}"),
            count => write!(f, "{first}-{}", address(self.first + (count - 1))),
        }
    }
}

/// A range of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// The first port.
    pub first: u16,
    /// The last port, not below `first`.
    pub last: u16,
}

impl PortRange {
    /// A range of one port.
    #[must_use]
    pub const fn single(port: u16) -> Self {
        Self {
            first: port,
            last: port,
        }
    }

    pub(crate) fn count(self) -> u32 {
        u32::from(self.last) - u32::from(self.first) + 1
    }

    #[inline]
    pub(crate) fn port(self, index: u32) -> u16 {
        self.first.wrapping_add(index as u16)
    }

    /// Maps 64 random bits to a port.
    #[inline]
    pub(crate) fn pick(self, bits: u64) -> u16 {
        self.port(((u128::from(bits) * u128::from(self.count())) >> 64) as u32)
    }
}

impl FromStr for PortRange {
    type Err = GeneratorError;

    /// Parses `80` or `1024-65535`.
    fn from_str(text: &str) -> Result<Self, GeneratorError> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(Self { first, last }),
            _ => Err(GeneratorError::new(format!(
                "invalid port range '{text}': use 80 or 1024-65535"
            ))),
        }
    }
}

/// The transport protocol of generated frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}

impl Protocol {
    /// The protocol number in the IP header.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Udp => ip_protocol::UDP,
            Self::Tcp => ip_protocol::TCP,
        }
    }
}

/// A kind of flows with one address family and one protocol: the ranges of its header fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowFields {
    /// Source addresses.
    pub source: AddressRange,
    /// Destination addresses, of the same address family.
    pub destination: AddressRange,
    /// Source ports.
    pub source_ports: PortRange,
    /// Destination ports.
    pub destination_ports: PortRange,
    /// Transport protocol.
    pub protocol: Protocol,
}

impl FlowFields {
    /// IPv4 flows from 198.18.0.0/16 to 198.19.0.0/16, which are reserved for benchmarks (RFC 2544).
    #[must_use]
    pub fn ipv4(protocol: Protocol) -> Self {
        let network = |third: u8| AddressRange {
            version: 4,
            first: u128::from(u32::from(Ipv4Addr::new(198, third, 0, 0))),
            count: 1 << 16,
        };
        Self {
            source: network(18),
            destination: network(19),
            source_ports: NON_SYSTEM,
            destination_ports: NON_SYSTEM,
            protocol,
        }
    }

    /// IPv6 flows between two /64 networks of 2001:2::/48, which is reserved for benchmarks (RFC 5180).
    #[must_use]
    pub fn ipv6(protocol: Protocol) -> Self {
        let network = |subnet: u16| AddressRange {
            version: 6,
            first: u128::from(Ipv6Addr::new(0x2001, 2, 0, subnet, 0, 0, 0, 0)),
            count: 1 << 64,
        };
        Self {
            source: network(1),
            destination: network(2),
            ..Self::ipv4(protocol)
        }
    }

    /// The IP version, 4 or 6.
    #[must_use]
    pub fn version(&self) -> u8 {
        self.source.version
    }

    /// The number of distinct flows.
    #[must_use]
    pub fn count(&self) -> u128 {
        self.source.used_count()
            * self.destination.used_count()
            * u128::from(self.source_ports.count())
            * u128::from(self.destination_ports.count())
    }

    /// The key of flow `number`, which must be below [`FlowFields::count`]. Each number has a different
    /// key.
    #[must_use]
    pub fn key(&self, number: u128) -> FlowKey {
        let (rest, source) = split(number, self.source.used_count());
        let (rest, destination) = split(rest, self.destination.used_count());
        let (rest, source_port) = split(rest, u128::from(self.source_ports.count()));
        FlowKey {
            version: self.source.version,
            protocol: self.protocol.number(),
            source: self.source.address(source),
            destination: self.destination.address(destination),
            source_port: self.source_ports.port(source_port as u32),
            destination_port: self.destination_ports.port(rest as u32),
            vlan: [0; 2],
        }
    }

    /// All flows, each once, in an order selected by a seed.
    pub(crate) fn shuffled(self, seed: u64) -> impl Iterator<Item = FlowKey> {
        let count = self.count();
        let permutation = Permutation::new(count, seed);
        (0..count).map(move |index| self.key(permutation.apply(index)))
    }

    /// Checks that source and destination have the same address family.
    pub(crate) fn check_families(&self) -> Result<(), GeneratorError> {
        if self.source.version == self.destination.version {
            return Ok(());
        }
        Err(GeneratorError::new(format!(
            "source {} and destination {} have different address families",
            self.source, self.destination
        )))
    }
}

/// All ports except the system ports (RFC 6335).
const NON_SYSTEM: PortRange = PortRange {
    first: 1024,
    last: 65535,
};

/// Returns the quotient and the remainder.
fn split(number: u128, by: u128) -> (u128, u128) {
    (number / by, number % by)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn parses_ranges() {
        let range = |text: &str| text.parse::<AddressRange>();
        assert_eq!(range("10.1.2.3").unwrap().to_string(), "10.1.2.3");
        assert_eq!(
            range("10.1.2.3/8").unwrap().to_string(),
            "10.0.0.0-10.255.255.255"
        );
        assert_eq!(range("::/0").unwrap().count, u128::MAX);
        assert_eq!(range("10.0.0.1-10.0.0.9").unwrap().count, 9);
        assert!(
            range("2001:db8::/64")
                .unwrap()
                .contains("2001:db8::5".parse().unwrap())
        );
        for invalid in [
            "",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.9-10.0.0.1",
            "10.0.0.1-::1",
            "x",
        ] {
            assert!(range(invalid).is_err(), "{invalid}");
        }
        assert_eq!(
            "1024-65535".parse::<PortRange>().unwrap().count(),
            65536 - 1024
        );
        for invalid in ["", "9-1", "65536", "a"] {
            assert!(invalid.parse::<PortRange>().is_err(), "{invalid}");
        }
    }

    #[test]
    fn small_ranges_give_each_flow_once() {
        let fields = FlowFields {
            source: "10.0.0.254-10.0.1.3".parse().unwrap(),
            destination: "192.0.2.1".parse().unwrap(),
            source_ports: "65533-65535".parse().unwrap(),
            destination_ports: "0-4".parse().unwrap(),
            protocol: Protocol::Tcp,
        };
        let keys: HashSet<FlowKey> = fields.shuffled(5).collect();
        assert_eq!(keys.len(), 6 * 3 * 5);
        assert!(keys.iter().all(|key| {
            fields.source.contains(key.source_address())
                && key.destination_address().to_string() == "192.0.2.1"
                && key.source_port >= 65533
                && key.destination_port <= 4
                && key.protocol == 6
        }));
    }

    #[test]
    fn large_ranges_are_limited() {
        let fields = FlowFields {
            source: "::/0".parse().unwrap(),
            destination: "::/0".parse().unwrap(),
            ..FlowFields::ipv6(Protocol::Udp)
        };
        assert!(fields.count() < 1 << 126);
        assert!(fields.shuffled(1).take(3).count() == 3);
    }
}
