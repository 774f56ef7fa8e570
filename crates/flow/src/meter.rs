//! The meter: counts batches of packets in flows, and emits a record when a flow ends.

mod options;

pub use options::MeterOptions;

use crate::analyser::Analyser;
use crate::batch::{BURST, Batch, CopiedPayloads, Payloads};
use crate::ended::{self, exact_mean, fill_record, has_intervals};
use crate::entry::FlowEntry;
use crate::expiry::Expiry;
use crate::garbage::GarbageCollector;
use crate::radix_sort;
use crate::record::{BATCH_RECORDS_MAX, EndReason, Record, RecordBatch};
use crate::statistic::{Statistic, Value};
use crate::table::{
    BucketTable, Combined, DoubleHash, LinkedList, NO_SLOT, NO_VALUE, OUT_OF_CACHE_FLOWS, Observed,
    Step, Table, TableKind,
};
use crate::view::{LiveView, ViewBuilder};
use hw::lines::Rows;
use hw::prefetch::CacheLevel;
use std::io;
use std::iter;
use std::ops::{AddAssign, Range, RangeInclusive};

/// Receives the records of a meter.
pub trait RecordSink {
    /// Whether the sink [completes](RecordBatch::complete) batches itself, usually in another thread.
    const COMPLETES: bool = false;

    /// Takes the records out of `batch` and leaves it empty. The batch is complete unless
    /// [`RecordSink::COMPLETES`].
    fn take(&mut self, batch: &mut RecordBatch);
}

/// The number of records at which a batch goes to the sink.
pub const RECORDS_PER_BATCH: usize = 1024;

/// The number of flows that end together. While one group is processed, the next is prefetched.
const END_GROUP_FLOWS: usize = 8;

/// The number of packets that are counted together while the statistics' states of the previous group
/// are prefetched: the maximum if those states come from a cache, a quarter of a burst within this
/// range if they come from memory.
const STATISTICS_GROUP_PACKETS: RangeInclusive<usize> = 16..=64;

/// The interval at which the records of a live link are flushed, full batch or not.
pub const FLUSH_INTERVAL_MS: u32 = 500;

/// Counters of a meter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterCounters {
    /// Packets and bytes in the emitted records.
    pub recorded: [u64; 2],
    /// Packets and bytes of flows that did not fit the table. They are in no record.
    pub unattributed: [u64; 2],
    /// Emitted records.
    pub records: u64,
    /// Records of evicted flows.
    pub evicted: u64,
    /// Whether the table was ever full. If not, flows were evicted because too many hashes collide.
    pub was_full: bool,
    /// Flows in the table now.
    pub flows: u64,
}

impl AddAssign for MeterCounters {
    fn add_assign(&mut self, other: Self) {
        for side in 0..2 {
            self.recorded[side] += other.recorded[side];
            self.unattributed[side] += other.unattributed[side];
        }
        self.records += other.records;
        self.evicted += other.evicted;
        self.was_full |= other.was_full;
        self.flows += other.flows;
    }
}

/// Creates the table, and rows with a column for each statistic.
///
/// For a bucket table too large for the caches, the columns are interleaved with the entries: two
/// adjacent lines arrive from memory sooner than two separate ones. From a cache they do not.
fn build_table(options: &MeterOptions) -> io::Result<(Box<dyn Table>, Rows)> {
    let (flows_max, outputs) = (options.flows_max, options.statistics.table_outputs());
    let columns = options.statistics.build(&mut Rows::default()).len();
    let table: Box<dyn Table> = match options.table {
        TableKind::Bucket => {
            let new_rows = if flows_max < OUT_OF_CACHE_FLOWS {
                Rows::try_separate
            } else {
                Rows::try_interleaved
            };
            let mut rows = new_rows(BucketTable::slots_for(flows_max), 1 + columns)?;
            let entries = rows.take_column();
            let table = BucketTable::new(flows_max, options.flow_hash(), outputs, entries)?;
            return Ok((Box::new(table), rows));
        }
        TableKind::DoubleHash => Box::new(DoubleHash::new(outputs)?),
        TableKind::LinkedList => Box::new(LinkedList::new(flows_max, outputs)?),
        TableKind::Combined => Box::new(Combined::new(flows_max, outputs)?),
    };
    let rows = Rows::try_separate(table.slots_max() as usize, columns)?;
    Ok((table, rows))
}

/// Counts packets in flows.
pub struct Meter {
    table: Box<dyn Table>,
    expiry: Expiry,
    garbage: GarbageCollector,
    statistics: Vec<(Value, Box<dyn Statistic>)>,
    gap_mean: bool,
    prefetches: bool,
    analyser: Option<Box<Analyser>>,
    observed: Observed,
    sizes: Vec<u64>,
    ended: Vec<(u32, EndReason)>,
    /// Slots of flows that the table has just evicted.
    evicted: Vec<u32>,
    occupied: Vec<u32>,
    records: RecordBatch,
    counters: MeterCounters,
    /// The clock at the last flush by [`Meter::flush_after`].
    flushed_ms: u32,
    view: Option<ViewBuilder>,
}

impl Meter {
    /// Creates a meter and reserves all the memory that it will ever use.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn new(options: &MeterOptions) -> io::Result<Self> {
        let (mut table, mut rows) = build_table(options)?;
        let slots = table.slots_max();
        let mut statistics = options.statistics.build(&mut rows);
        let mut analyser = match options.statistics.analysis {
            None => None,
            Some(level) => {
                let flows_max = match options.table {
                    TableKind::Bucket => options.flows_max.min(slots as usize),
                    _ => slots as usize,
                };
                let applications = options.applications.clone().unwrap_or_default();
                Some(Box::new(Analyser::new(
                    level,
                    slots as usize,
                    flows_max,
                    &options.timeouts,
                    applications,
                    options.seed,
                )?))
            }
        };
        if let Some(analyser) = &mut analyser
            && options.dns_from_batches
        {
            analyser.use_dns_feed();
        }
        if options.populate {
            if let Some(analyser) = &mut analyser {
                analyser.populate();
            }
            table.populate();
            for (_, statistic) in &mut statistics {
                statistic.populate();
            }
        }
        Ok(Self {
            expiry: options.expiry(),
            garbage: GarbageCollector::new(&options.garbage),
            statistics,
            gap_mean: options.statistics.gap_mean,
            prefetches: options.prefetches || options.table == TableKind::Bucket,
            analyser,
            observed: Observed::default(),
            sizes: Vec::with_capacity(BURST),
            ended: Vec::new(),
            evicted: Vec::new(),
            occupied: Vec::new(),
            records: match options.populate {
                true => RecordBatch::populated(&options.schema()),
                false => RecordBatch::default(),
            },
            counters: MeterCounters::default(),
            flushed_ms: 0,
            view: (options.view_flows > 0).then(|| ViewBuilder::new(options.view_flows)),
            table,
        })
    }

    /// Returns the memory in use with a full table, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let slots = self.table.slots_max() as usize;
        let statistics: usize = self
            .statistics
            .iter()
            .map(|(_, statistic)| statistic.bytes_per_flow())
            .sum();
        let analyser = self
            .analyser
            .as_ref()
            .map_or(0, |analyser| analyser.memory_bytes());
        self.table.memory_bytes() + slots * statistics + analyser
    }

    /// Counts the packets of `batch`, whose keys must be hashed. The records of flows that end go to
    /// `sink`. Payloads, if an analysis needs them, must be [copied](Batch::copy_payloads) into the
    /// batch.
    pub fn process(&mut self, batch: &Batch, sink: &mut impl RecordSink) {
        self.process_with(batch, &CopiedPayloads, sink);
    }

    /// Does the same as [`Meter::process`] with payloads from elsewhere.
    pub fn process_with(
        &mut self,
        batch: &Batch,
        payloads: &impl Payloads,
        sink: &mut impl RecordSink,
    ) {
        let Some(last) = batch.packets().last() else {
            if let Some(analyser) = &mut self.analyser {
                batch
                    .dns_answers()
                    .iter()
                    .for_each(|(_, answer)| analyser.learn(answer));
            }
            return;
        };
        self.grow(sink);
        if self.prefetches {
            self.table.prefetch_batch(batch);
        }
        self.evict(batch, sink);
        let (mut start, mut analysed) = (0, 0);
        loop {
            let (end, step) = self.count_packets(batch, start);
            if let Some(analyser) = &mut self.analyser {
                analyser.find_handles(batch, start..end, &self.observed);
            }
            self.restore_initiators(batch);
            start = end;
            let Step::Ended { slot, reason, .. } = step else {
                break;
            };
            self.record_ended(&[slot], &[reason]);
            self.table.remove(&[slot]);
            // A flow cut by its active timeout continues with this packet, so its first part must be
            // analysed now. The analysis of other flows can wait until the whole batch is counted.
            if reason == EndReason::ActiveTimeout {
                self.analyse(batch, analysed..end, payloads);
                self.complete_ended(sink);
                analysed = end;
            }
        }
        self.analyse(batch, analysed..start, payloads);
        self.complete_ended(sink);
        self.advance(last.clock_ms, sink);
    }

    /// Does the same as [`Meter::advance`] when the link is idle, and catches up on pending slots.
    pub fn advance_idle(&mut self, clock_ms: u32, sink: &mut impl RecordSink) {
        /// Sweep steps between two polls of the link.
        const SWEEP_STEPS: u32 = 16;
        self.advance(clock_ms, sink);
        for _ in 1..SWEEP_STEPS {
            if !self.garbage.is_behind() {
                return;
            }
            self.advance(clock_ms, sink);
        }
    }

    /// Advances the clock, and sweeps the part of the table that is due for expired flows.
    pub fn advance(&mut self, clock_ms: u32, sink: &mut impl RecordSink) {
        let ranges = self.garbage.due(clock_ms, self.table.slots());
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            self.table.find_expired(
                range.start,
                range.end,
                clock_ms,
                &self.expiry,
                &mut self.ended,
            );
            let ended = std::mem::take(&mut self.ended);
            self.end_flows(ended.len(), |at| ended[at].0, |_, at| ended[at].1, sink);
            self.ended = ended;
            self.ended.clear();
            self.update_view(range.start, range.end);
        }
        if let Some(view) = &mut self.view
            && GarbageCollector::is_end_of_round(&ranges, self.table.slots())
        {
            view.finish_round(self.table.flows() as u64);
        }
    }

    /// Flushes records if [`FLUSH_INTERVAL_MS`] have passed since the last call that did.
    pub fn flush_after(&mut self, clock_ms: u32, sink: &mut impl RecordSink) {
        if clock_ms.wrapping_sub(self.flushed_ms) >= FLUSH_INTERVAL_MS {
            self.flushed_ms = clock_ms;
            self.flush(sink);
        }
    }

    /// Hands all records to `sink`, without waiting for a full batch.
    pub fn flush<S: RecordSink>(&mut self, sink: &mut S) {
        if !self.records.is_empty() {
            if !S::COMPLETES {
                self.records.complete();
            }
            sink.take(&mut self.records);
            self.records.clear();
            self.records.ended.reserve(BATCH_RECORDS_MAX);
        }
    }

    /// Ends all flows because the input ended at `clock_ms`. Their records are sorted by start and key.
    pub fn finish(&mut self, clock_ms: u32, sink: &mut impl RecordSink) {
        let slots = self.slots_by_start();
        let reason = |meter: &Self, at: usize| {
            if let Some(&ahead) = slots.get(at + 2 * END_GROUP_FLOWS) {
                meter.table.prefetch_entry(ahead);
            }
            let entry = meter.table.entry(slots[at]);
            meter.expiry.ended_at_end(entry, clock_ms)
        };
        self.end_flows(slots.len(), |at| slots[at], reason, sink);
        self.flush(sink);
    }

    /// Returns the slots of all flows, sorted by start and key.
    fn slots_by_start(&self) -> Vec<u32> {
        let mut slots = Vec::with_capacity(self.table.flows());
        self.table.find_occupied(0, self.table.slots(), &mut slots);
        // With the sign bit flipped, times before 1970 sort first.
        let start = |slot: u32| self.table.start(slot)[0] ^ 1 << 63;
        let mut starts: Vec<(u64, u32)> = slots.iter().map(|&slot| (start(slot), slot)).collect();
        // Keys are long and equal starts are rare, so keys are compared only among equal starts.
        radix_sort::sort_by_key(&mut starts);
        for equal in starts.chunk_by_mut(|a, b| a.0 == b.0) {
            if equal.len() > 1 {
                equal.sort_by_cached_key(|&(_, slot)| self.table.key(slot, self.table.entry(slot)));
            }
        }
        slots.clear();
        slots.extend(starts.iter().map(|&(_, slot)| slot));
        slots
    }

    /// Returns the meter's counters.
    #[must_use]
    pub fn counters(&self) -> MeterCounters {
        MeterCounters {
            unattributed: self.table.unattributed(),
            flows: self.table.flows() as u64,
            ..self.counters
        }
    }

    /// Returns the view of the last complete sweep, if views are enabled and this one is new.
    pub fn take_view(&mut self) -> Option<LiveView> {
        self.view.as_mut().and_then(ViewBuilder::take)
    }

    fn grow(&mut self, sink: &mut impl RecordSink) {
        loop {
            let Self {
                table,
                statistics,
                analyser,
                ..
            } = self;
            let result = table.grow(&mut |from, to| {
                for (_, statistic) in statistics.iter_mut() {
                    statistic.relocate(from, to);
                }
                if let Some(analyser) = analyser {
                    analyser.relocate(from, to);
                }
            });
            match result {
                Ok(()) => return,
                Err(slot) => {
                    self.record_ended(&[slot], &[EndReason::LackOfResources]);
                    self.table.remove(&[slot]);
                    self.complete_ended(sink);
                }
            }
        }
    }

    /// Evicts flows so that those of the batch fit a full table.
    fn evict(&mut self, batch: &Batch, sink: &mut impl RecordSink) {
        let first = self.records.ended.len();
        let mut evicted = std::mem::take(&mut self.evicted);
        self.table
            .evict(batch, &mut evicted, &mut self.records.ended);
        if !evicted.is_empty() {
            self.counters.was_full = true;
            let reasons = [EndReason::LackOfResources; END_GROUP_FLOWS];
            let mut groups = evicted.chunks(END_GROUP_FLOWS).peekable();
            self.prefetch_states(evicted.iter().take(END_GROUP_FLOWS).copied());
            while let Some(group) = groups.next() {
                if let Some(ahead) = groups.peek() {
                    self.prefetch_states(ahead.iter().copied());
                }
                self.record_copied(group, &reasons[..group.len()]);
            }
            debug_assert_eq!(self.records.ended.len(), first + evicted.len());
            evicted.clear();
            self.complete_ended(sink);
        }
        self.evicted = evicted;
    }

    /// Restores the initiator of flows that continue after their active timeout: that of their first
    /// record, whichever side sent the next packet.
    fn restore_initiators(&mut self, batch: &Batch) {
        let opened = self.observed.opened.drain(..);
        if let Some(analyser) = &self.analyser {
            for at in opened {
                let slot = self.observed.slots[usize::from(at)];
                let direction = batch.packets()[usize::from(at)].direction;
                if let Some(initiator) = analyser.initiator(slot)
                    && initiator != direction
                {
                    ended::set_start_direction(self.table.start_mut(slot), initiator);
                }
            }
        }
    }

    /// Counts the packets from `start` on in the table and the statistics, up to the first packet
    /// before which a flow must end. Returns the index after the last counted packet.
    fn count_packets(&mut self, batch: &Batch, start: usize) -> (usize, Step) {
        // Statistics are one group behind the table, so that the prefetch of their states has time to
        // complete. The same holds for the handles of an analysis, which starts after the last group.
        let level = self.table.prefetch_level();
        let group = match (self.statistics.is_empty(), &self.analyser) {
            (true, None) => batch.len(),
            (false, None) if level == CacheLevel::L1 => *STATISTICS_GROUP_PACKETS.end(),
            _ => (batch.len() / 4).clamp(
                *STATISTICS_GROUP_PACKETS.start(),
                *STATISTICS_GROUP_PACKETS.end(),
            ),
        };
        let (mut start, mut previous) = (start, start..start);
        loop {
            let packets = start..batch.len().min(start + group);
            let step = self
                .table
                .update(batch, packets.clone(), &self.expiry, &mut self.observed);
            let end = match step {
                Step::Done => packets.end,
                Step::Ended { at, slot, .. } => {
                    self.prefetch_ending(iter::once(slot));
                    at
                }
            };
            let slots = &self.observed.slots[start..end];
            if let Some(analyser) = &self.analyser {
                analyser.prefetch_handles(slots.iter().copied());
            }
            if self.prefetches {
                for (_, statistic) in &self.statistics {
                    statistic.prefetch(level, slots);
                }
            }
            self.update_statistics(batch, previous);
            if step != Step::Done || end == batch.len() {
                self.update_statistics(batch, start..end);
                return (end, step);
            }
            previous = start..end;
            start = end;
        }
    }

    fn update_statistics(&mut self, batch: &Batch, Range { start, end }: Range<usize>) {
        let slots = &self.observed.slots[start..end];
        // States prefetched into the L2 cache are prefetched again, into the L1 cache, all at once.
        let prefetch_l1 = self.prefetches && self.table.prefetch_level() == CacheLevel::L2;
        for (value, statistic) in &mut self.statistics {
            let values = match value {
                Value::Size => {
                    let packets = &batch.packets()[start..end];
                    self.sizes.clear();
                    self.sizes
                        .extend(packets.iter().map(|packet| u64::from(packet.length)));
                    &self.sizes[..]
                }
                Value::InterArrivalTime => &self.observed.inter_arrival_ns[start..end],
                Value::Gap => &self.observed.gaps[start..end],
            };
            if prefetch_l1 {
                statistic.prefetch(CacheLevel::L1, slots);
            }
            statistic.update(slots, values);
        }
    }

    /// Analyses counted packets, if an analysis is selected.
    fn analyse(&mut self, batch: &Batch, packets: Range<usize>, payloads: &impl Payloads) {
        if let Some(analyser) = &mut self.analyser {
            analyser.analyse(batch, packets, payloads);
        }
    }

    /// Ends `count` flows, given their slots and reasons by index. Their entries should be prefetched.
    fn end_flows(
        &mut self,
        count: usize,
        slot: impl Fn(usize) -> u32,
        reason: impl Fn(&Self, usize) -> EndReason,
        sink: &mut impl RecordSink,
    ) {
        let group = |start: usize| start..count.min(start + END_GROUP_FLOWS);
        let (mut slots, mut reasons) = (
            [NO_SLOT; END_GROUP_FLOWS],
            [EndReason::EndOfInput; END_GROUP_FLOWS],
        );
        self.prefetch_ending(group(0).map(&slot));
        for start in (0..count).step_by(END_GROUP_FLOWS) {
            self.prefetch_ending(group(start + END_GROUP_FLOWS).map(&slot));
            let group = group(start);
            let flows = group.len();
            for (index, at) in group.enumerate() {
                slots[index] = slot(at);
                reasons[index] = reason(self, at);
            }
            self.record_ended(&slots[..flows], &reasons[..flows]);
            self.table.remove(&slots[..flows]);
            self.complete_ended(sink);
        }
    }

    /// Prefetches what is needed to end flows, except their entries.
    fn prefetch_ending(&self, slots: impl Iterator<Item = u32> + Clone) {
        for slot in slots.clone() {
            self.table.prefetch_removal(slot);
        }
        self.prefetch_states(slots);
    }

    /// Prefetches the statistics and analysis handles of flows.
    fn prefetch_states(&self, slots: impl Iterator<Item = u32> + Clone) {
        for (value, statistic) in &self.statistics {
            for slot in slots.clone() {
                if *value == Value::Size || has_intervals(self.table.entry(slot)) {
                    statistic.prefetch(CacheLevel::L1, &[slot]);
                }
            }
        }
        if let Some(analyser) = &self.analyser {
            analyser.prefetch_handles(slots);
        }
    }

    /// Adds ended flows to the record batch, and clears their states except the entries.
    fn record_ended(&mut self, slots: &[u32], reasons: &[EndReason]) {
        self.table.copy_out(slots, &mut self.records.ended);
        self.record_copied(slots, reasons);
    }

    /// Does the same for flows whose entries are already copied to the record batch.
    fn record_copied(&mut self, slots: &[u32], reasons: &[EndReason]) {
        let RecordBatch { ended, values, .. } = &mut self.records;
        let first = ended.len();
        ended.reasons.extend_from_slice(reasons);
        let entries = &ended.entries[first..ended.reasons.len()];
        let mut recorded = [0; 2];
        for entry in entries {
            recorded[0] += entry.packets().iter().sum::<u64>();
            recorded[1] += entry.bytes().iter().sum::<u64>();
        }
        for (total, count) in self.counters.recorded.iter_mut().zip(recorded) {
            *total += count;
        }
        let evicted = |reason: &&EndReason| **reason == EndReason::LackOfResources;
        self.counters.evicted += reasons.iter().filter(evicted).count() as u64;
        self.counters.records += slots.len() as u64;
        if self.gap_mean || !self.statistics.is_empty() {
            let flows = slots.iter().zip(entries).zip(&ended.starts[first..]);
            for ((&slot, entry), start) in flows {
                if self.gap_mean {
                    values.push(exact_mean(Value::Gap, entry, start));
                }
                let has_intervals = has_intervals(entry);
                for (value, statistic) in &mut self.statistics {
                    if has_intervals || *value == Value::Size {
                        let mean = exact_mean(*value, entry, start);
                        statistic.summarise(slot, mean, values);
                        statistic.clear(slot);
                    } else {
                        // The slot's state was never touched: NO_SLOT gives NaN without reading it.
                        statistic.summarise(NO_SLOT, f64::NAN, values);
                    }
                }
            }
        }
        if let Some(analyser) = &mut self.analyser {
            for (&slot, entry) in slots.iter().zip(entries) {
                analyser.detach(slot, entry.last_clock_ms());
            }
        }
    }

    /// Completes the records of ended flows with their analyses, and flushes a full batch.
    fn complete_ended(&mut self, sink: &mut impl RecordSink) {
        if let Some(analyser) = &mut self.analyser {
            let missing = BATCH_RECORDS_MAX.saturating_sub(self.records.len());
            self.records.records.reserve(missing);
            self.records.complete();
            let RecordBatch {
                records, analyses, ..
            } = &mut self.records;
            if analyses.is_empty() {
                // Analyses are large: reserve now, so that none is moved while the batch fills.
                analyses.reserve_slots(BATCH_RECORDS_MAX);
            }
            analyser.finish_pending(records, analyses);
        }
        if self.records.len() >= RECORDS_PER_BATCH {
            self.flush(sink);
        }
    }

    /// Adds the flows in a range of slots to the view, if views are enabled.
    fn update_view(&mut self, from: u32, to: u32) {
        let Some(mut view) = self.view.take() else {
            return;
        };
        self.occupied.clear();
        self.table.find_occupied(from, to, &mut self.occupied);
        let mut values = Vec::new();
        for &slot in &self.occupied {
            let entry = self.table.entry(slot);
            let bytes = entry.bytes().iter().sum();
            if view.may_rank(bytes) {
                let start = self.table.start(slot);
                let mut record = Record::default();
                fill_record(&mut record, entry, start, || self.table.key(slot, entry));
                view.insert_top(bytes, record);
            }
            values.clear();
            match self.statistics.first() {
                Some((value, statistic)) => {
                    let mean = exact_mean(*value, entry, self.table.start(slot));
                    statistic.summarise(slot, mean, &mut values);
                }
                None => values.push((entry.packets()[0] + entry.packets()[1]) as f64),
            }
            view.add_to_distribution(values.last().copied().unwrap_or(f64::NAN));
        }
        self.view = Some(view);
    }
}

const _: () = assert!(NO_VALUE == u64::MAX);
