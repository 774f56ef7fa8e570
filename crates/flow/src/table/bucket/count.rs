//! Counting the packets of a staged batch in their flows, step by step.

use super::{Bucket, LANES, SENT_ON};
use crate::batch::{BURST, Batch, Packet};
use crate::ended::opening;
use crate::entry::FlowEntry;
use crate::expiry::{Expiry, Watch};
use crate::record::EndReason;
use crate::table::staged::{self, Kept};
use crate::table::{NO_VALUE, Observed, Step, count, open, silence_ns};
use hw::prefetch::{self, CacheLevel};
use hw::tags;
use std::ops::Range;
use wire::FlowKey;

/// Where a packet's flow is.
enum Place {
    /// In this slot.
    Held(u32),
    /// Nowhere so far; it gets this slot.
    Free(u32),
    /// Nowhere, and another one has to leave this slot first, for a reason.
    Taken(u32, EndReason),
}

impl Bucket {
    pub(super) fn run<const NUMBERS: bool, const GAPS: bool, const INTER_ARRIVAL: bool>(
        &mut self,
        batch: &Batch,
        packets: Range<usize>,
        expiry: &Expiry,
        observed: &mut Observed,
    ) -> Step {
        // A loop for each, in which the level is a constant.
        let step = match self.staged.level() {
            level @ CacheLevel::First => {
                self.run_at::<NUMBERS, GAPS, INTER_ARRIVAL>(level, batch, packets, expiry, observed)
            }
            level @ CacheLevel::Second => {
                self.run_at::<NUMBERS, GAPS, INTER_ARRIVAL>(level, batch, packets, expiry, observed)
            }
        };
        if !self.begun.is_empty() {
            self.write_openings(batch.packets());
        }
        step
    }

    #[inline(always)]
    fn run_at<const NUMBERS: bool, const GAPS: bool, const INTER_ARRIVAL: bool>(
        &mut self,
        level: CacheLevel,
        batch: &Batch,
        packets: Range<usize>,
        expiry: &Expiry,
        observed: &mut Observed,
    ) -> Step {
        let mut start = packets.start;
        while start < packets.end {
            let end = packets.end.min(start + staged::step(level));
            self.staged.approach(
                level,
                start,
                batch,
                &Kept {
                    lines: &self.tags,
                    entries: &self.entries,
                    openings: &self.openings,
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

    #[inline(always)]
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
        let watch = expiry.watch(earliest_ms, latest_ms);
        observed.slots[start..end].copy_from_slice(self.staged.slots(start..end));
        let mut at = start;
        loop {
            at += self.count_likely::<NUMBERS, GAPS, INTER_ARRIVAL>(
                &keys[at..],
                &packets[at..],
                at,
                watch,
                observed,
            );
            if at >= end {
                return Step::Done;
            }
            let mut begun = 0;
            if self.staged.many_begin() {
                let (keys, packets) = (&keys[at..], &packets[at..]);
                begun =
                    self.begin_likely::<GAPS, INTER_ARRIVAL>(keys, packets, at, expiry, observed);
            }
            at += begun;
            if at >= end {
                return Step::Done;
            }
            // Where one flow begins, others often do; so it is with keys that are wide.
            let mut stays = begun == 0;
            while stays {
                if at >= end {
                    return Step::Done;
                }
                let (key, packet) = (keys[at], &packets[at]);
                let slot = match self.place(batch, at, expiry) {
                    Place::Held(slot) => slot,
                    Place::Free(slot) => {
                        self.wide.set(slot, batch, packet);
                        self.begun.push((at as u16, slot));
                        let entry = &mut self.entries[slot as usize];
                        open(entry, key, packet, at, slot, expiry, observed);
                        self.staged.note_begun(1);
                        at += 1;
                        continue;
                    }
                    Place::Taken(slot, reason) => return Step::Ended { at, slot, reason },
                };
                let entry = &mut self.entries[slot as usize];
                if let Some(reason) = expiry.ended_before_by(watch, entry, packet) {
                    return Step::Ended { at, slot, reason };
                }
                count::<NUMBERS, GAPS, INTER_ARRIVAL>(entry, packet, at, slot, observed);
                stays = key & FlowKey::WIDE_MARK != 0;
                at += 1;
            }
        }
    }

    /// Writes the openings of flows that began among others: asked for together, since who writes to a
    /// line that is not near keeps everything behind it from being written.
    #[inline(never)]
    fn write_openings(&mut self, packets: &[Packet]) {
        let openings = &mut self.openings[..];
        for &(_, slot) in &self.begun {
            prefetch::read(openings, slot as usize);
        }
        for (at, slot) in self.begun.drain(..) {
            let packet = &packets[usize::from(at)];
            openings[slot as usize] = opening(packet, packet.direction);
        }
    }

    /// Where packet `at` is to be counted.
    #[inline(always)]
    fn place(&mut self, batch: &Batch, at: usize, expiry: &Expiry) -> Place {
        let (key, packet) = (batch.keys()[at], &batch.packets()[at]);
        let (home, tag) = (self.staged.bucket(at), self.staged.tag(at));
        let likely = self.staged.slot(at);
        if self.holds(likely, key, batch, packet) {
            return Place::Held(likely);
        }
        if let Some(slot) = self.fresh_slot(home, tag, likely) {
            return Place::Free(slot);
        }
        if let Some(slot) = self.find(batch, at) {
            return Place::Held(slot);
        }
        match self.allocate(home, tag, packet.clock_ms, expiry) {
            Ok(slot) => Place::Free(slot),
            Err((slot, reason)) => Place::Taken(slot, reason),
        }
    }

    /// Counts packets, those of the batch from `at` on, as long as they are such as nearly all: each in
    /// the slot where its flow most likely is, with its whole key, not ended, and little past since its
    /// last one; how many. What a loop over them needs stays in the processor's registers.
    #[inline(always)]
    fn count_likely<const NUMBERS: bool, const GAPS: bool, const INTER_ARRIVAL: bool>(
        &mut self,
        keys: &[u128],
        packets: &[Packet],
        at: usize,
        watch: Watch,
        observed: &mut Observed,
    ) -> usize {
        let mut entries = self.entries.view();
        let slots = &observed.slots[at..];
        let gaps = &mut observed.gaps[at..];
        let inter_arrival_ns = &mut observed.inter_arrival_ns[at..];
        let places = slots.len().min(gaps.len()).min(inter_arrival_ns.len());
        let count = keys.len().min(packets.len()).min(places);
        for at in 0..count {
            let (key, packet) = (keys[at], &packets[at]);
            let Some(entry) = entries.get_mut(slots[at] as usize) else {
                return at;
            };
            if entry.key() != key
                || key & FlowKey::WIDE_MARK != 0
                || watch.may_have_ended(entry, packet)
            {
                return at;
            }
            if NUMBERS {
                let Some(passed) = entry.passed(packet) else {
                    return at;
                };
                if GAPS {
                    gaps[at] = u64::from(passed.get() - 1);
                }
            }
            if INTER_ARRIVAL {
                inter_arrival_ns[at] = silence_ns(entry, packet);
            }
            entry.count_near::<NUMBERS>(packet);
        }
        count
    }

    /// Begins flows with packets, those of the batch from `at` on, as long as each certainly begins one,
    /// in the slot where that most likely is, and there is room; how many. (A call: both loops together
    /// would need more registers than there are.)
    #[inline(never)]
    fn begin_likely<const GAPS: bool, const INTER_ARRIVAL: bool>(
        &mut self,
        keys: &[u128],
        packets: &[Packet],
        at: usize,
        expiry: &Expiry,
        observed: &mut Observed,
    ) -> usize {
        let room = self.flows_max.saturating_sub(self.flows);
        let places = at..at + keys.len().min(packets.len()).min(room);
        let (homes, tags) = self.staged.homes(places.clone());
        let slots = &observed.slots[places];
        let staged = keys.iter().zip(packets).zip(slots).zip(homes).zip(tags);
        let (lines, mut entries) = (&mut self.tags[..], self.entries.view());
        let openings = &mut self.openings[..];
        let mut count = 0;
        for ((((&key, packet), &slot), &home), &tag) in staged {
            let (Some(line), Some(entry), Some(first)) = (
                lines.get_mut(home as usize),
                entries.get_mut(slot as usize),
                openings.get_mut(slot as usize),
            ) else {
                break;
            };
            let lane = slot % LANES;
            if line.0[lane as usize] != 0
                || lane == SENT_ON as u32
                || line.0[SENT_ON] != 0
                || key & FlowKey::WIDE_MARK != 0
                || tags::matches(line, tag) != 0
            {
                break;
            }
            line.0[lane as usize] = tag;
            entry.open(key, packet, expiry.active_tick(packet.clock_ms));
            *first = opening(packet, packet.direction);
            if GAPS {
                observed.gaps[at + count] = NO_VALUE;
            }
            if INTER_ARRIVAL {
                observed.inter_arrival_ns[at + count] = NO_VALUE;
            }
            count += 1;
        }
        self.flows += count;
        self.staged.note_begun(count);
        observed.opened.extend((at..at + count).map(|at| at as u16));
        count
    }
}
