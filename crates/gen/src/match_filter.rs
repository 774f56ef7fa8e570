//! Constructs flows that match a filter, for a subset of pcap-filter(7).

use crate::error::GeneratorError;
use crate::fields::{AddressRange, FlowFields, PortRange, Protocol};
use std::net::IpAddr;

/// A filter, and the constraints that it puts on the fields of a matching packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MatchFilter {
    text: String,
    version: Option<u8>,
    protocol: Option<Protocol>,
    source: Option<AddressRange>,
    destination: Option<AddressRange>,
    source_ports: Option<PortRange>,
    destination_ports: Option<PortRange>,
}

/// The direction qualifier of a primitive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Source,
    Destination,
}

impl MatchFilter {
    /// Parses primitives joined by `and`: `ip`, `ip6`, `tcp`, `udp`, and `host`, `net`, `port` and
    /// `portrange`, each with `src` or `dst`. Without a direction, the destination is constrained.
    ///
    /// # Errors
    /// If a primitive is none of these, or two of them contradict each other.
    pub fn parse(text: &str) -> Result<Self, GeneratorError> {
        let mut filter = Self {
            text: text.to_owned(),
            ..Self::default()
        };
        let lower = text.replace("&&", " and ");
        let words: Vec<&str> = lower.split_whitespace().collect();
        if words.is_empty() {
            return Err(filter.error("is empty"));
        }
        for primitive in words.split(|&word| word == "and") {
            filter.add_primitive(primitive)?;
        }
        if filter.version.is_none() {
            let ranges = [filter.source, filter.destination];
            filter.version = ranges
                .into_iter()
                .flatten()
                .map(|range| range.version())
                .next();
        }
        let has_other_version = |range: Option<AddressRange>| {
            range.is_some_and(|range| Some(range.version()) != filter.version)
        };
        if has_other_version(filter.source) || has_other_version(filter.destination) {
            return Err(filter.error("has addresses of different families"));
        }
        Ok(filter)
    }

    fn error(&self, what: &str) -> GeneratorError {
        GeneratorError::new(format!(
            "--match '{}' {what}; use ip, ip6, tcp, udp, [src|dst] host, net, port and portrange, joined \
             by and",
            self.text
        ))
    }

    /// Applies one primitive.
    fn add_primitive(&mut self, words: &[&str]) -> Result<(), GeneratorError> {
        let mut words = words.iter().copied().peekable();
        if words.peek().is_none() {
            return Err(self.error("has an empty operand of `and`"));
        }
        while let Some(word) = words.next_if(|word| matches!(*word, "ip" | "ip6" | "tcp" | "udp")) {
            match word {
                "ip" => self.set_version(4)?,
                "ip6" => self.set_version(6)?,
                "tcp" => self.set_protocol(Protocol::Tcp)?,
                _ => self.set_protocol(Protocol::Udp)?,
            }
        }
        let direction = match words.next_if(|word| matches!(*word, "src" | "dst")) {
            Some("src") => Direction::Source,
            _ => Direction::Destination,
        };
        let Some(kind) = words.next() else {
            return Ok(());
        };
        let Some(value) = words.next() else {
            return Err(self.error(&format!("is not supported at '{kind}'")));
        };
        if let Some(more) = words.next() {
            return Err(self.error(&format!("is not supported at '{more}'")));
        }
        match kind {
            "host" => {
                let address: IpAddr = value.parse().map_err(|_| {
                    self.error(&format!("has a host '{value}' that is not an IP address"))
                })?;
                let range = AddressRange::new(address, address)?;
                self.set_addresses(direction, range)
            }
            "net" => {
                let range = value.parse()?;
                self.set_addresses(direction, range)
            }
            "port" | "portrange" => {
                let ports = value
                    .parse()
                    .map_err(|_| self.error(&format!("has an invalid port '{value}'")))?;
                self.set_ports(direction, ports)
            }
            other => Err(self.error(&format!("is not supported at '{other}'"))),
        }
    }

    fn set_version(&mut self, version: u8) -> Result<(), GeneratorError> {
        if self
            .version
            .replace(version)
            .is_some_and(|previous| previous != version)
        {
            return Err(self.error("requires both IPv4 and IPv6"));
        }
        Ok(())
    }

    fn set_protocol(&mut self, protocol: Protocol) -> Result<(), GeneratorError> {
        if self
            .protocol
            .replace(protocol)
            .is_some_and(|previous| previous != protocol)
        {
            return Err(self.error("requires both TCP and UDP"));
        }
        Ok(())
    }

    fn set_addresses(
        &mut self,
        direction: Direction,
        range: AddressRange,
    ) -> Result<(), GeneratorError> {
        let field = match direction {
            Direction::Source => &mut self.source,
            Direction::Destination => &mut self.destination,
        };
        if field.replace(range).is_some() {
            return Err(self.error("constrains the same field twice"));
        }
        Ok(())
    }

    fn set_ports(&mut self, direction: Direction, ports: PortRange) -> Result<(), GeneratorError> {
        let field = match direction {
            Direction::Source => &mut self.source_ports,
            Direction::Destination => &mut self.destination_ports,
        };
        if field.replace(ports).is_some() {
            return Err(self.error("constrains the same field twice"));
        }
        Ok(())
    }

    /// The filter expression.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Restricts the given kinds of flows to the part that matches. If no kind can match, changes each
    /// kind to what the filter requires.
    #[must_use]
    pub(crate) fn matching_kinds(&self, kinds: &[FlowFields]) -> Vec<FlowFields> {
        let can_match = |kind: &&FlowFields| {
            self.version.is_none_or(|version| version == kind.version())
                && self
                    .protocol
                    .is_none_or(|protocol| protocol == kind.protocol)
        };
        let candidates: Vec<FlowFields> = kinds.iter().filter(can_match).copied().collect();
        let base = if candidates.is_empty() {
            kinds
        } else {
            &candidates
        };
        let mut matching: Vec<FlowFields> = Vec::new();
        for kind in base {
            let kind = self.apply(kind);
            let same = |other: &FlowFields| {
                (other.version(), other.protocol) == (kind.version(), kind.protocol)
            };
            if !matching.iter().any(same) {
                matching.push(kind);
            }
        }
        matching
    }

    fn apply(&self, kind: &FlowFields) -> FlowFields {
        let protocol = self.protocol.unwrap_or(kind.protocol);
        let mut kind = match self.version {
            Some(version) if version != kind.version() => FlowFields {
                source_ports: kind.source_ports,
                destination_ports: kind.destination_ports,
                ..if version == 6 {
                    FlowFields::ipv6(protocol)
                } else {
                    FlowFields::ipv4(protocol)
                }
            },
            _ => FlowFields { protocol, ..*kind },
        };
        kind.source = self.source.unwrap_or(kind.source);
        kind.destination = self.destination.unwrap_or(kind.destination);
        kind.source_ports = self.source_ports.unwrap_or(kind.source_ports);
        kind.destination_ports = self.destination_ports.unwrap_or(kind.destination_ports);
        kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primitives_constrain_fields() {
        let kinds = [
            FlowFields::ipv4(Protocol::Udp),
            FlowFields::ipv6(Protocol::Tcp),
        ];
        let kinds_of = |text: &str| MatchFilter::parse(text).unwrap().matching_kinds(&kinds);
        let [kind] = kinds_of("udp dst port 320")[..] else {
            panic!("one kind")
        };
        assert_eq!(kind.destination_ports, PortRange::single(320));
        assert_eq!(kind.version(), 4);
        let [kind] = kinds_of("ip6 and src net 2001:db8::/32 && tcp src portrange 5-9")[..] else {
            panic!("one kind")
        };
        assert_eq!((kind.version(), kind.protocol), (6, Protocol::Tcp));
        assert_eq!(kind.source_ports, PortRange { first: 5, last: 9 });
        assert_eq!(kinds_of("port 53").len(), 2);
        // There is no kind of TCP over IPv4: it is derived.
        let [kind] = kinds_of("ip and tcp and host 10.0.0.1")[..] else {
            panic!("one kind")
        };
        assert_eq!((kind.version(), kind.protocol), (4, Protocol::Tcp));
        assert_eq!(kind.destination, "10.0.0.1".parse().unwrap());
    }

    #[test]
    fn rejects_unsupported_filters() {
        for text in [
            "",
            "not tcp",
            "tcp or udp",
            "icmp",
            "greater 100",
            "port http",
            "tcp and udp",
            "ip and ip6",
            "and tcp",
            "port 5 6",
            "host",
            "src or dst port 5",
            "host www.example.org",
            "src host 10.0.0.1 and dst host ::1",
            "ip6 host 10.0.0.1",
            "port 5 and port 6",
        ] {
            let result = MatchFilter::parse(text);
            assert!(result.is_err(), "{text}: {result:?}");
        }
    }
}
