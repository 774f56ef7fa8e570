//! The two directions of a link as two inputs (a TAP): joined, they give the records of the whole; not
//! joined, the command says so. The live tests need root.

use crate::analysis::{SECOND, START_NS, connection, endpoints, reversed, udp, write};
use crate::bad_input::assert_fails;
use crate::captures::{self, ETHERNET, Frame};
use crate::command::{Outcome, Running, named_pipe, run, watch};
use crate::namespace::Cable;
use crate::records::{self, Row};
use crate::summary::Summary;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Frames of the example at distinct times, as nothing else defines their order in two files.
fn example() -> Vec<Frame> {
    let mut frames = captures::read(&fs::read(captures::example()).unwrap());
    let mut earlier = 0;
    for frame in &mut frames {
        frame.time_ns = frame.time_ns.max(earlier + 1000);
        earlier = frame.time_ns;
    }
    frames
}

/// Whether a frame is of the first direction, by its MAC addresses.
fn is_forth(frame: &Frame) -> bool {
    frame.bytes[..6] < frame.bytes[6..12]
}

/// A directory with `whole`, and in `parts` its two directions, each in three files one after the other.
fn directory() -> (tempfile::TempDir, Vec<PathBuf>) {
    let directory = tempfile::tempdir().unwrap();
    let frames = example();
    captures::write(&directory.path().join("whole"), ETHERNET, &frames);
    fs::create_dir(directory.path().join("parts")).unwrap();
    let mut parts = Vec::new();
    for (name, forth) in [("rx", true), ("tx", false)] {
        let half: Vec<&Frame> = frames.iter().filter(|it| is_forth(it) == forth).collect();
        assert!(half.len() > 100);
        for (number, part) in half.chunks(half.len().div_ceil(3)).enumerate() {
            let path = directory.path().join(format!("parts/{name}-{number}.pcap"));
            captures::write(&path, ETHERNET, part.iter().copied());
            parts.push(path);
        }
    }
    (directory, parts)
}

fn read(files: &[&Path], flags: &str) -> Outcome {
    let mut command = watch("-q --summary none --sort -o csv");
    command.args(flags.split_whitespace());
    run(command.arg("-r").args(files))
}

/// The JSON summary of reading files.
fn summary(files: &[&Path], flags: &str) -> (Summary, Outcome) {
    let mut command = watch("-q --summary json");
    command.args(flags.split_whitespace());
    let outcome = run(command.arg("-r").args(files));
    (Summary::balanced(&outcome), outcome)
}

#[test]
fn joined_halves_give_the_records_of_the_whole() {
    let (directory, parts) = directory();
    let whole = directory.path().join("whole");
    // In an order that is none.
    let mut files: Vec<&Path> = parts.iter().map(PathBuf::as_path).collect();
    files.swap(0, 5);
    files.swap(1, 3);
    for flags in [
        "--flow 5tuple --statistics moments,gap-percentile=99",
        "--flow bidirectional --tcp-close 100ms --active-timeout 1s",
        "--statistics full",
        "--statistics full --decapsulate --idle-timeout 200ms",
        "--flow src",
        "-c 300",
    ] {
        let expected = read(&[&whole], flags).quiet_success();
        assert!(records::csv(&expected).len() > 5, "{flags}");
        for model in [
            "",
            "--queues 2",
            "--model pipeline --monitors 2",
            "--model cooperative",
            "--buffer 1MiB",
        ] {
            let flags = format!("{flags} {model} --join");
            assert!(read(&files, &flags).quiet_success() == expected, "{flags}");
        }
        let of_directory = read(
            &[&directory.path().join("parts")],
            &format!("{flags} --join"),
        );
        assert!(of_directory.quiet_success() == expected, "{flags}");
        let halves = read(&files, flags);
        assert!(
            halves.stdout != expected,
            "{flags}: joining changes nothing"
        );
    }
}

#[test]
fn books_balance_for_each_input_and_in_total() {
    let (_directory, parts) = directory();
    let files: Vec<&Path> = parts.iter().map(PathBuf::as_path).collect();
    let packets = example().len() as u64;
    for flags in ["", "--queues 2", "--model pipeline", "--buffer 1MiB", "udp"] {
        let (summary, outcome) = summary(&files, &format!("--join {flags}"));
        assert_eq!((outcome.code, &*outcome.stderr), (Some(0), ""), "{flags}");
        let inputs = summary.at("/join/inputs").as_array().unwrap();
        assert_eq!(inputs.len(), files.len(), "{flags}");
        let sum: u64 = inputs.iter().map(|it| it["joined"].as_u64().unwrap()).sum();
        assert_eq!(sum, packets, "{flags}");
        for input in inputs {
            assert_eq!(input["received"], input["joined"], "{flags} {input}");
        }
        let received = summary.number("/packets") + summary.number("/books/filtered");
        assert_eq!(received, packets, "{flags}");
        assert_eq!(*summary.at("/join/balanced"), true, "{flags}");
        assert_eq!(summary.number("/join/late"), 0, "{flags}");
        assert_eq!(summary.number("/join/unused"), 0, "{flags}");
    }
    let (summary, _) = summary(&files, "--join -c 100");
    assert_eq!(summary.number("/packets"), 100);
    assert_eq!(*summary.at("/join/balanced"), true);
}

#[test]
fn disorder_and_unreadable_files_are_counted() {
    let (directory, parts) = directory();
    let mut frames = captures::read(&fs::read(&parts[0]).unwrap());
    frames.swap(3, 4);
    let disordered = directory.path().join("disordered.pcap");
    captures::write(&disordered, ETHERNET, &frames);
    let (disorder, _) = summary(&[&disordered, &parts[3]], "--join");
    assert_eq!(disorder.number("/join/out_of_order"), 1);
    assert_eq!(disorder.number("/join/late"), 0);

    let cut = directory.path().join("cut.pcap");
    let bytes = fs::read(&parts[0]).unwrap();
    fs::write(&cut, &bytes[..bytes.len() - 5]).unwrap();
    let missing = directory.path().join("missing.pcap");
    let (unreadable, outcome) = summary(&[&missing, &cut, &parts[3]], "--join");
    assert_eq!(outcome.code, Some(2));
    assert!(
        outcome.stderr.contains("missing.pcap: no such file"),
        "{outcome:?}"
    );
    assert!(
        outcome.stderr.contains("truncated in a packet"),
        "{outcome:?}"
    );
    assert_eq!(unreadable.number("/unreadable"), 2);
    let expected = captures::read(&fs::read(&parts[3]).unwrap()).len() + frames.len() - 1;
    assert_eq!(unreadable.number("/packets"), expected as u64);
    let none = run(watch("-q --join -r").arg(&missing));
    assert_fails(&none, 2, &["missing.pcap: no such file"]);
}

#[test]
fn pipes_are_joined_too() {
    let (directory, parts) = directory();
    let whole = directory.path().join("whole");
    let expected = read(&[&whole], "--statistics full").quiet_success();
    let pipe = named_pipe(directory.path());
    let half = |name: &str| {
        let mut bytes = fs::read(&parts[if name == "rx" { 0 } else { 3 }]).unwrap();
        for number in 1..3 {
            let at = if name == "rx" { number } else { 3 + number };
            bytes.extend_from_slice(&fs::read(&parts[at]).unwrap()[24..]);
        }
        bytes
    };
    let rx = directory.path().join("rx");
    fs::write(&rx, half("rx")).unwrap();
    let tx = half("tx");
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || {
            use std::io::Write;
            let mut pipe = fs::File::options().write(true).open(pipe).unwrap();
            for part in tx.chunks(10_000) {
                pipe.write_all(part).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    });
    let mut command = watch("-q --summary none --sort -o csv --statistics full --join");
    command.stdin(Stdio::from(fs::File::open(&rx).unwrap()));
    let joined = run(command.arg("-r").arg("-").arg(&pipe));
    writer.join().unwrap();
    assert!(joined.quiet_success() == expected);
}

#[test]
fn inputs_with_the_same_conversations_are_noticed() {
    let (directory, parts) = directory();
    let halves: Vec<&Path> = parts.iter().map(PathBuf::as_path).collect();
    for flags in [
        "",
        "--queues 2",
        "--model pipeline",
        "--statistics full",
        "--flow src",
    ] {
        let (found, outcome) = summary(&halves, flags);
        assert_eq!(outcome.code, Some(0), "{flags}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{flags}: {outcome:?}");
        assert!(outcome.stderr.contains("use --join"), "{outcome:?}");
        let names = found.at("/shared_inputs").as_array().unwrap();
        assert!(names[0].as_str().unwrap().contains("/rx-"), "{names:?}");
        assert!(names[1].as_str().unwrap().contains("/tx-"), "{names:?}");
    }
    // The files of one direction follow each other, and other links have other conversations.
    let other = directory.path().join("other.pcap");
    let shifted = example().into_iter().map(|mut frame| {
        traffic::shift_addresses(&mut frame.bytes, 1);
        frame
    });
    captures::write(&other, ETHERNET, &shifted.collect::<Vec<_>>());
    for files in [&halves[..3], &[halves[0], &other], &[&other]] {
        let (_, outcome) = summary(files, "");
        assert_eq!(outcome.stderr, "", "{files:?}");
    }
}

#[test]
fn contradictory_flags_are_refused() {
    for (flags, words) in [
        ("-i lo --join", "--join needs at least two inputs"),
        ("-r x --join=5ms", "--join=WINDOW is for interfaces"),
        ("-i lo -i x --join=2s", "from 1ms to 1s"),
        (
            "-i dpdk:a -i dpdk:b --join --queues 2",
            "use --model pipeline with --monitors",
        ),
    ] {
        assert_fails(&run(&mut watch(&format!("-q {flags}"))), 2, &[words]);
    }
}

/// Conversations of clients in 10.0.0.0/8 with a server.
fn conversations(path: &Path) -> u64 {
    let mut frames = Vec::new();
    for client in 1..=100 {
        frames.extend(connection(
            client,
            80,
            b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
        ));
        let ends = endpoints(client, 5000);
        frames.push((
            START_NS + i64::from(client) * SECOND + 5000,
            udp(ends, b"ask"),
        ));
        let answer = udp(reversed(ends), b"answer");
        frames.push((START_NS + i64::from(client) * SECOND + 6000, answer));
    }
    let count = frames.len() as u64;
    write(path, frames);
    count
}

/// Two cables, on which tcpreplay sends the two directions of a capture in the order of the capture.
struct Tap {
    cable: Cable,
    directory: tempfile::TempDir,
    packets: u64,
}

impl Tap {
    fn new() -> Self {
        let cable = Cable::new();
        cable.connect("left2", "right2");
        let directory = tempfile::tempdir().unwrap();
        let packets = conversations(&directory.path().join("whole"));
        let mut command = Command::new("tcpprep");
        command
            .arg("--cidr=10.0.0.0/8")
            .arg("--pcap")
            .arg(directory.path().join("whole"));
        command
            .arg("--cachefile")
            .arg(directory.path().join("cache"));
        cable.sender.output(&command);
        Self {
            cable,
            directory,
            packets,
        }
    }

    fn whole(&self) -> PathBuf {
        self.directory.path().join("whole")
    }

    fn start(&self, flags: &str) -> Running {
        let command = watch(&format!(
            "-i right -i right2 --interval 20ms --summary json --whole-flows {flags}"
        ));
        let mut running = Running::start(&mut self.cable.receiver.command_inside(&command));
        running.wait_for_packets(0);
        running
    }

    fn replay(&self) {
        let mut command = Command::new("tcpreplay");
        command.args([
            "--intf1",
            "left",
            "--intf2",
            "left2",
            "--pps",
            "2000",
            "--cachefile",
        ]);
        command
            .arg(self.directory.path().join("cache"))
            .arg(self.whole());
        self.cable.sender.output(&command);
    }

    /// Starts the command, replays, and stops it. Returns its records, too.
    fn record(&self, flags: &str) -> (Summary, Outcome, Vec<Row>) {
        let records = tempfile::tempdir().unwrap();
        let output = records.path().join("flows.csv");
        let mut running = self.start(&format!("{flags} -o csv:{}", output.display()));
        self.replay();
        running.wait_for_packets(self.packets);
        running.signal("INT");
        let outcome = running.finish();
        let rows = records::csv(&fs::read(&output).unwrap());
        (Summary::balanced(&outcome), outcome, rows)
    }
}

/// Values that do not depend on time, by conversation. A flow has one record.
fn timeless(rows: &[Row], names: &[&str]) -> BTreeMap<Vec<String>, Vec<String>> {
    let part = |row: &Row, names: &[&str]| -> Vec<String> {
        let values = names
            .iter()
            .map(|&name| row.get(name).cloned().unwrap_or_default());
        values.collect()
    };
    let key = [
        "sourceIPv4Address",
        "destinationIPv4Address",
        "sourceTransportPort",
        "destinationTransportPort",
    ];
    let by_key = rows.iter().map(|row| (part(row, &key), part(row, names)));
    let flows: BTreeMap<_, _> = by_key.collect();
    assert_eq!(flows.len(), rows.len(), "a flow has several records");
    flows
}

#[test]
fn joined_interfaces_give_the_records_of_the_whole() {
    const COUNTS: [&str; 6] = [
        "packets",
        "bytes",
        "packetDeltaCount",
        "reversePacketDeltaCount",
        "tcpControlBits",
        "reverseTcpControlBits",
    ];
    const ANALYSIS: [&str; 8] = [
        "packetDeltaCount",
        "reversePacketDeltaCount",
        "tcpHandshakeComplete",
        "tcpMissingBytes",
        "reverseTcpMissingBytes",
        "tcpRttSamples",
        "httpRequestHost",
        "firstPacketDirections",
    ];
    let tap = Tap::new();
    for (flags, names) in [
        ("--flow 5tuple", &COUNTS[..]),
        ("--flow bidirectional --queues 2", &COUNTS),
        (
            "--flow bidirectional --model pipeline --monitors 2",
            &COUNTS,
        ),
        ("--statistics full", &ANALYSIS),
        ("--statistics full --queues 2", &ANALYSIS),
        ("--statistics full --buffer 1MiB", &ANALYSIS),
    ] {
        let (summary, outcome, rows) = tap.record(&format!("{flags} --join=100ms"));
        assert_eq!(outcome.code, Some(0), "{flags}: {outcome:?}");
        assert!(!outcome.stderr.contains("--join"), "{flags}: {outcome:?}");
        assert_eq!(summary.number("/packets"), tap.packets, "{flags}");
        assert_eq!(*summary.at("/join/balanced"), true, "{flags}");
        assert_eq!(summary.number("/join/late"), 0, "{flags}");
        assert_eq!(summary.number("/clock_steps_forward"), 0, "{flags}");
        let file_flags = flags.split("--queues").next().unwrap();
        let file_flags = file_flags.split("--model").next().unwrap();
        let file_flags = file_flags.split("--buffer").next().unwrap();
        let file = read(&[&tap.whole()], &format!("--whole-flows {file_flags}"));
        let expected = records::csv(&file.quiet_success());
        assert_eq!(
            timeless(&rows, names),
            timeless(&expected, names),
            "{flags}"
        );
    }
}

#[test]
fn interfaces_with_the_same_conversations_are_noticed() {
    let tap = Tap::new();
    let mut running = tap.start("--statistics full");
    tap.replay();
    running.wait_for_line(|line| line.contains("use --join"));
    running.wait_for_packets(tap.packets);
    running.signal("INT");
    let outcome = running.finish();
    let summary = Summary::balanced(&outcome);
    assert_eq!(
        *summary.at("/shared_inputs"),
        serde_json::json!(["right", "right2"])
    );
    // A link that is silent at first has no clock that could step.
    assert_eq!(summary.number("/clock_steps_forward"), 0);

    // Two links with other conversations each.
    let mut running = tap.start("");
    let other = tap.directory.path().join("other");
    let shifted = captures::read(&fs::read(tap.whole()).unwrap())
        .into_iter()
        .map(|mut frame| {
            traffic::shift_addresses(&mut frame.bytes, 1);
            frame
        });
    captures::write(&other, ETHERNET, &shifted.collect::<Vec<_>>());
    let sent =
        tap.cable.replay_on("left", &tap.whole(), 1) + tap.cable.replay_on("left2", &other, 1);
    running.wait_for_packets(sent);
    running.signal("INT");
    let outcome = running.finish();
    assert!(!outcome.stderr.contains("--join"), "{outcome:?}");
}
