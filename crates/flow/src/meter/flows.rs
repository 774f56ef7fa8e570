//! The flows of a meter: the table, and what statistics and the analysis keep of the flow in each slot.

use super::options::MeterOptions;
use super::statistics::Statistics;
use crate::analyser::Analyser;
use crate::batch::{Batch, Payloads};
use crate::definition::FlowDefinition;
use crate::end_reason::EndReason;
use crate::ended::set_start_direction;
use crate::entry::FlowEntry;
use crate::expiry::{Evidence, Expiry};
use crate::radix_sort;
use crate::record::Record;
use crate::table::{
    BucketTable, Combined, DoubleHash, LinkedList, OUT_OF_CACHE_FLOWS, Observed, Step, Table,
    TableKind,
};
use analysis::Analyses;
use hw::lines::Rows;
use hw::prefetch::CacheLevel;
use std::io;
use std::iter;
use std::ops::{Range, RangeInclusive};

/// The number of packets that are counted together while the statistics' states of the previous group
/// are prefetched: the maximum if those states come from a cache, a quarter of a burst within this
/// range if they come from memory.
const STATISTICS_GROUP_PACKETS: RangeInclusive<usize> = 16..=64;

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

/// Creates the analyser of a table with `slots` slots, if an analysis is selected.
fn build_analyser(options: &MeterOptions, slots: usize) -> io::Result<Option<Box<Analyser>>> {
    let Some(level) = options.statistics.analysis else {
        return Ok(None);
    };
    let flows_max = match options.table {
        TableKind::Bucket => options.flows_max.min(slots),
        _ => slots,
    };
    let mut analyser = Analyser::new(
        level,
        slots,
        flows_max,
        &options.timeouts,
        options.flow == FlowDefinition::Bidirectional,
        options.applications.clone().unwrap_or_default(),
        options.seed,
    )?;
    if options.dns_from_batches {
        analyser.use_dns_feed();
    }
    Ok(Some(Box::new(analyser)))
}

/// The flow table, and the states of statistics and analysis in its slots.
pub(super) struct Flows {
    pub(super) table: Box<dyn Table>,
    pub(super) statistics: Statistics,
    analyser: Option<Box<Analyser>>,
    /// Whether the table and the statistics prefetch what a batch needs.
    prefetches: bool,
}

impl Flows {
    /// Reserves all memory that the flows will ever use.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub(super) fn new(options: &MeterOptions) -> io::Result<Self> {
        let (table, mut rows) = build_table(options)?;
        let slots = table.slots_max() as usize;
        let mut flows = Self {
            table,
            statistics: Statistics::new(&options.statistics, &mut rows),
            analyser: build_analyser(options, slots)?,
            prefetches: options.prefetches || options.table == TableKind::Bucket,
        };
        if options.populate {
            if let Some(analyser) = &mut flows.analyser {
                analyser.populate();
            }
            flows.table.populate();
            flows.statistics.populate();
        }
        Ok(flows)
    }

    /// Returns the memory in use with a full table, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let slots = self.table.slots_max() as usize;
        let analyser = self.analyser.as_ref();
        self.table.memory_bytes()
            + slots * self.statistics.bytes_per_flow()
            + analyser.map_or(0, |analyser| analyser.memory_bytes())
    }

    /// Returns whether an analysis is selected.
    pub(super) const fn has_analysis(&self) -> bool {
        self.analyser.is_some()
    }

    /// Returns what became of the names in DNS responses.
    pub(super) fn name_counters(&self) -> app::NameCounters {
        let analyser = self.analyser.as_ref();
        analyser.map_or_else(app::NameCounters::default, |analyser| {
            analyser.name_counters()
        })
    }

    /// Learns the DNS answers of a batch without packets.
    pub(super) fn learn_dns_answers(&mut self, batch: &Batch) {
        if let Some(analyser) = &mut self.analyser {
            for (_, answer) in batch.dns_answers() {
                analyser.learn(answer);
            }
        }
    }

    /// Grows the table by a small step if it is crowded; the states move with the flows.
    ///
    /// # Errors
    /// The slot of a flow that must be removed before the table can grow.
    pub(super) fn grow(&mut self) -> Result<(), u32> {
        let Self {
            table,
            statistics,
            analyser,
            ..
        } = self;
        table.grow(&mut |from, to| {
            statistics.relocate(from, to);
            if let Some(analyser) = analyser {
                analyser.relocate(from, to);
            }
        })
    }

    /// Prefetches where the flows of the batch are looked up.
    pub(super) fn prefetch_batch(&mut self, batch: &Batch) {
        if self.prefetches {
            self.table.prefetch_batch(batch);
        }
    }

    /// Counts the packets from `start` on in the table and the statistics, up to the first packet
    /// before which a flow must end. Returns the index after the last counted packet.
    pub(super) fn count(
        &mut self,
        batch: &Batch,
        start: usize,
        expiry: &Expiry,
        observed: &mut Observed,
    ) -> (usize, Step) {
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
        // States prefetched into the L2 cache are prefetched again, into the L1 cache, before use.
        let prefetch_l1 = self.prefetches && level == CacheLevel::L2;
        let (mut start, mut previous) = (start, start..start);
        loop {
            let packets = start..batch.len().min(start + group);
            let step = self.table.update(batch, packets.clone(), expiry, observed);
            let end = match step {
                Step::Done => packets.end,
                Step::Ended { at, slot, .. } => {
                    self.prefetch_ending(iter::once(slot));
                    at
                }
            };
            let slots = &observed.slots[start..end];
            if let Some(analyser) = &self.analyser {
                analyser.prefetch_handles(slots.iter().copied());
            }
            if self.prefetches {
                self.statistics.prefetch(level, slots);
            }
            let statistics = &mut self.statistics;
            statistics.update(batch, previous, observed, prefetch_l1);
            if step != Step::Done || end == batch.len() {
                statistics.update(batch, start..end, observed, prefetch_l1);
                return (end, step);
            }
            previous = start..end;
            start = end;
        }
    }

    /// Finds the analysis states of these packets' flows, and opens those of new flows. A flow that
    /// continues after its active timeout keeps the initiator of its first record, whichever side sent
    /// the next packet. Clears [`Observed::opened`].
    pub(super) fn find_analysis_states(
        &mut self,
        batch: &Batch,
        packets: Range<usize>,
        expiry: &Expiry,
        observed: &mut Observed,
    ) {
        if let Some(analyser) = &mut self.analyser {
            analyser.find_handles(batch, packets, observed);
            for &at in &observed.opened {
                let slot = observed.slots[usize::from(at)];
                if let Some(initiator) = analyser.initiator(slot)
                    && initiator != expiry.initiator(&batch.packets()[usize::from(at)])
                {
                    set_start_direction(self.table.start_mut(slot), initiator);
                }
            }
        }
        observed.opened.clear();
    }

    /// Counts packet `at`, whose flow the table takes for ended but which is still open.
    #[cold]
    pub(super) fn count_open(&mut self, batch: &Batch, at: usize, observed: &mut Observed) -> Step {
        let packets = at..at + 1;
        let step = self
            .table
            .update(batch, packets.clone(), &Expiry::never(), observed);
        if step == Step::Done {
            self.statistics.update(batch, packets, observed, false);
        }
        step
    }

    /// Returns why the flow in `slot`, which the table takes for ended for `reason`, has ended before
    /// packet `at`, by what the analysis knows; `None` if it has not. All packets before must be analysed.
    #[cold]
    pub(super) fn confirm_ended_before(
        &self,
        batch: &Batch,
        at: usize,
        expiry: &Expiry,
        (slot, reason): (u32, EndReason),
    ) -> Option<EndReason> {
        let (Some(analyser), Some(info)) = (&self.analyser, batch.details().get(at)) else {
            return Some(reason);
        };
        let (entry, packet) = (self.table.entry(slot), &batch.packets()[at]);
        if entry.key() == batch.keys()[at] {
            let evidence = analyser.evidence(slot, Some((packet, info)));
            return expiry.ended_before_knowing(entry, packet, evidence);
        }
        // Another flow, which makes room for that of the packet.
        let evidence = analyser.evidence(slot, None);
        let ended = expiry.ended_knowing(entry, packet.clock_ms, evidence);
        Some(ended.unwrap_or(EndReason::LackOfResources))
    }

    /// Removes from `expired` the flows that have not ended, because their resets were not accepted.
    pub(super) fn confirm_resets(
        &self,
        expired: &mut Vec<(u32, EndReason)>,
        clock_ms: u32,
        expiry: &Expiry,
    ) {
        if !self.has_tcp() {
            return;
        }
        expired.retain_mut(|(slot, reason)| {
            if *reason != EndReason::TcpReset {
                return true;
            }
            let evidence = self.evidence(*slot);
            let ended = expiry.ended_knowing(self.table.entry(*slot), clock_ms, evidence);
            *reason = ended.unwrap_or(*reason);
            ended.is_some()
        });
    }

    /// Returns the end reason of the flow in `slot`, still in the table when the input ends at `clock_ms`.
    pub(super) fn reason_at_end(&self, slot: u32, clock_ms: u32, expiry: &Expiry) -> EndReason {
        let entry = self.table.entry(slot);
        match expiry.ended_at_end(entry, clock_ms) {
            EndReason::TcpReset => {
                expiry.ended_at_end_knowing(entry, clock_ms, self.evidence(slot))
            }
            reason => reason,
        }
    }

    /// Returns what the analysis knows of the connection of the flow in `slot`.
    fn evidence(&self, slot: u32) -> Evidence {
        let analyser = self.analyser.as_ref();
        analyser.map_or_else(Evidence::default, |it| it.evidence(slot, None))
    }

    /// Returns whether TCP is analysed.
    pub(super) fn has_tcp(&self) -> bool {
        self.analyser.as_ref().is_some_and(|it| it.has_tcp())
    }

    /// Analyses counted packets whose states are found, if an analysis is selected.
    pub(super) fn analyse(
        &mut self,
        batch: &Batch,
        packets: Range<usize>,
        payloads: &impl Payloads,
    ) {
        if let Some(analyser) = &mut self.analyser {
            analyser.analyse(batch, packets, payloads);
        }
    }

    /// Detaches the analysis states of ended flows, given with their slots and last packets' times,
    /// until [`Flows::finish_detached`].
    pub(super) fn detach(&mut self, flows: impl Iterator<Item = (u32, u32)>) {
        if let Some(analyser) = &mut self.analyser {
            for (slot, last_clock_ms) in flows {
                analyser.detach(slot, last_clock_ms);
            }
        }
    }

    /// Appends the analyses of the detached flows, whose records are the last of `records`.
    pub(super) fn finish_detached(&mut self, records: &[Record], analyses: &mut Analyses) {
        if let Some(analyser) = &mut self.analyser {
            analyser.finish_pending(records, analyses);
        }
    }

    /// Prefetches what is needed to end flows, except their entries.
    pub(super) fn prefetch_ending(&self, slots: impl Iterator<Item = u32> + Clone) {
        for slot in slots.clone() {
            self.table.prefetch_removal(slot);
        }
        self.prefetch_states(slots);
    }

    /// Prefetches the statistics and analysis handles of flows.
    pub(super) fn prefetch_states(&self, slots: impl Iterator<Item = u32> + Clone) {
        let flows = slots.clone().map(|slot| (slot, self.table.entry(slot)));
        self.statistics.prefetch_ending(flows);
        if let Some(analyser) = &self.analyser {
            analyser.prefetch_handles(slots);
        }
    }

    /// Returns the slots of all flows, sorted by start and key.
    pub(super) fn slots_by_start(&self) -> Vec<u32> {
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
}
