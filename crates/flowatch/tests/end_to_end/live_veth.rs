//! Live capture between two namespaces: what is replayed into a cable gives the records of the
//! file, with VLAN tags, and what the kernel drops stands in the books, to the packet. Needs root.

use crate::captures::{self, ETHERNET, Endpoints, Frame};
use crate::command::{Outcome, Running, named_pipe, run, watch};
use crate::namespace::{Cable, Namespace};
use crate::records::{self, Row};
use crate::summary::Summary;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io, thread};

/// Flags of every live run: progress tells when it listens and what it has received.
const LIVE: &str = "--interval 20ms --summary json --whole-flows";

/// Packets of the flood that drops are forced with.
const FLOOD: u64 = 300_000;

/// The frames of a capture that a cable carries as they are: captured whole, with addresses, and
/// no longer than its MTU (a VLAN tag more is let through).
fn carried(frames: Vec<Frame>) -> Vec<Frame> {
    let fits = |frame: &Frame| {
        frame.bytes.len() == frame.wire_length as usize
            && (14..=14 + Cable::MTU).contains(&frame.bytes.len())
    };
    frames.into_iter().filter(fits).collect()
}

/// Starts the command on the cable; it listens when this returns.
pub(crate) fn listen(cable: &Cable, flags: &str) -> Running {
    let command = watch(&format!("-i right {LIVE} {flags}"));
    let mut running = Running::start(&mut cable.receiver.within(&command));
    // The ports are open before the first line of progress.
    running.await_packets(0);
    running
}

/// Replays a capture into a listening command, and ends it.
fn record(cable: &Cable, capture: &Path, packets: u64, flags: &str) -> (Summary, Vec<Row>) {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("flows.csv");
    let flags = format!("{flags} -o csv:{}", output.display());
    let mut running = listen(cable, &flags);
    assert_eq!(cable.replay(capture, 1), packets);
    running.await_packets(packets);
    running.signal("INT");
    let outcome = running.finish();
    let summary = Summary::balanced(&outcome);
    assert_eq!(outcome.code, Some(0), "{flags}: {outcome:?}");
    assert_eq!(summary.number("/books/received"), packets, "{flags}");
    assert_eq!(summary.number("/books/processed"), packets, "{flags}");
    (summary, records::csv(&fs::read(output).unwrap()))
}

/// What of records does not depend on when packets came, by key. Parts of a flow that the kernel
/// gave to several queues are put together.
fn timeless(rows: Vec<Row>) -> BTreeMap<Row, Row> {
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

/// The records of reading the file.
fn expected(capture: &Path, flags: &str) -> Vec<Row> {
    let mut command = watch("-q --summary none --whole-flows -o csv");
    command
        .args(flags.split_whitespace())
        .arg("-r")
        .arg(capture);
    records::csv(&run(&mut command).quiet_success())
}

/// Replays `frames`, and compares the records with those of the file, for each of `ways`.
fn assert_live_equals_file(frames: &[Frame], ways: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("replayed.pcap");
    captures::write(&capture, ETHERNET, frames);
    let cable = Cable::new();
    for flags in ways {
        let (_, rows) = record(&cable, &capture, frames.len() as u64, flags);
        let flow_flags = flags.split("--queues").next().unwrap();
        let flow_flags = flow_flags.split("--model").next().unwrap();
        let expected = expected(&capture, flow_flags);
        // One thread keeps every flow in one record; the fanout of several may divide one.
        if !flags.contains("--queues") {
            assert_eq!(rows.len(), expected.len(), "{flags}");
        }
        let (found, expected) = (timeless(rows), timeless(expected));
        assert_eq!(found, expected, "{flags}");
    }
}

#[test]
fn a_replayed_capture_gives_the_records_of_the_file() {
    let frames = carried(captures::read(&fs::read(captures::example()).unwrap()));
    // All but what is longer than the MTU or was cut by a snap length.
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
fn vlan_tags_arrive_on_their_frames() {
    let frames = carried(captures::read(&fs::read(captures::example()).unwrap()));
    assert_live_equals_file(&frames, &["--flow 5tuple --vlan", "--flow src --vlan"]);
    // The two tags of the part that comes from VlanPackets, outer and inner.
    let rows = expected(&captures::example(), "--vlan");
    let tags: Vec<_> = rows
        .iter()
        .filter(|row| row.contains_key("dot1qCustomerVlanId"))
        .collect();
    assert!(!tags.is_empty());
}

#[test]
fn a_replayed_slice_of_busy_traffic_gives_the_records_of_the_file() {
    let frames = captures::read(&fs::read(&captures::busy().path).unwrap());
    let frames = carried(frames[..60_000].to_vec());
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
fn a_source_that_both_queues_see_is_one_record() {
    let frames = carried(captures::read(&fs::read(captures::example()).unwrap()));
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("replayed.pcap");
    captures::write(&capture, ETHERNET, &frames);
    let of_file = expected(&capture, "--flow src");
    // The kernel divides packets by connection: a source of several is in both queues.
    for flags in [
        "--flow src --queues 2",
        "--flow src --queues 2 --model cooperative --buffer 16MiB",
    ] {
        let cable = Cable::new();
        let (summary, rows) = record(&cable, &capture, frames.len() as u64, flags);
        assert_eq!(rows.len(), of_file.len(), "{flags}");
        assert_eq!(timeless(rows), timeless(of_file.clone()), "{flags}");
        assert_eq!(summary.number("/flows"), of_file.len() as u64);
        assert!(summary.number("/merged") > 0, "{flags}");
    }
}

#[test]
fn a_filter_on_a_link_leaves_out_and_counts() {
    let frames = carried(captures::read(&fs::read(captures::example()).unwrap()));
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
    let mut running = Running::start(&mut cable.receiver.within(&command));
    running.await_packets(0);
    assert_eq!(cable.replay(&capture, 1), frames.len() as u64);
    running.await_packets(of_file.number("/packets"));
    running.signal("TERM");
    let summary = Summary::balanced(&running.finish());
    for path in ["/packets", "/bytes", "/flows"] {
        assert_eq!(summary.number(path), of_file.number(path), "{path}");
    }
}

/// 1,000 small datagrams of so many flows.
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

/// A flood while the command stands still, so that its ring fills up; what it came to.
fn overrun(flags: &str) -> (Outcome, Summary, u64) {
    let (_directory, capture) = flood(64);
    let cable = Cable::new();
    let mut running = listen(&cable, &format!("--ring-memory 1 {flags}"));
    running.signal("STOP");
    let sent = cable.replay(&capture, (FLOOD / 1000) as u32);
    running.signal("CONT");
    assert_eq!(sent, FLOOD);
    running.await_packets(sent);
    running.signal("INT");
    let outcome = running.finish();
    let summary = Summary::balanced(&outcome);
    (outcome, summary, sent)
}

#[test]
fn what_the_kernel_drops_is_in_the_books_to_the_packet() {
    for flags in ["", "--queues 2", "--model pipeline --monitors 2"] {
        let (outcome, summary, sent) = overrun(flags);
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

/// Nobody reads the records, and a table for few flows makes one of almost every packet.
#[test]
fn records_that_an_output_is_too_slow_for_are_in_the_lines_of_progress() {
    let (directory, capture) = flood(1000);
    let pipe = named_pipe(directory.path());
    let place = pipe.clone();
    let opened = thread::spawn(move || fs::File::open(place).unwrap());
    let cable = Cable::new();
    let flags = format!("--max-flows 64 -o json:{}", pipe.display());
    let mut running = listen(&cable, &flags);
    let mut reader = opened.join().unwrap();
    cable.replay(&capture, (FLOOD / 1000) as u32);
    let told = Cell::new(0);
    running.await_line(|line| {
        let lost = line.split_whitespace().nth(8);
        told.set(lost.and_then(|lost| lost.parse().ok()).unwrap_or(0));
        told.get() > 0
    });
    running.signal("INT");
    let rest = thread::spawn(move || io::copy(&mut reader, &mut io::sink()));
    let outcome = running.finish();
    rest.join().unwrap().unwrap();
    let summary = Summary::balanced(&outcome);
    let lost = summary.number("/records_lost");
    assert!((told.get()..=FLOOD).contains(&lost), "{lost}: {outcome:?}");
    assert_eq!(summary.number("/outputs/0/lost"), lost, "{outcome:?}");
    assert!(summary.number("/outputs/0/too_slow") > 0, "{outcome:?}");
}

#[test]
fn a_loss_is_exit_status_1_where_that_is_wanted() {
    let (outcome, summary, _) = overrun("--fail-on-loss");
    assert!(summary.number("/books/dropped/kernel") > 0);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
}

#[test]
fn one_interface_by_two_names_is_refused() {
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
        let outcome = run(&mut namespace.within(&watch(&flags)));
        assert_eq!(outcome.code, Some(2), "{sources}: {outcome:?}");
        assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
    }
    for sources in ["-i one -i two", "-i one@0 -i uplink@1 -i two@0"] {
        let flags = format!("-q --summary none --duration 100ms {sources}");
        let outcome = run(&mut namespace.within(&watch(&flags)));
        assert_eq!(outcome.code, Some(0), "{sources}: {outcome:?}");
    }
}

/// The other interface may be watched for days: who looks at the first must know at once that it went.
#[test]
fn an_interface_that_is_removed_is_told_at_once_and_the_others_are_watched_on() {
    let namespace = Namespace::new();
    namespace.run("ip link add one type veth peer name two");
    namespace.run("ip link set one up");
    namespace.run("ip link set two up");
    for flags in ["--queues 2", "--model pipeline", "--buffer 16MiB"] {
        let command = watch(&format!("-i one -i lo {LIVE} {flags}"));
        let mut running = Running::start(&mut namespace.within(&command));
        running.await_packets(0);
        namespace.run("ip link del one");
        running.await_line(|line| line.starts_with("flowatch: one: the interface was removed"));
        // It is there again, and another one.
        namespace.run("ip link add one type veth peer name two");
        namespace.run("ip link set one up");
        namespace.run("ip link set two up");
        assert!(!running.has_ended(), "{flags}");
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
