//! The application layer of each flow in the shared captures according to tshark: server names, DNS
//! questions, HTTP requests.
//!
//! Only names, addresses and ports of flows are committed, not the captures.

use std::collections::BTreeMap;
use std::path::Path;

use super::tshark::{Query, SEPARATOR};

/// The fields that tshark prints of each packet.
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

/// The packets that tshark prints.
const FILTER: &str = "tls.handshake.type==1 || dns || http || quic";

/// Makes the table, with a line for each flow and kind of value.
pub(super) fn make(_: &Path) -> anyhow::Result<String> {
    let query = Query {
        includes,
        filter: FILTER,
        // tshark then reports a request when its header is complete, as flowatch does.
        preferences: &["http.desegment_body:FALSE"],
        fields: FIELDS,
    };
    query.table("protocol\tendpoints\tkind\tvalue", |packets| {
        let mut rows = Vec::new();
        for (flow, found) in flows(packets) {
            for (kind, value) in found.rows() {
                rows.push(format!("{flow}\t{kind}\t{value}"));
            }
        }
        rows
    })
}

/// Whether the table includes a capture: those of the parsed protocols, and all of the first suite,
/// which has every kind of header. (All captures take tshark half an hour, and the mix has too many
/// flows for a table.)
fn includes(name: &str) -> bool {
    const PROTOCOLS: [&str; 5] = ["tls", "ssl", "quic", "dns", "http"];
    let (suite, file) = name.split_once('/').unwrap_or(("", name));
    suite == "pcapplusplus"
        || (!suite.is_empty() && PROTOCOLS.iter().any(|word| file.contains(word)))
}

/// The values of a flow.
#[derive(Debug, Default, PartialEq)]
struct Found {
    /// Server name in the first ClientHello; empty if it has none.
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
        for (kind, [requests, responses]) in [("dns-count", self.dns), ("http-count", self.http)] {
            if requests + responses > 0 {
                rows.push((kind, format!("{requests}/{responses}")));
            }
        }
        rows
    }
}

/// The flows in tshark's output, by protocol and sorted endpoints.
fn flows(packets: &[[&str; FIELDS.len()]]) -> BTreeMap<String, Found> {
    let mut flows: BTreeMap<String, Found> = BTreeMap::new();
    for values in packets {
        if let Some(flow) = flow_of(values) {
            add(flows.entry(flow).or_default(), values);
        }
    }
    flows
}

/// Protocol and endpoints of the innermost IP header; `None` for ICMP, which quotes other packets, and
/// without TCP or UDP.
fn flow_of(values: &[&str; FIELDS.len()]) -> Option<String> {
    let layers: Vec<&str> = values[0].split(':').collect();
    if layers.iter().any(|layer| layer.starts_with("icmp")) {
        return None;
    }
    let ip = layers
        .iter()
        .rposition(|layer| ["ip", "ipv6"].contains(layer))?;
    let last = |value: &str| {
        value
            .rsplit(SEPARATOR)
            .next()
            .unwrap_or_default()
            .to_owned()
    };
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

/// Adds the values of a packet.
fn add(found: &mut Found, values: &[&str; FIELDS.len()]) {
    let first = |value: &str| value.split(SEPARATOR).next().unwrap_or_default().to_owned();
    let count = |value: &str| value.split(SEPARATOR).filter(|one| !one.is_empty()).count() as u64;
    if found.server_name.is_none() && values[9].split(SEPARATOR).any(|kind| kind == "1") {
        found.server_name = Some(first(values[10]));
        found.over_quic = !values[11].is_empty();
    }
    for response in values[12].split(SEPARATOR).filter(|one| !one.is_empty()) {
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
        // A target can contain the separator too, so a single request is not split.
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
    fn packets_of_both_directions_are_one_flow() {
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
    fn captures_of_the_protocols_are_included() {
        assert!(includes("pcapplusplus/ArpRequestPacket.pcap"));
        assert!(includes("zeek/tls__hrr.pcap"));
        assert!(!includes("zeek/ftp.pcap") && !includes("mix-200k.pcap.zst"));
    }

    #[test]
    fn the_flow_is_that_of_the_innermost_header_and_quoted_packets_have_none() {
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
