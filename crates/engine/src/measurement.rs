//! What the packet path measures: a trait for anything that counts packets (the flow table, a sketch, a
//! set of counters), the set of them that one thread drives, and how their results are merged and
//! reported.

use crate::books::{Books, Count};
use crate::record_channel::RecordSender;
use flow::{Batch, LiveView, MeterCounters, MeterOptions, Packet};
use port::{BurstCount, Frame};
use std::any::Any;
use std::io;

/// What a measurement reads of a packet. A run that only needs frames parses no headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketInput {
    /// Only the number and size of frames.
    Frames,
    /// The parsed headers: flow keys and packets.
    Headers,
}

/// The packets of a batch, and where their payloads are.
#[derive(Clone, Copy, Debug)]
pub struct Packets<'a> {
    /// The packets, with keys and hashes.
    pub batch: &'a Batch,
    /// The frames that contain the payloads; `None` if payloads were copied into the batch.
    pub frames: Option<&'a [Frame<'a>]>,
}

/// A measurement of one thread. Threads have an instance each; their [results](Findings) are merged.
///
/// Calls are per batch, so that dynamic dispatch costs nothing per packet. Packets that belong to a flow
/// arrive with [`process`](Self::process) in the thread that owns the flow. All others are known only to
/// the thread that receives them and arrive with [`count_without_flow`](Self::count_without_flow).
/// Together these are the processed packets of the books.
pub trait Measurement: Send {
    /// Counts packets that belong to flows.
    fn process(&mut self, packets: &Packets<'_>, records: &mut RecordSender);

    /// Counts those of `frames` that belong to no flow: all except the packets in `in_flows`. Called only
    /// if there are some.
    fn count_without_flow(&mut self, frames: &[Frame<'_>], in_flows: &[Packet]) {
        let _ = (frames, in_flows);
    }

    /// Counts a burst that was received without reading its frames, if every measurement of the run only
    /// needs [`PacketInput::Frames`].
    fn count_frames(&mut self, frames: BurstCount) {
        let _ = frames;
    }

    /// Called when there are no packets. `clock_ms` is absent if the clock does not advance (a file).
    fn idle(&mut self, clock_ms: Option<u32>, records: &mut RecordSender) {
        let _ = (clock_ms, records);
    }

    /// Sends records that have waited for long. Called about every 100 ms while a link has packets.
    fn flush_after(&mut self, clock_ms: u32, records: &mut RecordSender) {
        let _ = (clock_ms, records);
    }

    /// Called once, when the input has ended at `clock_ms`.
    fn finish(&mut self, clock_ms: u32, records: &mut RecordSender) {
        let _ = (clock_ms, records);
    }

    /// Returns the flow counters, if the measurement keeps flows and emits records.
    fn counters(&self) -> MeterCounters {
        MeterCounters::default()
    }

    /// Returns the new live view of the flow table, if there is one.
    fn take_view(&mut self) -> Option<LiveView> {
        None
    }

    /// Returns the memory that the measurement uses at most, in bytes.
    fn memory_bytes(&self) -> usize {
        0
    }

    /// Returns the results, after [`finish`](Self::finish). `books` are those of the receiver; `None` in
    /// other threads, whose packets are in the books of their receiver.
    fn report(&mut self, books: Option<&Books>) -> Option<Box<dyn Findings>> {
        let _ = books;
        None
    }
}

/// The results of a measurement, in a form that can be merged.
pub trait Findings: Any + Send {
    /// Adds the results of the same measurement in another thread.
    fn merge(&mut self, other: Box<dyn Any>);

    /// Returns the results for the summaries.
    fn report(&self) -> MeasurementReport;
}

/// The results of a measurement over all threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeasurementReport {
    /// Name in JSON.
    pub name: &'static str,
    /// Heading in text.
    pub title: &'static str,
    /// Packets that the measurement counted.
    pub counted: Count,
    /// Processed packets that it did not count, by reason.
    pub skipped: Vec<ReportRow>,
    /// The results. The rows of each table add up to `counted`.
    pub tables: Vec<ReportTable>,
}

/// A table of a [`MeasurementReport`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportTable {
    /// Name in JSON.
    pub name: &'static str,
    /// Heading in text.
    pub title: &'static str,
    /// The rows, in the order to print them.
    pub rows: Vec<ReportRow>,
}

/// A row of a [`ReportTable`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportRow {
    /// What is counted, as a JSON key.
    pub name: String,
    /// Packets and bytes.
    pub count: Count,
}

impl MeasurementReport {
    /// Returns whether the measurement accounts for all `processed` packets, in every table.
    #[must_use]
    pub fn is_balanced(&self, processed: Count) -> bool {
        let sum = |rows: &[ReportRow]| {
            let mut sum = Count::default();
            rows.iter().for_each(|row| sum += row.count);
            sum
        };
        let mut accounted = self.counted;
        accounted += sum(&self.skipped);
        accounted == processed
            && self
                .tables
                .iter()
                .all(|table| sum(&table.rows) == self.counted)
    }
}

/// How to start a measurement.
#[derive(Clone, Copy, Debug)]
pub struct MeasurementSpec {
    /// Name, for error messages.
    pub name: &'static str,
    /// What the measurement reads of a packet.
    pub input: PacketInput,
    /// Whether a receiver without flows needs an instance of its own, for packets without a flow
    /// (every model but run to completion).
    pub at_receiver: bool,
    /// Creates the instance of one thread and reserves its memory.
    pub build: fn(&MeterOptions) -> io::Result<Box<dyn Measurement>>,
}

/// The measurements of one thread.
#[derive(Default)]
pub struct MeasurementSet(Vec<Box<dyn Measurement>>);

impl FromIterator<Box<dyn Measurement>> for MeasurementSet {
    fn from_iter<I: IntoIterator<Item = Box<dyn Measurement>>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}

impl MeasurementSet {
    pub(crate) fn process(&mut self, packets: &Packets<'_>, records: &mut RecordSender) {
        for measurement in &mut self.0 {
            measurement.process(packets, records);
        }
    }

    /// Counts the frames of a burst that are not in `in_flows`.
    pub(crate) fn count_without_flow(&mut self, frames: &[Frame<'_>], in_flows: &[Packet]) {
        if frames.len() == in_flows.len() {
            return;
        }
        for measurement in &mut self.0 {
            measurement.count_without_flow(frames, in_flows);
        }
    }

    pub(crate) fn count_frames(&mut self, frames: BurstCount) {
        for measurement in &mut self.0 {
            measurement.count_frames(frames);
        }
    }

    pub(crate) fn idle(&mut self, clock_ms: Option<u32>, records: &mut RecordSender) {
        for measurement in &mut self.0 {
            measurement.idle(clock_ms, records);
        }
    }

    pub(crate) fn flush_after(&mut self, clock_ms: u32, records: &mut RecordSender) {
        for measurement in &mut self.0 {
            measurement.flush_after(clock_ms, records);
        }
    }

    pub(crate) fn finish(&mut self, clock_ms: u32, records: &mut RecordSender) {
        for measurement in &mut self.0 {
            measurement.finish(clock_ms, records);
        }
    }

    /// Returns the sum of the flow counters.
    pub(crate) fn counters(&self) -> MeterCounters {
        let mut sum = MeterCounters::default();
        for measurement in &self.0 {
            sum += measurement.counters();
        }
        sum
    }

    pub(crate) fn take_view(&mut self) -> Option<LiveView> {
        self.0
            .iter_mut()
            .find_map(|measurement| measurement.take_view())
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.0
            .iter()
            .map(|measurement| measurement.memory_bytes())
            .sum()
    }

    pub(crate) fn report(&mut self, books: Option<&Books>) -> Vec<Box<dyn Findings>> {
        let all = self.0.iter_mut();
        all.filter_map(|measurement| measurement.report(books))
            .collect()
    }
}

/// The measurements of a run.
#[derive(Default)]
pub struct Measurements {
    /// Those of the threads or tasks that count flows.
    pub(crate) monitors: Vec<MeasurementSet>,
    /// Those of receivers that are separate from monitors.
    pub(crate) receivers: Vec<MeasurementSet>,
}

/// Merges the results of all threads, measurement by measurement.
#[derive(Default)]
pub(crate) struct FindingsMerger(Vec<Box<dyn Findings>>);

impl FindingsMerger {
    pub(crate) fn add(&mut self, findings: Vec<Box<dyn Findings>>) {
        for other in findings {
            let kind = (*other).type_id();
            match self.0.iter_mut().find(|known| (***known).type_id() == kind) {
                Some(known) => known.merge(other),
                None => self.0.push(other),
            }
        }
    }

    pub(crate) fn reports(&self) -> Vec<MeasurementReport> {
        self.0.iter().map(|findings| findings.report()).collect()
    }
}
