//! A port with the impairments of a network: frames of another port are lost, duplicated, reordered and
//! delayed, at positions that a seed determines, with a log of every impairment.

use crate::frame::{BURST, Burst, Counters, Frame, Port, PortError, Received};
use crate::frame_list::FrameList;
use crate::wrapper::Wrapper;
use hw::random::Random;
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wire::LinkType;

/// Rates of impairments, in frames per million. A frame has one impairment at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Impairments {
    /// Seed of the random generator. The same seed and frames give the same impairments.
    pub seed: u64,
    /// Rate of lost frames.
    pub loss_ppm: u32,
    /// Rate of duplicated frames. The copy follows at once, with the same timestamp.
    pub duplicate_ppm: u32,
    /// Rate of frames that later frames overtake.
    pub reorder_ppm: u32,
    /// Maximum number of frames that overtake a reordered frame; uniform from 1.
    pub reorder_distance_max: u32,
    /// Rate of delayed frames.
    pub delay_ppm: u32,
    /// Maximum delay; uniform from 1 ns.
    pub delay_max: Duration,
}

/// The impairment of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impairment {
    /// Not delivered.
    Lost,
    /// Delivered twice.
    Duplicated,
    /// Delivered after this many frames that follow it in the input, with the timestamp of the last of
    /// them. Fewer than drawn, possibly 0, if the input ended first.
    Reordered(u32),
    /// Delivered this many nanoseconds later, after all frames up to that time.
    Delayed(u64),
}

/// The impairments so far, each with the number of its frame in the wrapped port (from 0). Clones share
/// one log.
#[derive(Clone, Debug, Default)]
pub struct ImpairmentLog(Arc<Mutex<Vec<(u64, Impairment)>>>);

impl ImpairmentLog {
    /// Returns all impairments so far, in the order of their frames in the input.
    #[must_use]
    pub fn entries(&self) -> Vec<(u64, Impairment)> {
        self.with(|entries| entries.clone())
    }

    fn with<T>(&self, change: impl FnOnce(&mut Vec<(u64, Impairment)>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A frame that owns its bytes.
struct OwnedFrame {
    link: LinkType,
    bytes: Vec<u8>,
    time_ns: i64,
    wire_length: u32,
    rss_hash: Option<NonZeroU32>,
}

/// A frame that is held back until others have overtaken it.
struct HeldFrame {
    frame: OwnedFrame,
    /// Frames that still have to overtake it.
    remaining: u32,
    /// Index of its log entry.
    log_index: usize,
}

/// Delivers the frames of another port with impairments. Timestamps stay monotonic if those of the port
/// are. Frames held back while a link is idle are delivered with the next frames or at the end.
pub struct Impaired<P> {
    port: P,
    impairments: Impairments,
    log: ImpairmentLog,
    random: Random,
    next_number: u64,
    held: Vec<HeldFrame>,
    /// Ordered by timestamp.
    delayed: VecDeque<OwnedFrame>,
    ready: VecDeque<OwnedFrame>,
    last_time_ns: i64,
    /// The frames of the current burst, which `list` refers to.
    burst: Vec<OwnedFrame>,
    list: FrameList,
    frames: u64,
    bytes: u64,
}

/// Rates are per million frames.
const MILLION: u64 = 1_000_000;

impl<P: Port> Impaired<P> {
    /// Wraps `port` with the given impairments.
    #[must_use]
    pub fn new(port: P, impairments: Impairments) -> Self {
        Self {
            port,
            impairments,
            log: ImpairmentLog::default(),
            random: Random::from_state(impairments.seed),
            next_number: 0,
            held: Vec::new(),
            delayed: VecDeque::new(),
            ready: VecDeque::new(),
            last_time_ns: i64::MIN,
            burst: Vec::new(),
            list: FrameList::default(),
            frames: 0,
            bytes: 0,
        }
    }

    /// Returns the log of impairments.
    #[must_use]
    pub fn log(&self) -> ImpairmentLog {
        self.log.clone()
    }

    /// Returns a random number below `bound`. The bias of the modulo is below 2^-40.
    fn random_below(&mut self, bound: u64) -> u64 {
        self.random.bits() % bound.max(1)
    }

    /// Draws the impairment of the next frame.
    fn draw_impairment(&mut self) -> Option<Impairment> {
        let rates = self.impairments;
        let mut sample = self.random_below(MILLION);
        let mut is_hit = |rate: u32| {
            let hit = sample < u64::from(rate);
            sample = sample.wrapping_sub(u64::from(rate));
            hit
        };
        if is_hit(rates.loss_ppm) {
            Some(Impairment::Lost)
        } else if is_hit(rates.duplicate_ppm) {
            Some(Impairment::Duplicated)
        } else if is_hit(rates.reorder_ppm) {
            let distance = 1 + self.random_below(u64::from(rates.reorder_distance_max)) as u32;
            Some(Impairment::Reordered(distance))
        } else if is_hit(rates.delay_ppm) {
            let max_ns = u64::try_from(rates.delay_max.as_nanos()).unwrap_or(u64::MAX);
            Some(Impairment::Delayed(1 + self.random_below(max_ns)))
        } else {
            None
        }
    }

    /// Processes the next frame of the inner port.
    fn accept(&mut self, mut frame: OwnedFrame) {
        while self
            .delayed
            .front()
            .is_some_and(|delayed| delayed.time_ns <= frame.time_ns)
        {
            self.release_delayed();
        }
        let number = self.next_number;
        self.next_number += 1;
        let impairment = self.draw_impairment();
        let log_index = self.log.with(|log| {
            log.extend(impairment.map(|impairment| (number, impairment)));
            log.len().wrapping_sub(1)
        });
        match impairment {
            None => self.release(frame),
            Some(Impairment::Lost) => {}
            Some(Impairment::Duplicated) => {
                let copy = OwnedFrame {
                    bytes: frame.bytes.clone(),
                    ..frame
                };
                self.release(frame);
                self.ready.push_back(copy);
            }
            Some(Impairment::Reordered(distance)) => self.held.push(HeldFrame {
                frame,
                remaining: distance,
                log_index,
            }),
            Some(Impairment::Delayed(by_ns)) => {
                frame.time_ns = frame.time_ns.saturating_add_unsigned(by_ns);
                let is_earlier = |other: &OwnedFrame| other.time_ns <= frame.time_ns;
                let position = self.delayed.partition_point(is_earlier);
                self.delayed.insert(position, frame);
            }
        }
    }

    /// Queues a frame for delivery, and after it the held frames that it was the last to overtake.
    fn release(&mut self, frame: OwnedFrame) {
        self.last_time_ns = frame.time_ns;
        self.ready.push_back(frame);
        for held in &mut self.held {
            held.remaining -= 1;
        }
        while let Some(index) = self.held.iter().position(|held| held.remaining == 0) {
            let mut frame = self.held.remove(index).frame;
            frame.time_ns = frame.time_ns.max(self.last_time_ns);
            self.ready.push_back(frame);
        }
    }

    fn release_delayed(&mut self) {
        if let Some(frame) = self.delayed.pop_front() {
            self.release(frame);
        }
    }

    /// Queues all frames held back, at the end of the input.
    fn flush_held(&mut self) {
        while !self.delayed.is_empty() {
            self.release_delayed();
        }
        for held in std::mem::take(&mut self.held) {
            let mut frame = held.frame;
            frame.time_ns = frame.time_ns.max(self.last_time_ns);
            self.last_time_ns = frame.time_ns;
            self.ready.push_back(frame);
            self.log.with(|log| {
                if let Some((_, Impairment::Reordered(distance))) = log.get_mut(held.log_index) {
                    *distance -= held.remaining;
                }
            });
        }
    }

    /// Returns the next queued frames, all of one link type.
    fn next_burst(&mut self) -> Option<Burst<'_>> {
        let link = self.ready.front()?.link;
        self.burst.clear();
        while self.burst.len() < BURST
            && let Some(frame) = self.ready.pop_front_if(|frame| frame.link == link)
        {
            self.frames += 1;
            self.bytes += u64::from(frame.wire_length);
            self.burst.push(frame);
        }
        // SAFETY: the frames point into `burst`, which only this function changes, before it overwrites
        // the list; the frames returned below borrow `self`.
        let list = unsafe { self.list.slots() };
        for (slot, frame) in list.iter_mut().zip(&self.burst) {
            *slot = Frame {
                bytes: &frame.bytes,
                time_ns: frame.time_ns,
                wire_length: frame.wire_length,
                rss_hash: frame.rss_hash,
            };
        }
        Some(Burst {
            link,
            frames: self.list.first(self.burst.len()),
        })
    }
}

impl<P: Port> Wrapper for Impaired<P> {
    type Inner = P;

    fn inner(&self) -> &P {
        &self.port
    }

    fn inner_mut(&mut self) -> &mut P {
        &mut self.port
    }

    fn wrap_receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        while self.ready.is_empty() {
            let burst = match self.port.receive()? {
                Received::Burst(burst) => burst,
                Received::Idle => return Ok(Received::Idle),
                Received::Fault(message) => return Ok(Received::Fault(message)),
                Received::End => {
                    self.flush_held();
                    break;
                }
            };
            let frames: Vec<OwnedFrame> = burst
                .frames
                .iter()
                .map(|frame| OwnedFrame {
                    link: burst.link,
                    bytes: frame.bytes.to_vec(),
                    time_ns: frame.time_ns,
                    wire_length: frame.wire_length,
                    rss_hash: frame.rss_hash,
                })
                .collect();
            for frame in frames {
                self.accept(frame);
            }
        }
        Ok(self.next_burst().map_or(Received::End, Received::Burst))
    }

    /// Counts the frames delivered; lost frames are not among them.
    fn wrap_counters(&self, port: Counters) -> Counters {
        Counters {
            frames: self.frames,
            bytes: self.bytes,
            ..port
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryPort;

    const SECOND: i64 = 1_000_000_000;

    /// Numbers and timestamps of the frames, in the order of delivery.
    fn arrivals(port: &mut dyn Port) -> Vec<(u32, i64)> {
        let mut arrivals = Vec::new();
        loop {
            match port.receive().expect("memory has no errors") {
                Received::Burst(burst) => {
                    assert!(!burst.frames.is_empty() && burst.frames.len() <= BURST);
                    arrivals.extend(burst.frames.iter().map(|frame| {
                        let number = frame.bytes.first_chunk().expect("four bytes");
                        (u32::from_le_bytes(*number), frame.time_ns)
                    }));
                }
                Received::End => return arrivals,
                other => panic!("{other:?}"),
            }
        }
    }

    /// Numbered frames, one second apart.
    fn numbered(count: u32) -> MemoryPort {
        let frames =
            (0..count).map(|number| (i64::from(number) * SECOND, 100, number.to_le_bytes()));
        MemoryPort::new(LinkType::Ethernet, frames)
    }

    fn every_impairment(seed: u64) -> Impairments {
        Impairments {
            seed,
            loss_ppm: 30_000,
            duplicate_ppm: 30_000,
            reorder_ppm: 30_000,
            reorder_distance_max: 9,
            delay_ppm: 30_000,
            delay_max: Duration::from_secs(5),
        }
    }

    /// Computes from the log which frames must arrive, in which order and at what time.
    fn expected_arrivals(count: u32, impairments: &[(u64, Impairment)]) -> Vec<(u32, i64)> {
        // Arrival times of all frames except the reordered ones.
        let mut passing: Vec<(i64, u32, u32)> = Vec::new();
        let mut reordered = Vec::new();
        for number in 0..count {
            let time_ns = i64::from(number) * SECOND;
            let impairment = impairments
                .iter()
                .find(|(frame, _)| *frame == u64::from(number));
            match impairment.map(|(_, impairment)| *impairment) {
                None => passing.push((time_ns, number, 1)),
                Some(Impairment::Lost) => {}
                Some(Impairment::Duplicated) => passing.push((time_ns, number, 2)),
                Some(Impairment::Delayed(by_ns)) => {
                    passing.push((time_ns + by_ns.cast_signed(), number, 1));
                }
                Some(Impairment::Reordered(distance)) => reordered.push((number, distance)),
            }
        }
        passing.sort_by_key(|&(time_ns, _, _)| time_ns);
        // A reordered frame follows the given number of frames that passed after its own arrival.
        let mut insertions: Vec<(usize, u32)> = reordered
            .into_iter()
            .map(|(number, distance)| {
                let arrival_ns = i64::from(number) * SECOND;
                let before = passing.partition_point(|&(time_ns, _, _)| time_ns <= arrival_ns);
                (before + distance as usize, number)
            })
            .collect();
        insertions.sort_by_key(|&(position, _)| position);
        let mut all = Vec::new();
        let mut last_ns = 0;
        for position in 0..=passing.len() {
            for &(_, number) in insertions.iter().filter(|&&(at, _)| at == position) {
                all.push((number, last_ns.max(i64::from(number) * SECOND)));
            }
            if let Some(&(time_ns, number, times)) = passing.get(position) {
                all.extend((0..times).map(|_| (number, time_ns)));
                last_ns = time_ns;
            }
        }
        all
    }

    #[test]
    fn deliveries_match_the_log() {
        for seed in 0..20 {
            let mut port = Impaired::new(numbered(2000), every_impairment(seed));
            let log = port.log();
            let mut arrived = arrivals(&mut port);
            let impairments = log.entries();
            let mut expected = expected_arrivals(2000, &impairments);
            let of = |kind: fn(&Impairment) -> bool| {
                impairments.iter().filter(|(_, it)| kind(it)).count()
            };
            for kind in [
                |impairment: &Impairment| *impairment == Impairment::Lost,
                |impairment: &Impairment| *impairment == Impairment::Duplicated,
                |impairment: &Impairment| matches!(impairment, Impairment::Reordered(_)),
                |impairment: &Impairment| matches!(impairment, Impairment::Delayed(_)),
            ] {
                assert!((30..100).contains(&of(kind)), "{impairments:?}");
            }
            assert!(arrived.is_sorted_by_key(|&(_, time_ns)| time_ns));
            assert_eq!(port.counters().frames, arrived.len() as u64);
            assert_eq!(port.counters().bytes, 100 * arrived.len() as u64);
            // Two frames released by the same frame at the same time may come in either order.
            arrived.sort_by_key(|&(number, time_ns)| (time_ns, number));
            expected.sort_by_key(|&(number, time_ns)| (time_ns, number));
            assert_eq!(arrived, expected, "seed {seed}");
        }
    }

    #[test]
    fn the_seed_determines_impairments_whatever_the_burst_size() {
        let once = arrivals(&mut Impaired::new(numbered(3000), every_impairment(1)));
        let again = arrivals(&mut Impaired::new(
            numbered(3000).with_burst_size(7),
            every_impairment(1),
        ));
        assert_eq!(once, again);
        assert_ne!(
            once,
            arrivals(&mut Impaired::new(numbered(3000), every_impairment(2)))
        );
    }

    #[test]
    fn no_impairments_change_nothing_and_full_loss_delivers_nothing() {
        let plain = arrivals(&mut numbered(700));
        let impairments = Impairments::default();
        assert_eq!(
            arrivals(&mut Impaired::new(numbered(700), impairments)),
            plain
        );
        let all = Impairments {
            loss_ppm: 1_000_000,
            ..impairments
        };
        assert_eq!(arrivals(&mut Impaired::new(numbered(700), all)), []);
    }

    #[test]
    fn held_frames_are_delivered_at_the_end() {
        for (impairments, last) in [
            (
                Impairments {
                    reorder_ppm: 1_000_000,
                    reorder_distance_max: 1000,
                    ..Impairments::default()
                },
                9 * SECOND,
            ),
            (
                Impairments {
                    delay_ppm: 1_000_000,
                    delay_max: Duration::from_secs(1000),
                    ..Impairments::default()
                },
                10 * SECOND,
            ),
        ] {
            let mut port = Impaired::new(numbered(10), impairments);
            let log = port.log();
            let mut arrived = arrivals(&mut port);
            assert!(arrived.last().is_some_and(|&(_, time_ns)| time_ns >= last));
            arrived.sort_unstable();
            let numbers: Vec<u32> = arrived.iter().map(|&(number, _)| number).collect();
            assert_eq!(numbers, (0..10).collect::<Vec<_>>());
            for (_, impairment) in log.entries() {
                assert!(matches!(
                    impairment,
                    Impairment::Reordered(0) | Impairment::Delayed(_)
                ));
            }
        }
    }
}
