//! The meter: counts batches of packets in flows, and emits a record when a flow ends.

mod flows;
mod options;
mod output;
mod statistics;

pub use crate::record_batch::RECORDS_PER_BATCH;
pub use options::MeterOptions;
pub use output::{FLUSH_INTERVAL_MS, MeterCounters, RecordSink};

use crate::batch::{Batch, CopiedPayloads, Payloads};
use crate::end_reason::EndReason;
use crate::ended::fill_record;
use crate::entry::FlowEntry;
use crate::expiry::Expiry;
use crate::garbage::GarbageCollector;
use crate::record::Record;
use crate::record_batch::{BATCH_RECORDS_MAX, RecordBatch};
use crate::table::{NO_SLOT, Observed, Step};
use crate::view::{LiveView, ViewBuilder};
use flows::Flows;
use output::Output;
use std::io;

/// The number of flows that end together. While one group is processed, the next is prefetched.
const END_GROUP_FLOWS: usize = 8;

/// Buffers that keep their memory from call to call. Nothing in them is used by the next call.
#[derive(Default)]
struct Scratch {
    /// The results of the table for the packets of the batch.
    observed: Observed,
    /// Expired flows of a range of slots.
    expired: Vec<(u32, EndReason)>,
    /// Slots of flows that the table has evicted.
    evicted: Vec<u32>,
    /// Slots of the flows in a view.
    occupied: Vec<u32>,
}

/// Counts packets in flows.
pub struct Meter {
    flows: Flows,
    expiry: Expiry,
    garbage: GarbageCollector,
    scratch: Scratch,
    output: Output,
    view: Option<ViewBuilder>,
}

impl Meter {
    /// Creates a meter and reserves all the memory that it will ever use.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn new(options: &MeterOptions) -> io::Result<Self> {
        Ok(Self {
            flows: Flows::new(options)?,
            expiry: options.expiry(),
            garbage: GarbageCollector::new(&options.garbage),
            scratch: Scratch::default(),
            output: Output::new(match options.populate {
                true => RecordBatch::populated(&options.schema()),
                false => RecordBatch::default(),
            }),
            view: (options.view_flows > 0).then(|| ViewBuilder::new(options.view_flows)),
        })
    }

    /// Returns the memory in use with a full table, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.flows.memory_bytes()
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
        // The order of the steps is a contract:
        //
        // 1. Growing moves flows to other slots, so it comes before any slot of the batch is known.
        // 2. The prefetch finds the home buckets, which the eviction and the count need.
        // 3. The eviction comes before the count, so that the new flows of the batch fit.
        // 4. The count stops before a packet whose flow must end first. Then, for the packets so far:
        //    a. Their analysis states are found before the ended flow's slot is free: from the next
        //       count on, the slot may be another flow's.
        //    b. If TCP flags show that the flow is closed, the analysis of its packets so far decides
        //       whether it is: it knows sequence numbers.
        //    c. The flow is copied out before its slot is freed.
        //    d. Its packets may be analysed at the end of the batch, because its states are detached
        //       but not released. If the active timeout cut it, they may not: the next packet
        //       continues with the same states, so its first record must be complete before that.
        // 5. All packets of a flow are analysed before its record is completed, which releases its
        //    states.
        // 6. The sweep comes last, because it completes records too.
        let Some(last) = batch.packets().last() else {
            return self.flows.learn_dns_answers(batch);
        };
        self.grow(sink);
        self.flows.prefetch_batch(batch);
        self.evict(batch, sink);
        let (mut counted, mut analysed) = (0, 0);
        loop {
            let observed = &mut self.scratch.observed;
            let (end, step) = self.flows.count(batch, counted, &self.expiry, observed);
            self.flows
                .find_analysis_states(batch, counted..end, &self.expiry, observed);
            counted = end;
            let Step::Ended {
                at,
                slot,
                mut reason,
            } = step
            else {
                break;
            };
            if matches!(reason, EndReason::TcpReset | EndReason::TcpFin) && self.flows.has_tcp() {
                self.flows.analyse(batch, analysed..counted, payloads);
                analysed = counted;
                match self.confirm_closed(batch, at, (slot, reason)) {
                    Some(confirmed) => reason = confirmed,
                    None => {
                        counted = at + 1;
                        continue;
                    }
                }
            }
            self.end(&[slot], &[reason]);
            if reason == EndReason::ActiveTimeout {
                self.flows.analyse(batch, analysed..counted, payloads);
                self.complete_ended(sink);
                analysed = counted;
            }
        }
        self.flows.analyse(batch, analysed..counted, payloads);
        self.complete_ended(sink);
        self.advance(last.clock_ms, sink);
    }

    /// Returns why the flow in `slot`, which its TCP flags show as closed, has ended before packet `at`, by
    /// what the analysis knows. If it is still open, counts the packet and returns `None`.
    #[cold]
    fn confirm_closed(
        &mut self,
        batch: &Batch,
        at: usize,
        (slot, reason): (u32, EndReason),
    ) -> Option<EndReason> {
        let ended = (slot, reason);
        let confirmed = self
            .flows
            .confirm_ended_before(batch, at, &self.expiry, ended);
        if confirmed.is_some() {
            return confirmed;
        }
        let observed = &mut self.scratch.observed;
        if self.flows.count_open(batch, at, observed) != Step::Done {
            debug_assert!(false, "a flow that is in the table");
            return Some(reason);
        }
        self.flows
            .find_analysis_states(batch, at..at + 1, &self.expiry, observed);
        None
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
        let ranges = self.garbage.due(clock_ms, self.flows.table.slots());
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            let mut expired = std::mem::take(&mut self.scratch.expired);
            self.flows.table.find_expired(
                range.start,
                range.end,
                clock_ms,
                &self.expiry,
                &mut expired,
            );
            self.flows
                .confirm_resets(&mut expired, clock_ms, &self.expiry);
            self.end_all(
                expired.len(),
                |at| expired[at].0,
                |_, at| expired[at].1,
                sink,
            );
            expired.clear();
            self.scratch.expired = expired;
            self.update_view(range.start, range.end);
        }
        if let Some(view) = &mut self.view
            && GarbageCollector::is_end_of_round(&ranges, self.flows.table.slots())
        {
            view.finish_round(self.flows.table.flows() as u64);
        }
    }

    /// Flushes records if [`FLUSH_INTERVAL_MS`] have passed since the last call that did.
    pub fn flush_after(&mut self, clock_ms: u32, sink: &mut impl RecordSink) {
        self.output.flush_after(clock_ms, sink);
    }

    /// Hands all records to `sink`, without waiting for a full batch.
    pub fn flush<S: RecordSink>(&mut self, sink: &mut S) {
        self.output.flush(sink);
    }

    /// Ends all flows because the input ended at `clock_ms`. Their records are sorted by start and key.
    pub fn finish(&mut self, clock_ms: u32, sink: &mut impl RecordSink) {
        let slots = self.flows.slots_by_start();
        let reason = |meter: &Self, at: usize| {
            let table = &meter.flows.table;
            if let Some(&ahead) = slots.get(at + 2 * END_GROUP_FLOWS) {
                table.prefetch_entry(ahead);
            }
            meter
                .flows
                .reason_at_end(slots[at], clock_ms, &meter.expiry)
        };
        self.end_all(slots.len(), |at| slots[at], reason, sink);
        self.flush(sink);
    }

    /// Returns the meter's counters.
    #[must_use]
    pub fn counters(&self) -> MeterCounters {
        MeterCounters {
            unattributed: self.flows.table.unattributed(),
            flows: self.flows.table.flows() as u64,
            collisions: self.flows.table.collisions(),
            names: self.flows.name_counters(),
            ..self.output.counters
        }
    }

    /// Returns the view of the last complete sweep, if views are enabled and this one is new.
    pub fn take_view(&mut self) -> Option<LiveView> {
        self.view.as_mut().and_then(ViewBuilder::take)
    }

    /// Grows the table if it is crowded. Flows that prevent it end.
    fn grow(&mut self, sink: &mut impl RecordSink) {
        while let Err(slot) = self.flows.grow() {
            self.end(&[slot], &[EndReason::LackOfResources]);
            self.complete_ended(sink);
        }
    }

    /// Evicts flows so that those of the batch fit a full table.
    fn evict(&mut self, batch: &Batch, sink: &mut impl RecordSink) {
        let ended = &mut self.output.records.ended;
        let first = ended.len();
        let mut evicted = std::mem::take(&mut self.scratch.evicted);
        self.flows.table.evict(batch, &mut evicted, ended);
        if !evicted.is_empty() {
            let reasons = [EndReason::LackOfResources; END_GROUP_FLOWS];
            let mut groups = evicted.chunks(END_GROUP_FLOWS).peekable();
            let first_group = evicted.iter().take(END_GROUP_FLOWS);
            self.flows.prefetch_states(first_group.copied());
            while let Some(group) = groups.next() {
                if let Some(ahead) = groups.peek() {
                    self.flows.prefetch_states(ahead.iter().copied());
                }
                self.record_copied(group, &reasons[..group.len()]);
            }
            debug_assert_eq!(self.output.records.ended.len(), first + evicted.len());
            evicted.clear();
            self.complete_ended(sink);
        }
        self.scratch.evicted = evicted;
    }

    /// Ends `count` flows, given their slots and reasons by index. Their entries should be prefetched.
    fn end_all(
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
        self.flows.prefetch_ending(group(0).map(&slot));
        for start in (0..count).step_by(END_GROUP_FLOWS) {
            let ahead = group(start + END_GROUP_FLOWS);
            self.flows.prefetch_ending(ahead.map(&slot));
            let group = group(start);
            let flows = group.len();
            for (index, at) in group.enumerate() {
                slots[index] = slot(at);
                reasons[index] = reason(self, at);
            }
            self.end(&slots[..flows], &reasons[..flows]);
            self.complete_ended(sink);
        }
    }

    /// Copies flows to the record batch, then removes them from the table. Their records are complete
    /// after [`Meter::complete_ended`].
    fn end(&mut self, slots: &[u32], reasons: &[EndReason]) {
        let table = &self.flows.table;
        table.copy_out(slots, &mut self.output.records.ended);
        self.record_copied(slots, reasons);
        self.flows.table.remove(slots);
    }

    /// Adds to the record batch what it lacks of flows whose entries it has, and clears their states.
    fn record_copied(&mut self, slots: &[u32], reasons: &[EndReason]) {
        let first = self.output.add_reasons(reasons);
        let RecordBatch { ended, values, .. } = &mut self.output.records;
        let entries = &ended.entries[first..ended.len()];
        let flows = slots.iter().zip(entries);
        if self.flows.statistics.has_values() {
            for ((&slot, entry), start) in flows.clone().zip(&ended.starts[first..]) {
                self.flows.statistics.take(slot, entry, start, values);
            }
        }
        self.flows
            .detach(flows.map(|(&slot, entry)| (slot, entry.last_clock_ms())));
    }

    /// Completes the records of ended flows with their analyses, and flushes a full batch.
    fn complete_ended(&mut self, sink: &mut impl RecordSink) {
        if self.flows.has_analysis() {
            let batch = &mut self.output.records;
            let missing = BATCH_RECORDS_MAX.saturating_sub(batch.len());
            batch.records.reserve(missing);
            batch.complete();
            let RecordBatch {
                records, analyses, ..
            } = batch;
            if analyses.is_empty() {
                // Analyses are large: reserve now, so that none is moved while the batch fills.
                analyses.reserve_slots(BATCH_RECORDS_MAX);
            }
            self.flows.finish_detached(records, analyses);
        }
        self.output.flush_if_full(sink);
    }

    /// Adds the flows in a range of slots to the view, if views are enabled.
    fn update_view(&mut self, from: u32, to: u32) {
        let Some(view) = &mut self.view else {
            return;
        };
        let (table, occupied) = (&self.flows.table, &mut self.scratch.occupied);
        occupied.clear();
        table.find_occupied(from, to, occupied);
        let mut values = Vec::new();
        for &slot in &*occupied {
            let (entry, start) = (table.entry(slot), table.start(slot));
            let bytes = entry.bytes().iter().sum();
            if view.may_rank(bytes) {
                let mut record = Record::default();
                fill_record(&mut record, entry, start, || table.key(slot, entry));
                view.insert_top(bytes, record);
            }
            values.clear();
            let statistics = &self.flows.statistics;
            if !statistics.summarise_first(slot, entry, start, &mut values) {
                values.push((entry.packets()[0] + entry.packets()[1]) as f64);
            }
            view.add_to_distribution(values.last().copied().unwrap_or(f64::NAN));
        }
    }
}
