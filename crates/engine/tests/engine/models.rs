//! The models compared: the same packets give the same records and books with any number of threads.

use crate::runs;
use engine::{Books, Model, Options, Stop};
use flow::{MeterOptions, Record, Timeouts};
use port::{Burst, Counters, MemoryPort, Port, PortError, Received};
use proptest::prelude::*;
use std::time::Duration;

fn run(
    packets: &[(u8, i64)],
    model: Model,
    monitors: usize,
    timeouts: Timeouts,
) -> (Vec<Record>, Books) {
    let memory = runs::memory(packets);
    let options = Options {
        model,
        meter: MeterOptions {
            flows_max: 1000,
            seed: 4,
            timeouts,
            ..MeterOptions::default()
        },
        monitors,
        ring: 512,
        ..Options::default()
    };
    let result = runs::run(&options, vec![Box::new(memory)], false);
    (result.records, result.report.books)
}

/// A port that stops the run after `bursts` bursts.
struct Stopping {
    port: MemoryPort,
    bursts: usize,
    stop: Stop,
}

impl Port for Stopping {
    fn receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        match self.bursts.checked_sub(1) {
            Some(left) => self.bursts = left,
            None => self.stop.request(),
        }
        self.port.receive()
    }

    fn counters(&mut self) -> Counters {
        self.port.counters()
    }

    fn name(&self) -> &str {
        self.port.name()
    }
}

#[test]
fn threads_that_share_the_reading_stop_after_the_same_packet() {
    let packets: Vec<(u8, i64)> = (0..300_000)
        .map(|at| ((at % 251) as u8, 1_700_000_000_000_000_000 + at * 1000))
        .collect();
    let memory = runs::memory(&packets);
    for bursts in [0, 1, 40, 300] {
        let options = Options {
            model: Model::SharedReading,
            monitors: 3,
            ..Options::default()
        };
        let stopping = Stopping {
            port: memory.clone(),
            bursts,
            stop: options.stop.clone(),
        };
        let result = runs::run(&options, vec![Box::new(stopping)], false);
        let read = result.report.books.received.packets as usize;
        assert!(read > 0, "{bursts} bursts");
        let (records, books) = run(
            &packets[..read],
            Model::RunToCompletion,
            1,
            Timeouts::default(),
        );
        assert_eq!((result.records, result.report.books), (records, books));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn every_number_of_threads_gives_the_same_records(
        steps in prop::collection::vec((any::<u8>(), prop_oneof![9 => 0i64..3_000_000, 1 => -20_000_000_000i64..20_000_000_000]), 1..1500),
        idle_ms in prop::option::of(1u64..2000),
    ) {
        let mut now_ns = 1_700_000_000_000_000_000;
        let packets: Vec<(u8, i64)> = steps
            .into_iter()
            .map(|(flow, step)| {
                now_ns += step;
                (flow, now_ns)
            })
            .collect();
        let timeouts = Timeouts { idle: idle_ms.map(Duration::from_millis), ..Timeouts::default() };
        let one = run(&packets, Model::RunToCompletion, 1, timeouts);
        prop_assert_eq!(one.1.received.packets, packets.len() as u64);
        for (model, monitors) in [
            (Model::SharedReading, 2),
            (Model::SharedReading, 3),
            (Model::Pipeline, 1),
            (Model::Pipeline, 3),
            (Model::Cooperative, 1),
            (Model::Cooperative, 3),
        ] {
            prop_assert_eq!(&run(&packets, model, monitors, timeouts), &one, "{:?} {}", model, monitors);
        }
    }

    /// The clock jumps back and forth, by years at most.
    #[test]
    fn clock_jumps_end_the_same_flows_in_every_model(jumps in prop::collection::vec(any::<i32>(), 1..700)) {
        let mut now_ns = 0i64;
        let packets: Vec<(u8, i64)> = jumps
            .into_iter()
            .map(|jump| {
                now_ns = now_ns.saturating_add(i64::from(jump) * 40_000_000);
                (1 + (jump & 3) as u8, now_ns)
            })
            .collect();
        let one = run(&packets, Model::RunToCompletion, 1, Timeouts::default());
        prop_assert_eq!(&run(&packets, Model::SharedReading, 3, Timeouts::default()), &one);
        prop_assert_eq!(&run(&packets, Model::Pipeline, 4, Timeouts::default()), &one);
        prop_assert_eq!(&run(&packets, Model::Cooperative, 2, Timeouts::default()), &one);
    }
}
