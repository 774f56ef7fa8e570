//! Live capture between two namespaces: a replayed capture gives the same records as the file, VLAN
//! tags included, and packets dropped by the kernel are counted exactly. Needs root.

use crate::captures::{self, ETHERNET, Endpoints, Frame};
use crate::command::{Outcome, Running, named_pipe, run, watch};
use crate::namespace::{Cable, Namespace};
use crate::records::{self, Row};
use crate::summary::Summary;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

/// Flags of every live run. Progress lines show when it is ready and what it has received.
const LIVE: &str = "--interval 20ms --summary json --whole-flows";

/// Packets of the flood that forces drops.
const FLOOD: u64 = 300_000;

/// Returns the frames that the cable transmits unchanged: not truncated, with an Ethernet header, and
/// no longer than its MTU (plus a VLAN tag).
fn transmittable(frames: Vec<Frame>) -> Vec<Frame> {
    let fits = |frame: &Frame| {
        frame.bytes.len() == frame.wire_length as usize
            && (14..=14 + Cable::MTU).contains(&frame.bytes.len())
    };
    frames.into_iter().filter(fits).collect()
}

/// Starts the command on the cable, and waits until it receives.
pub(crate) fn listen(cable: &Cable, flags: &str) -> Running {
    let command = watch(&format!("-i right {LIVE} {flags}"));
    let mut running = Running::start(&mut cable.receiver.command_inside(&command));
    // The ports are open before the first progress line.
    running.wait_for_packets(0);
    running
}

/// Replays a capture to a running command, and stops it.
fn record(cable: &Cable, capture: &Path, packets: u64, flags: &str) -> (Summary, Vec<Row>) {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("flows.csv");
    let flags = format!("{flags} -o csv:{}", output.display());
    let mut running = listen(cable, &flags);
    assert_eq!(cable.replay(capture, 1), packets);
    running.wait_for_packets(packets);
    running.signal("INT");
    let outcome = running.finish();
    let summary = Summary::balanced(&outcome);
    assert_eq!(outcome.code, Some(0), "{flags}: {outcome:?}");
    assert_eq!(summary.number("/books/received"), packets, "{flags}");
    assert_eq!(summary.number("/books/processed"), packets, "{flags}");
    (summary, records::csv(&fs::read(output).unwrap()))
}

/// Returns the columns of records that do not depend on time, by key. Adds up the parts of a flow
/// that the kernel distributed to several queues.
fn without_times(rows: Vec<Row>) -> BTreeMap<Row, Row> {
    const KEY: [&str; 10] = [
        "ipVersion",
        "sourceIPv4Address",
        "destinationIPv4Address",
        "sourceIPv6Address",
        "destinationIPv6Address",
        "sourceTransportPort",
        "destinationTransportPort",
        "protocolIdentifier",
        "dot1qVlanId",
        "dot1qCustomerVlanId",
    ];
    const SUMS: [&str; 6] = [
        "packets",
        "bytes",
        "packetDeltaCount",
        "reversePacketDeltaCount",
        "layer2OctetDeltaCount",
        "reverseLayer2OctetDeltaCount",
    ];
    const FLAGS: [&str; 2] = ["tcpControlBits", "reverseTcpControlBits"];
    let mut flows: BTreeMap<Row, Row> = BTreeMap::new();
    for row in rows {
        let part = |names: &[&str]| -> Row {
            let columns = names
                .iter()
                .filter_map(|&name| Some((name, row.get(name)?)));
            columns
                .map(|(name, value)| (name.to_owned(), value.clone()))
                .collect()
        };
        let flow = flows.entry(part(&KEY)).or_default();
        let add = |flow: &mut Row, name: &str, sum: fn(u64, u64) -> u64| {
            if row.contains_key(name) {
                let sum = sum(records::number(flow, name), records::number(&row, name));
                flow.insert(name.to_owned(), sum.to_string());
            }
        };
        SUMS.iter().for_each(|name| add(flow, name, |a, b| a + b));
        FLAGS.iter().for_each(|name| add(flow, name, |a, b| a | b));
    }
    flows
}

/// Returns the records of reading the file.
fn expected(capture: &Path, flags: &str) -> Vec<Row> {
    let mut command = watch("-q --summary none --whole-flows -o csv");
    command
        .args(flags.split_whitespace())
        .arg("-r")
        .arg(capture);
    records::csv(&run(&mut command).quiet_success())
}

/// Replays `frames`, and compares the records with those of the file, with each set of flags.
fn assert_live_equals_file(frames: &[Frame], variants: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("replayed.pcap");
    captures::write(&capture, ETHERNET, frames);
    let cable = Cable::new();
    for flags in variants {
        let (_, rows) = record(&cable, &capture, frames.len() as u64, flags);
        let flow_flags = flags.split("--queues").next().unwrap();
        let flow_flags = flow_flags.split("--model").next().unwrap();
        let expected = expected(&capture, flow_flags);
        // With several queues, the fanout may split a flow into several records.
        if !flags.contains("--queues") {
            assert_eq!(rows.len(), expected.len(), "{flags}");
        }
        let (found, expected) = (without_times(rows), without_times(expected));
        assert_eq!(found, expected, "{flags}");
    }
}

#[test]
fn replayed_capture_gives_the_same_records_as_the_file() {
    let frames = transmittable(captures::read(&fs::read(captures::example()).unwrap()));
    // All except frames that exceed the MTU or are truncated.
    assert!(frames.len() > 540, "{}", frames.len());
    assert_live_equals_file(
        &frames,
        &[
            "--flow 5tuple",
            "--flow bidirectional",
            "--flow bidirectional --queues 2",
            "--flow 5tuple --model pipeline --monitors 2 --ring 1_000_000",
            "--flow bidirectional --decapsulate --model pipeline",
        ],
    );
}

#[test]
fn live_frames_keep_their_vlan_tags() {
    let frames = transmittable(captures::read(&fs::read(captures::example()).unwrap()));
    assert_live_equals_file(&frames, &["--flow 5tuple --vlan", "--flow src --vlan"]);
    // Some frames have two tags.
    let rows = expected(&captures::example(), "--vlan");
    let tags: Vec<_> = rows
        .iter()
        .filter(|row| row.contains_key("dot1qCustomerVlanId"))
        .collect();
    assert!(!tags.is_empty());
}

#[test]
fn replayed_large_capture_gives_the_same_records_as_the_file() {
    let frames = captures::read(&fs::read(&captures::large().path).unwrap());
    let frames = transmittable(frames[..60_000].to_vec());
    assert!(frames.len() > 58_000, "{}", frames.len());
    assert_live_equals_file(
        &frames,
        &[
            "--flow bidirectional --vlan",
            "--flow 5tuple --queues 2",
            "--flow bidirectional --model pipeline --monitors 2 --ring 1_000_000",
        ],
    );
}

#[test]
fn source_on_both_queues_gives_one_record() {
    let frames = transmittable(captures::read(&fs::read(captures::example()).unwrap()));
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("replayed.pcap");
    captures::write(&capture, ETHERNET, &frames);
    let of_file = expected(&capture, "--flow src");
    // The kernel distributes packets by connection, so a source with several is on both queues.
    for flags in [
        "--flow src --queues 2",
        "--flow src --queues 2 --model cooperative --buffer 16MiB",
    ] {
        let cable = Cable::new();
        let (summary, rows) = record(&cable, &capture, frames.len() as u64, flags);
        assert_eq!(rows.len(), of_file.len(), "{flags}");
        assert_eq!(
            without_times(rows),
            without_times(of_file.clone()),
            "{flags}"
        );
        assert_eq!(summary.number("/flows"), of_file.len() as u64);
        assert!(summary.number("/merged") > 0, "{flags}");
    }
}

#[test]
fn live_filter_counts_filtered_packets() {
    let frames = transmittable(captures::read(&fs::read(captures::example()).unwrap()));
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("replayed.pcap");
    captures::write(&capture, ETHERNET, &frames);
    let of_file = run(watch("-q --summary json")
        .arg("-r")
        .arg(&capture)
        .args(["tcp", "port", "80"]));
    let of_file = Summary::balanced(&of_file);
    let cable = Cable::new();
    let command = watch(&format!("-i right {LIVE} tcp port 80"));
    let mut running = Running::start(&mut cable.receiver.command_inside(&command));
    running.wait_for_packets(0);
    assert_eq!(cable.replay(&capture, 1), frames.len() as u64);
    running.wait_for_packets(of_file.number("/packets"));
    running.signal("TERM");
    let summary = Summary::balanced(&running.finish());
    for path in ["/packets", "/bytes", "/flows"] {
        assert_eq!(summary.number(path), of_file.number(path), "{path}");
    }
}

/// Writes a capture of 1,000 small datagrams that belong to `flows` flows.
fn flood(flows: u32) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("flood.pcap");
    let frames: Vec<Frame> = (0..1000)
        .map(|number: u32| {
            let bytes = captures::udp(Endpoints {
                source: 0x0a00_0001,
                destination: 0x0a00_0002,
                source_port: 1024 + (number % flows) as u16,
                destination_port: 9,
            });
            Frame::whole(1_000_000_000 + i64::from(number) * 1000, bytes)
        })
        .collect();
    captures::write(&capture, ETHERNET, &frames);
    (directory, capture)
}

/// Sends a flood while the command is stopped, so that its ring overflows. Returns the outcome.
fn overflow_ring(flags: &str) -> (Outcome, Summary, u64) {
    let (_directory, capture) = flood(64);
    let cable = Cable::new();
    let mut running = listen(&cable, &format!("--ring-memory 1 {flags}"));
    running.signal("STOP");
    let sent = cable.replay(&capture, (FLOOD / 1000) as u32);
    running.signal("CONT");
    assert_eq!(sent, FLOOD);
    running.wait_for_packets(sent);
    running.signal("INT");
    let outcome = running.finish();
    let summary = Summary::balanced(&outcome);
    (outcome, summary, sent)
}

#[test]
fn kernel_drops_are_counted_exactly() {
    for flags in ["", "--queues 2", "--model pipeline --monitors 2"] {
        let (outcome, summary, sent) = overflow_ring(flags);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let number = |path| summary.number(path);
        let dropped = number("/books/dropped/kernel");
        assert!(dropped > 0, "{flags}: the ring never filled");
        assert_eq!(number("/books/received"), sent, "{flags}");
        let lost = dropped + number("/books/dropped/ring");
        assert_eq!(number("/books/processed") + lost, sent, "{flags}");
        assert_eq!(
            number("/books/in_flows"),
            number("/books/processed"),
            "{flags}"
        );
        assert_eq!(
            number("/books/bytes/in_flows"),
            number("/books/in_flows") * 60,
            "{flags}"
        );
    }
}

/// The records are not read, and the small table evicts a flow for almost every packet.
#[test]
fn records_lost_by_a_slow_output_are_in_progress_lines() {
    let (directory, capture) = flood(1000);
    let pipe = named_pipe(directory.path());
    let path = pipe.clone();
    let opened = thread::spawn(move || fs::File::open(path).unwrap());
    let cable = Cable::new();
    let flags = format!("--max-flows 64 -o json:{}", pipe.display());
    let mut running = listen(&cable, &flags);
    let mut reader = opened.join().unwrap();
    cable.replay(&capture, (FLOOD / 1000) as u32);
    let reported = Cell::new(0);
    running.wait_for_line(|line| {
        let lost = line.split_whitespace().nth(8);
        reported.set(lost.and_then(|lost| lost.parse().ok()).unwrap_or(0));
        reported.get() > 0
    });
    running.signal("INT");
    let rest = thread::spawn(move || io::copy(&mut reader, &mut io::sink()));
    let outcome = running.finish();
    rest.join().unwrap().unwrap();
    let summary = Summary::balanced(&outcome);
    let lost = summary.number("/records_lost");
    assert!(
        (reported.get()..=FLOOD).contains(&lost),
        "{lost}: {outcome:?}"
    );
    assert_eq!(summary.number("/outputs/0/lost"), lost, "{outcome:?}");
    assert!(summary.number("/outputs/0/too_slow") > 0, "{outcome:?}");
}

/// The receiver accepts the connection and reads nothing, so the queue fills.
#[test]
fn records_lost_by_a_stuck_receiver_are_in_progress_lines_and_fail_on_loss() {
    let (directory, capture) = flood(1000);
    let path = directory.path().join("socket");
    let _listener = UnixListener::bind(&path).unwrap();
    let cable = Cable::new();
    let flags = format!(
        "--max-flows 64 --fail-on-loss -o json:unix:{}",
        path.display()
    );
    let mut running = listen(&cable, &flags);
    cable.replay(&capture, (FLOOD / 1000) as u32);
    running.wait_for_line(|line| {
        let lost = line.split_whitespace().nth(8);
        lost.and_then(|lost| lost.parse().ok()).unwrap_or(0) > 0
    });
    let stopped = Instant::now();
    running.signal("INT");
    let outcome = running.finish();
    assert!(stopped.elapsed() < Duration::from_secs(20));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let summary = Summary::balanced(&outcome);
    let number = |name: &str| summary.number(&format!("/outputs/0/{name}"));
    assert_eq!(number("written") + number("lost"), summary.number("/flows"));
    assert!(number("net/lost/queue_full") > 0, "{outcome:?}");
    assert!(number("net/lost/unsent") > 0, "{outcome:?}");
}

#[test]
fn fail_on_loss_exits_with_1() {
    let (outcome, summary, _) = overflow_ring("--fail-on-loss");
    assert!(summary.number("/books/dropped/kernel") > 0);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
}

#[test]
fn rejects_one_interface_by_two_names() {
    let namespace = Namespace::new();
    namespace.run("ip link add one numrxqueues 4 type veth peer name two numrxqueues 4");
    namespace.run("ip link property add dev one altname uplink");
    for (sources, words) in [
        ("-i one -i one@0", "-i one and -i one@0 are one interface"),
        ("-i one@1 -i one", "are one interface"),
        ("-i one -i uplink", "are one interface"),
        ("-i uplink@1 -i one@1", "are one interface"),
        ("-i one@1 -i one@01", "are one interface"),
    ] {
        let flags = format!("-q --summary none --duration 100ms {sources}");
        let outcome = run(&mut namespace.command_inside(&watch(&flags)));
        assert_eq!(outcome.code, Some(2), "{sources}: {outcome:?}");
        assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
    }
    for sources in ["-i one -i two", "-i one@0 -i uplink@1 -i two@0"] {
        let flags = format!("-q --summary none --duration 100ms {sources}");
        let outcome = run(&mut namespace.command_inside(&watch(&flags)));
        assert_eq!(outcome.code, Some(0), "{sources}: {outcome:?}");
    }
}

/// The run on the other interface may last for days, so the removal must be reported at once.
#[test]
fn removed_interface_is_reported_at_once_and_others_continue() {
    let namespace = Namespace::new();
    namespace.run("ip link add one type veth peer name two");
    namespace.run("ip link set one up");
    namespace.run("ip link set two up");
    for flags in ["--queues 2", "--model pipeline", "--buffer 16MiB"] {
        let command = watch(&format!("-i one -i lo {LIVE} {flags}"));
        let mut running = Running::start(&mut namespace.command_inside(&command));
        running.wait_for_packets(0);
        namespace.run("ip link del one");
        running.wait_for_line(|line| line.starts_with("flowatch: one: the interface was removed"));
        // An interface with the same name is created, but it is another one.
        namespace.run("ip link add one type veth peer name two");
        namespace.run("ip link set one up");
        namespace.run("ip link set two up");
        assert!(!running.has_exited(), "{flags}");
        running.signal("INT");
        let outcome = running.finish();
        assert_eq!(outcome.code, Some(2), "{flags}: {outcome:?}");
        let removed = outcome.stderr.matches("one: the interface was removed");
        assert_eq!(removed.count(), 1, "{flags}: {}", outcome.stderr);
        let summary = Summary::balanced(&outcome);
        let mut faults = summary.faults().into_iter();
        assert!(faults.any(|fault| fault.contains("was removed")));
    }
}
