//! The analyser: what is known of a flow beyond its counts, for `--statistics tcp`, `app` and `full`.
//!
//! State lies apart from the table's entries, in pools by number: a slot of the table keeps its
//! flow's number alone, so a flow that moves takes four bytes with it. Of each packet of a batch the
//! number is looked up and the state asked for, then all are counted in their order.

mod level;
mod pool;
pub mod volume;

pub use level::Level;
pub use volume::{FIRST_PACKETS, Volume};

use crate::batch::{BURST, Batch, Payloads};
use crate::table::Observed;
use hw::memory::HugeSlice;
use hw::prefetch;
use pool::Pool;
use std::io;
use wire::{FlowKey, Segment};

/// What an analysis found of a flow: of each pair, index 0 is the initiator's side.
#[derive(Clone, Copy, Debug, Default)]
pub struct Analysis {
    /// Volume and timing.
    pub volume: Volume,
}

/// A packet as the observers of payloads see it.
pub struct Arrival<'a> {
    /// Number of the flow among those that there are now.
    pub flow: u32,
    /// 0 where the initiator sent it.
    pub side: usize,
    /// Whether it is the flow's first.
    pub opens: bool,
    /// Nanoseconds since the Unix epoch.
    pub time_ns: i64,
    /// Its headers.
    pub segment: &'a Segment,
    /// Its payload, as far as it was captured.
    pub payload: &'a [u8],
    batch: &'a Batch,
    index: usize,
}

impl Arrival<'_> {
    /// The flow's key, its source being the sender of this packet.
    #[must_use]
    pub fn key(&self) -> FlowKey {
        let key = self.batch.flow_key(self.index);
        if self.batch.packets()[self.index].direction == 1 {
            key.reversed()
        } else {
            key
        }
    }
}

/// Analyses the flows of one table.
pub(crate) struct Analyser {
    level: Level,
    /// Of each slot of the table the number of its flow plus one.
    numbers: HugeSlice<u32>,
    volumes: Pool<Volume>,
    /// Numbers of the flows of the burst at hand.
    burst: [u32; BURST],
}

/// In place of a number: none.
const NO_FLOW: u32 = u32::MAX;

impl Analyser {
    /// For a table of so many slots and flows.
    ///
    /// # Errors
    /// When the machine has no room for it.
    pub(crate) fn new(level: Level, slots: usize, flows_max: usize) -> io::Result<Self> {
        let no_room = |_| io::Error::from(io::ErrorKind::OutOfMemory);
        Ok(Self {
            level,
            numbers: HugeSlice::try_zeroed(slots)?,
            volumes: Pool::new(flows_max).map_err(no_room)?,
            burst: [NO_FLOW; BURST],
        })
    }

    /// Memory that it takes with a full table, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.numbers.len() * size_of::<u32>() + self.volumes.memory_bytes()
    }

    /// Asks for the numbers of the flows in these slots.
    pub(crate) fn stage(&self, slots: &[u32]) {
        for &slot in slots {
            prefetch::read(&self.numbers, slot as usize);
        }
    }

    /// Moves a flow to another slot.
    pub(crate) fn relocate(&mut self, from: u32, to: u32) {
        self.numbers[to as usize] = std::mem::take(&mut self.numbers[from as usize]);
    }

    /// Takes packets `start..end` in, whose slots are `observed`.
    pub(crate) fn observe(
        &mut self,
        batch: &Batch,
        [start, end]: [usize; 2],
        observed: &Observed,
        payloads: &impl Payloads,
    ) {
        let (packets, segments) = (batch.packets(), batch.segments());
        if segments.len() < end || packets.len() < end {
            debug_assert!(false, "packets without details");
            return;
        }
        for &at in &observed.opened {
            let at = usize::from(at);
            self.open(observed.slots[at], batch, at);
        }
        for at in start..end {
            let number = self.numbers.get(observed.slots[at] as usize);
            // A packet without a place in the table has a slot beyond them all.
            let number = number.map_or(NO_FLOW, |number| number.wrapping_sub(1));
            self.burst[at] = number;
            self.volumes.prefetch(number, 4);
        }
        let mut opened = observed.opened.iter().copied().peekable();
        for at in start..end {
            let opens = opened.next_if_eq(&(at as u16)).is_some();
            let number = self.burst[at];
            let Some(volume) = self.volumes.get_mut(number) else {
                continue;
            };
            let (packet, segment) = (&packets[at], &segments[at]);
            let side = usize::from(packet.direction ^ volume.initiator);
            volume.count(side, packet, segment);
            if self.level.has_applications() {
                let arrival = Arrival {
                    flow: number,
                    side,
                    opens,
                    time_ns: packet.time_ns,
                    segment,
                    payload: payloads.payload(batch, segment),
                    batch,
                    index: at,
                };
                self.look_into(&arrival);
            }
        }
    }

    /// The way of payloads to those who look into them.
    #[inline(always)]
    fn look_into(&mut self, arrival: &Arrival<'_>) {
        let _ = (arrival.flow, arrival.opens, arrival.payload);
    }

    fn open(&mut self, slot: u32, batch: &Batch, at: usize) {
        let Some(number) = self.volumes.take() else {
            debug_assert!(false, "more flows than the table may have");
            return;
        };
        self.numbers[slot as usize] = number + 1;
        if let Some(volume) = self.volumes.get_mut(number) {
            volume.open(&batch.packets()[at], &batch.segments()[at]);
        }
    }

    /// Ends the flow in `slot`: what is known of it goes to `analyses`.
    pub(crate) fn end(&mut self, slot: u32, analyses: &mut Vec<Analysis>) {
        let number = std::mem::take(&mut self.numbers[slot as usize]).wrapping_sub(1);
        let mut analysis = Analysis::default();
        if let Some(volume) = self.volumes.get(number) {
            analysis.volume = *volume;
            self.volumes.give_back(number);
        }
        analyses.push(analysis);
    }
}
