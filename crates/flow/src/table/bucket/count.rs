//! Counts the packets of a batch in their flows, one prefetch step at a time.

use super::{BucketTable, OVERFLOW_LANE};
use crate::batch::{BURST, Batch, Packet};
use crate::end_reason::EndReason;
use crate::ended::flow_start;
use crate::entry::FlowEntry;
use crate::expiry::{Expiry, QuickCheck};
use crate::statistic::NO_VALUE;
use crate::table::lanes::LANES;
use crate::table::prefetcher::{self, FlowArrays};
use crate::table::{Observed, Step, count, open, silence_ns};
use hw::prefetch::{self, CacheLevel};
use hw::tags;
use std::ops::Range;
use wire::FlowKey;

/// The result of looking up a packet's flow.
enum Lookup {
    /// The flow is in this slot.
    Found(u32),
    /// The flow is new and gets this free slot.
    New(u32),
    /// The flow is new, and the flow in this slot must end first, for this reason.
    Evict(u32, EndReason),
}

impl BucketTable {
    pub(super) fn run<const NUMBERS: bool, const GAPS: bool, const INTER_ARRIVAL: bool>(
        &mut self,
        batch: &Batch,
        packets: Range<usize>,
        expiry: &Expiry,
        observed: &mut Observed,
    ) -> Step {
        // One loop per level, in which the level is a constant.
        let step = match self.prefetcher.level() {
            level @ CacheLevel::L1 => self.run_with_prefetch::<NUMBERS, GAPS, INTER_ARRIVAL>(
                level, batch, packets, expiry, observed,
            ),
            level @ CacheLevel::L2 => self.run_with_prefetch::<NUMBERS, GAPS, INTER_ARRIVAL>(
                level, batch, packets, expiry, observed,
            ),
        };
        if !self.opened.is_empty() {
            self.write_starts(batch.packets(), expiry);
        }
        step
    }

    #[inline]
    fn run_with_prefetch<const NUMBERS: bool, const GAPS: bool, const INTER_ARRIVAL: bool>(
        &mut self,
        level: CacheLevel,
        batch: &Batch,
        packets: Range<usize>,
        expiry: &Expiry,
        observed: &mut Observed,
    ) -> Step {
        let mut start = packets.start;
        while start < packets.end {
            let end = packets.end.min(start + prefetcher::step_packets(level));
            self.prefetcher.prefetch_step(
                level,
                start,
                batch,
                &FlowArrays {
                    tags: &self.tags,
                    entries: &self.entries,
                    starts: &self.starts,
                    wide: &self.wide,
                },
            );
            let result =
                self.run_step::<NUMBERS, GAPS, INTER_ARRIVAL>(batch, start..end, expiry, observed);
            if result != Step::Done {
                return result;
            }
            start = end;
        }
        Step::Done
    }

    #[inline]
    fn run_step<const NUMBERS: bool, const GAPS: bool, const INTER_ARRIVAL: bool>(
        &mut self,
        batch: &Batch,
        Range { start, end }: Range<usize>,
        expiry: &Expiry,
        observed: &mut Observed,
    ) -> Step {
        let end = end.min(BURST);
        let (keys, packets) = (&batch.keys()[..end], &batch.packets()[..end]);
        let (earliest, latest) = (packets.get(start), packets.last());
        let [earliest_ms, latest_ms] =
            [earliest, latest].map(|packet| packet.map_or(0, |packet| packet.clock_ms));
        let quick_check = expiry.quick_check(earliest_ms, latest_ms);
        observed.slots[start..end].copy_from_slice(self.prefetcher.slots(start..end));
        let mut at = start;
        loop {
            at += self.count_fast::<NUMBERS, GAPS, INTER_ARRIVAL>(
                &keys[at..],
                &packets[at..],
                at,
                quick_check,
                observed,
            );
            if at >= end {
                return Step::Done;
            }
            let mut opened = 0;
            if self.prefetcher.many_new_flows() {
                let (keys, packets) = (&keys[at..], &packets[at..]);
                opened = self.open_fast::<GAPS, INTER_ARRIVAL>(keys, packets, at, expiry, observed);
            }
            at += opened;
            if at >= end {
                return Step::Done;
            }
            // New flows often come in a row, and so do wide keys: stay in the slow loop for them.
            let mut stays = opened == 0;
            while stays {
                if at >= end {
                    return Step::Done;
                }
                let (key, packet) = (keys[at], &packets[at]);
                let slot = match self.look_up(batch, at, expiry) {
                    Lookup::Found(slot) => slot,
                    Lookup::New(slot) => {
                        self.wide.set(slot, batch, packet);
                        self.opened.push((at as u16, slot));
                        let entry = &mut self.entries[slot as usize];
                        open(entry, key, packet, at, slot, expiry, observed);
                        self.prefetcher.add_new_flows(1);
                        at += 1;
                        continue;
                    }
                    Lookup::Evict(slot, reason) => return Step::Ended { at, slot, reason },
                };
                let entry = &mut self.entries[slot as usize];
                if let Some(reason) = expiry.ended_before_with(quick_check, entry, packet) {
                    return Step::Ended { at, slot, reason };
                }
                count::<NUMBERS, GAPS, INTER_ARRIVAL>(entry, packet, at, slot, observed);
                stays = key & FlowKey::WIDE_MARK != 0;
                at += 1;
            }
        }
    }

    /// Writes the starts of the flows that the slow loop opened.
    ///
    /// They are prefetched together first: a store to a line that is not in the cache blocks all later
    /// stores, because stores retire in order.
    #[inline(never)]
    fn write_starts(&mut self, packets: &[Packet], expiry: &Expiry) {
        let starts = &mut self.starts[..];
        for &(_, slot) in &self.opened {
            prefetch::read(starts, slot as usize);
        }
        for (at, slot) in self.opened.drain(..) {
            let packet = &packets[usize::from(at)];
            starts[slot as usize] = flow_start(packet, expiry.initiator(packet));
        }
    }

    /// Looks up the flow of packet `at`, and claims a slot if the flow is new.
    // Out of line, it and `prefetch_step` cost counting 2 % more instructions.
    #[inline(always)]
    fn look_up(&mut self, batch: &Batch, at: usize, expiry: &Expiry) -> Lookup {
        let (key, packet) = (batch.keys()[at], &batch.packets()[at]);
        let (home, tag) = (self.prefetcher.bucket(at), self.prefetcher.tag(at));
        let likely = self.prefetcher.slot(at);
        if self.slot_matches(likely, key, batch, packet) {
            return Lookup::Found(likely);
        }
        if let Some(slot) = self.claim_home_slot(home, tag, likely) {
            return Lookup::New(slot);
        }
        if let Some(slot) = self.find(batch, at) {
            return Lookup::Found(slot);
        }
        match self.allocate(home, tag, packet.clock_ms, expiry) {
            Ok(slot) => Lookup::New(slot),
            Err((slot, reason)) => Lookup::Evict(slot, reason),
        }
    }

    /// The fast path: counts the packets from `at` on as long as they are ordinary, and returns how
    /// many.
    ///
    /// For an ordinary packet, the flow is in the likely slot, its key is compact, it has not ended,
    /// and the packet number's upper bits have not changed. Nearly all packets are ordinary, and this
    /// loop keeps its variables in registers.
    #[inline]
    fn count_fast<const NUMBERS: bool, const GAPS: bool, const INTER_ARRIVAL: bool>(
        &mut self,
        keys: &[u128],
        packets: &[Packet],
        at: usize,
        quick_check: QuickCheck,
        observed: &mut Observed,
    ) -> usize {
        let mut entries = self.entries.view();
        let slots = &observed.slots[at..];
        let gaps = &mut observed.gaps[at..];
        let inter_arrival_ns = &mut observed.inter_arrival_ns[at..];
        let outputs = slots.len().min(gaps.len()).min(inter_arrival_ns.len());
        let count = keys.len().min(packets.len()).min(outputs);
        for at in 0..count {
            let (key, packet) = (keys[at], &packets[at]);
            let Some(entry) = entries.get_mut(slots[at] as usize) else {
                return at;
            };
            if entry.key() != key
                || key & FlowKey::WIDE_MARK != 0
                || quick_check.may_have_ended(entry, packet)
            {
                return at;
            }
            if NUMBERS {
                let Some(delta) = entry.number_delta(packet) else {
                    return at;
                };
                if GAPS {
                    gaps[at] = u64::from(delta.get() - 1);
                }
            }
            if INTER_ARRIVAL {
                inter_arrival_ns[at] = silence_ns(entry, packet);
            }
            entry.count_low_number::<NUMBERS>(packet);
        }
        count
    }

    /// The fast path for floods: opens a flow for each packet from `at` on as long as the packet
    /// certainly belongs to a new flow, its likely slot is free, and the table is not full. Returns
    /// how many.
    ///
    /// Not inlined: both fast loops together need more registers than there are.
    #[inline(never)]
    fn open_fast<const GAPS: bool, const INTER_ARRIVAL: bool>(
        &mut self,
        keys: &[u128],
        packets: &[Packet],
        at: usize,
        expiry: &Expiry,
        observed: &mut Observed,
    ) -> usize {
        let room = self.flows_max.saturating_sub(self.flows);
        let range = at..at + keys.len().min(packets.len()).min(room);
        let (homes, tags) = self.prefetcher.homes(range.clone());
        let slots = &observed.slots[range];
        let new_flows = keys.iter().zip(packets).zip(slots).zip(homes).zip(tags);
        let (lines, mut entries) = (&mut self.tags[..], self.entries.view());
        let starts = &mut self.starts[..];
        let mut count = 0;
        for ((((&key, packet), &slot), &home), &tag) in new_flows {
            let (Some(line), Some(entry), Some(start)) = (
                lines.get_mut(home as usize),
                entries.get_mut(slot as usize),
                starts.get_mut(slot as usize),
            ) else {
                break;
            };
            let lane = slot % LANES;
            if line.0[lane as usize] != 0
                || lane == OVERFLOW_LANE as u32
                || line.0[OVERFLOW_LANE] != 0
                || key & FlowKey::WIDE_MARK != 0
                || tags::matches(line, tag) != 0
            {
                break;
            }
            line.0[lane as usize] = tag;
            entry.open(key, packet, expiry.active_tick(packet.clock_ms));
            *start = flow_start(packet, expiry.initiator(packet));
            if GAPS {
                observed.gaps[at + count] = NO_VALUE;
            }
            if INTER_ARRIVAL {
                observed.inter_arrival_ns[at + count] = NO_VALUE;
            }
            count += 1;
        }
        self.flows += count;
        self.prefetcher.add_new_flows(count);
        observed.opened.extend((at..at + count).map(|at| at as u16));
        count
    }
}
