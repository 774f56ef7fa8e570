//! Acquisition apart from processing: behind the buffer every model gives the records that it gives
//! without, and what the buffer had no room for is in the books.

use crate::runs;
use engine::{Acquisition, Loss, Model, Options, When};
use flow::MeterOptions;
use port::{Burst, Counters, MemoryPort, Port, PortError, Received};
use std::time::Duration;

fn packets(count: u32) -> Vec<(u8, i64)> {
    (0..count)
        .map(|number| ((number * 7 % 251) as u8, i64::from(number) * 1_000_000))
        .collect()
}

fn options(model: Model, sort_bytes: usize, when: When) -> Options {
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
            when,
            queue: 4096,
        }),
        ..Options::default()
    }
}

#[test]
fn every_model_gives_the_same_records_behind_the_buffer() {
    let memory = runs::memory(&packets(60_000));
    let port = || vec![Box::new(memory.clone()) as Box<dyn Port>];
    let expected = runs::run(
        &Options {
            acquisition: None,
            ..options(Model::RunToCompletion, 0, When::Polled)
        },
        port(),
        false,
        false,
    );
    for model in [Model::RunToCompletion, Model::Pipeline, Model::Cooperative] {
        for when in [When::Polled, When::Periodic(Duration::from_micros(500))] {
            let ran = runs::run(&options(model, 0, when), port(), false, false);
            assert_eq!(ran.records, expected.records, "{model:?} {when:?}");
            assert_eq!(ran.report.books, expected.report.books);
            let acquired = &ran.report.acquisition[0];
            assert!(acquired.rounds > 0 && !acquired.interpolated);
            assert!(acquired.blocks_used_most >= 1);
        }
    }
}

/// Sorting changes the order of packets, so only what does not depend on it is the same.
#[test]
fn a_sorted_buffer_gives_the_same_flows() {
    let memory = runs::memory(&packets(60_000));
    let port = || vec![Box::new(memory.clone()) as Box<dyn Port>];
    let whole = |mut options: Options| {
        options.meter.timeouts = flow::Timeouts::NONE;
        runs::run(&options, port(), false, false)
    };
    let model = Model::RunToCompletion;
    let expected = whole(options(model, 0, When::Polled));
    for sort_bytes in [1, 100_000, 2 << 20] {
        let ran = whole(options(model, sort_bytes, When::Polled));
        assert_eq!(ran.records, expected.records, "within {sort_bytes} bytes");
    }
}

/// However long the buffer holds: packets of a slow link that lie in it together are sorted only with
/// those that come about the same time.
#[test]
fn sorting_ends_no_flow_that_goes_on() {
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
        let options = options(Model::RunToCompletion, sort_bytes, When::Polled);
        runs::run(&options, port, false, false)
    };
    let (plain, sorted) = (run(0), run(16 << 20));
    assert_eq!(sorted.records.len(), plain.records.len());
    assert_eq!(sorted.report.books, plain.report.books);
}

/// A link that hands its frames over as fast as they are taken, each burst with one time.
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

    fn stamps_bursts(&self) -> bool {
        true
    }
}

#[test]
fn what_finds_no_room_is_lost_by_name_and_times_lie_within_their_bound() {
    let flood = Flood {
        frames: runs::memory(&packets(200_000)).repeated(5),
        bursts: 0,
    };
    let options = Options {
        acquisition: Some(Acquisition {
            buffer_bytes: 0,
            ..options(Model::RunToCompletion, 0, When::Polled)
                .acquisition
                .unwrap()
        }),
        ..options(Model::RunToCompletion, 0, When::Polled)
    };
    let before = std::time::SystemTime::now();
    let ran = runs::run(&options, vec![Box::new(flood)], false, true);
    let books = &ran.report.books;
    let lost = books.dropped[Loss::Buffer as usize];
    // However much was lost: it balances, to the packet and the byte.
    assert_eq!(books.received.packets, 1_000_000);
    assert_eq!(books.received.bytes, 64_000_000);
    assert_eq!(books.processed.packets + lost.packets, 1_000_000);
    let acquired = &ran.report.acquisition[0];
    assert!(acquired.interpolated && acquired.told_by_port);
    assert!(acquired.occupancy.samples() > 0);
    assert_eq!(acquired.time_error_frames, books.processed.packets);
    let nanos = |time: std::time::SystemTime| {
        let since = time.duration_since(std::time::SystemTime::UNIX_EPOCH);
        i64::try_from(since.unwrap().as_nanos()).unwrap()
    };
    let (before, after) = (nanos(before), nanos(std::time::SystemTime::now()));
    for record in &ran.records {
        assert!(before <= record.start_ns && record.end_ns <= after);
    }
}
