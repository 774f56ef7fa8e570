//! A port with the faults of a network: frames of another port lost, copied, overtaken by others and
//! delayed, at places that a seed fixes, and a log of what was done where.

use crate::frame::{BURST, Burst, Counters, Frame, Port, PortError, Received};
use crate::frame_list::FrameList;
use crate::wrapper::Wrapper;
use hw::random::Random;
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wire::LinkType;

/// Which faults, and how many: each rate is for one frame in a million. A frame has one fault at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// What places the faults: the same seed over the same frames gives the same faults.
    pub seed: u64,
    /// Frames that are lost.
    pub lost: u32,
    /// Frames of which a copy follows at once, with the same time.
    pub copied: u32,
    /// Frames that others overtake.
    pub overtaken: u32,
    /// By how many at most; how many for each is drawn evenly from 1 on.
    pub overtaken_by: u32,
    /// Frames that arrive later.
    pub delayed: u32,
    /// How much later at most; how much for each is drawn evenly from 1 ns on.
    pub delay: Duration,
}

/// What was done to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It was not handed over.
    Lost,
    /// It was handed over twice.
    Copied,
    /// So many frames that came after it were handed over before it; its time is that of the last
    /// of them. (Fewer than were drawn, even none, where the input ended.)
    Overtaken(u32),
    /// It was handed over with a time so many nanoseconds later, behind all frames up to that time.
    Delayed(u64),
}

/// The faults so far: the number of the frame in the order of the wrapped port, from 0, and what was
/// done to it. Clones share one log.
#[derive(Clone, Debug, Default)]
pub struct FaultLog(Arc<Mutex<Vec<(u64, Fault)>>>);

impl FaultLog {
    /// All faults so far, in the order in which their frames came.
    #[must_use]
    pub fn faults(&self) -> Vec<(u64, Fault)> {
        self.with(|faults| faults.clone())
    }

    fn with<T>(&self, change: impl FnOnce(&mut Vec<(u64, Fault)>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A frame and its bytes.
struct Owned {
    link: LinkType,
    bytes: Vec<u8>,
    time_ns: i64,
    wire_length: u32,
    rss_hash: Option<NonZeroU32>,
}

/// A frame that others overtake.
struct Overtaken {
    frame: Owned,
    /// Frames that are to pass it yet, and its place in the log.
    left: u32,
    logged: usize,
}

/// Hands over the frames of another port with faults. Times never go back where those of the port do
/// not. What is held back when a link falls silent comes with the next frames, or at the end.
pub struct Faulty<P> {
    port: P,
    faults: Faults,
    log: FaultLog,
    random: Random,
    next: u64,
    overtaken: Vec<Overtaken>,
    /// In the order of their times.
    delayed: VecDeque<Owned>,
    ready: VecDeque<Owned>,
    last_ns: i64,
    /// The frames that are handed over at the moment, and room to say where they are.
    lent: Vec<Owned>,
    list: FrameList,
    frames: u64,
    bytes: u64,
}

/// One in a million.
const MILLION: u64 = 1_000_000;

impl<P: Port> Faulty<P> {
    /// The frames of `port` with `faults`.
    #[must_use]
    pub fn new(port: P, faults: Faults) -> Self {
        Self {
            port,
            faults,
            log: FaultLog::default(),
            random: Random::from_state(faults.seed),
            next: 0,
            overtaken: Vec::new(),
            delayed: VecDeque::new(),
            ready: VecDeque::new(),
            last_ns: i64::MIN,
            lent: Vec::new(),
            list: FrameList::default(),
            frames: 0,
            bytes: 0,
        }
    }

    /// What was done to which frame.
    #[must_use]
    pub fn log(&self) -> FaultLog {
        self.log.clone()
    }

    /// A number below `bound` that the seed fixes (off from even by 2^-40 and less).
    fn draw(&mut self, bound: u64) -> u64 {
        self.random.bits() % bound.max(1)
    }

    /// What happens to the next frame.
    fn decide(&mut self) -> Option<Fault> {
        let faults = self.faults;
        let mut place = self.draw(MILLION);
        let mut falls = |rate: u32| {
            let hit = place < u64::from(rate);
            place = place.wrapping_sub(u64::from(rate));
            hit
        };
        if falls(faults.lost) {
            Some(Fault::Lost)
        } else if falls(faults.copied) {
            Some(Fault::Copied)
        } else if falls(faults.overtaken) {
            let by = 1 + self.draw(u64::from(faults.overtaken_by)) as u32;
            Some(Fault::Overtaken(by))
        } else if falls(faults.delayed) {
            let most = u64::try_from(faults.delay.as_nanos()).unwrap_or(u64::MAX);
            Some(Fault::Delayed(1 + self.draw(most)))
        } else {
            None
        }
    }

    /// Takes the next frame of the port in.
    fn take(&mut self, mut frame: Owned) {
        while self
            .delayed
            .front()
            .is_some_and(|delayed| delayed.time_ns <= frame.time_ns)
        {
            self.release_delayed();
        }
        let number = self.next;
        self.next += 1;
        let fault = self.decide();
        let logged = self.log.with(|log| {
            log.extend(fault.map(|fault| (number, fault)));
            log.len().wrapping_sub(1)
        });
        match fault {
            None => self.pass(frame),
            Some(Fault::Lost) => {}
            Some(Fault::Copied) => {
                let copy = Owned {
                    bytes: frame.bytes.clone(),
                    ..frame
                };
                self.pass(frame);
                self.ready.push_back(copy);
            }
            Some(Fault::Overtaken(left)) => self.overtaken.push(Overtaken {
                frame,
                left,
                logged,
            }),
            Some(Fault::Delayed(by_ns)) => {
                frame.time_ns = frame.time_ns.saturating_add_unsigned(by_ns);
                let after = |other: &Owned| other.time_ns <= frame.time_ns;
                let place = self.delayed.partition_point(after);
                self.delayed.insert(place, frame);
            }
        }
    }

    /// Makes a frame ready, and those with it that it was the last to overtake.
    fn pass(&mut self, frame: Owned) {
        self.last_ns = frame.time_ns;
        self.ready.push_back(frame);
        for overtaken in &mut self.overtaken {
            overtaken.left -= 1;
        }
        while let Some(place) = self.overtaken.iter().position(|held| held.left == 0) {
            let mut frame = self.overtaken.remove(place).frame;
            frame.time_ns = frame.time_ns.max(self.last_ns);
            self.ready.push_back(frame);
        }
    }

    fn release_delayed(&mut self) {
        if let Some(frame) = self.delayed.pop_front() {
            self.pass(frame);
        }
    }

    /// At the end of the port, all that is held back.
    fn release_all(&mut self) {
        while !self.delayed.is_empty() {
            self.release_delayed();
        }
        for held in std::mem::take(&mut self.overtaken) {
            let mut frame = held.frame;
            frame.time_ns = frame.time_ns.max(self.last_ns);
            self.last_ns = frame.time_ns;
            self.ready.push_back(frame);
            self.log.with(|log| {
                if let Some((_, Fault::Overtaken(by))) = log.get_mut(held.logged) {
                    *by -= held.left;
                }
            });
        }
    }

    /// Hands over what is ready, if anything is.
    fn hand_over(&mut self) -> Option<Burst<'_>> {
        let link = self.ready.front()?.link;
        self.lent.clear();
        while self.lent.len() < BURST
            && let Some(frame) = self.ready.pop_front_if(|frame| frame.link == link)
        {
            self.frames += 1;
            self.bytes += u64::from(frame.wire_length);
            self.lent.push(frame);
        }
        // SAFETY: the frames point into `lent`, which changes only in this function, before the list
        // is written anew; what is read from the list below borrows `self`.
        let list = unsafe { self.list.borrow() };
        for (place, frame) in list.iter_mut().zip(&self.lent) {
            *place = Frame {
                bytes: &frame.bytes,
                time_ns: frame.time_ns,
                wire_length: frame.wire_length,
                rss_hash: frame.rss_hash,
            };
        }
        Some(Burst {
            link,
            frames: self.list.first(self.lent.len()),
        })
    }
}

impl<P: Port> Wrapper for Faulty<P> {
    type Inner = P;

    fn inner(&self) -> &P {
        &self.port
    }

    fn inner_mut(&mut self) -> &mut P {
        &mut self.port
    }

    fn pass_on(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        while self.ready.is_empty() {
            let burst = match self.port.receive()? {
                Received::Burst(burst) => burst,
                Received::Idle => return Ok(Received::Idle),
                Received::Fault(message) => return Ok(Received::Fault(message)),
                Received::End => {
                    self.release_all();
                    break;
                }
            };
            let frames: Vec<Owned> = burst
                .frames
                .iter()
                .map(|frame| Owned {
                    link: burst.link,
                    bytes: frame.bytes.to_vec(),
                    time_ns: frame.time_ns,
                    wire_length: frame.wire_length,
                    rss_hash: frame.rss_hash,
                })
                .collect();
            for frame in frames {
                self.take(frame);
            }
        }
        Ok(self.hand_over().map_or(Received::End, Received::Burst))
    }

    /// Those of the port, with the frames that were handed over: what was lost did not arrive.
    fn amend(&self, port: Counters) -> Counters {
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

    /// Numbers of frames and their times, as they come.
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

    /// Frames a second apart.
    fn numbered(count: u32) -> MemoryPort {
        let frames =
            (0..count).map(|number| (i64::from(number) * SECOND, 100, number.to_le_bytes()));
        MemoryPort::new(LinkType::Ethernet, frames)
    }

    fn every_fault(seed: u64) -> Faults {
        Faults {
            seed,
            lost: 30_000,
            copied: 30_000,
            overtaken: 30_000,
            overtaken_by: 9,
            delayed: 30_000,
            delay: Duration::from_secs(5),
        }
    }

    /// Frame by frame from the log: what must arrive, in which order, at what time.
    fn told(count: u32, faults: &[(u64, Fault)]) -> Vec<(u32, i64)> {
        // Times of arrival without what is overtaken.
        let mut passing: Vec<(i64, u32, u32)> = Vec::new();
        let mut overtaken = Vec::new();
        for number in 0..count {
            let time_ns = i64::from(number) * SECOND;
            let fault = faults.iter().find(|(of, _)| *of == u64::from(number));
            match fault.map(|(_, fault)| *fault) {
                None => passing.push((time_ns, number, 1)),
                Some(Fault::Lost) => {}
                Some(Fault::Copied) => passing.push((time_ns, number, 2)),
                Some(Fault::Delayed(by_ns)) => {
                    passing.push((time_ns + by_ns.cast_signed(), number, 1));
                }
                Some(Fault::Overtaken(by)) => overtaken.push((number, by)),
            }
        }
        passing.sort_by_key(|&(time_ns, _, _)| time_ns);
        // Each that was overtaken stands behind so many of those that passed after it came.
        let mut behind: Vec<(usize, u32)> = overtaken
            .into_iter()
            .map(|(number, by)| {
                let came_ns = i64::from(number) * SECOND;
                let before = passing.partition_point(|&(time_ns, _, _)| time_ns <= came_ns);
                (before + by as usize, number)
            })
            .collect();
        behind.sort_by_key(|&(place, _)| place);
        let mut all = Vec::new();
        let mut last_ns = 0;
        for place in 0..=passing.len() {
            for &(_, number) in behind.iter().filter(|&&(behind, _)| behind == place) {
                all.push((number, last_ns.max(i64::from(number) * SECOND)));
            }
            if let Some(&(time_ns, number, times)) = passing.get(place) {
                all.extend((0..times).map(|_| (number, time_ns)));
                last_ns = time_ns;
            }
        }
        all
    }

    #[test]
    fn what_arrives_is_what_the_log_tells() {
        for seed in 0..20 {
            let mut port = Faulty::new(numbered(2000), every_fault(seed));
            let log = port.log();
            let mut arrived = arrivals(&mut port);
            let faults = log.faults();
            let mut expected = told(2000, &faults);
            let of = |kind: fn(&Fault) -> bool| faults.iter().filter(|(_, it)| kind(it)).count();
            for kind in [
                |fault: &Fault| *fault == Fault::Lost,
                |fault: &Fault| *fault == Fault::Copied,
                |fault: &Fault| matches!(fault, Fault::Overtaken(_)),
                |fault: &Fault| matches!(fault, Fault::Delayed(_)),
            ] {
                assert!((30..100).contains(&of(kind)), "{faults:?}");
            }
            assert!(arrived.is_sorted_by_key(|&(_, time_ns)| time_ns));
            assert_eq!(port.counters().frames, arrived.len() as u64);
            assert_eq!(port.counters().bytes, 100 * arrived.len() as u64);
            // Of two that come at one moment behind the same frame, either may be the first.
            arrived.sort_by_key(|&(number, time_ns)| (time_ns, number));
            expected.sort_by_key(|&(number, time_ns)| (time_ns, number));
            assert_eq!(arrived, expected, "seed {seed}");
        }
    }

    #[test]
    fn a_seed_fixes_the_places_and_bursts_do_not_matter() {
        let once = arrivals(&mut Faulty::new(numbered(3000), every_fault(1)));
        let again = arrivals(&mut Faulty::new(
            numbered(3000).in_bursts_of(7),
            every_fault(1),
        ));
        assert_eq!(once, again);
        assert_ne!(
            once,
            arrivals(&mut Faulty::new(numbered(3000), every_fault(2)))
        );
    }

    #[test]
    fn without_faults_nothing_changes_and_with_loss_alone_nothing_arrives() {
        let plain = arrivals(&mut numbered(700));
        let faults = Faults::default();
        assert_eq!(arrivals(&mut Faulty::new(numbered(700), faults)), plain);
        let all = Faults {
            lost: 1_000_000,
            ..faults
        };
        assert_eq!(arrivals(&mut Faulty::new(numbered(700), all)), []);
    }

    #[test]
    fn what_is_held_back_at_the_end_still_comes() {
        for (faults, last) in [
            (
                Faults {
                    overtaken: 1_000_000,
                    overtaken_by: 1000,
                    ..Faults::default()
                },
                9 * SECOND,
            ),
            (
                Faults {
                    delayed: 1_000_000,
                    delay: Duration::from_secs(1000),
                    ..Faults::default()
                },
                10 * SECOND,
            ),
        ] {
            let mut port = Faulty::new(numbered(10), faults);
            let log = port.log();
            let mut arrived = arrivals(&mut port);
            assert!(arrived.last().is_some_and(|&(_, time_ns)| time_ns >= last));
            arrived.sort_unstable();
            let numbers: Vec<u32> = arrived.iter().map(|&(number, _)| number).collect();
            assert_eq!(numbers, (0..10).collect::<Vec<_>>());
            for (_, fault) in log.faults() {
                assert!(matches!(fault, Fault::Overtaken(0) | Fault::Delayed(_)));
            }
        }
    }
}
