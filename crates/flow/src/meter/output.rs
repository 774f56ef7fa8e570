//! The output of a meter: records on their way to the sink, and counters.

use crate::end_reason::EndReason;
use crate::entry::FlowEntry;
use crate::record_batch::{BATCH_RECORDS_MAX, RECORDS_PER_BATCH, RecordBatch};
use crate::table::Collisions;
use app::NameCounters;
use std::ops::AddAssign;

/// The interval at which the records of a live link are flushed, full batch or not.
pub const FLUSH_INTERVAL_MS: u32 = 500;

/// Receives the records of a meter.
pub trait RecordSink {
    /// Whether the sink [completes](RecordBatch::complete) batches itself, usually in another thread.
    const COMPLETES: bool = false;

    /// Takes the records out of `batch` and leaves it empty. The batch is complete unless
    /// [`RecordSink::COMPLETES`].
    fn take(&mut self, batch: &mut RecordBatch);
}

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
    /// What colliding hashes did to a table that had room.
    pub collisions: Collisions,
    /// What became of the names in DNS responses. Tables that share the responses count the same ones,
    /// so the sum has the largest counts.
    pub names: NameCounters,
    /// DNS answers that did not reach all tables, because too many came at a time.
    pub answers_dropped: u64,
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
        self.collisions += other.collisions;
        self.names.evicted = self.names.evicted.max(other.names.evicted);
        self.names.left_out = self.names.left_out.max(other.names.left_out);
        self.names.unasked = self.names.unasked.max(other.names.unasked);
        // Each table reads other flows.
        self.names.quic_cuts += other.names.quic_cuts;
        self.answers_dropped += other.answers_dropped;
        self.flows += other.flows;
    }
}

/// Ended flows and their records, until the sink takes them.
#[derive(Default)]
pub(super) struct Output {
    pub(super) records: RecordBatch,
    pub(super) counters: MeterCounters,
    /// The clock at the last flush by [`Output::flush_after`].
    flushed_ms: u32,
}

impl Output {
    /// Creates an output that begins with this batch, which must be empty.
    pub(super) fn new(records: RecordBatch) -> Self {
        Self {
            records,
            ..Self::default()
        }
    }

    /// Adds the reasons of ended flows, whose entries and starts the batch already has, and counts the
    /// flows. Returns the index of the first of them among the batch's ended flows.
    pub(super) fn add_reasons(&mut self, reasons: &[EndReason]) -> usize {
        let ended = &mut self.records.ended;
        let first = ended.len();
        ended.reasons.extend_from_slice(reasons);
        let mut recorded = [0; 2];
        for entry in &ended.entries[first..ended.reasons.len()] {
            recorded[0] += entry.packets().iter().sum::<u64>();
            recorded[1] += entry.bytes().iter().sum::<u64>();
        }
        let counters = &mut self.counters;
        for (total, count) in counters.recorded.iter_mut().zip(recorded) {
            *total += count;
        }
        let is_evicted = |reason: &&EndReason| **reason == EndReason::LackOfResources;
        counters.evicted += reasons.iter().filter(is_evicted).count() as u64;
        counters.records += reasons.len() as u64;
        first
    }

    /// Flushes the batch if it is full.
    pub(super) fn flush_if_full(&mut self, sink: &mut impl RecordSink) {
        if self.records.len() >= RECORDS_PER_BATCH {
            self.flush(sink);
        }
    }

    /// See [`Meter::flush_after`](super::Meter::flush_after).
    pub(super) fn flush_after(&mut self, clock_ms: u32, sink: &mut impl RecordSink) {
        if clock_ms.wrapping_sub(self.flushed_ms) >= FLUSH_INTERVAL_MS {
            self.flushed_ms = clock_ms;
            self.flush(sink);
        }
    }

    /// Hands all records to `sink`.
    pub(super) fn flush<S: RecordSink>(&mut self, sink: &mut S) {
        if !self.records.is_empty() {
            if !S::COMPLETES {
                self.records.complete();
            }
            sink.take(&mut self.records);
            self.records.clear();
            self.records.ended.reserve(BATCH_RECORDS_MAX);
        }
    }
}
