//! One of several joined ports, with the burst that it delivered last.

use crate::frame::{BURST, Counters, InputCounters, Port, PortError, Received};
use crate::frame_list::FrameList;
use std::time::Instant;
use wire::LinkType;

/// The result of reading an input.
pub(super) enum Polled {
    /// Frames, the first with this time.
    Frames(i64),
    Idle,
    Fault(String),
    End,
}

/// A port and its frames that have not been delivered yet.
pub(super) struct JoinedInput {
    port: Box<dyn Port>,
    /// The frames of the last burst. Absent before the first one and after the last one, as a series of
    /// files can be long.
    held: Option<FrameList>,
    link: LinkType,
    /// The frames of `held` from `next` to `count` have not been delivered.
    next: usize,
    count: usize,
    /// When the burst was read.
    received: Instant,
    /// When the port was found to have no frames, if it has had none since.
    idle_since: Option<Instant>,
    /// Latest time that it has delivered.
    latest_ns: i64,
    frames: u64,
    bytes: u64,
    out_of_order: u64,
    late: u64,
}

impl JoinedInput {
    pub(super) fn new(port: Box<dyn Port>) -> Self {
        Self {
            port,
            held: None,
            link: LinkType::Other(0),
            next: 0,
            count: 0,
            received: Instant::now(),
            idle_since: None,
            latest_ns: i64::MIN,
            frames: 0,
            bytes: 0,
            out_of_order: 0,
            late: 0,
        }
    }

    /// Reads the port, which must have no frames left.
    pub(super) fn poll(&mut self) -> Result<Polled, PortError> {
        (self.next, self.count) = (0, 0);
        let asked = Instant::now();
        let received = match self.port.receive() {
            Ok(received) => received,
            Err(error) => {
                self.held = None;
                return Err(error);
            }
        };
        match received {
            Received::Burst(burst) => {
                let held = self.held.get_or_insert_with(FrameList::default);
                // SAFETY: only the `count` frames written here are read. Their bytes belong to the port,
                // which keeps them until its next `receive`; only this function calls it, and it
                // resets `count` first.
                let slots = unsafe { held.slots() };
                let count = burst.frames.len().min(slots.len());
                slots[..count].copy_from_slice(&burst.frames[..count]);
                (self.count, self.link) = (count, burst.link);
                self.received = Instant::now();
                self.idle_since = None;
                Ok(Polled::Frames(self.next_ns()))
            }
            Received::Idle => {
                self.idle_since = Some(asked);
                Ok(Polled::Idle)
            }
            Received::Fault(message) => Ok(Polled::Fault(message)),
            Received::End => {
                self.held = None;
                Ok(Polled::End)
            }
        }
    }

    /// Copies frames to the entries of `out` from `at` on, as long as `is_due` allows, and counts those
    /// whose time is before `latest_ns`, the latest delivered so far. Returns their number.
    ///
    /// # Safety
    /// The copies may be read until the next [`JoinedInput::poll`] only.
    pub(super) unsafe fn take(
        &mut self,
        out: &mut FrameList,
        at: usize,
        latest_ns: &mut i64,
        is_due: impl Fn(i64) -> bool,
    ) -> usize {
        let Some(held) = &self.held else {
            return 0;
        };
        let first = self.next;
        let frames = &held.first(self.count)[first..];
        for frame in &frames[..frames.len().min(BURST - at)] {
            if !is_due(frame.time_ns) {
                break;
            }
            self.frames += 1;
            self.bytes += u64::from(frame.wire_length);
            if frame.time_ns < self.latest_ns {
                self.out_of_order += 1;
            } else {
                self.late += u64::from(frame.time_ns < *latest_ns);
                self.latest_ns = frame.time_ns;
            }
            *latest_ns = frame.time_ns.max(*latest_ns);
            self.next += 1;
        }
        // SAFETY: the caller reads the copies only while the port keeps their bytes.
        unsafe { out.copy(at, held, first..self.next) };
        self.next - first
    }

    pub(super) fn has_frames(&self) -> bool {
        self.next < self.count
    }

    /// Time of the next frame.
    pub(super) fn next_ns(&self) -> i64 {
        self.time_at(self.next)
    }

    /// Time of the last frame of the burst.
    pub(super) fn last_ns(&self) -> i64 {
        self.time_at(self.count.saturating_sub(1))
    }

    fn time_at(&self, index: usize) -> i64 {
        let held = self.held.as_ref();
        let frame = held.and_then(|held| held.first(self.count).get(index));
        frame.map_or(i64::MIN, |frame| frame.time_ns)
    }

    pub(super) fn link(&self) -> LinkType {
        self.link
    }

    pub(super) fn received(&self) -> Instant {
        self.received
    }

    pub(super) fn idle_since(&self) -> Option<Instant> {
        self.idle_since
    }

    pub(super) fn name(&self) -> &str {
        self.port.name()
    }

    pub(super) fn port(&self) -> &dyn Port {
        &*self.port
    }

    pub(super) fn port_mut(&mut self) -> &mut dyn Port {
        &mut *self.port
    }

    /// Returns the counters of the port; those of frames count what was delivered.
    pub(super) fn counters(&mut self) -> Counters {
        Counters {
            frames: self.frames,
            bytes: self.bytes,
            ..self.port.counters()
        }
    }

    pub(super) fn report(&mut self) -> InputCounters {
        let counters = self.port.counters();
        InputCounters {
            name: self.port.name().to_owned(),
            received: counters.frames,
            delivered: self.frames,
            bytes: self.bytes,
            dropped: counters.dropped + counters.missed + counters.no_buffer + counters.errors,
            faults: counters.faults,
            out_of_order: self.out_of_order,
            late: self.late,
        }
    }
}
