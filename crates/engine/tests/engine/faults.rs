//! The engine behind a port that loses, copies, delays and reorders frames: every model has the same
//! records, and the books have what arrived.

use crate::runs;
use engine::{Model, Options};
use flow::{MeterOptions, Timeouts};
use port::{Fault, Faults, Faulty, Port};
use std::time::Duration;

const PACKETS: u64 = 20_000;

#[test]
fn every_model_accounts_for_what_arrived() {
    let packets: Vec<(u8, i64)> = (0..PACKETS as i64)
        .map(|number| ((number * number % 251) as u8, number * 1_000_000))
        .collect();
    let memory = runs::memory(&packets);
    for seed in 0..4 {
        let faults = Faults {
            seed,
            lost: 20_000,
            copied: 20_000,
            overtaken: 20_000,
            overtaken_by: 30,
            delayed: 20_000,
            // Longer than the idle time-out: some flows end while their packets are under way.
            delay: Duration::from_secs(3),
        };
        let mut first = None;
        for (model, ports, monitors) in [
            (Model::RunToCompletion, 1, 1),
            (Model::RunToCompletion, 2, 1),
            (Model::Pipeline, 1, 2),
            (Model::Cooperative, 1, 1),
        ] {
            let options = Options {
                model,
                meter: MeterOptions {
                    flows_max: 1000,
                    timeouts: Timeouts {
                        idle: Some(Duration::from_millis(700)),
                        ..Timeouts::default()
                    },
                    ..MeterOptions::default()
                },
                monitors,
                ring: 512,
                ..Options::default()
            };
            let wrapped: Vec<_> = (0..ports)
                .map(|_| Faulty::new(memory.clone(), faults))
                .collect();
            let log = wrapped[0].log();
            let same_packets = wrapped.len() > 1;
            let boxed = wrapped
                .into_iter()
                .map(|port| Box::new(port) as Box<dyn Port>)
                .collect();
            let ran = runs::run(&options, boxed, same_packets, false);
            let log = log.faults();
            let count = |kind: Fault| log.iter().filter(|(_, fault)| *fault == kind).count() as u64;
            let (lost, copied) = (count(Fault::Lost), count(Fault::Copied));
            assert!(lost > 300 && copied > 300);
            let received = ran.report.books.received.packets;
            assert_eq!(received, PACKETS - lost + copied, "{model:?}");
            let first = first.get_or_insert_with(|| ran.records.clone());
            assert_eq!(&ran.records, first, "{model:?} {ports} {monitors}");
        }
    }
}
