//! Hostile input: floods of flows, colliding keys, jumping clocks. Memory stays bounded, the run ends,
//! and every packet is in a record.

use crate::captures::{self, ETHERNET, Endpoints, Frame, RAW_IP};
use crate::command::{run, run_measured, watch};
use crate::records;
use crate::summary::Summary;
use std::fs;
use std::path::Path;

/// Start time of the captures, in nanoseconds since the Unix epoch.
const START_NS: i64 = 1_700_000_000_000_000_000;

/// Limit of resident memory for a run with a small table: the program, its libraries, buffers, and
/// the records in flight to the writer.
const RESIDENT_KIB: u64 = 48 << 10;

/// Writes a capture of one-packet flows, a microsecond apart. Returns their number.
fn write_flows(path: &Path, flows: impl Iterator<Item = Endpoints>) -> u64 {
    let frames: Vec<Frame> = flows
        .zip(0..)
        .map(|(flow, number)| Frame::whole(START_NS + number * 1000, captures::udp(flow)))
        .collect();
    captures::write(path, ETHERNET, &frames);
    frames.len() as u64
}

fn flow(number: u32) -> Endpoints {
    Endpoints {
        source: 0x0a00_0000 + number,
        destination: 0xc0a8_0001,
        source_port: 53,
        destination_port: 53,
    }
}

#[test]
fn flood_beyond_max_flows_evicts_within_bounded_memory() {
    const MOST: u64 = 10_000;
    const BUCKET: u64 = 31;
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("flows.csv");
    for number in [50_000, 300_000] {
        let capture = directory.path().join("flood.pcap");
        let flows = write_flows(&capture, (0..number).map(flow));
        let mut command = watch(&format!(
            "-q --summary json --overwrite --max-flows {MOST} -o csv:{} -r",
            output.display()
        ));
        let (outcome, peak_kib) = run_measured(command.arg(&capture));
        let summary = Summary::balanced(&outcome);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
        assert_eq!(summary.number("/flows"), flows);
        // Eviction works a bucket at a time, so the table is not completely full when the input ends.
        let evicted = summary.number("/evicted");
        assert!(
            (flows - MOST..flows - MOST + BUCKET).contains(&evicted),
            "{evicted}"
        );
        assert_eq!(summary.number("/books/in_flows"), flows);

        let rows = records::csv(&fs::read(&output).unwrap());
        assert_eq!(rows.len() as u64, flows);
        assert!(rows.iter().all(|row| row["packets"] == "1"));
        let evicted_rows = rows
            .iter()
            .filter(|row| row["endReason"] == "lack-of-resources");
        assert_eq!(evicted_rows.count() as u64, evicted);
        // A table for all of the 300,000 flows would take nearly twice as much.
        assert!(peak_kib < RESIDENT_KIB, "{peak_kib} KiB for {flows} flows");
    }
}

#[test]
fn flood_is_accounted_for_in_every_model_and_table() {
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("flood.pcap");
    let flows = write_flows(&capture, (0..100_000).map(flow));
    for flags in [
        "--queues 2",
        "--model pipeline --monitors 2",
        "--table linked-list",
        "--table combined",
        "--table double-hash",
        "--statistics moments,gap-percentile=99 --flow bidirectional",
    ] {
        let mut command = watch(&format!("-q --summary json --max-flows 5000 {flags} -r"));
        let outcome = run(command.arg(&capture));
        let summary = Summary::balanced(&outcome);
        assert_eq!(outcome.code, Some(0), "{flags}: {outcome:?}");
        let accounted = summary.number("/books/in_flows") + summary.number("/books/unattributed");
        assert_eq!(accounted, flows, "{flags}");
    }
}

/// Returns flows whose fields have the same sum.
fn colliding_under_add(number: u32) -> Endpoints {
    Endpoints {
        source: 0x0a00_0000 + number,
        destination: 0xc0a8_0000 - number,
        source_port: 53,
        destination_port: 53,
    }
}

/// Returns flows whose fields have the same exclusive or.
fn colliding_under_xor(number: u32) -> Endpoints {
    Endpoints {
        source: 0x0a00_0000 ^ number,
        destination: 0xc0a8_0000 ^ number,
        source_port: 53,
        destination_port: 53,
    }
}

/// Returns the 16 bytes of a table key for IPv4 and UDP: addresses and ports as in the packet,
/// protocol, no VLAN, a version tag.
fn key_bytes(bits: u128) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..12].copy_from_slice(&bits.to_be_bytes()[4..]);
    bytes[12] = 17;
    bytes[15] = 4;
    bytes
}

/// Computes CRC32C bit by bit (RFC 3720, appendix B.4).
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 }
        })
    })
}

/// Returns changes of addresses and ports that keep the CRC: the kernel of a linear function, found by
/// Gaussian elimination, as an attacker would.
fn crc_kernel() -> Vec<u128> {
    let zero = crc32c(&key_bytes(0));
    let mut pivots: Vec<(u32, u128)> = Vec::new();
    let mut kernel = Vec::new();
    for bit in 0..96 {
        let mut change = 1u128 << bit;
        let mut effect = crc32c(&key_bytes(change)) ^ zero;
        for &(pivot, pivot_change) in &pivots {
            if effect & (1 << pivot.ilog2()) != 0 {
                effect ^= pivot;
                change ^= pivot_change;
            }
        }
        if effect == 0 {
            kernel.push(change);
        } else {
            pivots.push((effect, change));
        }
    }
    kernel
}

fn colliding_under_crc32c(kernel: &[u128], number: u32) -> Endpoints {
    let chosen = kernel.iter().enumerate().take(u32::BITS as usize);
    let bits = chosen
        .filter(|(index, _)| number >> index & 1 == 1)
        .fold(0, |bits, (_, change)| bits ^ change);
    assert_eq!(crc32c(&key_bytes(bits)), crc32c(&key_bytes(0)));
    Endpoints {
        source: (bits >> 64) as u32,
        destination: (bits >> 32) as u32,
        source_port: (bits >> 16) as u16,
        destination_port: bits as u16,
    }
}

#[test]
fn colliding_keys_overflow_buckets_only_without_a_keyed_hash() {
    const FLOWS: u32 = 100_000;
    const WEAK: &str = "hash collisions";
    const EVICTED: &str = "/hash_collisions/evicted";
    let kernel = crc_kernel();
    assert_eq!(kernel.len(), 96 - 32);
    let directory = tempfile::tempdir().unwrap();
    type Chosen<'a> = Box<dyn Fn(u32) -> Endpoints + 'a>;
    let attacks: [(&str, Chosen<'_>); 3] = [
        ("add", Box::new(colliding_under_add)),
        ("xor", Box::new(colliding_under_xor)),
        (
            "crc32c",
            Box::new(|number| colliding_under_crc32c(&kernel, number)),
        ),
    ];
    for (hash, chosen) in attacks {
        let capture = directory.path().join(format!("{hash}.pcap"));
        let flows = write_flows(&capture, (0..FLOWS).map(chosen));
        let read = |hash: &str| {
            let mut command = watch(&format!(
                "-q --summary json --table bucket --hash {hash} -r"
            ));
            let outcome = run(command.arg(&capture));
            assert_eq!(outcome.code, Some(0), "{outcome:?}");
            Summary::balanced(&outcome)
        };
        // The keyed hash distributes the flows evenly.
        let keyed = read("keyed");
        assert_eq!(keyed.number("/evicted"), 0, "{hash}");
        assert_eq!(keyed.number("/flows"), flows, "{hash}");
        assert_eq!(keyed.number(EVICTED), 0, "{hash}");
        assert!(keyed.at("/hash_collisions/prevention").is_null(), "{hash}");
        // Keys with the same hash share eight buckets of 31 slots.
        let weak = read(hash);
        assert_eq!(weak.number("/evicted"), flows - 8 * 31, "{hash}");
        assert_eq!(weak.number(EVICTED), flows - 8 * 31, "{hash}");
        assert!(
            weak.number("/hash_collisions/overflowed") >= 7 * 31,
            "{hash}"
        );
        let prevention = weak.at("/hash_collisions/prevention").as_str();
        assert!(
            prevention.is_some_and(|it| it.contains("--hash keyed")),
            "{hash}"
        );
        assert_eq!(weak.number("/flows"), flows, "{hash}");
        assert_eq!(weak.number("/books/in_flows"), flows, "{hash}");
        let text = text_of(hash, &capture);
        let line = format!("collide under --hash {hash}: use --hash keyed");
        assert!(text.contains(WEAK) && text.contains(&line), "{text}");
        assert!(!text_of("keyed", &capture).contains(WEAK), "{hash}");
    }
    // A full table evicts with any hash, without the warning.
    let capture = directory.path().join("flood.pcap");
    write_flows(&capture, (0..FLOWS).map(flow));
    let text = text_of("crc32c --max-flows 1000", &capture);
    assert!(
        text.contains("flows evicted") && !text.contains(WEAK),
        "{text}"
    );
}

/// Returns the text summary of a run with this hash.
fn text_of(hash: &str, capture: &Path) -> String {
    let mut command = watch(&format!("--summary text --hash {hash} -r"));
    let outcome = run(command.arg(capture));
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    String::from_utf8_lossy(&outcome.stdout).into_owned() + &outcome.stderr
}

#[test]
fn clock_jumps_of_years_end_flows_without_loss() {
    const SECOND: i64 = 1_000_000_000;
    const JUMPS: i64 = 10_000;
    let at = |number: i64| {
        // Alternates between about 2020 and 1980.
        let year = if number % 2 == 0 { 50 } else { 10 };
        (year * 365 * 86_400 + number % 7 * 86_400) * SECOND
    };
    let frames: Vec<Frame> = (0..2 * JUMPS)
        .map(|number| Frame::whole(at(number), captures::udp(flow(number as u32 % 500))))
        .collect();
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("jumps.pcap");
    captures::write(&capture, ETHERNET, &frames);
    let mut outputs = Vec::new();
    for model in ["", "--queues 2", "--model pipeline --monitors 2"] {
        let output = directory.path().join("flows.csv");
        let flags = format!(
            "-q --summary json --overwrite --sort {model} -o csv:{} -r",
            output.display()
        );
        let outcome = run(watch(&flags).arg(&capture));
        let summary = Summary::balanced(&outcome);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
        assert_eq!(summary.number("/clock_steps_back"), JUMPS as u64);
        assert_eq!(summary.number("/clock_steps_forward"), JUMPS as u64 - 1);
        assert_eq!(summary.number("/books/in_flows"), 2 * JUMPS as u64);
        // Every step forward ends all flows, so almost every packet gives a record.
        let rows = records::csv(&fs::read(&output).unwrap());
        assert_eq!(rows.len() as u64, summary.number("/flows"));
        let packets: u64 = rows.iter().map(|row| records::number(row, "packets")).sum();
        assert_eq!(packets, 2 * JUMPS as u64);
        outputs.push(fs::read(&output).unwrap());
    }
    assert!(outputs.iter().all(|output| *output == outputs[0]));
}

#[test]
fn counts_clock_steps_back_of_seconds() {
    const SECOND: i64 = 1_000_000_000;
    // Steps back of half a second, three seconds and eight seconds; only the last two are counted.
    let frames: Vec<Frame> = [100., 110., 109.5, 120., 117., 118., 130., 122., 123.]
        .map(|at: f64| {
            let time_ns = 1_600_000_000 * SECOND + (at * 1e9) as i64;
            Frame::whole(time_ns, captures::udp(flow(1)))
        })
        .into();
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("back.pcap");
    captures::write(&capture, ETHERNET, &frames);
    for model in ["", "--queues 2", "--model pipeline"] {
        let flags = format!("-q --summary json {model} -r");
        let summary = Summary::balanced(&run(watch(&flags).arg(&capture)));
        assert_eq!(summary.number("/clock_steps_back"), 2, "{model}");
        assert_eq!(summary.number("/books/in_flows"), 9);
        assert_eq!(summary.number("/flows"), 1);
    }
}

#[test]
fn accepts_the_first_and_last_times_of_pcap() {
    // 1970 and 2106.
    let last_second = i64::from(u32::MAX) * 1_000_000_000;
    let times = [0, last_second + 999_999_000, 0, last_second, 1000];
    let frames: Vec<Frame> = times
        .iter()
        .map(|&time_ns| Frame::whole(time_ns, captures::udp(flow(1))))
        .collect();
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("ends.pcap");
    captures::write(&capture, ETHERNET, &frames);
    let flags = "-q --summary none -o csv --statistics moments,iat-percentile=99 --whole-flows -r";
    let rows = records::csv(&run(watch(flags).arg(&capture)).quiet_success());
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["packets"], "5");
    assert_eq!(
        rows[0]["flowStartNanoseconds"],
        "1970-01-01T00:00:00.000000000Z"
    );
    let summary = Summary::balanced(&run(watch("-q --summary json -r").arg(&capture)));
    assert_eq!(summary.number("/clock_steps_back"), 2);
    assert_eq!(summary.number("/clock_steps_forward"), 2);
    assert_eq!(summary.number("/books/in_flows"), 5);
}

#[test]
fn small_file_of_minimum_packets_evicts_no_flow() {
    // Bare IPv4 headers of 20 bytes: the smallest packets of a flow that a file can contain.
    const FLOWS: u32 = 5000;
    let frames: Vec<Frame> = (0..FLOWS)
        .map(|number| {
            let frame = captures::udp(flow(number));
            let mut packet = frame[14..34].to_vec();
            packet[3] = 20;
            // A protocol without ports.
            packet[9] = 253;
            Frame::whole(START_NS, packet)
        })
        .collect();
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("raw.pcap");
    captures::write(&capture, RAW_IP, &frames);
    let outcome = run(watch("-q --summary json -r").arg(&capture));
    let summary = Summary::balanced(&outcome);
    assert_eq!(summary.number("/flows"), u64::from(FLOWS));
    assert_eq!(summary.number("/evicted"), 0);
}
