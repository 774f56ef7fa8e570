//! The sender against links that misbehave: what was intended, offered, sent, refused and left is one
//! identity, and nothing is sent twice, out of turn or not at all.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use generator::{
    SendControl, FlowOrder, Pacing, Probe, Rate, RateSpec, SendClock, SendOptions, SendReport, FrameSizes, Source,
    Traffic, TrafficOptions, Truth, WhenFull, WhenLate, send,
};
use port::{NullSink, PortError, Slot, Transmit};
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A link that takes as many frames of each burst as its script says, and reads what it took.
struct Moody {
    memory: Vec<Vec<u8>>,
    times: Vec<i64>,
    lengths: Vec<usize>,
    left: usize,
    script: Vec<usize>,
    turn: usize,
    taken: Vec<(Vec<u8>, i64)>,
    lent: usize,
}

impl Moody {
    fn new(script: Vec<usize>) -> Self {
        Self {
            memory: vec![vec![0xee; 2048]; 256],
            times: vec![0; 256],
            lengths: vec![0; 256],
            left: 0,
            script,
            turn: 0,
            taken: Vec::new(),
            lent: 0,
        }
    }
}

/// The slots are leaked: a test can afford it, and the trait wants them borrowed from the link.
impl Transmit for Moody {
    fn reserve(&mut self, count: usize, _room: usize) -> Result<&mut [Slot<'_>], PortError> {
        self.lent = count;
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
        // Slots are read back through their memory; lengths through the frames themselves.
        Ok(Box::leak(slots.into_boxed_slice()))
    }

    fn submit(&mut self, count: usize) -> Result<usize, PortError> {
        let most = self.script[self.turn % self.script.len()];
        self.turn += 1;
        let taken = most.min(count);
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
        "moody"
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

fn sequences(sink: &Moody) -> Vec<u64> {
    sink.taken
        .iter()
        .map(|(frame, _)| Probe::parse(&frame[42..]).unwrap().sequence)
        .collect()
}

fn rate(text: &str) -> Rate {
    text.parse::<RateSpec>().unwrap().resolve(None).unwrap()
}

fn assert_identity(report: &SendReport, sink: &dyn Transmit, truth: &Truth) {
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
    fn a_link_that_takes_some_gets_all_in_their_order(
        script in proptest::collection::vec(0usize..300, 1..12), count in 1u64..3000, burst in 1usize..300,
    ) {
        prop_assume!(script.iter().any(|&taken| taken > 0));
        let mut traffic = traffic(FlowOrder::Uniform);
        let mut sink = Moody::new(script);
        let mut truth = Truth::new(100);
        let options = SendOptions { count: Some(count), burst, ..SendOptions::default() };
        let report = send(&mut traffic, &mut sink, &options, Some(&mut truth), &SendControl::default()).unwrap();
        prop_assert_eq!(report.sent, count);
        prop_assert_eq!(report.intended, count);
        prop_assert_eq!(sequences(&sink), (0..count).collect::<Vec<_>>());
        assert_identity(&report, &sink, &truth);
        for flow in 0..100 {
            let key = traffic.key(flow);
            let ports = [key.source_port.to_be_bytes(), key.destination_port.to_be_bytes()].concat();
            let frames = sink.taken.iter().filter(|(frame, _)| frame[34..38] == ports);
            prop_assert_eq!(frames.count() as u64, truth.sent_by(flow).packets);
        }
    }

    #[test]
    fn what_is_given_up_is_counted_and_never_sent(
        script in proptest::collection::vec(0usize..300, 1..12), count in 1u64..3000,
    ) {
        let mut sink = Moody::new(script);
        let mut truth = Truth::new(100);
        let options = SendOptions {
            count: Some(count), when_full: WhenFull::Drop, ..SendOptions::default()
        };
        let report =
            send(&mut traffic(FlowOrder::Uniform), &mut sink, &options, Some(&mut truth), &SendControl::default()).unwrap();
        prop_assert_eq!(report.offered, count);
        assert_identity(&report, &sink, &truth);
        let sequences = sequences(&sink);
        prop_assert!(sequences.windows(2).all(|pair| pair[0] < pair[1]));
        prop_assert!(sequences.iter().all(|&sequence| sequence < count));
    }
}

#[test]
fn virtual_time_follows_the_rate_exactly() {
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
    // 1.5 s at 1000 packets a second: those due before its end, the first at 0.
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
    // 8 Mbit/s at layer 2 are a byte a microsecond: as many frames as fit.
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
fn a_rate_holds_on_the_wall_clock_and_ends_by_count() {
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
    // However late it runs, it never runs ahead: 19,999 intervals of 5 us.
    assert!(
        report.elapsed_ns >= 99_995_000 - 99_995,
        "{}",
        report.elapsed_ns
    );
    assert_eq!(report.lateness.unwrap().count(), 20_000);
}

#[test]
fn late_packets_are_skipped_where_that_was_chosen() {
    // A link that takes nothing for a while: all that was due meanwhile is too late afterwards.
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
    assert_identity(&report, &sink, &truth);
    assert_eq!(report.intended, 6_000);
    // 30 ms without a turn are 3,000 packets, less the millisecond that is allowed.
    assert!(report.skipped >= 2_800, "{}", report.skipped);
    assert!(sequences_are_without_gaps(&report));
}

/// Skipped packets were never built, so they have no sequence numbers.
fn sequences_are_without_gaps(report: &SendReport) -> bool {
    report.sent == report.offered
}

#[test]
fn a_wish_to_stop_is_obeyed_and_what_was_not_taken_is_refused() {
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
    assert_identity(&report, &sink, &truth);
    // A link that never takes anything: the time ends, and what hangs in it is given up. There is
    // time for the first burst to be due.
    let mut sink = Moody::new(vec![0]);
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
    assert_identity(&report, &sink, &truth);
}

#[test]
fn frames_are_counted_by_kind() {
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

/// A link that takes so many frames, and is down from then on.
struct Leaving {
    sink: NullSink,
    left: usize,
    down: Option<Instant>,
}

impl Leaving {
    fn new(left: usize) -> Self {
        Self {
            sink: NullSink::new(),
            left,
            down: None,
        }
    }
}

impl Transmit for Leaving {
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
        "leaving"
    }
}

#[test]
fn a_run_with_a_count_ends_when_its_link_stays_down() {
    let mut sink = Leaving::new(700);
    let mut truth = Truth::new(100);
    let options = SendOptions {
        count: Some(1_000),
        link_down_max: Duration::from_millis(50),
        ..SendOptions::default()
    };
    let begun = Instant::now();
    let report = send(
        &mut traffic(FlowOrder::Uniform),
        &mut sink,
        &options,
        Some(&mut truth),
        &SendControl::default(),
    )
    .unwrap();
    assert!(report.link_lost && begun.elapsed() >= options.link_down_max);
    assert_eq!((report.sent, report.intended), (700, 1_000));
    assert_identity(&report, &sink, &truth);
}

#[test]
fn a_run_without_a_count_outlasts_its_link() {
    let mut sink = Leaving::new(700);
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
