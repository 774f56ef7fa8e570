//! Notices that inputs measured apart carry the same conversations at the same time: two directions of
//! one link, each with an input of its own.
//!
//! A sample of the conversations of all inputs is kept: those whose keyed hash is below a limit, which
//! sinks as they become more. So all inputs keep the same conversations, within bounded memory.

mod conversation;
mod sample;

use crate::frame::{Burst, Port, PortError, Received};
use crate::wrapper::Wrapper;
use conversation::{Conversation, Range, Sighting};
use sample::Sample;
pub use sample::SharedInputs;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Of the packets of an input up to the first number, one burst of the second number is looked at; of
/// all later ones, one of [`BURSTS_PER_LOOK`].
const LOOKS: [(u64, u64); 2] = [(1 << 13, 1), (1 << 17, 16)];

/// See [`LOOKS`].
const BURSTS_PER_LOOK: u64 = 64;

/// Conversations that an input collects before they are added to the sample of all.
const COLLECTED_MAX: usize = 512;

/// Packet time after which an input adds what it has collected, in nanoseconds.
const ADD_INTERVAL_NS: i64 = 100_000_000;

/// The sample of all inputs. Clones share it.
#[derive(Clone)]
pub struct SharedConversations(Arc<State>);

struct State {
    hasher: RandomState,
    sample: Mutex<Sample>,
    /// Conversations with a greater hash are not in the sample.
    limit: AtomicU64,
    /// Whether shared conversations have been found, after which nothing is looked at.
    found: AtomicBool,
}

impl SharedConversations {
    /// Creates an empty sample. Inputs that are `live` are watched at the same time; others are read one
    /// after the other, and compared when both have been read.
    #[must_use]
    pub fn new(live: bool) -> Self {
        Self(Arc::new(State {
            hasher: RandomState::new(),
            sample: Mutex::new(Sample::new(live)),
            limit: AtomicU64::new(u64::MAX),
            found: AtomicBool::new(false),
        }))
    }

    /// Looks at the packets of `port`. Ports with one `input` name belong together; without it, each
    /// name that the port takes on is an input (a sequence of files).
    pub fn observe<P: Port>(&self, port: P, input: Option<String>) -> Observed<P> {
        if let Some(input) = &input {
            // Reports name inputs in the order of these calls.
            self.lock().register(input);
        }
        Observed {
            port,
            input,
            observer: Observer::new(self.clone()),
        }
    }

    /// Registers files before they are read, so that one with two names is one input.
    pub fn register_files(&self, names: &[String]) {
        self.lock().register_files(names);
    }

    /// Returns the inputs that share conversations, once.
    #[must_use]
    pub fn take_found(&self) -> Option<SharedInputs> {
        if !self.0.found.load(Ordering::Acquire) {
            return None;
        }
        self.lock().take_found()
    }

    fn lock(&self) -> MutexGuard<'_, Sample> {
        self.0.sample.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, sample: &Sample) {
        self.0.limit.store(sample.limit(), Ordering::Relaxed);
        self.0.found.store(sample.has_found(), Ordering::Release);
    }
}

/// A port whose packets are looked at.
pub struct Observed<P: Port> {
    port: P,
    input: Option<String>,
    observer: Observer,
}

impl<P: Port> Wrapper for Observed<P> {
    type Inner = P;

    fn inner(&self) -> &P {
        &self.port
    }

    fn inner_mut(&mut self) -> &mut P {
        &mut self.port
    }

    fn wrap_receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        if self.observer.shared.0.found.load(Ordering::Relaxed) {
            return self.port.receive();
        }
        // What was seen belongs to the input that the port named when it was read; a sequence of files
        // has another name after the next call.
        self.observer
            .attribute(self.input.as_deref().unwrap_or(self.port.name()));
        let received = self.port.receive()?;
        match &received {
            Received::Burst(burst) => self.observer.look(burst),
            Received::End => self.observer.end_input(),
            Received::Idle | Received::Fault(_) => {}
        }
        Ok(received)
    }
}

impl<P: Port> Drop for Observed<P> {
    fn drop(&mut self) {
        self.observer
            .attribute(self.input.as_deref().unwrap_or(self.port.name()));
        self.observer.end_input();
    }
}

/// What is seen of one input.
struct Observer {
    shared: SharedConversations,
    /// The input: its name, and its number in the sample.
    current: Option<(String, usize)>,
    /// Conversations of the last burst, which are of the input that the port names next.
    burst: Vec<(u64, Sighting)>,
    burst_range: Option<Range>,
    /// Conversations of the input that the sample does not have yet.
    collected: HashMap<u64, Sighting>,
    range: Option<Range>,
    packets: u64,
    bursts: u64,
    added_ns: i64,
}

impl Observer {
    fn new(shared: SharedConversations) -> Self {
        Self {
            shared,
            current: None,
            burst: Vec::new(),
            burst_range: None,
            collected: HashMap::new(),
            range: None,
            packets: 0,
            bursts: 0,
            added_ns: i64::MIN,
        }
    }

    fn look(&mut self, burst: &Burst<'_>) {
        let (Some(first), Some(last)) = (burst.frames.first(), burst.frames.last()) else {
            return;
        };
        self.burst_range = Some(Range::between(first.time_ns, last.time_ns));
        self.bursts += 1;
        let stage = LOOKS.iter().find(|(packets, _)| self.packets < *packets);
        let bursts = stage.map_or(BURSTS_PER_LOOK, |(_, bursts)| *bursts);
        if self.bursts.is_multiple_of(bursts) {
            self.look_at_all(burst);
        }
        self.packets += burst.frames.len() as u64;
    }

    #[cold]
    fn look_at_all(&mut self, burst: &Burst<'_>) {
        let limit = self.shared.0.limit.load(Ordering::Relaxed);
        for frame in burst.frames {
            let Some((conversation, direction)) = Conversation::of(burst.link, frame) else {
                continue;
            };
            let hash = self.shared.0.hasher.hash_one(conversation);
            if hash <= limit {
                self.burst
                    .push((hash, Sighting::at(frame.time_ns, direction)));
            }
        }
    }

    /// Takes what the last burst contained as seen in the input `name`.
    fn attribute(&mut self, name: &str) {
        let Some(range) = self.burst_range.take() else {
            return;
        };
        if self.current.as_ref().is_none_or(|(known, _)| known != name) {
            self.end_input();
            let mut sample = self.shared.lock();
            self.current = Some((name.to_owned(), sample.register(name)));
            (self.packets, self.added_ns) = (0, i64::MIN);
        }
        for (hash, sighting) in self.burst.drain(..) {
            let has_room = self.collected.len() < COLLECTED_MAX;
            match self.collected.get_mut(&hash) {
                Some(known) => known.extend(&sighting),
                None if has_room => _ = self.collected.insert(hash, sighting),
                None => {}
            }
        }
        let range = *self.range.get_or_insert(range).extend(&range);
        if self.collected.len() >= COLLECTED_MAX / 2
            || range.end_ns.saturating_sub(self.added_ns) >= ADD_INTERVAL_NS
        {
            self.added_ns = range.end_ns;
            // Another input may be adding: the packet path does not wait for it.
            let shared = self.shared.clone();
            if let Ok(mut sample) = shared.0.sample.try_lock() {
                self.add(&mut sample);
            }
        }
    }

    /// Adds everything, and ends the current input.
    fn end_input(&mut self) {
        let shared = self.shared.clone();
        let mut sample = shared.lock();
        self.add(&mut sample);
        if let Some((_, input)) = self.current.take() {
            sample.end_input(input);
            shared.publish(&sample);
        }
    }

    fn add(&mut self, sample: &mut Sample) {
        if let (Some((_, input)), Some(range)) = (&self.current, self.range.take()) {
            sample.add(*input, &range, self.collected.drain());
            self.shared.publish(sample);
        }
    }
}

#[cfg(test)]
mod tests;
