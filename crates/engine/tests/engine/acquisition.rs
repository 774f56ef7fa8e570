//! Acquisition in separate threads: all models give the same records with the buffer as without it, and
//! the books account for frames that found the buffer full.

use crate::runs;
use engine::{Acquisition, Loss, Model, Options, PollMode};
use flow::MeterOptions;
use port::{Burst, Counters, MemoryPort, Port, PortError, Received};
use std::time::Duration;

fn packets(count: u32) -> Vec<(u8, i64)> {
    (0..count)
        .map(|number| ((number * 7 % 251) as u8, i64::from(number) * 1_000_000))
        .collect()
}

fn options(model: Model, sort_bytes: usize, when: PollMode) -> Options {
    Options {
        model,
        monitors: 2,
        meter: MeterOptions {
            flows_max: 1000,
            ..MeterOptions::default()
        },
        acquisition: Some(Acquisition {
            buffer_bytes: 4 << 20,
            sort_bytes,
            mode: when,
            queue_size: 4096,
        }),
        ..Options::default()
    }
}

#[test]
fn every_model_gives_the_same_records_with_the_buffer() {
    let memory = runs::memory(&packets(60_000));
    let port = || vec![Box::new(memory.clone()) as Box<dyn Port>];
    let expected = runs::run(
        &Options {
            acquisition: None,
            ..options(Model::RunToCompletion, 0, PollMode::Continuous)
        },
        port(),
        false,
    );
    for model in [Model::RunToCompletion, Model::Pipeline, Model::Cooperative] {
        for when in [
            PollMode::Continuous,
            PollMode::Periodic(Duration::from_micros(500)),
        ] {
            let result = runs::run(&options(model, 0, when), port(), false);
            assert_eq!(result.records, expected.records, "{model:?} {when:?}");
            assert_eq!(result.report.books, expected.report.books);
            let acquired = &result.report.acquisition[0];
            assert!(acquired.rounds > 0 && !acquired.interpolated);
            assert!(acquired.blocks_used_max >= 1);
        }
    }
}

/// Sorting changes the order of packets, so the timeouts, which depend on it, are disabled.
#[test]
fn a_sorted_buffer_gives_the_same_flows() {
    let memory = runs::memory(&packets(60_000));
    let port = || vec![Box::new(memory.clone()) as Box<dyn Port>];
    let whole = |mut options: Options| {
        options.meter.timeouts = flow::Timeouts::NONE;
        runs::run(&options, port(), false)
    };
    let model = Model::RunToCompletion;
    let expected = whole(options(model, 0, PollMode::Continuous));
    for sort_bytes in [1, 100_000, 2 << 20] {
        let result = whole(options(model, sort_bytes, PollMode::Continuous));
        assert_eq!(
            result.records, expected.records,
            "within {sort_bytes} bytes"
        );
    }
}

/// On a slow link, a block of the buffer spans a long time. Packets are sorted only with others of about
/// the same time.
#[test]
fn sorting_splits_no_flow() {
    let packets: Vec<(u8, i64)> = (0..60_000)
        .map(|at| {
            (
                (at % 100) as u8,
                1_700_000_000_000_000_000 + at * 10_000_000,
            )
        })
        .collect();
    let memory = runs::memory(&packets);
    let run = |sort_bytes| {
        let port = vec![Box::new(memory.clone()) as Box<dyn Port>];
        let options = options(Model::RunToCompletion, sort_bytes, PollMode::Continuous);
        runs::run(&options, port, false)
    };
    let (unsorted, sorted) = (run(0), run(16 << 20));
    assert_eq!(sorted.records.len(), unsorted.records.len());
    assert_eq!(sorted.report.books, unsorted.report.books);
}

/// A link that delivers frames as fast as they are received, with one timestamp per burst.
struct Flood {
    frames: MemoryPort,
    bursts: u32,
}

impl Port for Flood {
    fn receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        self.bursts += 1;
        self.frames.receive()
    }

    fn counters(&mut self) -> Counters {
        self.frames.counters()
    }

    fn name(&self) -> &'static str {
        "flood"
    }

    fn occupancy(&mut self) -> Option<usize> {
        Some((self.bursts as usize * 37) % 300)
    }

    fn has_burst_timestamps(&self) -> bool {
        true
    }
}

#[test]
fn frames_that_find_the_buffer_full_are_counted_and_timestamps_are_within_their_bound() {
    let flood = Flood {
        frames: runs::memory(&packets(200_000)).repeated(5),
        bursts: 0,
    };
    let options = Options {
        acquisition: Some(Acquisition {
            buffer_bytes: 0,
            ..options(Model::RunToCompletion, 0, PollMode::Continuous)
                .acquisition
                .unwrap()
        }),
        ..options(Model::RunToCompletion, 0, PollMode::Continuous)
    };
    let before = std::time::SystemTime::now();
    let result = runs::run(&options, vec![Box::new(flood)], true);
    let books = &result.report.books;
    let lost = books.dropped[Loss::Buffer as usize];
    // The books balance, to the packet and the byte, however much was lost.
    assert_eq!(books.received.packets, 1_000_000);
    assert_eq!(books.received.bytes, 64_000_000);
    assert_eq!(books.processed.packets + lost.packets, 1_000_000);
    let acquired = &result.report.acquisition[0];
    assert!(acquired.interpolated && acquired.occupancy_from_port);
    assert!(acquired.occupancy.samples() > 0);
    assert_eq!(acquired.time_error_frames, books.processed.packets);
    let nanos = |time: std::time::SystemTime| {
        let since = time.duration_since(std::time::SystemTime::UNIX_EPOCH);
        i64::try_from(since.unwrap().as_nanos()).unwrap()
    };
    let (before, after) = (nanos(before), nanos(std::time::SystemTime::now()));
    for record in &result.records {
        assert!(before <= record.start_ns && record.end_ns <= after);
    }
}
