//! Names beside tshark's, flow by flow; `cargo xtask golden` asks tshark.
//!
//! Where the two differ, the difference is one of the kinds that docs/names.md explains, and is
//! listed here: a difference more, or one less, fails.

use std::collections::{BTreeMap, BTreeSet};

use app::{Cut, NameText, NamesRecord};
use wire::FlowKey;

use crate::captures;

/// What tshark says of a flow, by kind.
type Answers = BTreeMap<String, String>;

fn golden() -> BTreeMap<String, BTreeMap<String, Answers>> {
    let mut golden: BTreeMap<String, BTreeMap<String, Answers>> = BTreeMap::new();
    for line in tables::golden("names.tsv").lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [capture, protocol, endpoints, kind, value] = fields[..] else {
            panic!("golden line {line:?}");
        };
        golden
            .entry(capture.to_owned())
            .or_default()
            .entry(format!("{protocol} {endpoints}"))
            .or_default()
            .insert(kind.to_owned(), value.to_owned());
    }
    golden
}

/// Protocol and sorted endpoints, as the golden table writes them.
fn flow_name(key: &FlowKey) -> String {
    let protocol = if key.protocol == 6 { "tcp" } else { "udp" };
    let mut ends = [
        format!("{} {}", key.source_address(), key.source_port),
        format!("{} {}", key.destination_address(), key.destination_port),
    ];
    ends.sort();
    format!("{protocol} {} {}", ends[0], ends[1])
}

/// The same answers as tshark gives, from a record.
fn answers(key: &FlowKey, record: &NamesRecord) -> Answers {
    let mut answers = Answers::new();
    let mut add = |kind: &str, value: String| answers.insert(kind.to_owned(), value);
    let text = |value: &Option<NameText>| value.as_deref().unwrap_or_default().to_owned();
    if let Some(tls) = &record.tls
        && (tls.versions_offered.is_some() || tls.server_name.is_some())
    {
        let kind = if record.quic.is_some() {
            "quic-sni"
        } else {
            "sni"
        };
        add(kind, text(&tls.server_name));
    }
    // Multicast DNS and LLMNR are DNS here, and protocols of their own to tshark.
    let ports = [key.source_port, key.destination_port];
    if let Some(dns) = &record.dns
        && ports.contains(&53)
    {
        if let Some(kind) = dns.query_type {
            add("dns-question", format!("{} {kind}", text(&dns.query)));
        }
        if let Some(code) = dns.response_code {
            add("dns-code", code.to_string());
        }
        add("dns-count", format!("{}/{}", dns.queries, dns.responses));
    }
    if let Some(http) = &record.http {
        if let Some(method) = &http.method {
            let [host, target] = [&http.host, &http.target].map(text);
            add("http-request", format!("{method} {host} {target}"));
        }
        if let Some(status) = http.status {
            add("http-status", status.to_string());
        }
        add(
            "http-count",
            format!("{}/{}", http.requests, http.responses),
        );
    }
    answers
}

#[test]
fn names_are_tsharks_but_for_the_differences_that_are_explained() {
    if !traffic::present() {
        return;
    }
    let mut equal: BTreeMap<String, usize> = BTreeMap::new();
    let mut different = BTreeSet::new();
    for (capture, theirs) in &golden() {
        let flows = captures::read(capture);
        let cut: BTreeSet<String> = flows
            .iter()
            .filter(|(_, record)| record.cut.holds(Cut::TEXT))
            .map(|(key, _)| flow_name(key))
            .collect();
        let ours: BTreeMap<String, Answers> = flows
            .iter()
            .map(|(key, record)| (flow_name(key), answers(key, record)))
            .filter(|(_, answers)| !answers.is_empty())
            .collect();
        let names: BTreeSet<_> = theirs.keys().chain(ours.keys()).collect();
        for flow in names {
            let none = Answers::new();
            let (their, our) = (
                theirs.get(flow).unwrap_or(&none),
                ours.get(flow).unwrap_or(&none),
            );
            let kinds: BTreeSet<_> = their.keys().chain(our.keys()).collect();
            for kind in kinds {
                let (their, our) = (their.get(kind), our.get(kind));
                // A text that was cut, and marked so, is the beginning of tshark's.
                let cut = cut.contains(flow)
                    && matches!((their, our), (Some(their), Some(our)) if their.starts_with(our));
                if their == our || cut {
                    *equal.entry(kind.clone()).or_default() += 1;
                } else {
                    let show = |value: Option<&String>| value.map_or("(none)", |v| v).to_owned();
                    different.insert(format!(
                        "{capture}\t{flow}\t{kind}\t{}\t{}",
                        show(their),
                        show(our)
                    ));
                }
            }
        }
    }
    println!("equal: {equal:?}; different: {}", different.len());
    tables::assert_explained("names_differences.tsv", &different);
    assert!(
        equal["sni"] > 90 && equal["quic-sni"] > 15 && equal["dns-question"] > 400,
        "{equal:?}"
    );
}
