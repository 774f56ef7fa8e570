//! Compares the records with tshark's output, flow by flow. `cargo xtask golden` runs tshark.
//!
//! Each difference is of a kind that docs/names.md explains, and is listed in a table. An unlisted
//! difference fails the test, and so does a listed one that is gone.

use std::collections::{BTreeMap, BTreeSet};

use app::{AppRecord, AppText, Incomplete};
use wire::FlowKey;

use crate::captures;

/// The values of a flow, by kind.
type Values = BTreeMap<String, String>;

fn golden() -> BTreeMap<String, BTreeMap<String, Values>> {
    let mut golden: BTreeMap<String, BTreeMap<String, Values>> = BTreeMap::new();
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

/// The same values from a record.
fn values_of(key: &FlowKey, record: &AppRecord) -> Values {
    let mut values = Values::new();
    let mut add = |kind: &str, value: String| values.insert(kind.to_owned(), value);
    let text = |value: &Option<AppText>| value.as_deref().unwrap_or_default().to_owned();
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
    // For tshark, multicast DNS and LLMNR are not DNS.
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
    values
}

#[test]
fn names_match_tshark_except_for_explained_differences() {
    if !traffic::present() {
        return;
    }
    let mut equal: BTreeMap<String, usize> = BTreeMap::new();
    let mut different = BTreeSet::new();
    for (capture, theirs) in &golden() {
        let flows = captures::read(capture);
        let truncated: BTreeSet<String> = flows
            .iter()
            .filter(|(_, record)| record.incomplete.contains(Incomplete::TEXT))
            .map(|(key, _)| flow_name(key))
            .collect();
        let ours: BTreeMap<String, Values> = flows
            .iter()
            .map(|(key, record)| (flow_name(key), values_of(key, record)))
            .filter(|(_, values)| !values.is_empty())
            .collect();
        let flow_names: BTreeSet<_> = theirs.keys().chain(ours.keys()).collect();
        for flow in flow_names {
            let none = Values::new();
            let (their, our) = (
                theirs.get(flow).unwrap_or(&none),
                ours.get(flow).unwrap_or(&none),
            );
            let kinds: BTreeSet<_> = their.keys().chain(our.keys()).collect();
            for kind in kinds {
                let (their, our) = (their.get(kind), our.get(kind));
                // A text marked as truncated must be the start of tshark's.
                let is_truncated = truncated.contains(flow)
                    && matches!((their, our), (Some(their), Some(our)) if their.starts_with(our));
                if their == our || is_truncated {
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
