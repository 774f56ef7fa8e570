//! Tests of `gen`: `watch` reads what it reports to have sent, in files and over cables; it counts
//! loss, reordering and connections. Tests over cables need root.

use crate::captures;
use crate::command::{Outcome, Running, run, watch};
use crate::namespace::Cable;
use crate::records::{self, Row};
use crate::summary::Summary;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Returns `flowatch gen` with these flags.
fn generate(flags: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowatch"));
    command.arg("gen").args(flags.split_whitespace());
    command.stdin(Stdio::null());
    command
}

/// Returns the summary of a run that succeeded.
#[track_caller]
fn summary(outcome: &Outcome) -> Summary {
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    Summary::parse(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
}

/// Packets and bytes by flow key.
type Flows = BTreeMap<Row, (u64, u64)>;

/// Returns packets and bytes by flow key, from a ground truth or CSV records.
fn by_key(rows: Vec<Row>) -> Flows {
    let mut flows = BTreeMap::new();
    for row in rows {
        let of = |name: &str| records::number(&row, name);
        let counts = (of("packets"), of("bytes"));
        let is_key = |name: &String| {
            name == "ipVersion"
                || name == "protocolIdentifier"
                || name.contains("Address")
                || name.contains("TransportPort")
        };
        let key = row.iter().filter(|(name, _)| is_key(name));
        let key: Row = key
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        assert_eq!(flows.insert(key, counts), None, "two rows of one flow");
    }
    flows
}

/// Writes a capture and its ground truth. Returns the truth, what `watch` reads, and the summary.
#[track_caller]
fn write_and_read(flags: &str) -> (Flows, Flows, Summary) {
    let directory = tempfile::tempdir().unwrap();
    let (capture, truth) = (
        directory.path().join("a.pcap"),
        directory.path().join("truth.csv"),
    );
    let mut command = generate(flags);
    command
        .arg("-w")
        .arg(&capture)
        .arg("--truth")
        .arg(&truth)
        .args(["--summary", "json"]);
    let summary = summary(&run(&mut command));
    let truth = by_key(records::csv(&fs::read(truth).unwrap()));
    let mut command = watch("-q --summary none --whole-flows -o csv -r");
    let read = by_key(records::csv(&run(command.arg(&capture)).quiet_success()));
    (truth, read, summary)
}

#[test]
fn records_of_a_written_capture_equal_the_truth() {
    for flags in [
        "--flows 500 --count 20000",
        "--flows 2^10 --zipf 1.1 --size imix --ip 4,6 --protocol udp,tcp --size 82=1,200=2,1518=1 --count 20000",
        "--flows 7 --round-robin --count 1000 --sequence --timestamps",
        "--flows 30 --rate-inverse --rate 2Gbps --duration 10ms",
        "--flows 100 --random ttl,dscp,id,payload --size 128 --count 5000 --seed 9",
        "--flows 50 --src 10.0.0.0/24 --dst 10.1.0.1 --dport 80 --protocol tcp --count 3000",
    ] {
        // `--size` may be given only once: remove the first.
        let flags = flags.replace("--size imix ", "");
        let (truth, read, summary) = write_and_read(&flags);
        assert_eq!(truth, read, "{flags}");
        let total: u64 = truth.values().map(|(packets, _)| packets).sum();
        assert_eq!(summary.number("/sent"), total, "{flags}");
        assert_eq!(summary.number("/intended"), total, "{flags}");
        assert_eq!(summary.number("/shortfall"), 0, "{flags}");
    }
}

/// 64 bytes including the FCS are too few for IPv6 and its payload.
#[test]
fn imix_minimum_size_fits_the_headers() {
    for (flags, least) in [
        ("--ip 4", 60),
        ("--ip 6", 62),
        ("--ip 4,6 --protocol udp,tcp", 74),
        ("--ip 6 --protocol tcp --sequence", 84),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let capture = directory.path().join("a.pcap");
        let flags = format!("-q --size imix -c 1200 {flags} -w {}", capture.display());
        assert_eq!(run(&mut generate(&flags)).code, Some(0), "{flags}");
        let mut bytes = fs::read(&capture).unwrap();
        // Pretend that it has microseconds: times do not matter here.
        bytes[..4].copy_from_slice(&0xa1b2_c3d4_u32.to_le_bytes());
        let frames = captures::read(&bytes);
        let share = |length: usize| {
            let lengths = frames.iter().map(|frame| frame.bytes.len());
            lengths.filter(|found| *found == length).count()
        };
        // Expected: 700, 400 and 100 of 1200, with standard deviations of at most 18.
        let shares = [share(least), share(590), share(1514)];
        assert_eq!(shares.iter().sum::<usize>(), 1200, "{flags}: {shares:?}");
        for (share, expected) in shares.into_iter().zip([700, 400, 100]) {
            assert!(share.abs_diff(expected) < 90, "{flags}: {shares:?}");
        }
    }
}

#[test]
fn round_robin_is_even_and_count_is_exact() {
    let (truth, _, _) = write_and_read("--flows 100 --round-robin --count 12345");
    assert!(
        truth
            .values()
            .all(|&(packets, bytes)| (123..=124).contains(&packets) && bytes == packets * 60)
    );
    // 2 Gbit/s at layer 1 for 10 ms are 20,000,000 bits of 672 per frame; the first is due at once.
    let (truth, _, _) = write_and_read("--flows 10 --rate 2Gbps --duration 10ms");
    let total: u64 = truth.values().map(|(packets, _)| packets).sum();
    assert_eq!(total, 20_000_000 / 672 + 1);
}

#[test]
fn same_seed_gives_the_same_bytes() {
    let bytes = |flags: &str| {
        let outcome = run(&mut generate(&format!(
            "-w - -q --summary none --count 500 {flags}"
        )));
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
        outcome.stdout
    };
    let first = bytes("--zipf 1 --seed 7 --timestamps");
    assert_eq!(first.len(), 24 + 500 * (16 + 60));
    assert_eq!(bytes("--zipf 1 --seed 7 --timestamps"), first);
    assert_ne!(bytes("--zipf 1 --seed 8 --timestamps"), first);
}

#[test]
fn share_of_packets_matches_the_filter() {
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("a.pcap");
    let mut command = generate("--flows 1000 --count 20000 --summary json");
    command
        .args(["--match", "udp dst port 320=30%", "-w"])
        .arg(&capture);
    let sent = summary(&run(&mut command));
    let matching = sent.number("/packets_by_kind/matching IPv4 UDP");
    let mut command = watch("-q --summary json -r");
    let outcome = run(command.arg(&capture).args(["udp", "dst", "port", "320"]));
    assert_eq!(Summary::balanced(&outcome).number("/packets"), matching);
    // 30 % of 20,000 with a fixed seed: within five standard deviations.
    assert!(matching.abs_diff(6000) < 325, "{matching}");
}

#[test]
fn replay_sends_copies_of_the_capture() {
    let example = captures::example();
    let (once, read, _) = write_and_read(&format!("--replay {}", example.display()));
    assert_eq!(once, read);
    let flags = format!(
        "--replay {} --copies 4 --copy-shift 65536 --loop 3",
        example.display()
    );
    let (truth, read, summary) = write_and_read(&flags);
    assert_eq!(truth, read);
    assert_eq!(summary.number("/sent"), 548 * 12);
    assert_eq!(truth.len(), 4 * once.len());
    let packets = |flows: &Flows| flows.values().map(|flow| flow.0).sum::<u64>();
    assert_eq!(packets(&truth), 12 * packets(&once));
    // It takes the duration of the capture, and a quarter of that at four times the speed.
    let seconds = |flags: &str| {
        let (_, _, summary) = write_and_read(&format!("--replay {} {flags}", example.display()));
        summary.at("/seconds").as_f64().unwrap()
    };
    let (captured, fast) = (seconds(""), seconds("--speed 4"));
    assert!((31.0..33.0).contains(&captured), "{captured}");
    assert!((captured / fast - 4.0).abs() < 1e-6, "{captured} {fast}");
}

#[test]
fn replay_reports_lateness_and_end_of_the_capture() {
    let flags = "-i null: --speed 1000 --count 5000 --summary json --replay";
    let outcome = run(generate(flags).arg(captures::example()));
    let report = summary(&outcome);
    assert_eq!(report.number("/sent"), 548);
    assert!(report.at("/lateness/max_ns").is_u64());
    assert!(
        outcome.stderr.contains("end after 548 packets: use --loop"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn sequence_numbers_reveal_missing_packets() {
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("a.pcap");
    run(generate("--flows 10 --count 1000 --timestamps -q -w").arg(&capture)).quiet_success();
    // Remove the 101st to 110th packet, and duplicate the last.
    let bytes = fs::read(&capture).unwrap();
    let record = 16 + 60;
    let at = |number: usize| 24 + number * record;
    let cut = [&bytes[..at(100)], &bytes[at(110)..], &bytes[at(999)..]].concat();
    fs::write(&capture, cut).unwrap();
    let mut command = generate("--receive --summary json --expect 1005 -r");
    let report = summary(&run(command.arg(&capture)));
    for (path, expected) in [
        ("/packets", 991),
        ("/distinct", 990),
        ("/lost", 15),
        ("/duplicates", 1),
        ("/reordered", 0),
        ("/latency/max_ns", 0),
    ] {
        assert_eq!(report.number(path), expected, "{path}");
    }
    let mut command = generate("--receive --fail-on-loss -r");
    let outcome = run(command.arg(&capture));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let text = String::from_utf8(outcome.stdout).unwrap();
    assert!(
        text.contains("lost") && text.contains("10  (1.0 %)"),
        "{text}"
    );
}

#[test]
fn reports_packets_truncated_by_the_snaplen() {
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("a.pcap");
    run(generate("--flows 10 --count 100 --sequence -q -w").arg(&capture)).quiet_success();
    let mut bytes = fs::read(&capture).unwrap();
    // The packets of 60 bytes exceed this snaplen.
    bytes[16..20].copy_from_slice(&50u32.to_le_bytes());
    fs::write(&capture, &bytes).unwrap();
    let longer = "packets longer than the snaplen in their file header: 100";
    let receive = "--receive --summary json -r";
    let replay = "-i null: --summary none --replay";
    for flags in [receive, replay] {
        let outcome = run(generate(flags).arg(&capture));
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert!(outcome.stderr.contains(longer), "{}", outcome.stderr);
    }
    // Truncate each packet just before its number.
    let frames: Vec<_> = bytes[24..].chunks(16 + 60).collect();
    let mut cut = bytes[..24].to_vec();
    for frame in frames {
        cut.extend_from_slice(&frame[..8]);
        cut.extend_from_slice(&44u32.to_le_bytes());
        cut.extend_from_slice(&frame[12..16 + 44]);
    }
    fs::write(&capture, cut).unwrap();
    let outcome = run(generate(receive).arg(&capture));
    assert_eq!(summary(&outcome).number("/other"), 100);
    assert!(
        outcome.stderr.contains(
            "the snaplen truncated 100 of the packets without a number; they may have had one"
        ),
        "{}",
        outcome.stderr
    );
}

#[test]
fn random_payload_after_a_sequence_number_gives_no_latency() {
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("a.pcap");
    let flags = "--flows 5 --count 100 --sequence --random payload --size 128 -q -w";
    run(generate(flags).arg(&capture)).quiet_success();
    let mut command = generate("--receive --summary json -r");
    let report = summary(&run(command.arg(&capture)));
    assert_eq!(
        (report.number("/packets"), report.number("/lost")),
        (100, 0)
    );
    assert_eq!(report.number("/before_sent"), 0);
    assert!(report.at("/latency").is_null());
}

/// Starts a command in a namespace, and waits until it has opened its interface.
fn listen(namespace: &crate::namespace::Namespace, command: &Command) -> Running {
    let mut running = Running::start(&mut namespace.command_inside(command));
    running.wait_for_line(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    running
}

#[test]
fn records_equal_the_truth_over_a_cable() {
    let cable = Cable::new();
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("flows.csv");
    let truth = directory.path().join("truth.csv");
    let flags = format!(
        "-i right --interval 20ms --summary json --whole-flows -o csv:{}",
        output.display()
    );
    let mut watching = Running::start(&mut cable.receiver.command_inside(&watch(&flags)));
    watching.wait_for_packets(0);
    let mut command = generate(
        "-i left --flows 300 --zipf 1 --ip 4,6 --size 128,1500 --rate 20Kpps --count 5000 --summary json --truth",
    );
    let sent = summary(&run(&mut cable.sender.command_inside(command.arg(&truth))));
    assert_eq!((sent.number("/sent"), sent.number("/shortfall")), (5000, 0));
    watching.wait_for_packets(5000);
    watching.signal("INT");
    let outcome = watching.finish();
    assert_eq!(Summary::balanced(&outcome).number("/books/processed"), 5000);
    assert_eq!(
        by_key(records::csv(&fs::read(output).unwrap())),
        by_key(records::csv(&fs::read(truth).unwrap()))
    );
}

#[test]
fn numbered_packets_and_connections_cross_a_cable_completely() {
    let cable = Cable::new();
    let receive = generate("--receive -i right --expect 3000 --interval 20ms --summary json");
    let receiving = listen(&cable.receiver, &receive);
    let send = generate("-i left --timestamps --rate 20Kpps --count 3000 --summary json");
    let sent = summary(&run(&mut cable.sender.command_inside(&send)));
    assert_eq!(sent.number("/sent"), 3000);
    // It ends by itself when the last packet has arrived.
    let received = summary(&receiving.finish());
    assert_eq!(
        (received.number("/packets"), received.number("/lost")),
        (3000, 0)
    );
    assert_eq!(received.number("/duplicates"), 0);
    assert!(received.number("/latency/max_ns") > 0);

    let echo = generate("--echo -i right --interval 20ms --summary json");
    let echoing = listen(&cable.receiver, &echo);
    let clients = generate("--clients 20 -c 200 -i left --summary json");
    let clients = summary(&run(&mut cable.sender.command_inside(&clients)));
    assert_eq!(
        (clients.number("/started"), clients.number("/completed")),
        (200, 200)
    );
    assert_eq!(clients.number("/wrong_bytes"), 0);
    assert_eq!(clients.number("/echoed_bytes"), 200 * 512);
    echoing.signal("INT");
    let served = summary(&echoing.finish());
    assert_eq!(served.number("/accepted"), 200);
    assert_eq!(served.number("/echoed_bytes"), 200 * 512);
}

#[test]
fn signal_ends_a_run_with_a_complete_report() {
    let directory = tempfile::tempdir().unwrap();
    let truth = directory.path().join("truth.csv");
    let mut command =
        generate("-i null: --flows 20 --rate 100Kpps --interval 10ms --summary json --truth");
    let mut running = Running::start(command.arg(&truth));
    let at_least = |line: &str| {
        let count = line.split_whitespace().nth(1).unwrap_or("");
        count
            .replace(',', "")
            .parse::<u64>()
            .is_ok_and(|count| count > 100)
    };
    running.wait_for_line(at_least);
    running.signal("INT");
    let report = summary(&running.finish());
    assert!(report.number("/sent") > 100);
    let parts = ["/sent", "/refused", "/skipped", "/unsent"].map(|path| report.number(path));
    assert_eq!(parts.iter().sum::<u64>(), report.number("/intended"));
    let truth = by_key(records::csv(&fs::read(truth).unwrap()));
    assert_eq!(
        truth.values().map(|flow| flow.0).sum::<u64>(),
        report.number("/sent")
    );
}

#[test]
fn closed_reader_of_a_capture_is_no_error() {
    let mut running = Running::start(&mut generate("-w - --count 1000000 --summary none"));
    drop(running.stdout());
    let outcome = running.finish();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
}

#[test]
fn bad_input_is_reported_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("none/a.pcap");
    let missing = missing.display().to_string();
    let refused = |flags: &str, more: &[&str], words: &str| {
        let outcome = run(generate(flags).args(more));
        assert_eq!(outcome.code, Some(2), "{flags}: {outcome:?}");
        assert!(outcome.stdout.is_empty(), "{flags}");
        assert!(
            outcome.stderr.contains(words),
            "{flags}: {}",
            outcome.stderr
        );
        assert!(!outcome.stderr.contains("panicked"), "{flags}");
        assert_eq!(
            outcome.stderr.lines().count(),
            1,
            "{flags}: {}",
            outcome.stderr
        );
        outcome.stderr
    };
    for (flags, words) in [
        ("", "nowhere to send to"),
        ("-i null: -w x.pcap", "-i and -w together"),
        ("-w x.pcap", "-w needs a limit"),
        ("-i null: --rate fast", "invalid rate"),
        ("-i null: --rate 0pps", "invalid rate"),
        ("-i null: --rate 50%", "--link-speed"),
        (
            "-i null: --rate 50% --link-speed 5pps",
            "write a speed such as 10Gbps",
        ),
        ("-i null: --size 63", "use 64 to"),
        ("-i null: --size big", "invalid frame size"),
        ("-i null: --zipf nan", "Zipf exponent"),
        ("-i null: --timestamps --protocol tcp", "at least 76"),
        ("-i null: --ip 6", "at least 66"),
        ("-i null: --src 10.0.0.0/40", "invalid address range"),
        ("-i null: --src 10.0.0.1 --src 10.0.0.2", "given twice"),
        ("-i null: --src ::1 --ip 4", "IPv6 is not enabled"),
        ("-i null: --random sport --truth x", "flow of its own"),
        ("-i null: --random colour", "invalid field"),
        ("-i null: --when-late skip", "needs a --rate"),
        ("-i null: --when-late later", "catch-up, skip"),
        ("-i null: --match tcp", "a filter and a share"),
        ("-i null: --match tcp=200%", "a filter and a share"),
        ("-i null: --match icmp=1%", "is not supported"),
        ("-i null: --match udp=50%", "all other flows also match"),
        ("-i nothere0 -c 1", "no such interface"),
        ("-i null: --clients 5", "never answers"),
        ("--clients 5", "needs an interface"),
        (
            "-i lo --clients 5 --rate 5pps",
            "--rate is not for a closed loop",
        ),
        ("--receive", "nothing to receive from"),
        ("-i null: --replay /nowhere.pcap", "/nowhere.pcap"),
        (
            "-w /nowhere/x.pcap -c 1",
            "no such directory; create the parent directory first",
        ),
        ("-w / -c 1", "/: is a directory; specify a file in it"),
        (
            "-i null: -c 1 --truth /nowhere/truth.csv",
            "no such directory; create the parent directory first",
        ),
        ("-i null: -c 1 -- --no-huge", "EAL arguments"),
        (
            "-i null: -c 1 --cores 9999",
            "core 9999 is not available: this process may use",
        ),
    ] {
        let stderr = refused(flags, &[], words);
        assert_eq!(stderr.lines().count(), 1, "{stderr:?}");
        assert!(stderr.starts_with("flowatch: "), "{stderr:?}");
    }
    refused("-c 1 -w", &[&missing], &missing);
    refused("-i null: -c 1 --truth", &[&missing], &missing);
    // Contradictions that the flag parser finds.
    for flags in [
        "-i null: --uniform --zipf 1",
        "-i null: --replay x --zipf 1",
        "-i null: --speed 2",
        "-i null: --replay x --speed 2 --rate 5pps",
        "-i null: --flows 0",
        "-i null: --duration 0s",
        "-i null: --source-mac 1:2",
        "-i null: --receive --truth x",
        "-i null: --expect 5",
        "-w x --count 10 --expect 5",
        // Flags of generated packets, where packets are not generated.
        "-i null: --replay x --size 100",
        "-i null: --replay x --destination-mac 02:00:00:00:00:03",
        "-i null: --receive --flows 5",
        "-i null: --receive --sequence",
        "-i null: --clients 5 --zipf 1",
        "-i null: --echo --size 100",
    ] {
        refused(flags, &[], "flowatch: ");
    }
}

#[test]
fn frame_beyond_the_mtu_reports_the_mtu_needed() {
    let cable = Cable::new();
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("long.pcap");
    let mut frames = captures::read(&fs::read(captures::example()).unwrap());
    for (at, length) in [(1, 9100), (3, 9600), (5, 9200)] {
        frames[at].bytes.resize(length, 0);
        frames[at].wire_length = length as u32;
    }
    captures::write(&capture, 1, &frames[..10]);
    let mut command = generate("-i left --speed max --replay");
    command.arg(&capture);
    let outcome = run(&mut cable.sender.command_inside(&command));
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    for words in [
        "a frame of 9100 bytes exceeds the MTU",
        "the longest frame has 9600 bytes and needs mtu 9586",
    ] {
        assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
    }
}

#[test]
fn null_sink_accepts_all_and_truth_on_standard_output_is_clean() {
    let outcome = run(&mut generate("-i null: --flows 5 --count 1000 --truth -"));
    assert_eq!(outcome.code, Some(0));
    assert!(
        outcome.stderr.contains("1,000 packets"),
        "{}",
        outcome.stderr
    );
    let truth = by_key(records::csv(&outcome.stdout));
    assert_eq!(truth.values().map(|flow| flow.0).sum::<u64>(), 1000);
    assert!(Path::new("/dev/full").exists());
    let outcome = run(&mut generate("-w /dev/full --count 100000"));
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(
        outcome
            .stderr
            .contains("/dev/full: no space left on the device"),
        "{}",
        outcome.stderr
    );
}
