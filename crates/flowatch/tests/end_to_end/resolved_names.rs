//! A flow has the name that its client resolved, even if another thread, monitor or receive queue
//! handled the DNS flow.

use crate::analysis::{
    SECOND, START_NS, connection, endpoints, records_of, reversed, tcp, udp, write,
};
use crate::live_veth::listen;
use crate::namespace::Cable;
use crate::records::{self, Row};
use std::fs;
use wire::tcp::flag::ACK;

/// Enough that each of several tables has DNS flows, and flows whose DNS flow is in another table.
const CLIENTS: u8 = 40;

/// Returns a DNS response with the address of the server of all connections.
fn response(name: &str) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend(label.as_bytes());
    }
    message.extend([0, 0, 1, 0, 1]);
    message.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 168, 0, 1]);
    message
}

fn name(client: u8) -> String {
    format!("for-{client}.example")
}

/// Returns a DNS response per client, every third over TCP, half of these in two segments.
fn dns_answers() -> Vec<(i64, Vec<u8>)> {
    let answers = |client| {
        let response = response(&name(client));
        let ends = reversed(endpoints(client, 53));
        if client % 3 != 0 {
            return vec![udp(ends, &response)];
        }
        let length = (response.len() as u16).to_be_bytes();
        let stream = [&length[..], &response].concat();
        let end = if client % 2 == 0 { 20 } else { stream.len() };
        let mut sequence = 100;
        let segments = [&stream[..end], &stream[end..]].into_iter();
        segments
            .filter(|bytes| !bytes.is_empty())
            .map(|bytes| {
                let segment = tcp(ends, [sequence, 200], ACK, bytes);
                sequence += bytes.len() as u32;
                segment
            })
            .collect()
    };
    let at = |client| START_NS - SECOND + i64::from(client);
    (1..=CLIENTS)
        .flat_map(|it| answers(it).into_iter().map(move |frame| (at(it), frame)))
        .collect()
}

fn connections() -> Vec<(i64, Vec<u8>)> {
    (1..=CLIENTS)
        .flat_map(|client| connection(client, 443, b"hello"))
        .collect()
}

#[track_caller]
fn assert_all_named(rows: &[Row], flags: &str) {
    let mut named: Vec<&Row> = rows
        .iter()
        .filter(|row| row["destinationTransportPort"] == "443")
        .collect();
    named.sort_by_key(|row| row["sourceIPv4Address"].clone());
    assert_eq!(named.len(), usize::from(CLIENTS), "{flags}");
    for row in named {
        let address = &row["sourceIPv4Address"];
        let client = address.rsplit('.').next().unwrap().parse().unwrap();
        let resolved = row.get("resolvedName");
        assert_eq!(resolved, Some(&name(client)), "{flags}: {address}");
    }
}

#[test]
fn resolved_name_reaches_flows_in_every_table() {
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("resolved.pcap");
    write(&capture, dns_answers().into_iter().chain(connections()));
    let single = records_of("--statistics app", &capture);
    assert_all_named(&single, "one table");
    for flags in [
        "--queues 2",
        "--queues 5",
        "--model pipeline --monitors 2",
        "--model pipeline --monitors 4 --ring 256 --buffer 16MiB",
        "--model cooperative --monitors 3",
    ] {
        let rows = records_of(&format!("--statistics app {flags}"), &capture);
        assert_eq!(rows, single, "{flags}");
    }
}

/// All records of a flow have the name resolved before its start, and none has one resolved later.
#[test]
fn records_of_a_flow_keep_the_name_resolved_before_it_started() {
    const SECONDS: i64 = 60;
    let mut frames = Vec::new();
    let answer = |client, name| udp(reversed(endpoints(client, 53)), &response(name));
    frames.push((START_NS - SECOND, answer(1, "before.example")));
    for client in [1, 2] {
        let middle = START_NS + SECONDS / 2 * SECOND + i64::from(client);
        frames.push((middle, answer(client, "after.example")));
        for second in 0..SECONDS {
            let at = START_NS + second * SECOND + i64::from(client);
            let numbers = [100 + second as u32, 200];
            frames.push((at, tcp(endpoints(client, 9000), numbers, ACK, b"a")));
        }
    }
    frames.sort_by_key(|(time_ns, _)| *time_ns);
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("cut.pcap");
    write(&capture, frames);
    for flags in ["", "--queues 2"] {
        let flags = format!("--statistics app --active-timeout 7s {flags}");
        let rows = records_of(&flags, &capture);
        for (client, name) in [(1, Some("before.example")), (2, None)] {
            let address = format!("10.0.0.{client}");
            let records: Vec<&Row> = rows
                .iter()
                .filter(|row| row["sourceIPv4Address"] == address)
                .collect();
            assert!(records.len() > 5, "{rows:?}");
            for row in records {
                assert_eq!(row.get("resolvedName").map(String::as_str), name, "{row:?}");
                let age = row.get("resolvedNameAgeSeconds").map(String::as_str);
                assert_eq!(age, name.and(Some("1.0")), "{row:?}");
            }
        }
    }
}

#[test]
fn dns_answer_after_an_active_timeout_has_its_latency() {
    let response = response("late.example");
    let mut query = response[..response.len() - 16].to_vec();
    (query[2], query[3], query[7]) = (1, 0, 0);
    let ends = endpoints(1, 53);
    let frames = [
        (START_NS, udp(ends, &query)),
        (START_NS + SECOND / 2, udp(reversed(ends), &response)),
    ];
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("late.pcap");
    write(&capture, frames);
    let rows = records_of("--statistics app --active-timeout 100ms", &capture);
    let column = |name: &str| -> Vec<_> {
        let values = rows.iter().map(|row| row.get(name).map(String::as_str));
        values.collect()
    };
    let name = Some("late.example");
    assert_eq!(column("dnsQueryName"), [name, name]);
    assert_eq!(column("dnsAnswerAddresses"), [None, Some("192.168.0.1")]);
    assert_eq!(column("dnsLatencySeconds"), [None, Some("0.5")]);
}

#[test]
fn name_resolved_on_one_queue_is_known_on_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let [responses, flows] = ["responses.pcap", "flows.pcap"].map(|it| directory.path().join(it));
    write(&responses, dns_answers());
    write(&flows, connections());
    for flags in [
        "--queues 3",
        "--queues 2 --model pipeline",
        "--queues 2 --model cooperative --monitors 2",
    ] {
        let cable = Cable::new();
        let output = directory.path().join("flows.csv");
        let flags_with_output = format!(
            "--overwrite --flow bidirectional --statistics app {flags} -o csv:{}",
            output.display()
        );
        let mut running = listen(&cable, &flags_with_output);
        let responses_sent = cable.replay(&responses, 1);
        running.wait_for_packets(responses_sent);
        let all = responses_sent + cable.replay(&flows, 1);
        running.wait_for_packets(all);
        running.signal("INT");
        assert_eq!(running.finish().code, Some(0), "{flags}");
        assert_all_named(&records::csv(&fs::read(&output).unwrap()), flags);
    }
}
