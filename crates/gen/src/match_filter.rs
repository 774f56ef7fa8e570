//! Flows that match a filter, made to match: the part of pcap-filter(7) that can be constructed.

use crate::error::GeneratorError;
use crate::fields::{AddressRange, FlowFields, PortRange, Protocol};
use std::net::IpAddr;

/// What is known of a packet that matches.
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

/// Which end a primitive is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Source,
    Destination,
}

impl MatchFilter {
    /// Reads primitives joined by `and`: `ip`, `ip6`, `tcp`, `udp`, and, each with `src` or `dst` (or
    /// neither: then it is the destination), `host`, `net`, `port` and `portrange`.
    ///
    /// # Errors
    /// What is none of these, or two that no packet meets together.
    pub fn parse(text: &str) -> Result<Self, GeneratorError> {
        let mut filter = Self {
            text: text.to_owned(),
            ..Self::default()
        };
        let lower = text.replace("&&", " and ");
        let words: Vec<&str> = lower.split_whitespace().collect();
        if words.is_empty() {
            return Err(filter.wrong("is empty"));
        }
        for primitive in words.split(|&word| word == "and") {
            filter.add(primitive)?;
        }
        if filter.version.is_none() {
            let ranges = [filter.source, filter.destination];
            filter.version = ranges
                .into_iter()
                .flatten()
                .map(|range| range.version())
                .next();
        }
        let of_another_family = |range: Option<AddressRange>| {
            range.is_some_and(|range| Some(range.version()) != filter.version)
        };
        if of_another_family(filter.source) || of_another_family(filter.destination) {
            return Err(filter.wrong("has addresses of two families"));
        }
        Ok(filter)
    }

    fn wrong(&self, what: &str) -> GeneratorError {
        GeneratorError::new(format!(
            "--match '{}' {what}; packets can be made for ip, ip6, tcp, udp, [src|dst] host, net, port and \
             portrange, joined by and",
            self.text
        ))
    }

    fn add(&mut self, words: &[&str]) -> Result<(), GeneratorError> {
        let mut words = words.iter().copied().peekable();
        if words.peek().is_none() {
            return Err(self.wrong("has an `and` with nothing beside it"));
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
            return Err(self.wrong(&format!("cannot be constructed at '{kind}'")));
        };
        if let Some(more) = words.next() {
            return Err(self.wrong(&format!("cannot be constructed at '{more}'")));
        }
        match kind {
            "host" => {
                let address: IpAddr = value.parse().map_err(|_| {
                    self.wrong(&format!("names the host '{value}', which is no address"))
                })?;
                let range = AddressRange::new(address, address)?;
                self.set_addresses(direction, range)
            }
            "net" => {
                let range = value.parse()?;
                self.set_addresses(direction, range)
            }
            "port" | "portrange" => {
                let ports = value.parse().map_err(|_| {
                    self.wrong(&format!("names the port '{value}', which is no number"))
                })?;
                self.set_ports(direction, ports)
            }
            other => Err(self.wrong(&format!("cannot be constructed at '{other}'"))),
        }
    }

    fn set_version(&mut self, version: u8) -> Result<(), GeneratorError> {
        if self
            .version
            .replace(version)
            .is_some_and(|before| before != version)
        {
            return Err(self.wrong("wants two families in one packet"));
        }
        Ok(())
    }

    fn set_protocol(&mut self, protocol: Protocol) -> Result<(), GeneratorError> {
        if self
            .protocol
            .replace(protocol)
            .is_some_and(|before| before != protocol)
        {
            return Err(self.wrong("wants two protocols in one packet"));
        }
        Ok(())
    }

    fn set_addresses(
        &mut self,
        direction: Direction,
        range: AddressRange,
    ) -> Result<(), GeneratorError> {
        let end = match direction {
            Direction::Source => &mut self.source,
            Direction::Destination => &mut self.destination,
        };
        if end.replace(range).is_some() {
            return Err(self.wrong("names one end twice"));
        }
        Ok(())
    }

    fn set_ports(&mut self, direction: Direction, ports: PortRange) -> Result<(), GeneratorError> {
        let end = match direction {
            Direction::Source => &mut self.source_ports,
            Direction::Destination => &mut self.destination_ports,
        };
        if end.replace(ports).is_some() {
            return Err(self.wrong("names one end twice"));
        }
        Ok(())
    }

    /// The expression, for libpcap.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Kinds of flows that match, made of the given kinds: of those that can match where there are
    /// any, else of each with what the filter wants in the place of what it has.
    #[must_use]
    pub(crate) fn matching_kinds(&self, kinds: &[FlowFields]) -> Vec<FlowFields> {
        let fits = |kind: &&FlowFields| {
            self.version.is_none_or(|version| version == kind.version())
                && self
                    .protocol
                    .is_none_or(|protocol| protocol == kind.protocol)
        };
        let fitting: Vec<FlowFields> = kinds.iter().filter(fits).copied().collect();
        let base = if fitting.is_empty() { kinds } else { &fitting };
        let mut narrowed: Vec<FlowFields> = Vec::new();
        for kind in base {
            let kind = self.apply(kind);
            let same = |other: &FlowFields| {
                (other.version(), other.protocol) == (kind.version(), kind.protocol)
            };
            if !narrowed.iter().any(same) {
                narrowed.push(kind);
            }
        }
        narrowed
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
    fn primitives_become_fields() {
        let kinds = [
            FlowFields::ipv4(Protocol::Udp),
            FlowFields::ipv6(Protocol::Tcp),
        ];
        let narrow = |text: &str| MatchFilter::parse(text).unwrap().matching_kinds(&kinds);
        let [kind] = narrow("udp dst port 320")[..] else {
            panic!("one kind")
        };
        assert_eq!(kind.destination_ports, PortRange::single(320));
        assert_eq!(kind.version(), 4);
        let [kind] = narrow("ip6 and src net 2001:db8::/32 && tcp src portrange 5-9")[..] else {
            panic!("one kind")
        };
        assert_eq!((kind.version(), kind.protocol), (6, Protocol::Tcp));
        assert_eq!(kind.source_ports, PortRange { first: 5, last: 9 });
        assert_eq!(narrow("port 53").len(), 2);
        // No kind is TCP in IPv4: it is made.
        let [kind] = narrow("ip and tcp and host 10.0.0.1")[..] else {
            panic!("one kind")
        };
        assert_eq!((kind.version(), kind.protocol), (4, Protocol::Tcp));
        assert_eq!(kind.destination, "10.0.0.1".parse().unwrap());
    }

    #[test]
    fn what_cannot_be_constructed_is_refused() {
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
