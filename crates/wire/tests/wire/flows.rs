//! Flows of captures with VLAN tags, tunnels, fragments and odd link types against tshark's.

use std::collections::{BTreeMap, BTreeSet};

use wire::{Decapsulate, FlowKey, Fragment, dissect};

use crate::captures;

/// Made by golden/flows.py, which says how.
const EXPECTED: &str = include_str!("golden/flows.tsv");

/// The key as a line of the table has it: from the source address to the inner VLAN tag.
fn line(key: &FlowKey) -> String {
    let tag = |tag: u16| match tag {
        0 => "-".to_owned(),
        tag => (tag & !FlowKey::VLAN_PRESENT).to_string(),
    };
    format!(
        "{}\t{}\t{}\t{}\t{}\t{}\t{}",
        key.source_address(),
        key.source_port,
        key.destination_address(),
        key.destination_port,
        key.protocol,
        tag(key.vlan[0]),
        tag(key.vlan[1]),
    )
}

#[test]
fn flows_are_those_that_tshark_finds() {
    if !traffic::present() {
        return;
    }
    let mut expected: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
    for row in EXPECTED.lines().skip(1) {
        let (depth, row) = row.split_once('\t').unwrap();
        let (capture, flow) = row.split_once('\t').unwrap();
        expected
            .entry((depth, capture))
            .or_default()
            .insert(flow.to_owned());
    }
    assert_eq!(expected.len(), 59);
    let mut wrong = Vec::new();
    for ((depth, capture), expected) in expected {
        let decapsulate = match depth {
            "outer" => Decapsulate::Link,
            _ => Decapsulate::Innermost,
        };
        let mut flows: BTreeMap<String, u64> = BTreeMap::new();
        for record in captures::read(capture) {
            let headers = dissect(record.link, &record.bytes, record.wire_length, decapsulate);
            if headers.no_flow.is_none() {
                *flows.entry(line(&headers.key)).or_default() += 1;
            }
        }
        let flows: BTreeSet<String> = flows
            .into_iter()
            .map(|(flow, packets)| format!("{flow}\t{packets}"))
            .collect();
        let missing = expected.difference(&flows).map(|flow| format!("- {flow}"));
        let extra = flows.difference(&expected).map(|flow| format!("+ {flow}"));
        for flow in missing.chain(extra) {
            wrong.push(format!("{depth} {capture} {flow}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The two fragments of a GTP-U packet: tshark opens the first alone, unless it may reassemble.
/// flowatch leaves both in the flow of the tunnel.
#[test]
fn fragments_of_one_tunnel_packet_stay_in_one_flow() {
    if !traffic::present() {
        return;
    }
    let keys: Vec<_> = captures::read("zeek/tunnels__gtp__gtp_ext_header.pcap")
        .iter()
        .map(|r| dissect(r.link, &r.bytes, r.wire_length, Decapsulate::Innermost))
        .map(|headers| {
            (
                headers.key.source_address(),
                headers.key.protocol,
                headers.fragment,
            )
        })
        .take(2)
        .collect();
    let outer = "10.155.148.149".parse().unwrap();
    assert_eq!(
        keys,
        [(outer, 17, Fragment::First), (outer, 17, Fragment::Later)]
    );
}
