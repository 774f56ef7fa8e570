//! `-i dpdk:…`: the records of a device are those of the capture behind it, books balance between two
//! processes, and what cannot be opened is said in a line. Debian's `dpdk-testpmd` is the generator
//! that is not ours. Needs the feature `dpdk`, and what `./setup --dpdk` installs.

use crate::captures;
use crate::command::{Outcome, Running, run, watch};
use crate::namespace::Cable;
use crate::records;
use crate::summary::Summary;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// EAL arguments of runs that need no huge pages. (The buffers of the default pool take 21 MiB.)
pub(crate) const NO_HUGE: &str = "-- --no-huge -m 96";

/// Frames with a length up to this fit one buffer, of which all is seen.
const BUFFER: usize = 2048;

/// Whether 32 MiB of huge pages could be had just now.
pub(crate) fn huge_pages() -> bool {
    let file = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
    let free = fs::read_to_string(file).unwrap_or_default();
    free.trim().parse::<u32>().unwrap_or(0) >= 48
}

/// The records of a run, without what depends on when it was.
fn timeless(outcome: Outcome) -> BTreeMap<String, u32> {
    let mut flows = BTreeMap::new();
    for mut row in records::csv(&outcome.quiet_success()) {
        row.retain(|name, _| {
            ["packets", "bytes", "tcpControlBits"].contains(&name.as_str())
                || ["Address", "Port", "protocol"]
                    .iter()
                    .any(|part| name.contains(part))
        });
        *flows.entry(format!("{row:?}")).or_default() += 1;
    }
    flows
}

/// The shipped capture without the frames that a device would put into several buffers.
fn capture(directory: &Path) -> (std::path::PathBuf, u64) {
    let frames = captures::read(&fs::read(captures::example()).unwrap());
    let whole = |frame: &captures::Frame| {
        frame.bytes.len() == frame.wire_length as usize && frame.bytes.len() <= BUFFER
    };
    let frames: Vec<_> = frames.into_iter().filter(whole).collect();
    let path = directory.join("device.pcap");
    captures::write(&path, captures::ETHERNET, &frames);
    (path, frames.len() as u64)
}

#[test]
fn a_capture_behind_a_device_gives_the_records_of_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let (path, packets) = capture(directory.path());
    let memory = if huge_pages() {
        ["", "-- -m 64", NO_HUGE].as_slice()
    } else {
        [NO_HUGE].as_slice()
    };
    for flags in [
        "--flow 5tuple",
        "--flow bidirectional --batch 1 --rx-ring 128",
        "--flow src --batch 4096",
        "--flow src-dst --model pipeline --ring 1_000_000 --pools shared",
    ] {
        let flow = flags.split("--batch").next().unwrap();
        let flow = flow.split("--model").next().unwrap();
        let expected = run(
            watch(&format!("-q --summary none --whole-flows -o csv {flow}"))
                .arg("-r")
                .arg(&path),
        );
        let expected = timeless(expected);
        for eal in memory {
            // The device itself never ends.
            let device = format!("-i dpdk:net_pcap0,rx_pcap={} -c {packets}", path.display());
            let live = format!("{device} -q --summary none --whole-flows -o csv {flags} {eal}");
            assert_eq!(timeless(run(&mut watch(&live))), expected, "{live}");
        }
    }
}

/// Packets alone, of a device that is asked for more at a time than are wanted.
#[test]
fn a_count_of_packets_is_exact_whatever_the_batch() {
    for (count, queues) in [
        (1, 1),
        (300, 1),
        (4095, 1),
        (4096, 1),
        (5000, 1),
        (100_000, 1),
        (1, 2),
        (5000, 2),
        (100_000, 2),
    ] {
        let command = format!(
            "-i dpdk:net_null0,size=60 --queues {queues} --level packet --batch 4096 -c {count} -q --summary json {}",
            NO_HUGE.replace("96", "256")
        );
        let outcome = run(&mut watch(&command));
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
        let summary = Summary::balanced(&outcome);
        assert_eq!(summary.number("/packets"), count, "{count}");
        assert_eq!(summary.number("/bytes"), count * 60, "{count}");
    }
}

#[test]
fn several_devices_and_queues_balance() {
    let command = format!(
        "-i dpdk:net_null0,size=60 -i dpdk:net_null1,size=1514 --queues 2 --pools shared --batch 64 \
         --level packet --duration 200ms -q --summary json {}",
        NO_HUGE.replace("96", "256")
    );
    let outcome = run(&mut watch(&command));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    let summary = Summary::balanced(&outcome);
    let names: Vec<_> = (0..4)
        .map(|queue| summary.at(&format!("/per_queue/{queue}/name")).clone())
        .collect();
    assert_eq!(
        names,
        [
            "dpdk:net_null0@0",
            "dpdk:net_null0@1",
            "dpdk:net_null1@0",
            "dpdk:net_null1@1"
        ]
    );
    for queue in 0..4 {
        assert!(summary.number(&format!("/per_queue/{queue}/received")) > 0);
        // It is offered and set up, and yet no packet has a hash.
        assert_eq!(summary.at(&format!("/per_queue/{queue}/rss")), "configured");
    }
    // The device's count, which stands with its first queue, is read when the last has ended.
    for first in [0, 2] {
        let read =
            [first, first + 1].map(|queue| summary.number(&format!("/per_queue/{queue}/received")));
        let delivered = summary.number(&format!("/per_queue/{first}/device/0"));
        assert_eq!(delivered, read[0] + read[1]);
    }
}

/// What a filter leaves out has been delivered all the same, and the log is there for who asks.
#[test]
fn a_device_stands_against_all_that_was_read_from_it() {
    let directory = tempfile::tempdir().unwrap();
    let (path, packets) = capture(directory.path());
    let command = watch(&format!(
        "-i dpdk:net_pcap0,rx_pcap={} -v --interval 20ms tcp {NO_HUGE}",
        path.display()
    ));
    let mut running = Running::start(&mut { command });
    running.await_line(|line| line.contains("EAL: "));
    running.await_packets(1);
    thread::sleep(Duration::from_millis(200));
    running.signal("INT");
    let outcome = running.finish();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let text = String::from_utf8(outcome.stdout).unwrap();
    let line = text
        .lines()
        .find(|line| line.contains("the device's own count"));
    let expected = format!(
        "  dpdk:net_pcap0: {packets} packets delivered by the device's own count, {packets} read from it, of which"
    );
    assert!(
        line.is_some_and(|line| line.starts_with(&expected)),
        "{text}"
    );
}

/// `flowatch gen` on a device.
fn generate(flags: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowatch"));
    command.arg("gen").args(flags.split_whitespace());
    command.stdin(Stdio::null());
    command
}

/// Packets and bytes of each flow, by its key in words.
pub(crate) type Flows = BTreeMap<Vec<String>, (u64, u64)>;

/// What a generator sent to another process, and what that one says of it.
pub(crate) struct Exchange {
    /// The generator's summary.
    pub(crate) sent: serde_json::Value,
    /// The watcher's, whose books balance.
    pub(crate) summary: Summary,
    /// And says on standard error.
    pub(crate) said: String,
    pub(crate) records: Flows,
    pub(crate) truth: Flows,
}

/// Sends `count` packets between two processes of ours over a memif. The receiver ends by count,
/// before its peer leaves: the driver takes the rings away while they are read (docs/dpdk.md). Where
/// it does not begin, its outcome.
pub(crate) fn exchange(
    count: u64,
    watching_flags: &str,
    sending_flags: &str,
    eal: &str,
) -> Result<Exchange, Outcome> {
    let directory = tempfile::tempdir().unwrap();
    let (socket, truth) = (
        directory.path().join("memif"),
        directory.path().join("truth.csv"),
    );
    let records = directory.path().join("flows.csv");
    let device = format!("socket={},socket-abstract=no", socket.display());
    let watching = format!(
        "-i dpdk:net_memif0,role=server,{device} --interval 20ms --summary json -o csv:{} \
         -c {count} {watching_flags} {eal}",
        records.display()
    );
    let mut watching = Running::start(&mut watch(&watching));
    if !watching.says(|line| line.contains("the link is down")) {
        return Err(watching.finish());
    }
    watching.await_packets(0);
    let sending = format!(
        "-i dpdk:net_memif0,role=client,{device} {sending_flags} --count {count} --truth {} --summary json {eal}",
        truth.display()
    );
    let sent = run(&mut generate(&sending));
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let sent: serde_json::Value = serde_json::from_slice(&sent.stdout).unwrap();
    let outcome = watching.finish();
    assert_eq!(outcome.code, Some(0), "{watching_flags}: {outcome:?}");
    Ok(Exchange {
        sent,
        summary: Summary::balanced(&outcome),
        said: outcome.stderr,
        records: flows(&records),
        truth: flows(&truth),
    })
}

/// The flows of a file of records.
fn flows(path: &Path) -> Flows {
    let mut flows = Flows::new();
    for row in records::csv(&fs::read(path).unwrap()) {
        let is_key = |name: &str| {
            ["Address", "Port", "protocol"]
                .iter()
                .any(|part| name.contains(part))
        };
        let key: Vec<_> = row
            .iter()
            .filter(|(name, _)| is_key(name))
            .map(|(_, value)| value.clone())
            .collect();
        let counts = flows.entry(key).or_default();
        counts.0 += records::number(&row, "packets");
        counts.1 += records::number(&row, "bytes");
    }
    flows
}

/// The records are the ground truth.
fn truth_is_received(count: u64, watching_flags: &str, sending_flags: &str, eal: &str) {
    let watching_flags = format!("--whole-flows {watching_flags}");
    let exchanged = exchange(count, &watching_flags, sending_flags, eal)
        .unwrap_or_else(|outcome| panic!("{outcome:?}"));
    assert_eq!(exchanged.sent["sent"].as_u64(), Some(count));
    for books in ["/books/received", "/books/in_flows"] {
        assert_eq!(exchanged.summary.number(books), count, "{sending_flags}");
    }
    assert_eq!(exchanged.records, exchanged.truth, "{sending_flags}");
}

#[test]
fn what_our_generator_sends_over_a_memif_is_what_is_recorded() {
    truth_is_received(
        100_000,
        "--flow 5tuple",
        "--flows 1000 --zipf 1 --when-full retry",
        NO_HUGE,
    );
    if huge_pages() {
        truth_is_received(
            60_000,
            "--model pipeline --ring 1_000_000",
            "--flows 5000 --uniform --size imix --when-full retry",
            "-- -m 64",
        );
    }
}

/// The one that stays behind says that its link is down, and ends though its count is not reached.
#[test]
fn a_sender_whose_receiver_leaves_ends_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("memif");
    let device = format!("socket={},socket-abstract=no", socket.display());
    let mut watching = Running::start(&mut watch(&format!(
        "-i dpdk:net_memif0,role=server,{device} -c 500 --summary json {NO_HUGE}"
    )));
    watching.await_line(|line| line.contains("the link is down"));
    // Slowly: frames that are sent in the moment in which the rings go may end the program.
    let sent = run(&mut generate(&format!(
        "-i dpdk:net_memif0,role=client,{device} --rate 1Kpps -c 100000 --summary json {NO_HUGE}"
    )));
    assert_eq!(watching.finish().code, Some(0));
    assert_eq!(sent.code, Some(1), "{sent:?}");
    let summary = Summary::parse(&sent.stdout).unwrap();
    let count = summary.number("/sent");
    assert!((500..50_000).contains(&count), "{sent:?}");
    assert_eq!(summary.at("/link_lost"), true);
    let said: Vec<_> = sent.stderr.lines().collect();
    let [down, lost] = said[..] else {
        panic!("{sent:?}");
    };
    assert!(down.contains("the link went down"), "{down}");
    assert!(
        lost.contains("no link for 5 s") && lost.ends_with("of 100,000 packets were sent"),
        "{lost}"
    );
}

/// What its receiver has not read when it leaves is lost.
#[test]
fn a_sender_stays_for_a_while_where_its_receiver_does() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("memif");
    let device = format!("socket={},socket-abstract=no", socket.display());
    let mut watching = Running::start(&mut watch(&format!(
        "-i dpdk:net_memif0,role=server,{device} --summary json {NO_HUGE}"
    )));
    watching.await_line(|line| line.contains("the link is down"));
    let begun = Instant::now();
    let sent = run(&mut generate(&format!(
        "-i dpdk:net_memif0,role=client,{device} -c 10 --summary json {NO_HUGE}"
    )));
    assert_eq!((sent.code, sent.stderr.as_str()), (Some(0), ""), "{sent:?}");
    assert!(begun.elapsed() >= Duration::from_secs(2));
    watching.signal("INT");
    let outcome = watching.finish();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    Summary::balanced(&outcome);
}

/// A memif's server that waits for its peer says so, and ends in order: no socket file stays.
#[test]
fn a_sender_that_waits_for_its_peer_can_be_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("memif");
    let mut sending = Running::start(&mut generate(&format!(
        "-i dpdk:net_memif0,role=server,socket={},socket-abstract=no -c 100 --summary json {NO_HUGE}",
        socket.display()
    )));
    sending.await_line(|line| line.contains("it is waited for, 10 s at most"));
    assert!(socket.exists());
    sending.signal("TERM");
    let outcome = sending.finish();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let summary = Summary::parse(&outcome.stdout).unwrap();
    assert_eq!(
        ["sent", "unsent"].map(|name| summary.number(&format!("/{name}"))),
        [0, 100]
    );
    assert!(!socket.exists());
}

/// `dpdk-testpmd` as the sending end of a memif, until its standard input ends; it sends what fits.
fn testpmd(socket: &Path) -> Command {
    let device = format!(
        "--vdev=net_memif0,role=client,socket={},socket-abstract=no",
        socket.display()
    );
    let mut command = Command::new("dpdk-testpmd");
    command
        .args(["--lcores", "0@0,1@0"])
        .args([
            "--no-huge",
            "--no-shconf",
            "--no-pci",
            "-m",
            "64",
            &device,
            "--",
        ])
        .args([
            "--forward-mode=txonly",
            "--auto-start",
            "--total-num-mbufs=2048",
        ])
        .args(["--no-lsc-interrupt", "--txpkts=60"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[test]
fn what_another_program_sends_over_a_memif_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("memif");
    let line = format!(
        "-i dpdk:net_memif0,role=server,socket={},socket-abstract=no --interval 20ms --summary json -c 100000 {NO_HUGE}",
        socket.display()
    );
    let mut watching = Running::start(&mut watch(&line));
    watching.await_line(|line| line.contains("the link is down"));
    watching.await_packets(0);
    let mut sender = testpmd(&socket)
        .spawn()
        .expect("this test needs dpdk-testpmd (./setup --dpdk)");
    // It ends by count while the peer still sends: see `truth_is_received`.
    let outcome = watching.finish();
    drop(sender.stdin.take());
    sender.wait_with_output().unwrap();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let summary = Summary::balanced(&outcome);
    let received = summary.number("/books/received");
    assert_eq!(received, 100_000);
    assert_eq!(summary.number("/flows"), 1);
    assert_eq!(summary.number("/books/bytes/in_flows"), received * 60);
}

#[test]
fn a_kernel_interface_through_the_packet_driver() {
    let frames = captures::read(&fs::read(captures::example()).unwrap());
    // The driver has the kernel put fragments together: frames without any.
    let is_fragment = |bytes: &[u8]| {
        bytes[12..14] == [0x08, 0x00] && (u16::from_be_bytes([bytes[20], bytes[21]]) & 0x3fff) != 0
    };
    let fits = |frame: &captures::Frame| {
        frame.bytes.len() == frame.wire_length as usize
            && (60..=1514).contains(&frame.bytes.len())
            && !is_fragment(&frame.bytes)
    };
    let frames: Vec<_> = frames.into_iter().filter(fits).collect();
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("replayed.pcap");
    captures::write(&capture, captures::ETHERNET, &frames);
    let cable = Cable::new();
    // The driver does not say what it loses: its ring has room for all of them.
    let command = watch(&format!(
        "-i dpdk:net_af_packet0,iface=right,framecnt=4096 --interval 20ms --summary json {NO_HUGE}"
    ));
    let mut running = Running::start(&mut cable.receiver.within(&command));
    running.await_packets(0);
    let sent = cable.replay(&capture, 1);
    assert_eq!(sent, frames.len() as u64);
    running.await_packets(sent);
    running.signal("INT");
    let summary = Summary::balanced(&running.finish());
    assert_eq!(summary.number("/books/received"), sent);
}

#[test]
fn what_cannot_be_opened_is_said_in_one_line() {
    let cases = [
        ("-i dpdk:net_nothing0", "no driver has this name"),
        ("-i dpdk:fe:1f.7", "no such card"),
        ("-i dpdk:", "needs a device"),
        ("-i dpdk:net_null0 -i dpdk:net_null0,size=9", "given twice"),
        ("-i dpdk:net_null0 --pool-size 64", "hold 4096 alone"),
        // The driver returns EPERM for each.
        (
            "-i dpdk:net_null0,foo=bar",
            "its arguments (they are 'foo=bar')",
        ),
        ("-i dpdk:net_memif0,role=boss", "role=server or role=client"),
        ("-i dpdk:net_af_packet0", "it needs an interface"),
        (
            "-i dpdk:net_af_packet0,iface=nosuch",
            "there is no interface nosuch",
        ),
        (
            "-i dpdk:net_af_xdp0,iface=nosuch",
            "there is no interface nosuch",
        ),
        (
            "-i dpdk:net_pcap0,rx_pcap=/nonexistent",
            "/nonexistent: No such file",
        ),
        ("-i dpdk:net_pcap0", "it needs a capture"),
        ("-i dpdk:lo", "-i lo, or through DPDK"),
        ("-i dpdk:net_null0@1", "a device has no @"),
        // No table is made for any of them.
        ("-i dpdk:net_ring0 --queues 64", "16 receive queues at most"),
        (
            "-i dpdk:net_memif0,role=server --queues 2",
            "use --queues 1",
        ),
        ("-i lo --batch 3", "--batch is for devices of DPDK"),
        (
            "-i dpdk:net_null0 --batch 257 --buffer 16MiB",
            "--batch of more than 256 with --buffer",
        ),
        (
            "-i dpdk:net_null0 --ring-memory 8",
            "--ring-memory is for the kernel's interfaces",
        ),
        ("-i lo --pools shared", "--pools is for devices of DPDK"),
    ];
    for (flags, part) in cases {
        let eal = if flags.contains("dpdk:") { NO_HUGE } else { "" };
        refused(&format!("{flags} {eal}"), part);
    }
    refused("-i dpdk:net_null0 -- --nonsense", "unrecognized option");
    refused(
        "-i dpdk:net_null0 -- -m 9000000 --in-memory",
        "ask for less",
    );
    for (eal, part) in [
        ("-l 77", "invalid core list"),
        ("--file-prefix a/b", "/var/run/dpdk/a/b"),
        ("--no-huge --in-memory", "--no-huge means --legacy-mem"),
        (
            "--huge-dir /nonexistent",
            "--huge-dir /nonexistent: no hugetlbfs",
        ),
        ("--proc-type secondary", "leave it out"),
        ("--proc-type=auto", "leave it out"),
        ("tcp", "a filter stands before the --"),
        ("--no-huge -m 96 tcp", "a filter stands before the --"),
    ] {
        refused(&format!("-i dpdk:net_null0 -- {eal}"), part);
    }
    refused("-i lo -- udp", "a filter stands before it");
}

#[track_caller]
fn refused(flags: &str, part: &str) {
    let outcome = run(&mut watch(flags));
    assert_eq!(outcome.code, Some(2), "{flags}: {outcome:?}");
    assert!(outcome.stderr.contains(part), "{flags}: {}", outcome.stderr);
    assert_eq!(
        outcome.stderr.lines().count(),
        1,
        "{flags}: {}",
        outcome.stderr
    );
}

/// Clients in one process, the server that answers them in another, both through DPDK's packet driver.
#[test]
fn a_closed_loop_between_two_devices_completes_every_connection() {
    let cable = Cable::new();
    let echo = generate(&format!(
        "--echo -i dpdk:net_af_packet0,iface=right,framecnt=4096 --interval 20ms --summary json {NO_HUGE}"
    ));
    let mut echoing = Running::start(&mut cable.receiver.within(&echo));
    echoing.await_line(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    let clients = generate(&format!(
        "--clients 20 -c 300 -i dpdk:net_af_packet0,iface=left,framecnt=4096 --summary json {NO_HUGE}"
    ));
    let clients = run(&mut cable.sender.within(&clients));
    assert_eq!(clients.code, Some(0), "{clients:?}");
    let clients = Summary::parse(&clients.stdout).unwrap();
    let counts = ["started", "completed", "failed", "wrong_bytes"]
        .map(|name| clients.number(&format!("/{name}")));
    assert_eq!(counts, [300, 300, 0, 0]);
    assert_eq!(clients.number("/echoed_bytes"), 300 * 512);
    echoing.signal("INT");
    let served = echoing.finish();
    assert_eq!(served.code, Some(0), "{served:?}");
    let served = Summary::parse(&served.stdout).unwrap();
    assert_eq!(served.number("/accepted"), 300);
    assert_eq!(served.number("/echoed_bytes"), 300 * 512);
}

/// The same over a memif, where the server ends by count, and the clients see it off: the one that
/// stayed would poll while its peer leaves.
fn every_connection_over_a_memif_is_accounted_for(eal: &str) {
    let directory = tempfile::tempdir().unwrap();
    let device = format!(
        "socket={},socket-abstract=no",
        directory.path().join("memif").display()
    );
    let truth = directory.path().join("truth.csv");
    let mut echo = generate(&format!(
        "--echo -c 500 -i dpdk:net_memif0,role=server,{device} --interval 20ms --summary json {eal}"
    ));
    let mut echoing = Running::start(&mut echo);
    // Then it listens: a memif's client connects once.
    echoing.await_line(|line| line.contains("it is waited for"));
    let clients = run(&mut generate(&format!(
        "--clients 20 -c 500 -i dpdk:net_memif0,role=client,{device} --summary json --truth {} {eal}",
        truth.display()
    )));
    let served = echoing.finish();
    assert_eq!(
        (clients.code, clients.stderr.as_str()),
        (Some(0), ""),
        "{clients:?} {served:?}"
    );
    assert_eq!(served.code, Some(0), "{served:?}");
    let clients = Summary::parse(&clients.stdout).unwrap();
    let served = Summary::parse(&served.stdout).unwrap();
    let client = |name: &str| clients.number(&format!("/{name}"));
    let server = |name: &str| served.number(&format!("/{name}"));
    assert_eq!(
        ["started", "completed", "failed", "open", "wrong_bytes"].map(client),
        [500, 500, 0, 0, 0]
    );
    assert_eq!(
        ["accepted", "closed", "open", "forgotten", "turned_away"].map(server),
        [500, 500, 0, 0, 0]
    );
    assert_eq!(client("echoed_bytes"), 500 * 512);
    assert_eq!(server("echoed_bytes"), 500 * 512);
    // A memif loses nothing: each segment arrived; what answers a repetition may be for nobody.
    assert_eq!(server("segments_received"), client("segments_sent"));
    let astray = server("segments_sent") - client("segments_received");
    assert!(astray <= client("repeated"), "{astray}");
    assert_eq!(["dropped", "missed"].map(client), [0, 0]);
    assert_eq!(["dropped", "missed"].map(server), [0, 0]);
    let each = records::csv(&fs::read(truth).unwrap());
    assert_eq!(each.len(), 20);
    let completed: u64 = each
        .iter()
        .map(|row| records::number(row, "completed"))
        .sum();
    assert_eq!(completed, 500);
}

#[test]
fn a_closed_loop_over_a_memif_completes_every_connection() {
    every_connection_over_a_memif_is_accounted_for(NO_HUGE);
    if huge_pages() {
        every_connection_over_a_memif_is_accounted_for("-- -m 64");
    }
}
