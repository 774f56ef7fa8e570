//! A single device: its records, its books, and its open errors.

use super::{NO_HUGE, huge_pages};
use crate::captures;
use crate::command::{Outcome, Running, run, watch};
use crate::namespace::Cable;
use crate::records;
use crate::summary::Summary;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Frames up to this length fit into one buffer, and are seen completely.
const BUFFER: usize = 2048;

/// Returns the records of a run without the columns that depend on time.
fn without_times(outcome: Outcome) -> BTreeMap<String, u32> {
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

/// Writes the example capture without the frames that need several buffers.
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
fn capture_read_through_a_device_gives_the_same_records() {
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
        let expected = without_times(expected);
        for eal in memory {
            // The device replays the capture endlessly.
            let device = format!("-i dpdk:net_pcap0,rx_pcap={} -c {packets}", path.display());
            let live = format!("{device} -q --summary none --whole-flows -o csv {flags} {eal}");
            assert_eq!(without_times(run(&mut watch(&live))), expected, "{live}");
        }
    }
}

/// The device returns more packets per batch than are wanted.
#[test]
fn packet_count_is_exact_for_any_batch_size() {
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
fn books_of_several_devices_and_queues_balance() {
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
        // The driver accepts the configuration, but sets no hash on packets.
        assert_eq!(summary.at(&format!("/per_queue/{queue}/rss")), "configured");
    }
    // The device's count is in the report of its first queue, and read when the last queue has ended.
    for first in [0, 2] {
        let read =
            [first, first + 1].map(|queue| summary.number(&format!("/per_queue/{queue}/received")));
        let delivered = summary.number(&format!("/per_queue/{first}/device/0"));
        assert_eq!(delivered, read[0] + read[1]);
    }
}

/// Filtered packets were delivered too; with `-v` the DPDK log is printed.
#[test]
fn device_count_includes_filtered_packets() {
    let directory = tempfile::tempdir().unwrap();
    let (path, packets) = capture(directory.path());
    let command = watch(&format!(
        "-i dpdk:net_pcap0,rx_pcap={} -v --interval 20ms tcp {NO_HUGE}",
        path.display()
    ));
    let mut running = Running::start(&mut { command });
    running.wait_for_line(|line| line.contains("EAL: "));
    running.wait_for_packets(1);
    thread::sleep(Duration::from_millis(200));
    running.signal("INT");
    let outcome = running.finish();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let text = String::from_utf8(outcome.stdout).unwrap();
    let line = text
        .lines()
        .find(|line| line.contains("according to the device"));
    let expected = format!(
        "  dpdk:net_pcap0: {packets} packets delivered according to the device, {packets} read from it, "
    );
    assert!(
        line.is_some_and(|line| line.starts_with(&expected)),
        "{text}"
    );
}

#[test]
fn af_packet_driver_receives_every_frame() {
    let frames = captures::read(&fs::read(captures::example()).unwrap());
    // The driver lets the kernel reassemble fragments, so the frames must not be fragments.
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
    // The driver does not count losses, so its ring has room for all frames.
    let command = watch(&format!(
        "-i dpdk:net_af_packet0,iface=right,framecnt=4096 --interval 20ms --summary json {NO_HUGE}"
    ));
    let mut running = Running::start(&mut cable.receiver.command_inside(&command));
    running.wait_for_packets(0);
    let sent = cable.replay(&capture, 1);
    assert_eq!(sent, frames.len() as u64);
    running.wait_for_packets(sent);
    running.signal("INT");
    let summary = Summary::balanced(&running.finish());
    assert_eq!(summary.number("/books/received"), sent);
}

#[test]
fn open_errors_are_one_line() {
    let cases = [
        ("-i dpdk:net_nothing0", "no driver has this name"),
        ("-i dpdk:fe:1f.7", "no such card"),
        ("-i dpdk:", "missing device"),
        ("-i dpdk:net_null0 -i dpdk:net_null0,size=9", "given twice"),
        (
            "-i dpdk:net_null0 --pool-size 64",
            "must exceed the 4096 descriptors",
        ),
        // The driver returns EPERM for each.
        (
            "-i dpdk:net_null0,foo=bar",
            "cannot be created; DPDK's log: ",
        ),
        ("-i dpdk:net_memif0,role=boss", "role=server or role=client"),
        ("-i dpdk:net_af_packet0", "missing argument: an interface"),
        (
            "-i dpdk:net_af_packet0,iface=nosuch",
            "no such interface: nosuch",
        ),
        (
            "-i dpdk:net_af_xdp0,iface=nosuch",
            "no such interface: nosuch",
        ),
        (
            "-i dpdk:net_pcap0,rx_pcap=/nonexistent",
            "/nonexistent: No such file",
        ),
        ("-i dpdk:net_pcap0", "missing argument: a capture file"),
        ("-i dpdk:lo", "-i lo, or through DPDK"),
        (
            "-i dpdk:net_null0@1",
            "a single queue (@) cannot be selected",
        ),
        // These fail before the tables are allocated.
        ("-i dpdk:net_ring0 --queues 64", "at most 16 receive queues"),
        (
            "-i dpdk:net_memif0,role=server --queues 2",
            "use --queues 1",
        ),
        ("-i lo --batch 3", "--batch is for DPDK devices"),
        (
            "-i dpdk:net_null0 --batch 257 --buffer 16MiB",
            "--batch of more than 256 with --buffer",
        ),
        (
            "-i dpdk:net_null0 --ring-memory 8",
            "they have --promiscuous, --batch, --rx-ring",
        ),
        ("-i lo --pools shared", "--pools is for DPDK devices"),
    ];
    for (flags, part) in cases {
        let eal = if flags.contains("dpdk:") { NO_HUGE } else { "" };
        refused(&format!("{flags} {eal}"), part);
    }
    refused("-i dpdk:net_null0 -- --nonsense", "unrecognized option");
    refused(
        "-i dpdk:net_null0 -- -m 9000000 --in-memory",
        "request less memory",
    );
    for (eal, part) in [
        ("-l 77", "invalid core list"),
        ("--file-prefix a/b", "/var/run/dpdk/a/b"),
        ("--no-huge --in-memory", "--legacy-mem is not compatible"),
        ("--huge-dir /nonexistent", "reserve huge pages"),
        ("--proc-type secondary", "remove this option"),
        ("--proc-type=auto", "remove this option"),
        ("tcp", "a filter goes before the --"),
        ("--no-huge -m 96 tcp", "a filter goes before the --"),
    ] {
        refused(&format!("-i dpdk:net_null0 -- {eal}"), part);
    }
    refused("-i lo -- udp", "a filter goes before the --");
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
