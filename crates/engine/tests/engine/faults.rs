//! The engine with a port that loses, duplicates, delays and reorders frames: all models give the same
//! records, and the books account for the frames that arrived.

use crate::runs;
use engine::{Model, Options};
use flow::{MeterOptions, Timeouts};
use port::{Impaired, Impairment, Impairments};
use std::time::Duration;

const PACKETS: u64 = 20_000;

#[test]
fn every_model_accounts_for_the_frames_that_arrived() {
    let packets: Vec<(u8, i64)> = (0..PACKETS as i64)
        .map(|number| ((number * number % 251) as u8, number * 1_000_000))
        .collect();
    let memory = runs::memory(&packets);
    for seed in 0..4 {
        let faults = Impairments {
            seed,
            loss_ppm: 20_000,
            duplicate_ppm: 20_000,
            reorder_ppm: 20_000,
            reorder_distance_max: 30,
            delay_ppm: 20_000,
            // Longer than the idle timeout, so that some flows end while packets are delayed.
            delay_max: Duration::from_secs(3),
        };
        let mut first = None;
        for (model, monitors) in [
            (Model::RunToCompletion, 1),
            (Model::SharedReading, 2),
            (Model::Pipeline, 2),
            (Model::Cooperative, 1),
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
            let wrapped = Impaired::new(memory.clone(), faults);
            let log = wrapped.log();
            let result = runs::run(&options, vec![Box::new(wrapped)], false);
            let log = log.entries();
            let count =
                |kind: Impairment| log.iter().filter(|(_, fault)| *fault == kind).count() as u64;
            let (lost, copied) = (count(Impairment::Lost), count(Impairment::Duplicated));
            assert!(lost > 300 && copied > 300);
            let received = result.report.books.received.packets;
            assert_eq!(received, PACKETS - lost + copied, "{model:?}");
            let first = first.get_or_insert_with(|| result.records.clone());
            assert_eq!(&result.records, first, "{model:?} {monitors}");
        }
    }
}
