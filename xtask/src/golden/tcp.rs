//! What tshark's analysis of TCP (`tcp.analysis`) says of each direction of each flow in the shared
//! captures.
//!
//! The captures stay where they are; only addresses and ports of their flows and counts are committed.

use std::collections::BTreeMap;
use std::path::Path;

use super::tshark::{BETWEEN, Question};

/// What tshark is asked about each packet of TCP: who it is from and to, how much payload, then
/// what is counted.
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

/// The first field that is counted.
const COUNTED: usize = 8;
/// Retransmission and out of order are counted for packets with payload: others have nothing that
/// was seen before.
const OF_PAYLOAD: [&str; 3] = ["retransmission", "fast_retransmission", "out_of_order"];

/// The table: a line for each direction and kind that occurs, with how often.
pub(super) fn make(_: &Path) -> anyhow::Result<String> {
    let question = Question {
        is_asked,
        filter: "tcp",
        preferences: &[],
        fields: FIELDS,
    };
    question.table("source\tdestination\tkind\tpackets", |packets| {
        let row = |((flow, kind), packets)| format!("{flow}\t{kind}\t{packets}");
        counts(packets).into_iter().map(row).collect()
    })
}

/// Whether tshark is asked about a capture: those of the first suite, and of the second those that
/// are named after TCP and what is mostly carried by it.
fn is_asked(name: &str) -> bool {
    const NAMED: [&str; 6] = ["tcp", "http", "tls", "ssl", "ssh", "ftp"];
    let (suite, file) = name.split_once('/').unwrap_or(("", name));
    suite == "pcapplusplus" || (suite == "zeek" && NAMED.iter().any(|word| file.contains(word)))
}

/// How often each kind occurs in each direction (source and destination, a tab between).
fn counts(packets: &[[&str; FIELDS.len()]]) -> BTreeMap<(String, &'static str), u64> {
    let mut counts = BTreeMap::new();
    for values in packets {
        let Some(flow) = direction_of(values) else {
            continue;
        };
        let has_payload = values[7].split(BETWEEN).any(|bytes| bytes != "0");
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

/// Who sent it to whom; `None` for what is wrapped in something, or quoted by ICMP.
fn direction_of(values: &[&str; FIELDS.len()]) -> Option<String> {
    let layers: Vec<&str> = values[0].split(':').collect();
    let mut of_ip = layers
        .iter()
        .filter(|layer| ["ip", "ipv6"].contains(*layer));
    let version = of_ip.next()?;
    let is_plain = of_ip.next().is_none() && !values[5].contains(BETWEEN);
    let is_quoted = layers.iter().any(|layer| layer.starts_with("icmp"));
    let (from, to) = if *version == "ip" { (1, 2) } else { (3, 4) };
    (is_plain && !is_quoted).then(|| {
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
