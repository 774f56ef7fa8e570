//! Frames in memory as a port: what tests and measurements of other crates read from.

use crate::frame::{BURST, Burst, Counters, Frame, Port, PortError, Received};
use std::num::NonZeroU32;
use std::sync::Arc;
use wire::LinkType;

/// Frames kept in memory, handed over once or several times.
///
/// A clone shares the frames and starts again from the first, so that each thread or each pass of a
/// measurement has its own port at no cost.
pub struct MemoryPort {
    stored: Arc<Stored>,
    /// The run at hand, and the frames of it that have been handed over.
    run: usize,
    next: usize,
    rounds: u64,
    rounds_left: u64,
    counters: Counters,
    burst: usize,
    rss_key: Option<Arc<[u8]>>,
}

struct Stored {
    /// Frames of one link type that follow one another.
    runs: Vec<(LinkType, Vec<Frame<'static>>)>,
    /// The bytes of all frames, one after the other, to which `runs` points. Never changed. A vector:
    /// who moves a box says that nothing else points to what is in it.
    _bytes: Vec<u8>,
    frames: usize,
}

/// Collects frames: their bytes, and what is said of them.
#[derive(Default)]
struct Collected {
    bytes: Vec<u8>,
    frames: Vec<(LinkType, i64, u32, usize)>,
}

impl Collected {
    fn add(&mut self, link: LinkType, time_ns: i64, wire_length: u32, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.frames.push((link, time_ns, wire_length, bytes.len()));
    }

    fn store(self) -> Stored {
        let mut bytes = self.bytes;
        bytes.shrink_to_fit();
        let mut runs: Vec<(LinkType, Vec<Frame<'static>>)> = Vec::new();
        let mut start = 0;
        for &(link, time_ns, wire_length, length) in &self.frames {
            let frame: &[u8] = &bytes[start..start + length];
            start += length;
            // SAFETY: the bytes lie on the heap, in a vector that `Stored` keeps as long as the frames
            // and never changes, and moving a vector leaves what points to its elements as it is;
            // `Stored` hands the frames out only for as long as it is borrowed.
            let frame: &'static [u8] =
                unsafe { std::slice::from_raw_parts(frame.as_ptr(), length) };
            let frame = Frame::new(frame, time_ns, wire_length);
            match runs.last_mut() {
                Some((of, run)) if *of == link => run.push(frame),
                _ => runs.push((link, vec![frame])),
            }
        }
        Stored {
            frames: self.frames.len(),
            _bytes: bytes,
            runs,
        }
    }
}

impl Stored {
    /// Frames of run number `run`, from number `first` on, that make a burst.
    fn burst(&self, run: usize, first: usize, most: usize) -> Option<Burst<'_>> {
        let (link, frames) = self.runs.get(run)?;
        let frames: &[Frame<'_>] = frames.get(first..)?;
        let frames = &frames[..frames.len().min(most)];
        (!frames.is_empty()).then_some(Burst {
            link: *link,
            frames,
        })
    }
}

impl MemoryPort {
    /// Frames of one link type: nanoseconds since the epoch, wire length, captured bytes.
    pub fn new<B: AsRef<[u8]>>(
        link: LinkType,
        frames: impl IntoIterator<Item = (i64, u32, B)>,
    ) -> Self {
        let mut collected = Collected::default();
        for (time_ns, wire_length, bytes) in frames {
            collected.add(link, time_ns, wire_length, bytes.as_ref());
        }
        Self::of(collected.store())
    }

    /// All frames of `port`, up to its end.
    ///
    /// # Errors
    /// Those of the port; a fault is one too.
    pub fn load(port: &mut dyn Port) -> Result<Self, PortError> {
        let mut collected = Collected::default();
        loop {
            match port.receive()? {
                Received::Burst(burst) => {
                    for frame in burst.frames {
                        collected.add(burst.link, frame.time_ns, frame.wire_length, frame.bytes);
                    }
                }
                Received::Idle => {}
                Received::Fault(message) => return Err(PortError::Failed(message)),
                Received::End => return Ok(Self::of(collected.store())),
            }
        }
    }

    /// The same frames, `rounds` times, each time with the same time stamps.
    #[must_use]
    pub fn repeated(mut self, rounds: u64) -> Self {
        self.rounds = rounds;
        self.rounds_left = rounds;
        self
    }

    fn of(stored: Stored) -> Self {
        Self {
            stored: Arc::new(stored),
            run: 0,
            next: 0,
            rounds: 1,
            rounds_left: 1,
            counters: Counters::default(),
            burst: BURST,
            rss_key: None,
        }
    }

    /// The same frames, at most `most` in a burst (1 to [`BURST`]).
    #[must_use]
    pub fn in_bursts_of(mut self, most: usize) -> Self {
        self.burst = most.clamp(1, BURST);
        self
    }

    /// The same frames with the hashes of a device: `hash` tells that of each by its number and
    /// bytes. `key`: see [`Port::rss_key`].
    ///
    /// # Panics
    /// When the frames are shared with a clone already.
    #[must_use]
    pub fn hashed(
        mut self,
        key: Option<&[u8]>,
        mut hash: impl FnMut(usize, &[u8]) -> Option<NonZeroU32>,
    ) -> Self {
        let stored = Arc::get_mut(&mut self.stored).expect("hashes are given before clones are");
        let frames = stored.runs.iter_mut().flat_map(|(_, run)| run.iter_mut());
        for (number, frame) in frames.enumerate() {
            frame.rss_hash = hash(number, frame.bytes);
        }
        self.rss_key = key.map(Arc::from);
        self
    }

    /// Frames of one round.
    #[must_use]
    pub fn len(&self) -> usize {
        self.stored.frames
    }

    /// Whether there are no frames.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stored.frames == 0
    }
}

impl Clone for MemoryPort {
    fn clone(&self) -> Self {
        Self {
            stored: Arc::clone(&self.stored),
            run: 0,
            next: 0,
            rounds: self.rounds,
            rounds_left: self.rounds,
            counters: Counters::default(),
            burst: self.burst,
            rss_key: self.rss_key.clone(),
        }
    }
}

impl Port for MemoryPort {
    fn receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        if self.stored.burst(self.run, self.next, self.burst).is_none() {
            (self.run, self.next) = (self.run + 1, 0);
        }
        if self.run >= self.stored.runs.len() {
            self.run = 0;
            self.rounds_left = self.rounds_left.saturating_sub(1);
        }
        if self.rounds_left == 0 {
            return Ok(Received::End);
        }
        let Some(burst) = self.stored.burst(self.run, self.next, self.burst) else {
            return Ok(Received::End);
        };
        self.next += burst.frames.len();
        self.counters.frames += burst.frames.len() as u64;
        self.counters.bytes += burst
            .frames
            .iter()
            .map(|frame| u64::from(frame.wire_length))
            .sum::<u64>();
        Ok(Received::Burst(burst))
    }

    fn counters(&mut self) -> Counters {
        self.counters
    }

    fn name(&self) -> &'static str {
        "memory"
    }

    fn rss_key(&self) -> Option<&[u8]> {
        self.rss_key.as_deref()
    }

    fn stop(&mut self) {
        self.rounds_left = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(port: &mut MemoryPort) -> Vec<i64> {
        let mut times = Vec::new();
        while let Received::Burst(burst) = port.receive().expect("memory has no errors") {
            assert!(!burst.frames.is_empty() && burst.frames.len() <= BURST);
            times.extend(burst.frames.iter().map(|frame| frame.time_ns));
        }
        times
    }

    #[test]
    fn rounds_and_clones_start_from_the_first_frame() {
        let frames = (0..600i64).map(|number| (number, 100, number.to_le_bytes()));
        let mut port = MemoryPort::new(LinkType::Raw, frames).repeated(2);
        let once: Vec<i64> = (0..600).collect();
        assert_eq!(times(&mut port), [once.clone(), once].concat());
        assert_eq!(port.counters().frames, 1200);
        assert_eq!(port.counters().bytes, 120_000);
        assert_eq!(times(&mut port), []);
        assert_eq!(times(&mut port.clone()).len(), 1200);
    }

    #[test]
    fn the_bytes_are_those_that_were_given() {
        let frames = [(1, 3, vec![1u8, 2, 3]), (2, 9, vec![]), (3, 1, vec![4])];
        let mut port = MemoryPort::new(LinkType::Ethernet, frames);
        let mut copy = MemoryPort::load(&mut port).expect("memory has no errors");
        drop(port);
        let Ok(Received::Burst(burst)) = copy.receive() else {
            panic!("no burst");
        };
        let bytes: Vec<&[u8]> = burst.frames.iter().map(|frame| frame.bytes).collect();
        assert_eq!(bytes, [&[1u8, 2, 3][..], &[], &[4]]);
        assert_eq!(burst.link, LinkType::Ethernet);
    }

    #[test]
    fn no_frames_is_the_end_at_once() {
        let mut port = MemoryPort::new(LinkType::Ethernet, Vec::<(i64, u32, Vec<u8>)>::new());
        assert_eq!(times(&mut port.clone().repeated(u64::MAX)), []);
        assert_eq!(times(&mut port), []);
    }
}
