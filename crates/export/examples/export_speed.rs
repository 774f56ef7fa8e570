//! Measures the cost of writing a record in each format: CPU nanoseconds per record, with and
//! without a file system.
//!
//! `cargo run --release -p flowatch-export --example export_speed [DIRECTORY]`

#![allow(
    clippy::print_stdout,
    reason = "an example that prints its measurements"
)]

use export::{ExportError, ExportOptions, Spec};
use flow::{Column, EndReason, FlowDefinition, Record, RecordBatch, Schema};
use std::time::{Duration, Instant};
use wire::FlowKey;

const RECORDS: usize = 200_000;
/// Records per batch, as the meter hands them over.
const BATCH: usize = 256;
/// Passes per measurement: Linux may account thread time in ticks of up to 4 ms.
const PASSES: usize = 5;
const REPETITIONS: usize = 5;

fn main() -> Result<(), ExportError> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "/dev".to_owned());
    println!("{RECORDS} records, nanoseconds a record, best and median of {REPETITIONS}");
    for (title, flow, statistics, community_id) in [
        ("5tuple", FlowDefinition::FiveTuple, 0, false),
        ("5tuple, 8 statistics", FlowDefinition::FiveTuple, 8, false),
        ("bidirectional", FlowDefinition::Bidirectional, 0, false),
        ("5tuple, Community ID", FlowDefinition::FiveTuple, 0, true),
    ] {
        let schema = Schema {
            flow,
            vlan: false,
            statistics: (0..statistics).map(statistic).collect(),
            analysis: None,
        };
        let batches = batches(statistics);
        let options = ExportOptions {
            community_id,
            ..ExportOptions::default()
        };
        for (format, ending) in [("json", "json"), ("csv", "csv"), ("parquet", "parquet")] {
            let target = if directory == "/dev" {
                format!("{format}:/dev/null")
            } else {
                format!("{format}:{directory}/flows.{ending}")
            };
            let Ok(spec) = target.parse::<Spec>() else {
                continue;
            };
            let mut times = Vec::new();
            for _ in 0..REPETITIONS {
                let start = Clock::now();
                for _ in 0..PASSES {
                    let mut exporter = export::open(&spec, &schema, &options)?;
                    for batch in &batches {
                        exporter.write(batch)?;
                    }
                    exporter.finish()?;
                    assert_eq!(exporter.written(), RECORDS as u64);
                }
                let elapsed = start.elapsed().as_nanos() as f64;
                times.push(elapsed / (PASSES * RECORDS) as f64);
            }
            times.sort_by(f64::total_cmp);
            let (best, median) = (times[0], times[REPETITIONS / 2]);
            println!(
                "{title:24} {spec:32} {best:7.1} {median:7.1}",
                spec = spec.to_string()
            );
        }
    }
    Ok(())
}

/// CPU time of this thread where the system reports it (Linux), so that other load does not count;
/// elapsed time elsewhere.
struct Clock {
    ran: Option<u64>,
    instant: Instant,
}

impl Clock {
    fn now() -> Self {
        Self {
            ran: nanoseconds_run(),
            instant: Instant::now(),
        }
    }

    fn elapsed(&self) -> Duration {
        match (self.ran, nanoseconds_run()) {
            (Some(before), Some(now)) => Duration::from_nanos(now - before),
            _ => self.instant.elapsed(),
        }
    }
}

fn nanoseconds_run() -> Option<u64> {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    statistics.split_whitespace().next()?.parse().ok()
}

fn statistic(number: usize) -> Column {
    Column {
        name: format!("packetSizePercentile{number}Bytes"),
        unit: "bytes",
        definition: String::new(),
    }
}

/// Records that resemble real traffic: 90 % IPv4, mostly short flows, ordered by end time.
fn batches(statistics: usize) -> Vec<RecordBatch> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        // xorshift64* (Marsaglia 2003, Vigna 2016).
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    };
    let mut records = Vec::with_capacity(RECORDS);
    let mut end_ns = 1_700_000_000_000_000_000;
    for _ in 0..RECORDS {
        let bits = random();
        let version = if bits % 10 == 0 { 6 } else { 4 };
        let mut key = FlowKey {
            version,
            protocol: if bits >> 8 & 3 == 0 { 17 } else { 6 },
            source_port: random() as u16,
            destination_port: if bits >> 10 & 1 == 0 { 443 } else { 53 },
            ..FlowKey::default()
        };
        let length = if version == 4 { 4 } else { 16 };
        for address in [&mut key.source, &mut key.destination] {
            let (low, high) = (random(), random());
            address[..8].copy_from_slice(&low.to_le_bytes());
            address[8..].copy_from_slice(&high.to_le_bytes());
            address[length..].fill(0);
        }
        // Half the flows have one packet; the rest follow a heavy tail.
        let packets = if bits >> 12 & 1 == 0 {
            1
        } else {
            2 + (1 << (random() % 12))
        };
        end_ns += (random() % 300_000) as i64;
        let duration = if packets == 1 {
            0
        } else {
            random() % 20_000_000_000
        };
        records.push(Record {
            key,
            start_ns: end_ns - duration as i64,
            end_ns,
            packets: [packets, packets / 2],
            bytes: [packets * 64 + random() % 1450, packets * 60],
            tcp_flags: [if key.protocol == 6 { 0x1b } else { 0 }; 2],
            icmp_type_code: 0,
            end_reason: if bits >> 20 & 3 == 0 {
                EndReason::IdleTimeout
            } else {
                EndReason::TcpFin
            },
        });
    }
    records
        .chunks(BATCH)
        .map(|records| RecordBatch {
            records: records.to_vec(),
            values: (0..records.len() * statistics)
                .map(|index| {
                    if index % 3 == 0 {
                        64.0
                    } else {
                        random() as f64 / 1e15
                    }
                })
                .collect(),
            ..RecordBatch::default()
        })
        .collect()
}
