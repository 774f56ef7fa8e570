//! Sample records, shared by the tests of all formats.

#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "each test file uses some of it"
)]

use flow::{Column, EndReason, FlowDefinition, Record, RecordBatch, Schema};
use std::net::IpAddr;
use wire::FlowKey;

/// 2024-02-29T12:34:56Z (`date -u -d 2024-02-29T12:34:56Z +%s`).
pub(crate) const LEAP_DAY: i64 = 1_709_210_096_000_000_000;

pub(crate) fn key(source: &str, destination: &str, ports: [u16; 2], protocol: u8) -> FlowKey {
    let bytes = |text: &str| match text.parse::<IpAddr>().unwrap() {
        IpAddr::V4(address) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&address.octets());
            (4, bytes)
        }
        IpAddr::V6(address) => (6, address.octets()),
    };
    let (version, source) = bytes(source);
    let (_, destination) = bytes(destination);
    FlowKey {
        version,
        protocol,
        source,
        destination,
        source_port: ports[0],
        destination_port: ports[1],
        vlan: [0; 2],
    }
}

/// A TCP connection over IPv4 that lasted 2.5 s: the example flow of the Community ID
/// specification.
pub(crate) fn tcp() -> Record {
    Record {
        key: key("128.232.110.120", "66.35.250.204", [34855, 80], 6),
        start_ns: LEAP_DAY + 123_456_789,
        end_ns: LEAP_DAY + 2_623_456_789,
        packets: [10, 0],
        bytes: [1_000_000, 0],
        tcp_flags: [0x1b, 0],
        icmp_type_code: 0,
        end_reason: EndReason::TcpFin,
    }
}

/// A UDP packet over IPv6, without duration.
pub(crate) fn dns() -> Record {
    Record {
        key: key("2001:db8::1:0:0:1", "2001:db8::53", [40_000, 53], 17),
        start_ns: LEAP_DAY,
        end_ns: LEAP_DAY,
        packets: [1, 0],
        bytes: [94, 0],
        tcp_flags: [0; 2],
        icmp_type_code: 0,
        end_reason: EndReason::IdleTimeout,
    }
}

/// ICMP echo requests (type 8, code 0) in VLAN 100 inside VLAN 4095, before 1970.
pub(crate) fn ping() -> Record {
    Record {
        key: FlowKey {
            vlan: [FlowKey::VLAN_PRESENT | 4095, FlowKey::VLAN_PRESENT | 100],
            ..key("10.0.0.1", "10.0.0.255", [0, 0], 1)
        },
        start_ns: -1_000_000_000,
        end_ns: 0,
        packets: [3, 0],
        bytes: [294, 0],
        tcp_flags: [0; 2],
        icmp_type_code: 8 << 8,
        end_reason: EndReason::EndOfInput,
    }
}

/// A neighbour solicitation (type 135).
pub(crate) fn neighbour() -> Record {
    Record {
        key: key("fe80::1", "ff02::1:ff00:2", [0, 0], 58),
        icmp_type_code: 135 << 8,
        end_reason: EndReason::ActiveTimeout,
        ..dns()
    }
}

/// Both directions of a connection that was reset.
pub(crate) fn both_directions() -> Record {
    Record {
        packets: [10, 7],
        bytes: [1_000_000, 500],
        tcp_flags: [0x1b, 0x14],
        end_reason: EndReason::TcpReset,
        ..tcp()
    }
}

pub(crate) fn schema(flow: FlowDefinition) -> Schema {
    Schema {
        flow,
        vlan: false,
        statistics: Vec::new(),
        analysis: None,
    }
}

pub(crate) fn statistic(name: &str) -> Column {
    Column {
        name: name.to_owned(),
        unit: "bytes",
        definition: "For tests.".to_owned(),
    }
}

pub(crate) fn batch(records: &[Record]) -> RecordBatch {
    RecordBatch {
        records: records.to_vec(),
        ..RecordBatch::default()
    }
}
