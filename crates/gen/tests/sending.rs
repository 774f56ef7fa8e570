//! Tests of the sender with links that accept only some frames, stall or fail: the report adds up, and
//! frames are sent exactly once and in order.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use generator::{
    FlowOrder, FrameSizes, Pacing, Probe, Rate, RateSpec, SendClock, SendControl, SendOptions,
    SendReport, Source, Traffic, TrafficOptions, Truth, WhenFull, WhenLate, send,
};
use port::{NullSink, PortError, Slot, Transmit};
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A link that accepts the scripted number of frames of each burst, and stores them.
struct ScriptedLink {
    memory: Vec<Vec<u8>>,
    times: Vec<i64>,
    lengths: Vec<usize>,
    left: usize,
    script: Vec<usize>,
    bursts: usize,
    taken: Vec<(Vec<u8>, i64)>,
    reserved: usize,
}

impl ScriptedLink {
    fn new(script: Vec<usize>) -> Self {
        Self {
            memory: vec![vec![0xee; 2048]; 256],
            times: vec![0; 256],
            lengths: vec![0; 256],
            left: 0,
            script,
            bursts: 0,
            taken: Vec::new(),
            reserved: 0,
        }
    }
}

/// The slots are leaked, because the trait requires that the link owns them.
impl Transmit for ScriptedLink {
    fn reserve(&mut self, count: usize, _room: usize) -> Result<&mut [Slot<'_>], PortError> {
        self.reserved = count;
        let (lengths, times, left) = (&self.lengths, &self.times, self.left);
        let slots: Vec<Slot<'_>> = self
            .memory
            .iter_mut()
            .take(count)
            .enumerate()
            .map(|(index, bytes)| Slot {
                bytes: &mut bytes[..],
                length: if index < left { lengths[index] } else { 2048 },
                time_ns: times[index],
                rss_hash: 0,
            })
            .collect();
        // `submit` reads the memory, and the lengths from the IP headers.
        Ok(Box::leak(slots.into_boxed_slice()))
    }

    fn submit(&mut self, count: usize) -> Result<usize, PortError> {
        let accepted_max = self.script[self.bursts % self.script.len()];
        self.bursts += 1;
        let taken = accepted_max.min(count);
        for frame in self.memory.drain(..taken) {
            let length = 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
            self.taken.push((frame[..length].to_vec(), 0));
        }
        self.memory.resize(256, vec![0xee; 2048]);
        for index in 0..count - taken {
            let frame = &self.memory[index];
            self.lengths[index] = 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        }
        self.left = count - taken;
        Ok(taken)
    }

    fn discard(&mut self) {
        self.left = 0;
    }

    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn sent(&self) -> (u64, u64) {
        let bytes: usize = self.taken.iter().map(|(frame, _)| frame.len()).sum();
        (self.taken.len() as u64, bytes as u64)
    }

    fn name(&self) -> &str {
        "scripted"
    }
}

fn traffic(order: FlowOrder) -> Traffic {
    Traffic::new(&TrafficOptions {
        flows: 100,
        order,
        sizes: "64,100,1514".parse().unwrap(),
        sequence: true,
        ..TrafficOptions::default()
    })
    .unwrap()
}

fn sequences(sink: &ScriptedLink) -> Vec<u64> {
    sink.taken
        .iter()
        .map(|(frame, _)| Probe::parse(&frame[42..]).unwrap().sequence)
        .collect()
}

fn rate(text: &str) -> Rate {
    text.parse::<RateSpec>().unwrap().resolve(None).unwrap()
}

/// Asserts that the counters of report, link and truth agree.
fn assert_books_balance(report: &SendReport, sink: &dyn Transmit, truth: &Truth) {
    assert_eq!(
        report.intended,
        report.offered + report.skipped + report.unsent
    );
    assert_eq!(report.offered, report.sent + report.refused);
    assert_eq!(sink.sent(), (report.sent, report.bytes));
    let total = truth.total();
    assert_eq!((total.packets, total.bytes), (report.sent, report.bytes));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn all_frames_are_sent_in_order_over_a_full_link(
        script in proptest::collection::vec(0usize..300, 1..12), count in 1u64..3000, burst in 1usize..300,
    ) {
        prop_assume!(script.iter().any(|&taken| taken > 0));
        let mut traffic = traffic(FlowOrder::Uniform);
        let mut sink = ScriptedLink::new(script);
        let mut truth = Truth::new(100);
        let options = SendOptions { count: Some(count), burst, ..SendOptions::default() };
        let report = send(&mut traffic, &mut sink, &options, Some(&mut truth), &SendControl::default()).unwrap();
        prop_assert_eq!(report.sent, count);
        prop_assert_eq!(report.intended, count);
        prop_assert_eq!(sequences(&sink), (0..count).collect::<Vec<_>>());
        assert_books_balance(&report, &sink, &truth);
        for flow in 0..100 {
            let key = traffic.key(flow);
            let ports = [key.source_port.to_be_bytes(), key.destination_port.to_be_bytes()].concat();
            let frames = sink.taken.iter().filter(|(frame, _)| frame[34..38] == ports);
            prop_assert_eq!(frames.count() as u64, truth.sent_by(flow).packets);
        }
    }

    #[test]
    fn dropped_frames_are_counted_and_never_sent(
        script in proptest::collection::vec(0usize..300, 1..12), count in 1u64..3000,
    ) {
        let mut sink = ScriptedLink::new(script);
        let mut truth = Truth::new(100);
        let options = SendOptions {
            count: Some(count), when_full: WhenFull::Drop, ..SendOptions::default()
        };
        let report =
            send(&mut traffic(FlowOrder::Uniform), &mut sink, &options, Some(&mut truth), &SendControl::default()).unwrap();
        prop_assert_eq!(report.offered, count);
        assert_books_balance(&report, &sink, &truth);
        let sequences = sequences(&sink);
        prop_assert!(sequences.windows(2).all(|pair| pair[0] < pair[1]));
        prop_assert!(sequences.iter().all(|&sequence| sequence < count));
    }
}

#[test]
fn virtual_clock_follows_the_rate_exactly() {
    struct Times(NullSink, Vec<i64>);
    impl Transmit for Times {
        fn reserve(&mut self, count: usize, room: usize) -> Result<&mut [Slot<'_>], PortError> {
            self.0.reserve(count, room)
        }
        fn submit(&mut self, count: usize) -> Result<usize, PortError> {
            self.1.push(count as i64);
            self.0.submit(count)
        }
        fn discard(&mut self) {}
        fn flush(&mut self) -> Result<(), PortError> {
            Ok(())
        }
        fn sent(&self) -> (u64, u64) {
            self.0.sent()
        }
        fn name(&self) -> &str {
            "times"
        }
    }
    // 1.5 s at 1000 packets per second, the first at 0.
    let options = SendOptions {
        pacing: Pacing::Rate(rate("1Kpps")),
        clock: SendClock::Virtual(5),
        duration: Some(Duration::from_millis(1500)),
        ..SendOptions::default()
    };
    let mut sink = Times(NullSink::new(), Vec::new());
    let control = SendControl::default();
    let report = send(
        &mut traffic(FlowOrder::RoundRobin),
        &mut sink,
        &options,
        None,
        &control,
    )
    .unwrap();
    assert_eq!(
        (report.sent, report.intended, report.unsent),
        (1500, 1500, 0)
    );
    assert_eq!(report.elapsed_ns, 1_500_000_000);
    assert_eq!(control.sent.load(Ordering::Relaxed), 1500);
    // 8 Mbit/s at layer 2 are one byte per microsecond: 1500 frames of 1000 bytes.
    let mut fixed = Traffic::new(&TrafficOptions {
        sizes: FrameSizes::fixed(1000).unwrap(),
        ..TrafficOptions::default()
    })
    .unwrap();
    let options = SendOptions {
        pacing: Pacing::Rate(rate("8Mbps@2")),
        ..options
    };
    let report = send(&mut fixed, &mut sink, &options, None, &control).unwrap();
    assert_eq!(report.sent, 1500);
}

#[test]
fn wall_clock_run_reaches_its_count_and_never_exceeds_its_rate() {
    let options = SendOptions {
        pacing: Pacing::Rate(rate("200Kpps")),
        count: Some(20_000),
        ..SendOptions::default()
    };
    let mut sink = NullSink::new();
    let report = send(
        &mut traffic(FlowOrder::Uniform),
        &mut sink,
        &options,
        None,
        &SendControl::default(),
    )
    .unwrap();
    assert_eq!(report.sent, 20_000);
    // The sender is never early: 19,999 intervals of 5 µs.
    assert!(
        report.elapsed_ns >= 99_995_000 - 99_995,
        "{}",
        report.elapsed_ns
    );
    assert_eq!(report.lateness.unwrap().count(), 20_000);
}

#[test]
fn late_packets_are_skipped_on_request() {
    // A link that stalls once. All packets that were due meanwhile are too late.
    struct Stalled {
        sink: NullSink,
        stalls: u32,
    }
    impl Transmit for Stalled {
        fn reserve(&mut self, count: usize, room: usize) -> Result<&mut [Slot<'_>], PortError> {
            if self.stalls > 0 {
                self.stalls -= 1;
                std::thread::sleep(Duration::from_millis(30));
            }
            self.sink.reserve(count, room)
        }
        fn submit(&mut self, count: usize) -> Result<usize, PortError> {
            self.sink.submit(count)
        }
        fn discard(&mut self) {
            self.sink.discard();
        }
        fn flush(&mut self) -> Result<(), PortError> {
            Ok(())
        }
        fn sent(&self) -> (u64, u64) {
            self.sink.sent()
        }
        fn name(&self) -> &str {
            "stalled"
        }
    }
    let mut sink = Stalled {
        sink: NullSink::new(),
        stalls: 1,
    };
    let options = SendOptions {
        pacing: Pacing::Rate(rate("100Kpps")),
        count: Some(6_000),
        when_late: WhenLate::Skip(Duration::from_millis(1)),
        ..SendOptions::default()
    };
    let mut truth = Truth::new(100);
    let report = send(
        &mut traffic(FlowOrder::Uniform),
        &mut sink,
        &options,
        Some(&mut truth),
        &SendControl::default(),
    )
    .unwrap();
    assert_books_balance(&report, &sink, &truth);
    assert_eq!(report.intended, 6_000);
    // 3,000 packets were due in the 30 ms of the stall, except for 1 ms that is allowed.
    assert!(report.skipped >= 2_800, "{}", report.skipped);
    // Skipped packets are never built, so they have no sequence numbers.
    assert_eq!(report.sent, report.offered);
}

#[test]
fn stop_and_end_of_duration_account_for_unsent_frames() {
    let control = SendControl {
        stop: AtomicBool::new(true),
        ..SendControl::default()
    };
    let mut truth = Truth::new(100);
    let mut sink = NullSink::new();
    let options = SendOptions {
        count: Some(10),
        ..SendOptions::default()
    };
    let report = send(
        &mut traffic(FlowOrder::Uniform),
        &mut sink,
        &options,
        Some(&mut truth),
        &control,
    )
    .unwrap();
    assert_eq!((report.sent, report.unsent, report.intended), (0, 10, 10));
    assert_books_balance(&report, &sink, &truth);
    // A link that never accepts a frame: pending frames are dropped at the end of the duration, which is
    // long enough for the first burst to be due.
    let mut sink = ScriptedLink::new(vec![0]);
    let options = SendOptions {
        duration: Some(Duration::from_millis(200)),
        ..SendOptions::default()
    };
    let report = send(
        &mut traffic(FlowOrder::Uniform),
        &mut sink,
        &options,
        Some(&mut truth),
        &SendControl::default(),
    )
    .unwrap();
    assert_eq!(report.sent, 0);
    assert!(report.refused > 0 && report.link_full > 0);
    assert_books_balance(&report, &sink, &truth);
}

#[test]
fn frames_are_counted_by_class() {
    let mut traffic = Traffic::new(&TrafficOptions {
        flows: 4,
        order: FlowOrder::RoundRobin,
        matching: Some((generator::MatchFilter::parse("tcp").unwrap(), 0.5)),
        ..TrafficOptions::default()
    })
    .unwrap();
    assert_eq!(traffic.classes(), ["other IPv4 UDP", "matching IPv4 TCP"]);
    let options = SendOptions {
        count: Some(1000),
        ..SendOptions::default()
    };
    let mut truth = Truth::new(4);
    let report = send(
        &mut traffic,
        &mut NullSink::new(),
        &options,
        Some(&mut truth),
        &SendControl::default(),
    )
    .unwrap();
    let of = |flows: [u32; 2]| {
        flows
            .into_iter()
            .map(|flow| truth.sent_by(flow).packets)
            .sum::<u64>()
    };
    assert_eq!(report.by_class, [of([0, 1]), of([2, 3])]);
    assert_eq!(report.by_class.iter().sum::<u64>(), 1000);
}

/// A link that accepts a number of frames, and is down from then on.
struct FailingLink {
    sink: NullSink,
    left: usize,
    down: Option<Instant>,
}

impl FailingLink {
    fn new(left: usize) -> Self {
        Self {
            sink: NullSink::new(),
            left,
            down: None,
        }
    }
}

impl Transmit for FailingLink {
    fn reserve(&mut self, count: usize, room: usize) -> Result<&mut [Slot<'_>], PortError> {
        self.sink.reserve(count, room)
    }
    fn submit(&mut self, count: usize) -> Result<usize, PortError> {
        let taken = self.left.min(count);
        self.left -= taken;
        if taken == 0 {
            self.down.get_or_insert_with(Instant::now);
        }
        self.sink.submit(taken)
    }
    fn discard(&mut self) {
        self.sink.discard();
    }
    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }
    fn down_since(&self) -> Option<Instant> {
        self.down
    }
    fn next_notice(&mut self) -> Option<String> {
        None
    }
    fn sent(&self) -> (u64, u64) {
        self.sink.sent()
    }
    fn name(&self) -> &str {
        "failing"
    }
}

#[test]
fn run_with_a_count_ends_if_the_link_stays_down() {
    let mut sink = FailingLink::new(700);
    let mut truth = Truth::new(100);
    let options = SendOptions {
        count: Some(1_000),
        link_down_max: Duration::from_millis(50),
        ..SendOptions::default()
    };
    let start = Instant::now();
    let report = send(
        &mut traffic(FlowOrder::Uniform),
        &mut sink,
        &options,
        Some(&mut truth),
        &SendControl::default(),
    )
    .unwrap();
    assert!(report.link_lost && start.elapsed() >= options.link_down_max);
    assert_eq!((report.sent, report.intended), (700, 1_000));
    assert_books_balance(&report, &sink, &truth);
}

#[test]
fn run_without_a_count_continues_while_the_link_is_down() {
    let mut sink = FailingLink::new(700);
    let options = SendOptions {
        duration: Some(Duration::from_millis(200)),
        link_down_max: Duration::from_millis(20),
        ..SendOptions::default()
    };
    let report = send(
        &mut traffic(FlowOrder::Uniform),
        &mut sink,
        &options,
        None,
        &SendControl::default(),
    )
    .unwrap();
    assert!(!report.link_lost);
    assert!(report.elapsed_ns >= 200_000_000);
}
