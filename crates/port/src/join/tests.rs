//! Tests of joined ports.

use super::*;
use crate::memory::MemoryPort;
use proptest::prelude::*;
use std::collections::VecDeque;

/// A port that delivers bursts of frames with these times, or nothing, in this order.
struct Scripted {
    name: &'static str,
    /// Times of a burst; none for [`Received::Idle`].
    script: VecDeque<Vec<i64>>,
    frames: FrameList,
    delivered: u64,
    /// Whether it is idle for ever at the end.
    stays: bool,
}

const BYTES: [u8; 4] = [1, 2, 3, 4];

impl Scripted {
    fn boxed(name: &'static str, stays: bool, script: &[&[i64]]) -> Box<dyn Port> {
        Box::new(Self {
            name,
            script: script.iter().map(|times| times.to_vec()).collect(),
            frames: FrameList::default(),
            delivered: 0,
            stays,
        })
    }
}

impl Port for Scripted {
    fn receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        let Some(times) = self.script.pop_front() else {
            return Ok(match self.stays {
                true => Received::Idle,
                false => Received::End,
            });
        };
        if times.is_empty() {
            return Ok(Received::Idle);
        }
        // SAFETY: the bytes are static.
        let slots = unsafe { self.frames.slots() };
        for (slot, time_ns) in slots.iter_mut().zip(&times) {
            *slot = crate::Frame::new(&BYTES, *time_ns, 4);
        }
        self.delivered += times.len() as u64;
        Ok(Received::Burst(Burst {
            link: LinkType::Ethernet,
            frames: self.frames.first(times.len()),
        }))
    }

    fn counters(&mut self) -> Counters {
        Counters {
            frames: self.delivered,
            ..Counters::default()
        }
    }

    fn name(&self) -> &str {
        self.name
    }

    fn stop(&mut self) {
        (self.script, self.stays) = (VecDeque::new(), false);
    }
}

/// Receives up to the end, or up to a number of frames. Returns their times and first bytes.
fn receive(port: &mut dyn Port, most: usize) -> Vec<(i64, u8)> {
    let mut received = Vec::new();
    while received.len() < most {
        match port.receive().unwrap() {
            Received::Burst(burst) => {
                assert!((1..=BURST).contains(&burst.frames.len()));
                let frames = burst.frames.iter();
                received.extend(frames.map(|frame| (frame.time_ns, frame.bytes[0])));
            }
            Received::Idle => {}
            Received::Fault(message) => panic!("{message}"),
            Received::End => break,
        }
    }
    received
}

fn joined_files(ports: Vec<Box<dyn Port>>) -> Joined {
    let inputs = ports.into_iter().map(JoinedInput::new).collect();
    Joined::new("files".into(), inputs, None)
}

proptest! {
    /// Whatever the bursts of the parts, the whole is in time order, and all frames are counted.
    #[test]
    fn parts_give_the_whole_in_time_order(
        frames in prop::collection::vec((0i64..1000, 0usize..5), 0..600),
        sizes in prop::array::uniform5(1usize..300),
        is_link: bool,
    ) {
        let mut whole: Vec<(i64, u8)> =
            frames.iter().map(|&(time_ns, part)| (time_ns, part as u8)).collect();
        whole.sort();
        let ports = (0..5).map(|part| -> Box<dyn Port> {
            let own = whole.iter().filter(|(_, of)| usize::from(*of) == part);
            let port = MemoryPort::new(LinkType::Ethernet, own.map(|&(time, of)| (time, 64, [of])));
            Box::new(port.with_burst_size(sizes[part]))
        });
        let ports: Vec<_> = ports.collect();
        let mut joined = match is_link {
            true => Joined::links(ports, Duration::from_millis(1)),
            false => joined_files(ports),
        };
        prop_assert_eq!(receive(&mut joined, usize::MAX), whole.clone());
        let counters = joined.counters();
        prop_assert_eq!((counters.frames, counters.bytes), (whole.len() as u64, 64 * whole.len() as u64));
        let inputs = joined.inputs();
        prop_assert!(inputs.iter().all(|it| it.received == it.delivered && it.late + it.out_of_order == 0));
        prop_assert_eq!(inputs.iter().map(|it| it.delivered).sum::<u64>(), whole.len() as u64);
    }
}

#[test]
fn files_wait_for_each_other_as_long_as_it_takes() {
    let mut joined = joined_files(vec![
        Scripted::boxed("a", false, &[&[10, 30]]),
        Scripted::boxed("b", false, &[&[], &[], &[], &[20]]),
    ]);
    let times: Vec<i64> = receive(&mut joined, 9).iter().map(|it| it.0).collect();
    assert_eq!(times, [10, 20, 30]);
}

#[test]
fn packets_of_a_link_wait_for_the_window_only() {
    let window = Duration::from_millis(20);
    let mut joined = Joined::links(
        vec![
            Scripted::boxed("rx", true, &[&[1_000, 2_000], &[3_000]]),
            Scripted::boxed("tx", true, &[]),
        ],
        window,
    );
    let started = std::time::Instant::now();
    assert_eq!(receive(&mut joined, 3).len(), 3);
    assert!(started.elapsed() >= window);
    joined.stop();
    assert_eq!(receive(&mut joined, 1), []);
    assert_eq!(joined.name(), "rx+tx");
}

#[test]
fn late_packets_and_those_out_of_order_are_counted_apart() {
    let window = Duration::from_millis(1);
    let late: Vec<&[i64]> = std::iter::repeat_n(&[][..], 10_000_000 / 10_000)
        .chain([&[1_500][..]])
        .collect();
    struct Slow(Box<dyn Port>);
    impl crate::Wrapper for Slow {
        type Inner = dyn Port;
        fn inner(&self) -> &Self::Inner {
            &*self.0
        }
        fn inner_mut(&mut self) -> &mut Self::Inner {
            &mut *self.0
        }
        fn wrap_receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
            std::thread::sleep(Duration::from_micros(20));
            self.0.receive()
        }
    }
    let mut joined = Joined::links(
        vec![
            Scripted::boxed("rx", false, &[&[1_000, 900, 2_000], &[3_000]]),
            Box::new(Slow(Scripted::boxed("tx", false, &late))),
        ],
        window,
    );
    let times: Vec<i64> = receive(&mut joined, usize::MAX)
        .iter()
        .map(|it| it.0)
        .collect();
    assert_eq!(times, [1_000, 900, 2_000, 3_000, 1_500]);
    let [rx, tx] = &joined.inputs()[..] else {
        panic!("two inputs")
    };
    assert_eq!((rx.late, rx.out_of_order), (0, 1));
    assert_eq!((tx.late, tx.out_of_order), (1, 0));
}

/// A silent link whose every read waits.
struct Silent(std::sync::Arc<std::sync::atomic::AtomicU32>);

impl Port for Silent {
    fn receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(5));
        Ok(Received::Idle)
    }

    fn counters(&mut self) -> Counters {
        Counters::default()
    }

    fn name(&self) -> &'static str {
        "tx"
    }
}

#[test]
fn silent_link_does_not_slow_down_the_other() {
    // A thousand bursts, which arrived within ten milliseconds.
    let bursts: Vec<Vec<i64>> = (0..1000).map(|at| vec![at * 10_000; 200]).collect();
    let bursts: Vec<&[i64]> = bursts.iter().map(Vec::as_slice).collect();
    let polls = std::sync::Arc::default();
    let mut joined = Joined::links(
        vec![
            Scripted::boxed("rx", true, &bursts),
            Box::new(Silent(std::sync::Arc::clone(&polls))),
        ],
        Duration::from_millis(20),
    );
    assert_eq!(receive(&mut joined, 200_000).len(), 200_000);
    let polls = polls.load(std::sync::atomic::Ordering::Relaxed);
    assert!((4..100).contains(&polls), "{polls}");
}

/// A port that fails once and for all.
struct Failing;

impl Port for Failing {
    fn receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        Err(PortError::Failed("tx is gone".into()))
    }

    fn counters(&mut self) -> Counters {
        Counters::default()
    }

    fn name(&self) -> &'static str {
        "tx"
    }
}

#[test]
fn other_inputs_continue_when_one_fails() {
    let mut joined = Joined::links(
        vec![
            Scripted::boxed("rx", false, &[&[1], &[2]]),
            Box::new(Failing),
        ],
        Duration::from_millis(1),
    );
    let mut frames = 0;
    let mut faults = Vec::new();
    let error = loop {
        match joined.receive() {
            Ok(Received::Burst(burst)) => frames += burst.frames.len(),
            Ok(Received::Idle) => {}
            Ok(Received::Fault(message)) => faults.push(message),
            Ok(Received::End) => panic!("the failure is forgotten"),
            Err(error) => break error.to_string(),
        }
    };
    assert_eq!((frames, &faults[..]), (2, &["tx is gone".to_owned()][..]));
    assert!(error.starts_with("tx: "), "{error}");
    assert_eq!(joined.counters().faults, 1);
}
