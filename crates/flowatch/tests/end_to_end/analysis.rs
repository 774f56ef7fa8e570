//! Tests of the analysis: a user's application table, flows with several records, jumping clocks,
//! corrupted packets.

use crate::captures::{self, ETHERNET, Endpoints, Frame};
use crate::command::{run, watch};
use crate::records::{self, Row};
use crate::summary::Summary;
use std::fs;
use std::path::Path;
use wire::tcp::flag::{ACK, SYN};

pub(crate) const SECOND: i64 = 1_000_000_000;
pub(crate) const START_NS: i64 = 1_700_000_000 * SECOND;

pub(crate) fn endpoints(client: u8, port: u16) -> Endpoints {
    Endpoints {
        source: 0x0a00_0000 | u32::from(client),
        destination: 0xc0a8_0001,
        source_port: 40_000,
        destination_port: port,
    }
}

pub(crate) fn reversed(endpoints: Endpoints) -> Endpoints {
    Endpoints {
        source: endpoints.destination,
        destination: endpoints.source,
        source_port: endpoints.destination_port,
        destination_port: endpoints.source_port,
    }
}

/// Returns an Ethernet frame with IPv4, ports, `rest` (the rest of the protocol's header), and payload.
fn frame(endpoints: Endpoints, protocol: u8, rest: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut frame = captures::udp(endpoints);
    frame.truncate(38);
    frame.extend_from_slice(rest);
    frame.extend_from_slice(payload);
    let length = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&length.to_be_bytes());
    frame[23] = protocol;
    frame
}

pub(crate) fn udp(endpoints: Endpoints, payload: &[u8]) -> Vec<u8> {
    let [high, low] = (8 + payload.len() as u16).to_be_bytes();
    frame(endpoints, 17, &[high, low, 0, 0], payload)
}

pub(crate) fn tcp(endpoints: Endpoints, numbers: [u32; 2], flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut rest = Vec::new();
    rest.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
    rest.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    frame(endpoints, 6, &rest, payload)
}

pub(crate) fn write(path: &Path, frames: impl IntoIterator<Item = (i64, Vec<u8>)>) {
    let frames: Vec<Frame> = frames
        .into_iter()
        .map(|(time_ns, bytes)| Frame::whole(time_ns, bytes))
        .collect();
    captures::write(path, ETHERNET, &frames);
}

pub(crate) fn records_of(flags: &str, capture: &Path) -> Vec<Row> {
    let flags = format!("-q --summary none --sort -o csv {flags} -r");
    records::csv(&run(watch(&flags).arg(capture)).quiet_success())
}

/// Returns the frames of a connection of client number `client`, which sends `payload` first.
pub(crate) fn connection(client: u8, port: u16, payload: &[u8]) -> Vec<(i64, Vec<u8>)> {
    let ends = endpoints(client, port);
    let at = START_NS + i64::from(client) * SECOND;
    vec![
        (at, tcp(ends, [99, 0], SYN, &[])),
        (at + 1000, tcp(reversed(ends), [199, 100], SYN | ACK, &[])),
        (at + 2000, tcp(ends, [100, 200], ACK, payload)),
        (
            at + 3000,
            tcp(reversed(ends), [200, 100 + payload.len() as u32], ACK, &[]),
        ),
    ]
}

#[test]
fn user_applications_take_precedence() {
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: Deep.Wiki.EXAMPLE\r\n\r\n";
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("applications.pcap");
    let mut frames = [
        connection(1, 7001, b"hello"),
        connection(2, 80, REQUEST),
        connection(3, 80, b"GET / HTTP/1.1\r\nHost: www.wikipedia.org\r\n\r\n"),
    ]
    .concat();
    frames.push((START_NS + 4 * SECOND, udp(endpoints(4, 123), &[0x1b; 48])));
    frames.push((START_NS + 5 * SECOND, udp(endpoints(5, 9), b"BIL\x01 of 5")));
    frames.push((START_NS + 6 * SECOND, udp(endpoints(6, 9), b"BIL\x02 of 6")));
    write(&capture, frames);
    let table = directory.path().join("applications.txt");
    fs::write(
        &table,
        "# ours\n\nBilling tcp 7001 7002\nIntranet name wiki.example  wikipedia.org\nBilling bytes \"BIL\\x01\"\nClock udp 123\n",
    )
    .unwrap();

    let found = |rows: &[Row]| -> Vec<String> {
        let text = |row: &Row, name| row.get(name).cloned().unwrap_or_default();
        rows.iter()
            .map(|row| text(row, "applicationName") + " " + &text(row, "applicationFoundBy"))
            .collect()
    };
    let built_in = found(&records_of("--statistics app", &capture));
    assert_eq!(
        built_in,
        [" ", "HTTP bytes", "Wikipedia host", "NTP port", " ", " "]
    );
    let flags = format!("--statistics app --applications {}", table.display());
    let with_ours = found(&records_of(&flags, &capture));
    assert_eq!(
        with_ours,
        [
            "Billing port",
            "Intranet host",
            "Intranet host",
            "Clock port",
            "Billing bytes",
            " "
        ]
    );
}

#[test]
fn rejects_invalid_application_tables() {
    let directory = tempfile::tempdir().unwrap();
    let table = directory.path().join("applications.txt");
    for (text, message) in [
        (Some("Billing tcp 7001\nBilling sctp 7001\n"), "line 2"),
        (Some("Billing udp 70000\n"), "line 1"),
        (Some("Billing bytes \"\\xZZ\"\n"), "line 1"),
        (None, "applications.txt"),
    ] {
        match text {
            Some(text) => fs::write(&table, text).unwrap(),
            None => fs::remove_file(&table).unwrap(),
        }
        let flags = format!("-q --statistics app --applications {} -r", table.display());
        let outcome = run(watch(&flags).arg(captures::example()));
        assert_eq!(outcome.code, Some(2), "{text:?}: {outcome:?}");
        assert!(outcome.stderr.contains(message), "{text:?}: {outcome:?}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
    }
    fs::write(&table, "Billing tcp 7001\n").unwrap();
    let flags = format!("-q --applications {} -r", table.display());
    let outcome = run(watch(&flags).arg(captures::example()));
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains("--statistics"), "{outcome:?}");
}

/// Two connections that last for minutes, one of them without its SYN. Each retransmits a segment
/// after an active timeout.
#[test]
fn active_timeout_records_add_up_to_one_flow() {
    const SECONDS: u32 = 100;
    const PAYLOAD: [u8; 500] = [7; 500];
    let mut frames = Vec::new();
    for client in [1, 2] {
        let ends = endpoints(client, 9000);
        let at = START_NS + i64::from(client) * SECOND / 10;
        if client == 1 {
            frames.push((at - 3000, tcp(ends, [99, 0], SYN, &[])));
            frames.push((at - 2000, tcp(reversed(ends), [199, 100], SYN | ACK, &[])));
        }
        for second in 0..SECONDS {
            let at = at + i64::from(second) * SECOND;
            let sequence = 100 + 500 * second;
            frames.push((at, tcp(ends, [sequence, 200], ACK, &PAYLOAD)));
            if second == 31 {
                // A segment that was in the previous record.
                frames.push((at + 1000, tcp(ends, [100, 200], ACK, &PAYLOAD)));
            }
            let answer = tcp(reversed(ends), [200, sequence + 500], ACK, &[]);
            frames.push((at + 20_000_000, answer));
        }
    }
    frames.sort_by_key(|(time_ns, _)| *time_ns);
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("long.pcap");
    write(&capture, frames);
    for way in [
        "",
        "--queues 2",
        "--model pipeline --monitors 2",
        "--garbage 1ms,1,1",
    ] {
        let flags = format!("--statistics full --active-timeout 30s {way}");
        let rows = records_of(&flags, &capture);
        assert_eq!(rows.len(), 8, "{way}");
        for client in [1u8, 2] {
            let address = format!("10.0.0.{client}");
            // Records are sorted by start, and all of them begin with a packet of the client.
            let records: Vec<&Row> = rows
                .iter()
                .filter(|row| row["sourceIPv4Address"] == address)
                .collect();
            let column = |name: &str| -> Vec<u64> {
                records
                    .iter()
                    .map(|row| records::number(row, name))
                    .collect()
            };
            assert_eq!(column("flowRecord"), [0, 1, 2, 3], "{way}");
            let id = &records[0]["flowId"];
            assert!(records.iter().all(|row| row["flowId"] == *id), "{way}");
            let syn = u64::from(client == 1);
            let packets = column("packetDeltaCount").iter().sum::<u64>();
            assert_eq!(packets, u64::from(SECONDS) + 1 + syn);
            let unique: u64 = column("tcpUniqueBytes").iter().sum();
            assert_eq!(unique, 500 * u64::from(SECONDS));
            assert_eq!(column("tcpRetransmittedPackets"), [0, 1, 0, 0]);
            assert_eq!(column("tcpRetransmittedBytes"), [0, 500, 0, 0]);
            assert_eq!(column("tcpMissedBytes"), [0; 4]);
            let round_trips: u64 = column("tcpRttSamples").iter().sum();
            assert_eq!(round_trips, u64::from(SECONDS));
            for row in &records {
                assert_eq!(row["tcpRttMinimumSeconds"], "0.02");
                assert_eq!(row["tcpRttMaximumSeconds"], "0.02");
            }
            assert_eq!(column("tcpSynSeen"), [syn; 4]);
            assert_eq!(column("tcpConnections"), [syn; 4]);
            let ends: Vec<&str> = records.iter().map(|row| &*row["endReason"]).collect();
            let active = "active";
            assert_eq!(ends, [active, active, active, "end-of-input"]);
        }
        let ids: Vec<&String> = rows.iter().map(|row| &row["flowId"]).collect();
        assert!(ids.iter().any(|id| **id != *ids[0]), "two flows");
    }
}

/// The clock jumps by years between the packets of a connection: jumps are counted, and every packet
/// is in a record.
#[test]
fn analysis_survives_clock_jumps_of_years() {
    const JUMPS: usize = 2000;
    let ends = endpoints(1, 9000);
    let frames = (0..2 * JUMPS).map(|number| {
        let year = if number % 2 == 0 { 50 } else { 10 };
        let sequence = 100 + 10 * (number / 2) as u32;
        let bytes = match number % 4 {
            0 | 1 => tcp(ends, [sequence, 200], ACK, &[1; 10]),
            _ => tcp(reversed(ends), [200, sequence], ACK, &[]),
        };
        (year * 365 * 86_400 * SECOND, bytes)
    });
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("jumps.pcap");
    write(&capture, frames);
    for timeouts in ["", "--active-timeout none", "--whole-flows"] {
        let output = directory.path().join("flows.csv");
        let flags = format!(
            "-q --summary json --overwrite --statistics full {timeouts} -o csv:{} -r",
            output.display()
        );
        let outcome = run(watch(&flags).arg(&capture));
        let summary = Summary::balanced(&outcome);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
        assert_eq!(summary.number("/clock_steps_back"), JUMPS as u64);
        let rows = records::csv(&fs::read(&output).unwrap());
        let packets: u64 = rows.iter().map(|row| records::number(row, "packets")).sum();
        assert_eq!(packets, 2 * JUMPS as u64, "{timeouts}");
        if timeouts == "--whole-flows" {
            assert_eq!(rows.len(), 1);
            // No interval is negative.
            assert_eq!(rows[0]["packetGapMinimumSeconds"], "0.0");
        }
    }
}

/// Pseudo-random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Packets with bytes changed, cut off or added, in headers and payloads.
#[test]
fn corrupted_packets_are_accounted_for() {
    const PACKETS: usize = 60_000;
    let mut random = Random(0x5eed);
    let frames = captures::read(&fs::read(&captures::large().path).unwrap());
    let frames: Vec<Frame> = frames
        .into_iter()
        .take(PACKETS)
        .map(|mut frame| {
            for _ in 0..random.below(6) {
                // Half of the changes are near the headers, where lengths, types and offsets are.
                let within = if random.below(2) == 0 { 120 } else { 1 << 14 };
                let index = random.below(frame.bytes.len().clamp(1, within));
                match (random.below(8), frame.bytes.get_mut(index)) {
                    (0, Some(_)) => frame.bytes.truncate(index),
                    (1, _) => frame.bytes.extend([random.below(256) as u8; 9]),
                    (2, Some(byte)) => *byte = 0xff,
                    (3, Some(byte)) => *byte = 0,
                    (4, Some(byte)) => *byte ^= 1 << random.below(8),
                    (_, Some(byte)) => *byte = random.below(256) as u8,
                    (_, None) => {}
                }
            }
            let captured = frame.bytes.len() as u32;
            frame.wire_length = match random.below(20) {
                0 => captured + random.below(3000) as u32,
                _ => frame.wire_length.max(captured),
            };
            frame
        })
        .collect();
    let bytes: u64 = frames.iter().map(|it| u64::from(it.wire_length)).sum();
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("tampered.pcap");
    captures::write(&capture, ETHERNET, &frames);
    let mut outputs = Vec::new();
    for way in [
        "",
        "--model pipeline --monitors 1",
        "--model cooperative",
        "--decapsulate --vlan --max-flows 500",
    ] {
        let output = directory.path().join("flows.csv");
        let flags = format!(
            "-q --summary json --overwrite --sort --statistics full,moments {way} -o csv:{} -r",
            output.display()
        );
        let outcome = run(watch(&flags).arg(&capture));
        let summary = Summary::balanced(&outcome);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
        let totals = (summary.number("/packets"), summary.number("/bytes"));
        assert_eq!(totals, (PACKETS as u64, bytes), "{way}");
        let content = fs::read(&output).unwrap();
        let rows = records::csv(&content);
        assert_eq!(rows.len() as u64, summary.number("/flows"), "{way}");
        let in_records: u64 = rows.iter().map(|row| records::number(row, "packets")).sum();
        assert_eq!(in_records, summary.number("/books/in_flows"), "{way}");
        assert!(in_records > PACKETS as u64 / 2, "{in_records}");
        if !way.contains("--max-flows") {
            outputs.push(content);
        }
    }
    assert!(outputs.iter().all(|output| *output == outputs[0]));
}
