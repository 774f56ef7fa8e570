//! What tshark says of the application layer of each flow in the shared captures: server names,
//! DNS questions, HTTP requests.
//!
//! The captures stay where they are; only names, addresses and ports of their flows are committed.

use std::collections::BTreeMap;
use std::path::Path;

use super::tshark::{BETWEEN, Question};

/// What tshark is asked about each packet.
const FIELDS: [&str; 20] = [
    "frame.protocols",
    "ip.src",
    "ip.dst",
    "ipv6.src",
    "ipv6.dst",
    "tcp.srcport",
    "tcp.dstport",
    "udp.srcport",
    "udp.dstport",
    "tls.handshake.type",
    "tls.handshake.extensions_server_name",
    "quic.version",
    "dns.flags.response",
    "dns.qry.name",
    "dns.qry.type",
    "dns.flags.rcode",
    "http.request.method",
    "http.host",
    "http.request.uri",
    "http.response.code",
];

/// Which packets it is asked about.
const FILTER: &str = "tls.handshake.type==1 || dns || http || quic";

/// The table: a line a flow and kind of answer.
pub(super) fn make(_: &Path) -> anyhow::Result<String> {
    let question = Question {
        is_asked,
        filter: FILTER,
        // A request is told when its head is there, as a meter tells it.
        preferences: &["http.desegment_body:FALSE"],
        fields: FIELDS,
    };
    question.table("protocol\tendpoints\tkind\tvalue", |packets| {
        let mut rows = Vec::new();
        for (flow, found) in flows(packets) {
            for (kind, value) in found.rows() {
                rows.push(format!("{flow}\t{kind}\t{value}"));
            }
        }
        rows
    })
}

/// Whether tshark is asked about a capture: those of the protocols that are read, and all of the
/// first suite, which has every kind of header. (All of them take it half an hour; the mixture is
/// too large to name its flows one by one.)
fn is_asked(name: &str) -> bool {
    const PROTOCOLS: [&str; 5] = ["tls", "ssl", "quic", "dns", "http"];
    let (suite, file) = name.split_once('/').unwrap_or(("", name));
    suite == "pcapplusplus"
        || (!suite.is_empty() && PROTOCOLS.iter().any(|word| file.contains(word)))
}

/// What was found of a flow.
#[derive(Debug, Default, PartialEq)]
struct Found {
    /// Server name of the first ClientHello; empty where that has none.
    server_name: Option<String>,
    over_quic: bool,
    /// First question: name and type.
    question: Option<String>,
    response_code: Option<String>,
    dns: [u64; 2],
    /// First request: method, host and target.
    request: Option<String>,
    status: Option<String>,
    http: [u64; 2],
}

impl Found {
    fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = Vec::new();
        if let Some(name) = &self.server_name {
            let kind = if self.over_quic { "quic-sni" } else { "sni" };
            rows.push((kind, name.clone()));
        }
        let mut add = |kind, value: &Option<String>| {
            if let Some(value) = value {
                rows.push((kind, value.clone()));
            }
        };
        add("dns-question", &self.question);
        add("dns-code", &self.response_code);
        add("http-request", &self.request);
        add("http-status", &self.status);
        for (kind, [asked, answered]) in [("dns-count", self.dns), ("http-count", self.http)] {
            if asked + answered > 0 {
                rows.push((kind, format!("{asked}/{answered}")));
            }
        }
        rows
    }
}

/// The flows in tshark's answer, by protocol and sorted endpoints.
fn flows(packets: &[[&str; FIELDS.len()]]) -> BTreeMap<String, Found> {
    let mut flows: BTreeMap<String, Found> = BTreeMap::new();
    for values in packets {
        if let Some(flow) = flow_of(values) {
            add(flows.entry(flow).or_default(), values);
        }
    }
    flows
}

/// Protocol and endpoints of the innermost header; `None` where that is not plain to see.
fn flow_of(values: &[&str; FIELDS.len()]) -> Option<String> {
    let layers: Vec<&str> = values[0].split(':').collect();
    if layers.iter().any(|layer| layer.starts_with("icmp")) {
        return None;
    }
    let ip = layers
        .iter()
        .rposition(|layer| ["ip", "ipv6"].contains(layer))?;
    let last = |value: &str| value.rsplit(BETWEEN).next().unwrap_or_default().to_owned();
    let (from, to) = if layers[ip] == "ip" { (1, 2) } else { (3, 4) };
    let transport = layers[ip..]
        .iter()
        .find(|layer| ["tcp", "udp"].contains(layer))?;
    let (from_port, to_port) = if *transport == "tcp" { (5, 6) } else { (7, 8) };
    let mut ends = [(from, from_port), (to, to_port)]
        .map(|(address, port)| format!("{} {}", last(values[address]), last(values[port])));
    ends.sort();
    Some(format!("{transport}\t{} {}", ends[0], ends[1]))
}

/// Adds what a packet says.
fn add(found: &mut Found, values: &[&str; FIELDS.len()]) {
    let first = |value: &str| value.split(BETWEEN).next().unwrap_or_default().to_owned();
    let count = |value: &str| value.split(BETWEEN).filter(|one| !one.is_empty()).count() as u64;
    if found.server_name.is_none() && values[9].split(BETWEEN).any(|kind| kind == "1") {
        found.server_name = Some(first(values[10]));
        found.over_quic = !values[11].is_empty();
    }
    for response in values[12].split(BETWEEN).filter(|one| !one.is_empty()) {
        let is_response = ["1", "True"].contains(&response);
        found.dns[usize::from(is_response)] += 1;
        if is_response && found.response_code.is_none() {
            found.response_code = Some(first(values[15]));
        }
        if found.question.is_none() && !values[13].is_empty() {
            let name = first(values[13]).replace("<Root>", ".");
            found.question = Some(format!("{name} {}", first(values[14])));
        }
    }
    if !values[16].is_empty() && found.request.is_none() {
        // The character between two values may stand in a target too.
        let parts = [values[16], values[17], values[18]];
        let parts = match count(values[16]) {
            1 => parts.map(str::to_owned),
            _ => parts.map(first),
        };
        found.request = Some(parts.join(" "));
    }
    if !values[19].is_empty() && found.status.is_none() {
        found.status = Some(first(values[19]));
    }
    found.http[0] += count(values[16]);
    found.http[1] += count(values[19]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_one_flow_come_together_in_both_directions() {
        let mut query = [""; FIELDS.len()];
        query[..3].copy_from_slice(&["eth:ethertype:ip:udp:dns", "2.2.2.2", "1.1.1.1"]);
        query[7..9].copy_from_slice(&["9", "53"]);
        query[12..15].copy_from_slice(&["0", "a.b", "1"]);
        let mut answer = query;
        answer[1..3].copy_from_slice(&["1.1.1.1", "2.2.2.2"]);
        answer[7..9].copy_from_slice(&["53", "9"]);
        answer[12] = "1";
        answer[15] = "3";
        let flows = flows(&[query, answer]);
        let (flow, found) = flows.first_key_value().unwrap();
        assert_eq!(
            (flows.len(), flow.as_str()),
            (1, "udp\t1.1.1.1 53 2.2.2.2 9")
        );
        let rows: Vec<_> = found
            .rows()
            .into_iter()
            .map(|(kind, value)| format!("{kind} {value}"))
            .collect();
        assert_eq!(rows, ["dns-question a.b 1", "dns-code 3", "dns-count 1/1"]);
    }

    #[test]
    fn captures_of_the_protocols_are_asked_for() {
        assert!(is_asked("pcapplusplus/ArpRequestPacket.pcap"));
        assert!(is_asked("zeek/tls__hrr.pcap"));
        assert!(!is_asked("zeek/ftp.pcap") && !is_asked("mix-200k.pcap.zst"));
    }

    #[test]
    fn the_innermost_header_makes_the_flow_and_quoted_packets_none() {
        let mut values = [""; FIELDS.len()];
        values[..3].copy_from_slice(&[
            "eth:ethertype:ip:gre:ip:tcp:tls",
            "1.1.1.1;3.3.3.3",
            "2.2.2.2;4.4.4.4",
        ]);
        values[5] = "1";
        values[6] = "443";
        values[9] = "1;11";
        values[10] = "x.y";
        assert_eq!(
            flow_of(&values).as_deref(),
            Some("tcp\t3.3.3.3 1 4.4.4.4 443")
        );
        let mut found = Found::default();
        add(&mut found, &values);
        assert_eq!(found.rows(), [("sni", "x.y".to_owned())]);
        values[0] = "eth:ethertype:ip:icmp:ip:udp:dns";
        assert_eq!(flow_of(&values), None);
    }
}
