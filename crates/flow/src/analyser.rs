//! Flow analysis: updates the analysis states of flows with each packet, and copies them out when flows
//! end.

mod count;
mod handles;

use crate::batch::{BURST, Batch, Packet, Payloads};
use crate::end_reason::EndReason;
use crate::ended::initiator_direction;
use crate::expiry::{Evidence, Timeouts};
use crate::record::Record;
use crate::table::Observed;
use analysis::suspended::{SUSPENDED_MAX, Suspended};
use analysis::tcp::TcpColdPool;
use analysis::{Analyses, Analysis, FLOWS_PER_TCP_COLD, Level, Tcp, TcpCold, Volume};
use app::{Applications, DnsAnswer, InspectState, Inspector, InspectorLimits, NameCounters};
use handles::{Handles, NO_HANDLES};
use hw::hash::KeyedHash;
use hw::memory::HugeSlice;
use hw::pool::{NO_HANDLE, Pool};
use hw::prefetch;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use wire::tcp::flag::{ACK, SYN};
use wire::{FlowKey, PacketInfo};

/// How many ended flows ahead to prefetch states. They span many cache lines.
const PREFETCH_FLOWS_AHEAD: usize = 2;

/// A fixed seed, so that flow IDs are the same in every run.
const FLOW_ID_SEED: u64 = 0x666c_6f77_6174_6368;

/// Analyses the flows of one table.
pub(crate) struct Analyser {
    /// For each slot of the table, the handle of its flow's states.
    handles: HugeSlice<u32>,
    volumes: Pool<Volume>,
    tcp: Option<Pool<Tcp>>,
    tcp_cold: TcpColdPool,
    inspector: Option<Inspector>,
    suspended: Suspended,
    idle_ms: u32,
    digest: KeyedHash,
    /// Both directions of a conversation are one flow.
    both_directions: bool,
    /// A SYN on the ports of a closed connection starts a new flow.
    reopens: bool,
    /// Handles of the flows of the current batch's packets.
    batch_handles: Handles,
    /// Flows that have left the table but are not analysed to the end: their handles, and the meter's
    /// clock at their last packets.
    detached: Vec<(u32, u32)>,
}

impl Analyser {
    /// Creates an analyser for a table of `slots` slots and at most `flows_max` flows. `seed` must be
    /// secret.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub(crate) fn new(
        level: Level,
        slots: usize,
        flows_max: usize,
        timeouts: &Timeouts,
        both_directions: bool,
        applications: Arc<Applications>,
        seed: u64,
    ) -> io::Result<Self> {
        let suspended_max = match timeouts.active {
            Some(_) => SUSPENDED_MAX.min(flows_max),
            None => 0,
        };
        let states = flows_max + suspended_max + BURST;
        let limits = InspectorLimits::default();
        let carried_over_bytes_max = match level.has_applications() && suspended_max > 0 {
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
            tcp_cold: Pool::new(match level.has_tcp() {
                true => tcp_cold_states(states),
                false => 0,
            })?,
            inspector: match level.has_applications() {
                true => Some(Inspector::new(states, &limits, applications, seed)?),
                false => None,
            },
            suspended: Suspended::new(suspended_max, carried_over_bytes_max),
            idle_ms: timeouts
                .idle
                .map_or(u32::MAX, |idle| idle.min(Timeouts::MAX).as_millis() as u32),
            digest: KeyedHash::new(FLOW_ID_SEED),
            both_directions,
            reopens: timeouts.tcp_close.is_some(),
            batch_handles: NO_HANDLES,
            detached: Vec::with_capacity(BURST),
        })
    }

    /// Maps the memory of the first flows now.
    pub(crate) fn populate(&mut self) {
        self.handles.populate();
        self.volumes.populate();
        if let Some(tcp) = &mut self.tcp {
            tcp.populate();
        }
        self.tcp_cold.populate();
        if let Some(inspector) = &mut self.inspector {
            inspector.populate();
        }
    }

    /// Returns the memory in use with a full table, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.handles.len() * size_of::<u32>()
            + self.volumes.memory_bytes()
            + self.tcp.as_ref().map_or(0, Pool::memory_bytes)
            + self.tcp_cold.memory_bytes()
            + self.inspector.as_ref().map_or(0, Inspector::memory_bytes)
            + self.suspended.memory_bytes()
    }

    /// Prefetches the handles of the flows in these slots.
    pub(crate) fn prefetch_handles(&self, slots: impl Iterator<Item = u32>) {
        for slot in slots {
            prefetch::read(&self.handles, slot as usize);
        }
    }

    /// Moves a flow to another slot.
    pub(crate) fn relocate(&mut self, from: u32, to: u32) {
        self.handles[to as usize] = std::mem::take(&mut self.handles[from as usize]);
    }

    /// Looks up the handles of the flows of these packets by their slots in `observed`, and opens
    /// states for new flows. The pieces of a batch must come in order, before they are
    /// [analysed](Self::analyse).
    pub(crate) fn find_handles(
        &mut self,
        batch: &Batch,
        packets: Range<usize>,
        observed: &Observed,
    ) {
        if batch.details().len() < packets.end {
            debug_assert!(false, "packets without details");
            return;
        }
        for &at in &observed.opened {
            let at = usize::from(at);
            self.open_states(observed.slots[at], batch, at);
        }
        let slots = &observed.slots[packets.clone()];
        let handles = &mut self.batch_handles[packets];
        for (handle, &slot) in handles.iter_mut().zip(slots) {
            // The slot of a packet without a flow is out of range.
            *handle = self
                .handles
                .get(slot as usize)
                .copied()
                .unwrap_or(NO_HANDLE);
        }
    }

    /// Analyses packets `start..end`, whose handles are [looked up](Self::find_handles).
    pub(crate) fn analyse(
        &mut self,
        batch: &Batch,
        Range { start, end }: Range<usize>,
        payloads: &impl Payloads,
    ) {
        if batch.details().len() < end {
            return;
        }
        self.prefetch_first_volumes(start..end);
        let mut start = start;
        if self.inspector.is_some() {
            for (at, answer) in batch.dns_answers() {
                // An answer after the last of these packets belongs to the next piece, if there is one.
                if *at >= start && (*at < end || end == batch.len()) {
                    let at = end.min(*at);
                    self.count(batch, start..at, payloads);
                    self.learn(answer);
                    start = at;
                }
            }
        }
        self.count(batch, start..end, payloads);
    }

    /// Declares that DNS answers come through [`Analyser::learn`], not from this table's own packets.
    pub(crate) fn use_dns_feed(&mut self) {
        if let Some(inspector) = &mut self.inspector {
            inspector.use_dns_feed();
        }
    }

    /// Returns what became of the names in DNS responses.
    pub(crate) fn name_counters(&self) -> NameCounters {
        let inspector = self.inspector.as_ref();
        inspector.map_or_else(NameCounters::default, Inspector::name_counters)
    }

    /// Learns the names of a DNS answer.
    pub(crate) fn learn(&mut self, answer: &DnsAnswer) {
        if let Some(inspector) = &mut self.inspector {
            inspector.learn(answer);
        }
    }

    /// Opens the states of a new flow, or resumes those of a flow cut by its active timeout.
    #[inline(never)]
    fn open_states(&mut self, slot: u32, batch: &Batch, at: usize) {
        let packet = &batch.packets()[at];
        if !self.suspended.is_empty() {
            let suspended = self
                .suspended
                .take(&batch.flow_key(at), packet.clock_ms, self.idle_ms);
            match suspended {
                Some((handle, true)) if !self.reopens_closed(handle, batch, at) => {
                    self.handles[slot as usize] = handle;
                    return;
                }
                // A new connection on the ports of one that its active timeout cut after its end.
                Some((handle, true)) => self.release(handle),
                Some((handle, false)) => self.release(handle),
                None => {}
            }
            if let Some(handle) = self.suspended.evict_idle(packet.clock_ms, self.idle_ms) {
                self.release(handle);
            }
        }
        let handle = self.volumes.allocate();
        if let Some(volume) = self.volumes.get_mut(handle) {
            self.handles[slot as usize] = handle;
            let initiator = initiator_direction(packet, self.both_directions);
            volume.open(packet, initiator, &batch.details()[at]);
            volume.app = match &self.inspector {
                Some(inspector) => {
                    inspector.prefetch_new_flow(|| initiator_key(initiator, batch, at))
                }
                None => InspectState::DONE,
            };
        } else {
            debug_assert!(false, "more flows than the table may have");
        }
    }

    /// Returns the direction of the initiator of the flow in `slot`, relative to the table key. A flow
    /// that continues after its active timeout keeps the initiator of its first record.
    pub(crate) fn initiator(&self, slot: u32) -> Option<u8> {
        let handle = *self.handles.get(slot as usize)?;
        Some(self.volumes.get(handle)?.initiator)
    }

    /// Returns what the analysis knows of the TCP connection of the flow in `slot`, given a packet of it.
    /// All packets before it must be analysed.
    pub(crate) fn evidence(&self, slot: u32, packet: Option<(&Packet, &PacketInfo)>) -> Evidence {
        let state = self.handles.get(slot as usize).and_then(|&handle| {
            let volume = self.volumes.get(handle)?;
            Some((volume, self.tcp.as_ref()?.get(volume.tcp)?))
        });
        let Some((volume, tcp)) = state else {
            return Evidence::default();
        };
        Evidence {
            refuses_resets: !tcp.was_reset(),
            is_known_syn: packet.is_some_and(|(packet, info)| {
                let side = usize::from((packet.direction ^ volume.initiator) & 1);
                info.tcp_flags & (SYN | ACK) == SYN && tcp.is_known_syn(side, info.sequence)
            }),
        }
    }

    /// Returns whether packet `at` opens a new connection on the ports of the flow with these states,
    /// whose connection is closed.
    #[cold]
    fn reopens_closed(&self, handle: u32, batch: &Batch, at: usize) -> bool {
        let (packet, info) = (&batch.packets()[at], &batch.details()[at]);
        let state = self.volumes.get(handle).and_then(|volume| {
            let tcp = self.tcp.as_ref()?.get(volume.tcp)?;
            let side = usize::from((packet.direction ^ volume.initiator) & 1);
            Some((tcp, side))
        });
        self.reopens
            && info.tcp_flags & (SYN | ACK) == SYN
            && state.is_some_and(|(tcp, side)| {
                tcp.is_closed() && !tcp.is_known_syn(side, info.sequence)
            })
    }

    /// Returns whether TCP is analysed.
    pub(crate) const fn has_tcp(&self) -> bool {
        self.tcp.is_some()
    }

    /// Detaches the flow in `slot`, whose last packet came at `last_ms`, from its slot. Its states stay
    /// until [`Analyser::finish_pending`].
    pub(crate) fn detach(&mut self, slot: u32, last_ms: u32) {
        let handle = std::mem::take(&mut self.handles[slot as usize]);
        self.volumes.prefetch_all(handle);
        self.detached.push((handle, last_ms));
    }

    /// Appends the analyses of the detached flows to `analyses`, in order. The last of `records` are
    /// theirs.
    pub(crate) fn finish_pending(&mut self, records: &[Record], analyses: &mut Analyses) {
        let detached = std::mem::take(&mut self.detached);
        let records = &records[records.len() - detached.len()..];
        for &(handle, _) in detached.iter().take(PREFETCH_FLOWS_AHEAD) {
            self.prefetch_states(handle);
        }
        for (at, (&(handle, last_ms), record)) in detached.iter().zip(records).enumerate() {
            if let Some(&(ahead, _)) = detached.get(at + PREFETCH_FLOWS_AHEAD) {
                self.prefetch_states(ahead);
            }
            self.finish(handle, record, last_ms, analyses);
        }
        self.detached = detached;
        self.detached.clear();
    }

    /// Prefetches the TCP and application states that a flow's volume state refers to.
    fn prefetch_states(&self, handle: u32) {
        let Some(volume) = self.volumes.get(handle) else {
            return;
        };
        if let Some(tcp) = &self.tcp
            && volume.tcp != NO_HANDLE
        {
            tcp.prefetch_all(volume.tcp);
        }
        if let Some(inspector) = &self.inspector {
            inspector.prefetch_flow(volume.app);
        }
    }

    /// Appends the analysis of the flow with this record to `analyses`, and releases its states. A flow
    /// that its active timeout cut keeps them for its next record.
    fn finish(&mut self, handle: u32, record: &Record, last_ms: u32, analyses: &mut Analyses) {
        let Some(volume) = self.volumes.get_mut(handle) else {
            analyses.push(Analysis::default());
            return;
        };
        let (tcp, initiator) = (volume.tcp, volume.initiator);
        let state = self.tcp.as_ref().and_then(|pool| pool.get(tcp));
        let flow_id = flow_id(&self.digest, &record.key, volume.origin_ns);
        let new = |tcp| Analysis {
            flow_id,
            volume: *volume,
            tcp,
            cold: Default::default(),
            app: None,
        };
        // An analysis is more than a kilobyte. Each part is written in place, so that it is copied
        // once.
        let overwrite = |slot: &mut Analysis| {
            slot.flow_id = flow_id;
            slot.volume = *volume;
            slot.cold = [TcpCold::default(); 2];
            match (state, &mut slot.tcp) {
                (Some(state), Some(tcp)) => *tcp = *state,
                (state, tcp) => *tcp = state.copied(),
            }
        };
        let analysis = match state {
            Some(state) => analyses.push_with(|| new(Some(*state)), overwrite),
            None => analyses.push_with(|| new(None), overwrite),
        };
        if let Some(state) = state {
            state.copy_cold(&self.tcp_cold, &mut analysis.cold);
        }
        if let Some(inspector) = &mut self.inspector {
            let app_record = match &mut analysis.app {
                // Cleared first, so that its memory can be reused.
                Some(old) => {
                    *old = Default::default();
                    old
                }
                none => none.insert(Default::default()),
            };
            match record.end_reason {
                EndReason::ActiveTimeout => {
                    inspector.snapshot(app_record, &mut volume.app, &record.key);
                }
                _ => inspector.finish_into(app_record, &mut volume.app, &record.key),
            }
            self.suspended.complete_record(handle, app_record);
        } else {
            analysis.app = None;
        }
        if record.end_reason != EndReason::ActiveTimeout {
            return self.release(handle);
        }
        if let Some(state) = self.tcp.as_mut().and_then(|pool| pool.get_mut(tcp)) {
            state.next_record(&mut self.tcp_cold);
        }
        volume.next_record();
        let is_kept = self.suspended.keep_app_record(handle, analysis);
        if let Some(inspector) = &mut self.inspector {
            inspector.resume(&mut volume.app, is_kept);
        }
        let key = if initiator == 1 {
            record.key.reversed()
        } else {
            record.key
        };
        if let Some(evicted) = self.suspended.insert(key, handle, last_ms) {
            self.release(evicted);
        }
    }

    /// Releases the states of a flow.
    fn release(&mut self, handle: u32) {
        let Some(volume) = self.volumes.get_mut(handle) else {
            return;
        };
        if let Some(pool) = &mut self.tcp
            && let Some(state) = pool.get(volume.tcp)
        {
            state.release(&mut self.tcp_cold);
            pool.free(volume.tcp);
        }
        if let Some(inspector) = &mut self.inspector {
            inspector.discard(&mut volume.app);
        }
        self.volumes.free(handle);
    }
}

/// Returns the key of packet `at` in the direction of the flow's initiator.
fn initiator_key(initiator: u8, batch: &Batch, at: usize) -> FlowKey {
    let key = batch.flow_key(at);
    if initiator == 1 { key.reversed() } else { key }
}

/// The minimum number of cold TCP states, unless one for each side of each flow is fewer.
const TCP_COLD_MIN: usize = 1 << 16;

/// Returns the number of cold TCP states for `states` flows.
fn tcp_cold_states(states: usize) -> usize {
    states
        .div_ceil(FLOWS_PER_TCP_COLD)
        .max((2 * states).min(TCP_COLD_MIN))
}

/// Returns the ID of a flow: a digest of its key, in the direction of its initiator, and the time of
/// its first packet.
fn flow_id(digest: &KeyedHash, key: &FlowKey, origin_ns: i64) -> u64 {
    let mut words = crate::batch::key_to_words(key);
    words[2] ^= u128::from(origin_ns.cast_unsigned()) << 80;
    let digest =
        digest.digest(&words) as u64 ^ origin_ns.cast_unsigned().wrapping_mul(GOLDEN_RATIO);
    digest >> 11
}

/// The fraction of the golden ratio, times 2^64: an odd multiplier without a bit pattern.
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_of_few_flows_have_a_cold_tcp_state() {
        assert_eq!([1, 30_000].map(tcp_cold_states), [2, 60_000]);
        assert_eq!(tcp_cold_states(40_000), TCP_COLD_MIN);
        assert_eq!(tcp_cold_states(10 * TCP_COLD_MIN), 2 * TCP_COLD_MIN);
    }
}
