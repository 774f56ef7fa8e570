//! Feeds packets to the states of their flows, and lets them go with their flows.

mod count;

use crate::batch::{BURST, Batch, Payloads};
use crate::expiry::Timeouts;
use crate::record::{EndReason, Record};
use crate::table::Observed;
use analysis::continued::{CONTINUED_MAX, Continued};
use analysis::tcp::RarePool;
use analysis::{Analyses, Analysis, Level, RARE_SHARE, Rare, Tcp, Volume};
use app::{Applications, Names, NamesLimits, Progress, Told};
use count::{Handles, NO_HANDLES};
use hw::hash::KeyedHash;
use hw::memory::HugeSlice;
use hw::pool::{NONE, Pool};
use hw::prefetch;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use wire::FlowKey;

/// Flows ahead of which the states of one that has left are asked for: they are long.
const LEAVING_AHEAD: usize = 2;

/// Any number: flow ids are to be the same in every run.
const FLOW_ID_SEED: u64 = 0x666c_6f77_6174_6368;

/// Analyses the flows of one table.
pub(crate) struct Analyser {
    /// Of each slot of the table the handle of its flow.
    handles: HugeSlice<u32>,
    volumes: Pool<Volume>,
    tcp: Option<Pool<Tcp>>,
    rare: RarePool,
    names: Option<Names>,
    continued: Continued,
    idle_ms: u32,
    digest: KeyedHash,
    /// Handles of the flows of the burst at hand, with room behind them to look ahead.
    burst: Handles,
    /// Flows that have left the table and are yet to be told: their handles, and the meter's clock at
    /// their last packets.
    left: Vec<(u32, u32)>,
}

impl Analyser {
    /// For a table of so many slots and flows; `seed` is secret.
    ///
    /// # Errors
    /// When the machine has no room for it.
    pub(crate) fn new(
        level: Level,
        slots: usize,
        flows_max: usize,
        timeouts: &Timeouts,
        applications: Arc<Applications>,
        seed: u64,
    ) -> io::Result<Self> {
        let waiting = match timeouts.active {
            Some(_) => CONTINUED_MAX.min(flows_max),
            None => 0,
        };
        let states = flows_max + waiting + BURST;
        let limits = NamesLimits::default();
        let names_continued = match level.has_applications() && waiting > 0 {
            true => limits.text_bytes(states),
            false => 0,
        };
        Ok(Self {
            handles: HugeSlice::try_zeroed(slots)?,
            volumes: Pool::new(states)?,
            tcp: match level.has_tcp() {
                true => Some(Pool::new(states)?),
                false => None,
            },
            rare: Pool::new(match level.has_tcp() {
                true => rare_places(states),
                false => 0,
            })?,
            names: match level.has_applications() {
                true => Some(Names::new(states, &limits, applications, seed)?),
                false => None,
            },
            continued: Continued::new(waiting, names_continued),
            idle_ms: timeouts
                .idle
                .map_or(u32::MAX, |idle| idle.min(Timeouts::MAX).as_millis() as u32),
            digest: KeyedHash::new(FLOW_ID_SEED),
            burst: NO_HANDLES,
            left: Vec::with_capacity(BURST),
        })
    }

    /// Takes the memory of the first flows from the machine now.
    pub(crate) fn populate(&mut self) {
        self.handles.populate();
        self.volumes.populate();
        if let Some(tcp) = &mut self.tcp {
            tcp.populate();
        }
        self.rare.populate();
        if let Some(names) = &mut self.names {
            names.populate();
        }
    }

    /// Memory that it takes with a full table, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.handles.len() * size_of::<u32>()
            + self.volumes.memory_bytes()
            + self.tcp.as_ref().map_or(0, Pool::memory_bytes)
            + self.rare.memory_bytes()
            + self.names.as_ref().map_or(0, Names::memory_bytes)
            + self.continued.memory_bytes()
    }

    /// Asks for the handles of the flows in these slots, which are about to leave.
    pub(crate) fn approach(&self, slots: impl Iterator<Item = u32>) {
        for slot in slots {
            prefetch::read(&self.handles, slot as usize);
        }
    }

    /// Moves a flow to another slot.
    pub(crate) fn relocate(&mut self, from: u32, to: u32) {
        self.handles[to as usize] = std::mem::take(&mut self.handles[from as usize]);
    }

    /// Finds the states of the flows of these packets, whose slots are `observed`, and makes those of
    /// new flows. A burst is found piece by piece, in its order, and then [observed](Self::observe).
    pub(crate) fn find(&mut self, batch: &Batch, packets: Range<usize>, observed: &Observed) {
        if batch.segments().len() < packets.end {
            debug_assert!(false, "packets without details");
            return;
        }
        for &at in &observed.opened {
            let at = usize::from(at);
            self.open(observed.slots[at], batch, at);
        }
        let slots = &observed.slots[packets.clone()];
        let handles = &mut self.burst[packets];
        for (handle, &slot) in handles.iter_mut().zip(slots) {
            // A packet without a place in the table has a slot beyond them all.
            *handle = self.handles.get(slot as usize).copied().unwrap_or(NONE);
        }
    }

    /// Takes packets `start..end` in, whose flows' states are found.
    pub(crate) fn observe(
        &mut self,
        batch: &Batch,
        Range { start, end }: Range<usize>,
        payloads: &impl Payloads,
    ) {
        if batch.segments().len() < end {
            return;
        }
        self.look_ahead(start..end);
        let mut start = start;
        if self.names.is_some() {
            for (at, told) in batch.told() {
                // What was told behind the last of these packets is for those that come next, if any do.
                if *at >= start && (*at < end || end == batch.len()) {
                    let at = end.min(*at);
                    self.count(batch, start..at, payloads);
                    self.hear(told);
                    start = at;
                }
            }
        }
        self.count(batch, start..end, payloads);
    }

    /// What DNS responses tell comes by [`Analyser::hear`].
    pub(crate) fn overhear(&mut self) {
        if let Some(names) = &mut self.names {
            names.overhear();
        }
    }

    /// Takes in what a client was told.
    pub(crate) fn hear(&mut self, told: &Told) {
        if let Some(names) = &mut self.names {
            names.hear(told);
        }
    }

    #[inline(never)]
    fn open(&mut self, slot: u32, batch: &Batch, at: usize) {
        let packet = &batch.packets()[at];
        if !self.continued.is_empty() {
            let before = self
                .continued
                .take(&batch.flow_key(at), packet.clock_ms, self.idle_ms);
            match before {
                Some((handle, true)) => {
                    self.handles[slot as usize] = handle;
                    return;
                }
                Some((handle, false)) => self.forget(handle),
                None => {}
            }
            if let Some(handle) = self.continued.idle(packet.clock_ms, self.idle_ms) {
                self.forget(handle);
            }
        }
        let handle = self.volumes.take();
        if let Some(volume) = self.volumes.get_mut(handle) {
            self.handles[slot as usize] = handle;
            volume.open(packet, &batch.segments()[at]);
            volume.names = match &self.names {
                Some(names) => names.expect(|| key_from(packet.direction, batch, at)),
                None => Progress::NOTHING,
            };
        } else {
            debug_assert!(false, "more flows than the table may have");
        }
    }

    /// The direction, by the table's key, of the initiator of the flow in `slot`: of a flow that goes
    /// on after its active time-out that of its first record.
    pub(crate) fn initiator(&self, slot: u32) -> Option<u8> {
        let handle = *self.handles.get(slot as usize)?;
        Some(self.volumes.get(handle)?.initiator)
    }

    /// Takes the flow in `slot` out of the table, whose last packet came at `last_ms`. What is known of
    /// it stays until it is [told](Self::tell_left).
    pub(crate) fn leave(&mut self, slot: u32, last_ms: u32) {
        let handle = std::mem::take(&mut self.handles[slot as usize]);
        self.volumes.prefetch_all(handle);
        self.left.push((handle, last_ms));
    }

    /// Tells what is known of the flows that have left, in their order: theirs are the last of the
    /// `records`.
    pub(crate) fn tell_left(&mut self, records: &[Record], analyses: &mut Analyses) {
        let left = std::mem::take(&mut self.left);
        let records = &records[records.len() - left.len()..];
        for &(handle, _) in left.iter().take(LEAVING_AHEAD) {
            self.approach_states(handle);
        }
        for (at, (&(handle, last_ms), record)) in left.iter().zip(records).enumerate() {
            if let Some(&(ahead, _)) = left.get(at + LEAVING_AHEAD) {
                self.approach_states(ahead);
            }
            self.end(handle, record, last_ms, analyses);
        }
        self.left = left;
        self.left.clear();
    }

    /// Asks for the states that a flow's volume names.
    fn approach_states(&self, handle: u32) {
        let Some(volume) = self.volumes.get(handle) else {
            return;
        };
        if let Some(tcp) = &self.tcp
            && volume.tcp != NONE
        {
            tcp.prefetch_all(volume.tcp);
        }
        if let Some(names) = &self.names {
            names.approach(volume.names);
        }
    }

    /// Ends a flow of which this is the record: what is known of it goes to `analyses`. A flow that
    /// only its active time-out ends keeps its state for what is to come.
    fn end(&mut self, handle: u32, record: &Record, last_ms: u32, analyses: &mut Analyses) {
        let Some(volume) = self.volumes.get_mut(handle) else {
            analyses.push(Analysis::default());
            return;
        };
        let (tcp, initiator) = (volume.tcp, volume.initiator);
        let state = self.tcp.as_ref().and_then(|pool| pool.get(tcp));
        let flow_id = flow_id(&self.digest, &record.key, volume.origin_ns);
        let made = |tcp| Analysis {
            flow_id,
            volume: *volume,
            tcp,
            rare: Default::default(),
            names: None,
        };
        // Each part is copied once, to where it stays: more than a kilobyte, put together before it would
        // be copied twice.
        let write_over = |place: &mut Analysis| {
            place.flow_id = flow_id;
            place.volume = *volume;
            place.rare = [Rare::default(); 2];
            match (state, &mut place.tcp) {
                (Some(state), Some(tcp)) => *tcp = *state,
                (state, tcp) => *tcp = state.copied(),
            }
        };
        let analysis = match state {
            Some(state) => analyses.next_place(|| made(Some(*state)), write_over),
            None => analyses.next_place(|| made(None), write_over),
        };
        if let Some(state) = state {
            state.tell_rare(&self.rare, &mut analysis.rare);
        }
        if let Some(names) = &mut self.names {
            let told = match &mut analysis.names {
                // Emptied before, so that its memory may be that of what is told now.
                Some(told) => {
                    *told = Default::default();
                    told
                }
                none => none.insert(Default::default()),
            };
            match record.end_reason {
                EndReason::ActiveTimeout => {
                    names.take_so_far(told, &mut volume.names, &record.key);
                }
                _ => names.take_into(told, &mut volume.names, &record.key),
            }
            self.continued.complete(handle, told);
        } else {
            analysis.names = None;
        }
        if record.end_reason != EndReason::ActiveTimeout {
            return self.forget(handle);
        }
        if let Some(state) = self.tcp.as_mut().and_then(|pool| pool.get_mut(tcp)) {
            state.next_record(&mut self.rare);
        }
        volume.next_record();
        let is_kept = self.continued.keep_names(handle, analysis);
        if let Some(names) = &mut self.names {
            names.go_on(&mut volume.names, is_kept);
        }
        let key = if initiator == 1 {
            record.key.reversed()
        } else {
            record.key
        };
        if let Some(given_up) = self.continued.wait(key, handle, last_ms) {
            self.forget(given_up);
        }
    }

    /// Gives the state of a flow back.
    fn forget(&mut self, handle: u32) {
        let Some(volume) = self.volumes.get_mut(handle) else {
            return;
        };
        if let Some(pool) = &mut self.tcp
            && let Some(state) = pool.get(volume.tcp)
        {
            state.release(&mut self.rare);
            pool.release(volume.tcp);
        }
        if let Some(names) = &mut self.names {
            names.forget(&mut volume.names);
        }
        self.volumes.release(handle);
    }
}

/// The key of packet `at` as a flow's initiator, the one of these two directions, has it.
fn key_from(initiator: u8, batch: &Batch, at: usize) -> FlowKey {
    let key = batch.flow_key(at);
    if initiator == 1 { key.reversed() } else { key }
}

/// There are at least so many places for what is rare, or one for each side of each flow.
const RARE_LEAST: usize = 1 << 16;

/// Places for what is rare among so many states.
fn rare_places(states: usize) -> usize {
    states
        .div_ceil(RARE_SHARE)
        .max((2 * states).min(RARE_LEAST))
}

/// The id of a flow by its key, as its initiator has it, and the time of its first packet.
fn flow_id(digest: &KeyedHash, key: &FlowKey, origin_ns: i64) -> u64 {
    let mut words = crate::batch::words(key);
    words[2] ^= u128::from(origin_ns.cast_unsigned()) << 80;
    let digest = digest.digest(&words) as u64 ^ origin_ns.cast_unsigned().wrapping_mul(MIX);
    digest >> 11
}

/// An odd number without a pattern (the golden ratio's fraction).
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_of_few_flows_have_a_place_for_what_is_rare() {
        assert_eq!([1, 30_000].map(rare_places), [2, 60_000]);
        assert_eq!(rare_places(40_000), RARE_LEAST);
        assert_eq!(rare_places(10 * RARE_LEAST), 2 * RARE_LEAST);
    }
}
