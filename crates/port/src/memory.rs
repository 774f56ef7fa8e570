//! A port over frames in memory, for tests and measurements.

use crate::frame::{BURST, Burst, Counters, Frame, Port, PortError, Received};
use std::num::NonZeroU32;
use std::sync::Arc;
use wire::LinkType;

/// Delivers frames from memory, once or several times.
///
/// A clone shares the frames and starts from the first, so that each thread or each pass of a
/// measurement has a port of its own at no cost.
pub struct MemoryPort {
    stored: Arc<Stored>,
    /// The current run, and the number of its frames delivered so far.
    run: usize,
    next: usize,
    rounds: u64,
    rounds_left: u64,
    counters: Counters,
    burst: usize,
    rss_key: Option<Arc<[u8]>>,
}

struct Stored {
    /// Runs of consecutive frames with one link type.
    runs: Vec<(LinkType, Vec<Frame<'static>>)>,
    /// The bytes of all frames, to which `runs` points; never changed. Not a `Box`: moving a box
    /// asserts unique access to its content, which would invalidate those pointers.
    _bytes: Vec<u8>,
    frames: usize,
}

/// Collects the bytes and metadata of frames.
#[derive(Default)]
struct Collector {
    bytes: Vec<u8>,
    frames: Vec<(LinkType, i64, u32, usize)>,
}

impl Collector {
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
            // SAFETY: the bytes are on the heap, in a vector that `Stored` keeps as long as the frames
            // and never changes; moving the vector does not move its elements. `Stored` returns the
            // frames only with the lifetime of a borrow of itself.
            let frame: &'static [u8] =
                unsafe { std::slice::from_raw_parts(frame.as_ptr(), length) };
            let frame = Frame::new(frame, time_ns, wire_length);
            match runs.last_mut() {
                Some((run_link, run)) if *run_link == link => run.push(frame),
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
    /// Returns up to `max` frames of run number `run`, starting at `first`.
    fn burst(&self, run: usize, first: usize, max: usize) -> Option<Burst<'_>> {
        let (link, frames) = self.runs.get(run)?;
        let frames: &[Frame<'_>] = frames.get(first..)?;
        let frames = &frames[..frames.len().min(max)];
        (!frames.is_empty()).then_some(Burst {
            link: *link,
            frames,
        })
    }
}

impl MemoryPort {
    /// Creates a port over frames of one link type, each with its timestamp (nanoseconds since the
    /// epoch), wire length and captured bytes.
    pub fn new<B: AsRef<[u8]>>(
        link: LinkType,
        frames: impl IntoIterator<Item = (i64, u32, B)>,
    ) -> Self {
        let mut collected = Collector::default();
        for (time_ns, wire_length, bytes) in frames {
            collected.add(link, time_ns, wire_length, bytes.as_ref());
        }
        Self::from_stored(collected.store())
    }

    /// Loads all frames of `port`, up to its end.
    ///
    /// # Errors
    /// The errors of the port. A fault is an error, too.
    pub fn load(port: &mut dyn Port) -> Result<Self, PortError> {
        let mut collected = Collector::default();
        loop {
            match port.receive()? {
                Received::Burst(burst) => {
                    for frame in burst.frames {
                        collected.add(burst.link, frame.time_ns, frame.wire_length, frame.bytes);
                    }
                }
                Received::Idle => {}
                Received::Fault(message) => return Err(PortError::Failed(message)),
                Received::End => return Ok(Self::from_stored(collected.store())),
            }
        }
    }

    /// Delivers the frames `rounds` times, each time with the same timestamps.
    #[must_use]
    pub fn repeated(mut self, rounds: u64) -> Self {
        self.rounds = rounds;
        self.rounds_left = rounds;
        self
    }

    fn from_stored(stored: Stored) -> Self {
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

    /// Limits bursts to `max` frames (1 to [`BURST`]).
    #[must_use]
    pub fn with_burst_size(mut self, max: usize) -> Self {
        self.burst = max.clamp(1, BURST);
        self
    }

    /// Adds RSS hashes: `hash` computes that of each frame from its number and bytes. For `key` see
    /// [`Port::rss_key`].
    ///
    /// # Panics
    /// If a clone shares the frames already.
    #[must_use]
    pub fn with_rss_hashes(
        mut self,
        key: Option<&[u8]>,
        mut hash: impl FnMut(usize, &[u8]) -> Option<NonZeroU32>,
    ) -> Self {
        let stored = Arc::get_mut(&mut self.stored).expect("hashes must be added before cloning");
        let frames = stored.runs.iter_mut().flat_map(|(_, run)| run.iter_mut());
        for (number, frame) in frames.enumerate() {
            frame.rss_hash = hash(number, frame.bytes);
        }
        self.rss_key = key.map(Arc::from);
        self
    }

    /// Number of frames of one round.
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
    fn rounds_and_clones_start_at_the_first_frame() {
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
    fn loaded_frames_have_the_original_bytes() {
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
    fn empty_port_ends_at_once() {
        let mut port = MemoryPort::new(LinkType::Ethernet, Vec::<(i64, u32, Vec<u8>)>::new());
        assert_eq!(times(&mut port.clone().repeated(u64::MAX)), []);
        assert_eq!(times(&mut port), []);
    }
}
