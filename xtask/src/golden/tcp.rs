//! Counts of tshark's TCP analysis (`tcp.analysis`) for each direction of each flow in the shared
//! captures.
//!
//! Only addresses, ports and counts of flows are committed, not the captures.

use std::collections::BTreeMap;
use std::path::Path;

use super::tshark::{Query, SEPARATOR};

/// The fields that tshark prints of each TCP packet: endpoints, payload length, then the events that
/// are counted.
const FIELDS: [&str; 16] = [
    "frame.protocols",
    "ip.src",
    "ip.dst",
    "ipv6.src",
    "ipv6.dst",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.len",
    "tcp.analysis.retransmission",
    "tcp.analysis.fast_retransmission",
    "tcp.analysis.out_of_order",
    "tcp.analysis.duplicate_ack",
    "tcp.analysis.lost_segment",
    "tcp.analysis.zero_window",
    "tcp.analysis.keep_alive",
    "tcp.analysis.zero_window_probe",
];

/// The index of the first field that is counted.
const COUNTED: usize = 8;
/// Events that are counted only for packets with payload: without payload nothing is retransmitted.
const OF_PAYLOAD: [&str; 3] = ["retransmission", "fast_retransmission", "out_of_order"];

/// Makes the table, with a line for each direction and kind of event that occurs.
pub(super) fn make(_: &Path) -> anyhow::Result<String> {
    let query = Query {
        includes,
        filter: "tcp",
        preferences: &[],
        fields: FIELDS,
    };
    query.table("source\tdestination\tkind\tpackets", |packets| {
        let row = |((flow, kind), packets)| format!("{flow}\t{kind}\t{packets}");
        counts(packets).into_iter().map(row).collect()
    })
}

/// Whether the table includes a capture: all of the first suite, and those of the second whose names
/// contain TCP or a protocol over it.
fn includes(name: &str) -> bool {
    const NAMED: [&str; 6] = ["tcp", "http", "tls", "ssl", "ssh", "ftp"];
    let (suite, file) = name.split_once('/').unwrap_or(("", name));
    suite == "pcapplusplus" || (suite == "zeek" && NAMED.iter().any(|word| file.contains(word)))
}

/// The number of events by direction (source and destination, with a tab between) and kind.
fn counts(packets: &[[&str; FIELDS.len()]]) -> BTreeMap<(String, &'static str), u64> {
    let mut counts = BTreeMap::new();
    for values in packets {
        let Some(flow) = direction_of(values) else {
            continue;
        };
        let has_payload = values[7].split(SEPARATOR).any(|bytes| bytes != "0");
        for (field, value) in FIELDS.iter().zip(values).skip(COUNTED) {
            let kind = field.rsplit('.').next().unwrap_or(field);
            let counts_here = has_payload || !OF_PAYLOAD.contains(&kind);
            if !value.is_empty() && counts_here {
                *counts.entry((flow.clone(), kind)).or_default() += 1;
            }
        }
    }
    counts
}

/// Source and destination; `None` for packets in a tunnel, and for those that ICMP quotes.
fn direction_of(values: &[&str; FIELDS.len()]) -> Option<String> {
    let layers: Vec<&str> = values[0].split(':').collect();
    let mut ip_layers = layers
        .iter()
        .filter(|layer| ["ip", "ipv6"].contains(*layer));
    let version = ip_layers.next()?;
    let is_single = ip_layers.next().is_none() && !values[5].contains(SEPARATOR);
    let is_quoted = layers.iter().any(|layer| layer.starts_with("icmp"));
    let (from, to) = if *version == "ip" { (1, 2) } else { (3, 4) };
    (is_single && !is_quoted).then(|| {
        format!(
            "{} {}\t{} {}",
            values[from], values[5], values[to], values[6]
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_counted_by_direction_and_kind() {
        let mut values = [""; FIELDS.len()];
        values[..8].copy_from_slice(&[
            "eth:ethertype:ip:tcp",
            "1.1.1.1",
            "2.2.2.2",
            "",
            "",
            "9",
            "80",
            "0",
        ]);
        values[8] = "1";
        values[13] = "1";
        let mut with_payload = values;
        with_payload[7] = "5";
        let counts = counts(&[values, with_payload]);
        let flow = "1.1.1.1 9\t2.2.2.2 80".to_owned();
        let found: Vec<_> = counts.into_iter().collect();
        assert_eq!(
            found,
            [
                ((flow.clone(), "retransmission"), 1),
                ((flow, "zero_window"), 2)
            ]
        );
        values[0] = "eth:ethertype:ip:gre:ip:tcp";
        assert_eq!(direction_of(&values), None);
    }
}
