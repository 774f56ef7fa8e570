//! A simple and slow reference implementation of flow accounting for captures of Ethernet frames.
//!
//! It skips VLAN tags and reads only the outer IP header. Non-first fragments, and packets whose ports
//! were not captured, have ports 0. The sender of a first SYN-ACK is the responder.

use crate::captures::Frame;
use crate::records::{self, Row};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A flow definition, as in `--flow`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Definition {
    FiveTuple,
    Bidirectional,
    Source,
    Destination,
    SourceDestination,
}

impl Definition {
    pub(crate) const ALL: [Self; 5] = [
        Self::FiveTuple,
        Self::Bidirectional,
        Self::Source,
        Self::Destination,
        Self::SourceDestination,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::FiveTuple => "5tuple",
            Self::Bidirectional => "bidirectional",
            Self::Source => "src",
            Self::Destination => "dst",
            Self::SourceDestination => "src-dst",
        }
    }
}

/// The fields of a flow key that the definition includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    source: Option<IpAddr>,
    destination: Option<IpAddr>,
    ports: Option<(u16, u16)>,
    protocol: Option<u8>,
}

/// Counts and times of a flow. Direction 0 is that of the initiator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) packets: [u64; 2],
    pub(crate) bytes: [u64; 2],
    pub(crate) start_ns: i64,
    pub(crate) end_ns: i64,
}

pub(crate) type Flows = BTreeMap<Key, Flow>;

/// Totals as in the captures' README.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) packets: u64,
    pub(crate) wire_bytes: u64,
    pub(crate) captured_bytes: u64,
    pub(crate) truncated: u64,
    pub(crate) ipv4: u64,
    pub(crate) ipv6: u64,
    pub(crate) not_ip: u64,
    pub(crate) arp: u64,
    pub(crate) fragments: u64,
    pub(crate) vlan_tags: u64,
    pub(crate) tcp: u64,
    pub(crate) udp: u64,
    pub(crate) icmp: u64,
    pub(crate) other: u64,
}

/// The flow key fields of an IP packet, and whether it is a SYN-ACK.
struct Packet {
    source: IpAddr,
    destination: IpAddr,
    ports: (u16, u16),
    protocol: u8,
    is_syn_ack: bool,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Parses a frame's headers and updates the totals.
fn parse(bytes: &[u8], totals: &mut Totals) -> Option<Packet> {
    let captured = bytes.len();
    let mut at = 14;
    let mut ether_type = if captured < 14 { 0 } else { u16_at(bytes, 12) };
    while matches!(ether_type, 0x8100 | 0x88a8) && at + 4 <= captured {
        ether_type = u16_at(bytes, at + 2);
        at += 4;
        totals.vlan_tags += 1;
    }
    let version = bytes.get(at).map_or(0, |byte| byte >> 4);
    match ether_type {
        0x0800 if at + 20 <= captured && version == 4 && bytes[at] & 15 >= 5 => {
            Some(parse_ipv4(&bytes[at..], totals))
        }
        0x86dd if at + 40 <= captured && version == 6 => Some(parse_ipv6(&bytes[at..], totals)),
        _ => {
            totals.not_ip += 1;
            totals.arp += u64::from(ether_type == 0x0806);
            None
        }
    }
}

fn parse_ipv4(header: &[u8], totals: &mut Totals) -> Packet {
    totals.ipv4 += 1;
    let address = |at: usize| {
        let bytes: [u8; 4] = header[at..at + 4].try_into().unwrap();
        IpAddr::from(Ipv4Addr::from(bytes))
    };
    let fragment = u16_at(header, 6);
    totals.fragments += u64::from(fragment & 0x3fff != 0);
    let first = fragment & 0x1fff == 0;
    let transport = usize::from(header[0] & 15) * 4;
    Packet {
        source: address(12),
        destination: address(16),
        ports: ports(header[9], header, first.then_some(transport)),
        protocol: header[9],
        is_syn_ack: is_syn_ack(
            header[9],
            header,
            usize::from(u16_at(header, 2)),
            first.then_some(transport),
        ),
    }
}

fn parse_ipv6(header: &[u8], totals: &mut Totals) -> Packet {
    totals.ipv6 += 1;
    let address = |at: usize| {
        let bytes: [u8; 16] = header[at..at + 16].try_into().unwrap();
        IpAddr::from(Ipv6Addr::from(bytes))
    };
    let (mut protocol, mut at) = (header[6], 40);
    let mut first = true;
    while at + 8 <= header.len() {
        match protocol {
            // Hop-by-hop options, routing, destination options; authentication.
            0 | 43 | 60 => {
                protocol = header[at];
                at += (usize::from(header[at + 1]) + 1) * 8;
            }
            51 => {
                protocol = header[at];
                at += (usize::from(header[at + 1]) + 2) * 4;
            }
            44 => {
                totals.fragments += 1;
                first = u16_at(header, at + 2) & 0xfff8 == 0;
                protocol = header[at];
                at += 8;
                if !first {
                    break;
                }
            }
            _ => break,
        }
    }
    Packet {
        source: address(8),
        destination: address(24),
        ports: ports(protocol, header, first.then_some(at)),
        protocol,
        is_syn_ack: is_syn_ack(
            protocol,
            header,
            40 + usize::from(u16_at(header, 4)),
            first.then_some(at),
        ),
    }
}

/// Returns the ports of TCP, UDP and SCTP, whose header is at offset `at`.
fn ports(protocol: u8, packet: &[u8], at: Option<usize>) -> (u16, u16) {
    match at {
        Some(at) if matches!(protocol, 6 | 17 | 132) && at + 4 <= packet.len() => {
            (u16_at(packet, at), u16_at(packet, at + 2))
        }
        _ => (0, 0),
    }
}

/// Returns whether the packet of `length` bytes has a whole TCP header at offset `at`, whose flags, if
/// captured, are SYN and ACK.
fn is_syn_ack(protocol: u8, packet: &[u8], length: usize, at: Option<usize>) -> bool {
    let at = at.filter(|at| protocol == 6 && at + 20 <= length);
    let flags = at.and_then(|at| packet.get(at + 13));
    flags.is_some_and(|flags| flags & 0x12 == 0x12)
}

/// Returns the key of a packet; for bidirectional flows, in the direction of the packet.
fn key(packet: &Packet, definition: Definition) -> Key {
    let whole = Key {
        source: Some(packet.source),
        destination: Some(packet.destination),
        ports: Some(packet.ports),
        protocol: Some(packet.protocol),
    };
    let addresses = Key {
        ports: None,
        protocol: None,
        ..whole
    };
    match definition {
        Definition::FiveTuple | Definition::Bidirectional => whole,
        Definition::SourceDestination => addresses,
        Definition::Source => Key {
            destination: None,
            ..addresses
        },
        Definition::Destination => Key {
            source: None,
            ..addresses
        },
    }
}

impl Key {
    fn reversed(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            ports: self
                .ports
                .map(|(source, destination)| (destination, source)),
            protocol: self.protocol,
        }
    }

    /// Returns the key of a record.
    pub(crate) fn of(row: &Row) -> Self {
        let address = |name: &str| {
            let version = &row["ipVersion"];
            let text = row.get(&format!("{name}IPv{version}Address"))?;
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(address.is_ipv4(), version == "4");
            Some(address)
        };
        let port = |name: &str| row.get(name).map(|text| text.parse().unwrap());
        Self {
            source: address("source"),
            destination: address("destination"),
            ports: port("sourceTransportPort").zip(port("destinationTransportPort")),
            protocol: row
                .get("protocolIdentifier")
                .map(|text| text.parse().unwrap()),
        }
    }
}

/// Returns the flows of all frames, without timeouts.
pub(crate) fn flows(frames: &[Frame], definition: Definition) -> (Flows, Totals) {
    let mut flows = Flows::new();
    let mut totals = Totals::default();
    for frame in frames {
        let captured = frame.bytes.len() as u64;
        totals.packets += 1;
        totals.wire_bytes += u64::from(frame.wire_length);
        totals.captured_bytes += captured;
        totals.truncated += u64::from(captured < u64::from(frame.wire_length));
        let Some(packet) = parse(&frame.bytes, &mut totals) else {
            continue;
        };
        match packet.protocol {
            6 => totals.tcp += 1,
            17 => totals.udp += 1,
            1 | 58 => totals.icmp += 1,
            _ => totals.other += 1,
        }
        let mut key = key(&packet, definition);
        let mut side = 0;
        if definition == Definition::Bidirectional
            && !flows.contains_key(&key)
            && flows.contains_key(&key.reversed())
        {
            key = key.reversed();
            side = 1;
        }
        if definition == Definition::Bidirectional && packet.is_syn_ack && !flows.contains_key(&key)
        {
            key = key.reversed();
            side = 1;
        }
        let flow = flows.entry(key).or_insert_with(|| Flow {
            start_ns: frame.time_ns,
            ..Flow::default()
        });
        flow.packets[side] += 1;
        flow.bytes[side] += u64::from(frame.wire_length);
        flow.end_ns = frame.time_ns.max(flow.start_ns);
    }
    (flows, totals)
}

/// Returns the flows in records, whose keys must be unique.
pub(crate) fn recorded(rows: &[Row], definition: Definition) -> Flows {
    let mut flows = Flows::new();
    for row in rows {
        let number = |name| records::number(row, name);
        let (packets, bytes) = (number("packets"), number("bytes"));
        let flow = Flow {
            packets: match definition {
                Definition::Bidirectional => {
                    ["packetDeltaCount", "reversePacketDeltaCount"].map(number)
                }
                _ => [packets, 0],
            },
            bytes: match definition {
                Definition::Bidirectional => {
                    ["layer2OctetDeltaCount", "reverseLayer2OctetDeltaCount"].map(number)
                }
                _ => [bytes, 0],
            },
            start_ns: records::time_ns(&row["flowStartNanoseconds"]),
            end_ns: records::time_ns(&row["flowEndNanoseconds"]),
        };
        assert_eq!(flow.packets.iter().sum::<u64>(), packets, "{row:?}");
        assert_eq!(flow.bytes.iter().sum::<u64>(), bytes, "{row:?}");
        let duration = number("flowDurationNanoseconds");
        assert_eq!(
            flow.end_ns - flow.start_ns,
            duration.cast_signed(),
            "{row:?}"
        );
        let twin = flows.insert(Key::of(row), flow);
        assert!(twin.is_none(), "two records of one flow: {row:?}");
    }
    flows
}
