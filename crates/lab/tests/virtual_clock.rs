//! The virtual clock: its books balance for every model, table and option, and the gap of round robin
//! traffic is exact.
#![allow(clippy::unwrap_used, reason = "a failing test shows the line")]

use engine::Model;
use flow::TableKind;
use flow::statistic::Estimator;
use lab::virtual_clock::{Acquisition, Frames, VirtualOptions, Wire};
use lab::{Monitor, Trial};
use std::sync::{Arc, Mutex};
use wire::LinkType;

/// Frames of 64 bytes of `flows` flows in round robin order, with different hashes.
fn round_robin(flows: u32) -> Arc<Wire> {
    let frames = (0..flows).map(|flow| {
        let mut frame = [0u8; 60];
        frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0x00]);
        frame[16..18].copy_from_slice(&46u16.to_be_bytes());
        frame[22..24].copy_from_slice(&[64, 17]);
        frame[26..30].copy_from_slice(&(0x0a00_0000 | flow).to_be_bytes());
        frame[30..34].copy_from_slice(&[192, 168, 0, 1]);
        frame[34..38].copy_from_slice(&[0x12, 0x34, 0, 53]);
        frame[38..40].copy_from_slice(&26u16.to_be_bytes());
        (frame, 64, flow + 1)
    });
    Arc::new(Wire::new(LinkType::Ethernet, frames, Vec::new()))
}

fn link(packets: u64) -> VirtualOptions {
    VirtualOptions {
        packets,
        ..VirtualOptions::default()
    }
}

fn monitor(model: Model, table: TableKind) -> Monitor {
    Monitor::counting(4096).with_model(model).with_table(table)
}

#[test]
fn books_balance_for_every_model_and_table() {
    let wire = round_robin(1000);
    for model in [Model::RunToCompletion, Model::Pipeline] {
        for table in TableKind::ALL {
            for queues in [1, 2] {
                let options = VirtualOptions {
                    queues,
                    ..link(50_000)
                };
                let trial = Trial::run(&wire, &options, &monitor(model, table)).unwrap();
                let ledger = &trial.ledger;
                let what = format!("{model:?} {table:?} {queues}: {}", ledger.identity());
                assert_eq!(ledger.faults(), Vec::<String>::new(), "{what}");
                assert_eq!((ledger.offered, ledger.waiting), (50_000, 0), "{what}");
                assert!(trial.report.books.is_balanced(), "{what}");
                let truth = ledger.flows.unwrap();
                assert_eq!(truth.flows, 1000, "{what}");
                // The papers' hash tables may merge flows; the default table never does.
                if table == TableKind::Bucket && ledger.lost() == 0 {
                    assert!(truth.is_exact(), "{what}");
                }
            }
        }
    }
}

#[test]
fn packet_level_counts_all_packets() {
    let trial = Trial::run(&round_robin(100), &link(20_000), &Monitor::packets()).unwrap();
    let ledger = &trial.ledger;
    assert_eq!(ledger.faults(), Vec::<String>::new());
    assert_eq!(
        (ledger.counted_only + ledger.lost(), ledger.in_flows),
        (20_000, 0)
    );
    assert!(ledger.identity().contains("counted only"));
}

#[test]
fn packets_of_a_full_ring_are_counted_as_missed() {
    let wire = round_robin(100);
    let options = VirtualOptions {
        rate_pps: 1e12,
        ring: 64,
        ..link(20_000)
    };
    for frames in [Frames::Hot, Frames::Cold] {
        let options = VirtualOptions {
            frames,
            ..options.clone()
        };
        let trial = Trial::run(
            &wire,
            &options,
            &monitor(Model::RunToCompletion, TableKind::Bucket),
        )
        .unwrap();
        assert!(trial.ledger.lost() > 0, "{}", trial.ledger.identity());
        assert!(trial.occupancy_max <= 64);
        assert_eq!(trial.ledger.faults(), Vec::<String>::new());
        assert!(trial.ledger.flows.unwrap().is_exact());
        assert_eq!(trial.ledger.lost(), trial.report.books.lost());
    }
}

#[test]
fn periodic_receiver_finds_the_packets_of_a_period() {
    let wire = round_robin(100);
    let options = VirtualOptions {
        rate_pps: 1e6,
        acquisition: Acquisition::Periodic(1_000_000),
        trace: true,
        ..link(20_000)
    };
    let monitor = monitor(Model::RunToCompletion, TableKind::Bucket);
    let trial = Trial::run(&wire, &options, &monitor).unwrap();
    assert_eq!(trial.ledger.faults(), Vec::<String>::new());
    assert_eq!(trial.ledger.lost(), 0);
    let occupancies = &trial.queues[0].occupancies;
    // A packet per microsecond, a poll per millisecond, twenty milliseconds.
    assert!(
        occupancies.iter().all(|&held| held <= 1001),
        "{occupancies:?}"
    );
    assert!((1..=21).contains(&occupancies.len()), "{occupancies:?}");
    assert_eq!(
        occupancies.iter().map(|&held| u64::from(held)).max(),
        Some(trial.occupancy_max)
    );
}

#[test]
fn round_robin_gap_is_exact_in_every_model_and_batch_size() {
    let flows = 500;
    let wire = round_robin(flows);
    for model in [Model::RunToCompletion, Model::Pipeline] {
        for batch in [1, 3, 32, 256] {
            let mut monitor = monitor(model, TableKind::Bucket)
                .with_statistics("gap,gap-percentile=50/99/100", Estimator::LogLinear)
                .unwrap();
            // A pipeline in real time must not lose packets to its ring here.
            monitor.options.ring = 1 << 20;
            let columns = monitor.options.meter.schema().statistics;
            let options = VirtualOptions {
                batch,
                // Slow enough that nothing is lost even if the machine stalls.
                rate_pps: 1e4,
                stall_ns: 1,
                ..link(10_000)
            };
            let seen = Mutex::new(0);
            let trial = Trial::run_observed(&wire, &options, &monitor, |records| {
                for row in records.values.chunks(columns.len()) {
                    *seen.lock().unwrap() += 1;
                    for (column, &value) in columns.iter().zip(row) {
                        let deviation = column.name.to_lowercase().contains("dev");
                        let expected = if deviation { 0.0 } else { f64::from(flows - 1) };
                        // A percentile is as exact as a bin of the histogram.
                        let error = if column.name.contains("ercentile") {
                            0.1
                        } else {
                            0.0
                        };
                        assert!(
                            (value - expected).abs() <= error * expected,
                            "{model:?} {batch} {}: {value}",
                            column.name
                        );
                    }
                }
            })
            .unwrap();
            assert_eq!(trial.ledger.lost(), 0, "{}", trial.ledger.identity());
            assert_eq!(*seen.lock().unwrap(), flows);
        }
    }
}
