//! Several ports as one, with their packets in time order: the two directions of a link, each with a
//! port of a TAP or a file of its own, become the traffic of the link again.
//!
//! Frames are not copied. A burst that is not due yet stays where its port holds it (the kernel's ring,
//! the block of a file), and its port is not read further until it is used up.

mod delay;
mod input;

use crate::file::{Input, OnDemandFile};
use crate::frame::{
    BURST, Burst, Counters, DeviceCounters, InputCounters, Port, PortError, Received, Rss,
};
use crate::frame_list::FrameList;
use delay::Delay;
use input::{JoinedInput, Polled};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};
use wire::LinkType;

/// Joins ports by the times of their packets.
///
/// Every port delivers its packets in time order, or nearly so. The packet with the earliest time is
/// next. A port that has no packet holds up the others: until it has one, if no window is given, and
/// for at most the window otherwise. A packet that comes after one with a later time is delivered all
/// the same and counted: as out of order if its own port delivered the later one, as late if another
/// did.
pub struct Joined {
    name: String,
    inputs: Vec<JoinedInput>,
    /// Inputs that have frames, by the time of their first frame; those not opened yet, by the time of
    /// the first packet they are known to contain.
    order: BinaryHeap<Reverse<(i64, usize)>>,
    /// Inputs that must be read before the next frame is known.
    waiting: Vec<usize>,
    /// How long a packet waits for those of other inputs; `None` for as long as it takes.
    window: Option<Duration>,
    delay: Delay,
    /// Latest time delivered.
    latest_ns: i64,
    frames: FrameList,
    /// Why inputs could not be opened, to be reported.
    open_errors: VecDeque<String>,
    faults: u64,
    /// Inputs that failed for good, to be reported at the end.
    failed: Vec<String>,
}

impl Joined {
    /// Joins ports of links. A packet waits up to `window` for earlier ones of other ports, which
    /// should be longer than the time that a port takes to deliver a packet.
    #[must_use]
    pub fn links(ports: Vec<Box<dyn Port>>, window: Duration) -> Self {
        let names: Vec<&str> = ports.iter().map(|port| port.name()).collect();
        let name = names.join("+");
        let inputs = ports.into_iter().map(JoinedInput::new).collect();
        Self::new(name, inputs, Some(window))
    }

    /// Joins capture files. A file is open only while the time of the packets has reached its first
    /// one, so that a long series of files needs the memory of those that overlap. Pipes are waited for.
    ///
    /// An input that cannot be opened is a fault, which is reported first.
    ///
    /// # Errors
    /// That of the first input, if none can be opened.
    pub fn files(inputs: &[Input]) -> Result<Self, PortError> {
        let mut files = Vec::new();
        let mut starts = Vec::new();
        let mut errors = VecDeque::new();
        for input in inputs {
            match OnDemandFile::new(input) {
                Ok((file, start_ns)) => {
                    files.push(JoinedInput::new(Box::new(file)));
                    starts.push(start_ns);
                }
                Err(error) => errors.push_back(error),
            }
        }
        if files.is_empty() {
            return Err(errors.pop_front().unwrap_or_else(|| {
                PortError::Failed("no capture file is given; use -r FILE".to_owned())
            }));
        }
        let name = match &files[..] {
            [file] => file.name().to_owned(),
            files => format!("{} joined captures", files.len()),
        };
        let mut joined = Self::new(name, files, None);
        joined.waiting.clear();
        joined.order = starts
            .into_iter()
            .enumerate()
            .map(|(index, start_ns)| Reverse((start_ns, index)))
            .collect();
        joined.open_errors = errors.iter().map(ToString::to_string).collect();
        Ok(joined)
    }

    fn new(name: String, inputs: Vec<JoinedInput>, window: Option<Duration>) -> Self {
        Self {
            name,
            order: BinaryHeap::with_capacity(inputs.len()),
            waiting: (0..inputs.len()).collect(),
            inputs,
            window,
            delay: Delay::default(),
            latest_ns: i64::MIN,
            frames: FrameList::default(),
            open_errors: VecDeque::new(),
            faults: 0,
            failed: Vec::new(),
        }
    }

    /// Reads the inputs that have no frames; those found empty before `idle_before` only if that is
    /// given, because reading an empty port waits. Returns a fault, if one of them reports one.
    fn poll_waiting(&mut self, idle_before: Option<Instant>) -> Option<String> {
        let mut at = 0;
        while let Some(&index) = self.waiting.get(at) {
            let input = &mut self.inputs[index];
            let is_due = |idle_since| idle_before.is_some_and(|before| idle_since < before);
            if input.idle_since().is_some_and(|since| !is_due(since)) {
                at += 1;
                continue;
            }
            match input.poll() {
                Ok(Polled::Frames(first_ns)) => {
                    if self.window.is_some() {
                        self.delay.learn(input.received(), input.last_ns());
                    }
                    self.order.push(Reverse((first_ns, index)));
                    self.waiting.swap_remove(at);
                }
                Ok(Polled::Idle) => at += 1,
                Ok(Polled::End) => {
                    self.waiting.swap_remove(at);
                }
                Ok(Polled::Fault(message)) => return Some(message),
                Err(error) => {
                    // The other inputs may continue for days.
                    self.waiting.swap_remove(at);
                    self.faults += 1;
                    self.failed.push(self.inputs[index].name().to_owned());
                    return Some(error.to_string());
                }
            }
        }
        None
    }

    /// Returns the time up to which the frames of an input may be delivered although other inputs have
    /// none: those that other inputs can still deliver arrived later.
    fn due_until(&self, index: usize) -> i64 {
        let idle = self
            .waiting
            .iter()
            .map(|&other| self.inputs[other].idle_since());
        let Some(idle_since) = idle.min() else {
            return i64::MAX;
        };
        match (self.window, idle_since) {
            (Some(window), Some(idle_since)) => {
                self.delay
                    .due_until(self.inputs[index].received(), idle_since, window)
            }
            _ => i64::MIN,
        }
    }

    /// Collects the next frames in time order. Returns their number and link type.
    fn merge(&mut self) -> (usize, LinkType) {
        let (mut count, mut link) = (0, LinkType::Other(0));
        while count < BURST {
            let Some(&Reverse((_, index))) = self.order.peek() else {
                break;
            };
            if !self.inputs[index].has_frames() {
                // A file whose time has come: it is opened next.
                self.order.pop();
                self.waiting.push(index);
                break;
            }
            let until_ns = self.due_until(index);
            self.order.pop();
            let limit = self
                .order
                .peek()
                .map_or((i64::MAX, usize::MAX), |next| next.0);
            let input = &mut self.inputs[index];
            if count > 0 && input.link() != link {
                self.order.push(Reverse((input.next_ns(), index)));
                break;
            }
            link = input.link();
            // SAFETY: only the `count` frames copied here are read, by the burst that `receive` returns.
            // Inputs keep their bytes until they are read again. That happens in the next `receive`
            // only, which needs `self` mutably, and the returned burst borrows `self`.
            let taken = unsafe {
                input.take(&mut self.frames, count, &mut self.latest_ns, |time_ns| {
                    time_ns <= until_ns && (time_ns, index) < limit
                })
            };
            count += taken;
            if !input.has_frames() {
                // It is read again only after these frames have been used.
                self.waiting.push(index);
                break;
            }
            self.order.push(Reverse((input.next_ns(), index)));
            if taken == 0 {
                break;
            }
        }
        (count, link)
    }
}

impl Port for Joined {
    fn receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        if let Some(error) = self.open_errors.pop_front() {
            self.faults += 1;
            return Ok(Received::Fault(error));
        }
        let started = Instant::now();
        let mut idle_before = None;
        let (count, link) = loop {
            if let Some(fault) = self.poll_waiting(idle_before) {
                return Ok(Received::Fault(fault));
            }
            let is_file_awaited = self.window.is_none() && !self.waiting.is_empty();
            if is_file_awaited && idle_before.is_some() {
                return Ok(Received::Idle);
            }
            if self.order.is_empty() && self.waiting.is_empty() {
                return match self.failed.is_empty() {
                    true => Ok(Received::End),
                    false => Err(PortError::Failed(format!(
                        "{}: this joined input could not be read to its end",
                        std::mem::take(&mut self.failed).join(", ")
                    ))),
                };
            }
            if !is_file_awaited {
                let merged = self.merge();
                if merged.0 > 0 {
                    break merged;
                }
                // Without a frame there is a file to open, or packets wait for those of other inputs.
                if self.window.is_none() {
                    continue;
                }
            }
            // An empty input is read only when no other frame is due: that waits each time, and one
            // silent link would slow the others down to a burst per wait.
            if idle_before.is_some() {
                return Ok(Received::Idle);
            }
            idle_before = Some(started);
        };
        Ok(Received::Burst(Burst {
            link,
            frames: self.frames.first(count),
        }))
    }

    fn counters(&mut self) -> Counters {
        let mut sum = Counters {
            faults: self.faults,
            device: Some(DeviceCounters::default()),
            ..Counters::default()
        };
        let mut size_known = true;
        for input in &mut self.inputs {
            let counters = input.counters();
            sum.frames += counters.frames;
            sum.bytes += counters.bytes;
            sum.dropped += counters.dropped;
            sum.missed += counters.missed;
            sum.no_buffer += counters.no_buffer;
            sum.errors += counters.errors;
            sum.overflow += counters.overflow;
            sum.overflow_bytes += counters.overflow_bytes;
            sum.position += counters.position;
            sum.size += counters.size;
            size_known &= counters.size > 0;
            sum.faults += counters.faults;
            sum.snaplen_errors += counters.snaplen_errors;
            sum.filtered += counters.filtered;
            sum.filtered_bytes += counters.filtered_bytes;
            sum.device = match (sum.device, counters.device) {
                (Some(sum), Some(device)) => Some(DeviceCounters {
                    frames: sum.frames + device.frames,
                    bytes: sum.bytes + device.bytes,
                }),
                _ => None,
            };
        }
        if !size_known {
            sum.size = 0;
        }
        sum
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn rss_key(&self) -> Option<&[u8]> {
        let key = self.inputs.first()?.port().rss_key();
        let mut others = self.inputs.iter();
        others
            .all(|input| input.port().rss_key() == key)
            .then_some(key)?
    }

    fn occupancy(&mut self) -> Option<usize> {
        let inputs = self.inputs.iter_mut();
        inputs.map(|input| input.port_mut().occupancy()).sum()
    }

    fn queue_size(&self) -> Option<usize> {
        self.inputs
            .iter()
            .map(|input| input.port().queue_size())
            .sum()
    }

    fn stop(&mut self) {
        for input in &mut self.inputs {
            input.port_mut().stop();
        }
        if self.window.is_none() {
            // Files end at once.
            self.order.clear();
            self.waiting.clear();
            self.open_errors.clear();
        }
    }

    fn rss(&self) -> Option<Rss> {
        let rss = self.inputs.first()?.port().rss();
        let mut others = self.inputs.iter();
        others
            .all(|input| input.port().rss() == rss)
            .then_some(rss)?
    }

    fn inputs(&mut self) -> Vec<InputCounters> {
        self.inputs.iter_mut().map(JoinedInput::report).collect()
    }
}

#[cfg(test)]
mod tests;
