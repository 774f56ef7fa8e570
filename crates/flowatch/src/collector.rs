//! The collector thread: receives records, writes them to the outputs, and keeps the largest flows
//! for the summary.

mod output_thread;

pub(crate) use output_thread::{Output, OutputResult, OutputStatus};

use crate::units;
use engine::merge::{MergeOptions, Merger};
use engine::{RecordReceiver, Recycler, Stop, StopReason};
use export::Anonymiser;
use flow::{Record, RecordBatch};
use output_thread::{FLUSH_EVERY, OutputThread, OutputWriter};
use std::cmp::Reverse;
use std::io;
use std::sync::Arc;
use std::time::Instant;

/// Options of a collector.
#[derive(Clone, Debug)]
pub(crate) struct CollectorOptions {
    /// Number of statistics values per record.
    pub(crate) values_per_record: usize,
    /// Hold all records until the end, and write them sorted.
    pub(crate) sort: bool,
    /// Memory of the records held to be sorted, in bytes. If there are more, they are sorted in parts.
    pub(crate) sort_bytes_max: u64,
    /// Number of largest flows to keep.
    pub(crate) top: usize,
    /// Anonymises addresses before records reach any output.
    pub(crate) anonymiser: Option<Anonymiser>,
    /// Whether to wait for a slow output. If not, it loses records.
    pub(crate) wait_for_slow_outputs: bool,
}

/// Receives records and passes them to the outputs.
pub(crate) struct Collector {
    outputs: Outputs,
    /// Records held back to be sorted.
    held: Option<RecordBatch>,
    /// Number of times that they became too many and were written.
    sorted_parts: u64,
    options: CollectorOptions,
    /// Joins records of one flow from several queues of a link.
    merger: Option<Merger>,
    top: TopFlows,
    output_status: OutputStatus,
}

/// The collector's results.
pub(crate) struct CollectorReport {
    /// The largest flows.
    pub(crate) top: Vec<Record>,
    /// Faults of outputs.
    pub(crate) faults: Vec<String>,
    /// Whether the reader of standard output has gone.
    pub(crate) reader_gone: bool,
    /// Results by output.
    pub(crate) outputs: Vec<OutputResult>,
    /// Number of times that records of one flow from two queues were merged into one.
    pub(crate) merged: u64,
    /// Records that were not held until another part of their flow could arrive: too many were held.
    pub(crate) released_early: u64,
}

impl CollectorReport {
    /// Attributes records that were lost on the way to the outputs to the only output, if there is
    /// exactly one. Returns the number of records left unattributed.
    pub(crate) fn attribute_loss(&mut self, records_lost: u64) -> u64 {
        let [output] = &mut self.outputs[..] else {
            return records_lost;
        };
        output.lost += records_lost;
        output.too_slow += records_lost;
        0
    }
}

/// The outputs of a running collector, each on a thread of its own: a stuck one must stop neither the
/// others nor the summary.
struct Outputs(Vec<OutputThread>);

impl Collector {
    /// Creates a collector that writes to `outputs`, and starts their threads, which return batches to
    /// `recycler`.
    ///
    /// # Errors
    /// If a thread cannot start. The outputs are then finished.
    pub(crate) fn new(
        outputs: Vec<Output>,
        options: CollectorOptions,
        recycler: &Recycler,
    ) -> io::Result<Self> {
        let output_status = OutputStatus::default();
        let outputs = start_outputs(
            outputs,
            &output_status,
            recycler,
            options.wait_for_slow_outputs,
        )?;
        Ok(Self {
            outputs,
            held: options.sort.then(RecordBatch::default),
            sorted_parts: 0,
            merger: None,
            top: TopFlows {
                size: options.top,
                records: Vec::with_capacity(2 * options.top),
            },
            options,
            output_status,
        })
    }

    /// Finishes the outputs of a run that cannot start.
    pub(crate) fn abandon(self) {
        output_thread::finish(self.outputs.0);
    }

    /// Merges records of one flow from several queues.
    ///
    /// # Errors
    /// Fails if there is not enough memory to hold records; the outputs are then finished.
    pub(crate) fn merging(mut self, options: Option<MergeOptions>) -> io::Result<Self> {
        match options.map(Merger::new).transpose() {
            Ok(merger) => {
                self.merger = merger;
                Ok(self)
            }
            Err(error) => {
                self.abandon();
                Err(error)
            }
        }
    }

    /// Returns a handle to the losses and faults of the outputs during the run.
    pub(crate) fn output_status(&self) -> OutputStatus {
        self.output_status.clone()
    }

    /// Receives records until all senders are gone. If the reader of standard output has gone, asks
    /// the run to stop.
    pub(crate) fn run(mut self, records: &RecordReceiver, stop: &Stop) -> CollectorReport {
        let mut outputs = std::mem::replace(&mut self.outputs, Outputs(Vec::new()));
        let started = Instant::now();
        let mut ready = RecordBatch::default();
        loop {
            match records.recv_timeout_with_worker(FLUSH_EVERY) {
                Ok(None) => break,
                Ok(Some((worker, batch))) => match &mut self.merger {
                    Some(merger) => {
                        merger.add_batch(worker, &batch, started.elapsed(), &mut ready);
                        records.recycle(batch);
                    }
                    None => {
                        if let Some(batch) = self.handle(&mut outputs, batch) {
                            records.recycle(batch);
                        }
                    }
                },
                Err(_) => {
                    if let Some(merger) = &mut self.merger {
                        merger.release_due(started.elapsed(), &mut ready);
                    }
                }
            }
            self.handle_ready(&mut outputs, &mut ready);
            if outputs.reader_gone() {
                stop.request_for(StopReason::ReaderGone);
            }
        }
        if let Some(merger) = &mut self.merger {
            merger.finish(&mut ready);
            self.handle_ready(&mut outputs, &mut ready);
        }
        if let Some(waiting) = self.held.take() {
            write_sorted(&mut outputs, waiting, self.options.values_per_record);
        }
        let mut collected = CollectorReport {
            top: self.top.finish(),
            faults: Vec::new(),
            reader_gone: false,
            outputs: Vec::new(),
            merged: self.merger.as_ref().map_or(0, Merger::merged),
            released_early: self.merger.as_ref().map_or(0, Merger::released_early),
        };
        if self.sorted_parts > 0 {
            collected.faults.push(format!(
                "--sort: the records did not fit into {} of memory: they are sorted in {} parts",
                units::memory(self.options.sort_bytes_max),
                self.sorted_parts + 1
            ));
        }
        for finished in output_thread::finish(outputs.0) {
            collected.reader_gone |= finished.reader_gone;
            collected.outputs.push(finished.result);
            collected.faults.extend(finished.faults);
        }
        collected
    }

    fn handle_ready(&mut self, way: &mut Outputs, ready: &mut RecordBatch) {
        if !ready.records.is_empty() {
            self.handle(way, std::mem::take(ready));
        }
    }

    /// Processes a batch. Returns it if it can be recycled.
    fn handle(&mut self, way: &mut Outputs, mut batch: RecordBatch) -> Option<RecordBatch> {
        if let Some(anonymiser) = &mut self.options.anonymiser {
            anonymiser.batch(&mut batch);
        }
        for record in &batch.records {
            self.top.offer(record);
        }
        match &mut self.held {
            Some(waiting) => {
                append(waiting, &mut batch);
                if held_bytes(waiting) >= self.options.sort_bytes_max {
                    let part = std::mem::take(waiting);
                    self.sorted_parts += 1;
                    write_sorted(way, part, self.options.values_per_record);
                }
                Some(batch)
            }
            None => way.write(batch),
        }
    }
}

/// Starts a thread for each output, which returns batches to `recycler`.
///
/// # Errors
/// If a thread cannot start. All outputs are then finished.
fn start_outputs(
    outputs: Vec<Output>,
    status: &OutputStatus,
    recycler: &Recycler,
    waits: bool,
) -> io::Result<Outputs> {
    let is_only = outputs.len() == 1;
    let mut threads = Vec::new();
    let mut outputs = outputs.into_iter();
    while let Some(output) = outputs.next() {
        // A person may read it at leisure, and nothing else is kept waiting.
        let is_unlimited = waits && is_only && output.is_standard_output;
        let writer = OutputWriter::new(output, status);
        match OutputThread::start(writer, recycler.clone(), waits, is_unlimited) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                output_thread::finish(threads);
                for output in outputs {
                    OutputWriter::new(output, status).finish();
                }
                return Err(error);
            }
        }
    }
    Ok(Outputs(threads))
}

impl Outputs {
    /// Writes a batch to all outputs. Returns it if it can be recycled at once.
    fn write(&mut self, batch: RecordBatch) -> Option<RecordBatch> {
        let batch = Arc::new(batch);
        for thread in &mut self.0 {
            thread.write(&batch);
        }
        Arc::into_inner(batch)
    }

    fn reader_gone(&self) -> bool {
        self.0.iter().any(OutputThread::reader_gone)
    }
}

/// Returns the memory of held records in bytes, without the texts of their analyses.
fn held_bytes(batch: &RecordBatch) -> u64 {
    let bytes =
        size_of_val(&*batch.records) + size_of_val(&*batch.values) + size_of_val(&*batch.analyses);
    bytes as u64
}

/// Returns the number of batches that wait for `outputs` outputs, and that they are writing.
pub(crate) const fn queued_batches(outputs: usize) -> usize {
    match outputs {
        0 => 0,
        outputs => output_thread::QUEUE_BATCHES + outputs,
    }
}

fn append(waiting: &mut RecordBatch, batch: &mut RecordBatch) {
    waiting.records.append(&mut batch.records);
    waiting.values.append(&mut batch.values);
    waiting.analyses.append(&mut batch.analyses);
}

fn write_sorted(way: &mut Outputs, mut waiting: RecordBatch, width: usize) {
    let mut order: Vec<usize> = (0..waiting.records.len()).collect();
    // A stable sort: records with equal sort keys come from one table and stay in its order.
    order.sort_by_key(|&index| {
        let record = &waiting.records[index];
        (record.start_ns, record.key, record.end_ns, record.packets)
    });
    for indices in order.chunks(flow::meter::RECORDS_PER_BATCH) {
        let mut batch = RecordBatch::default();
        for &index in indices {
            batch.records.push(waiting.records[index]);
            let values = index * width..(index + 1) * width;
            batch.values.extend_from_slice(&waiting.values[values]);
            if let Some(analysis) = waiting.analyses.get_mut(index) {
                batch.analyses.push(std::mem::take(analysis));
            }
        }
        way.write(batch);
    }
}

/// The flows with the most bytes.
struct TopFlows {
    size: usize,
    records: Vec<Record>,
}

impl TopFlows {
    fn offer(&mut self, record: &Record) {
        let enters = match self.records.get(self.size.wrapping_sub(1)) {
            Some(least) => total_bytes(record) > total_bytes(least),
            None => self.size > 0,
        };
        if enters {
            self.records.push(*record);
            if self.records.len() == self.size || self.records.len() == 2 * self.size {
                self.trim();
            }
        }
    }

    fn trim(&mut self) {
        self.records
            .sort_by_key(|record| (Reverse(total_bytes(record)), record.start_ns, record.key));
        self.records.truncate(self.size);
    }

    fn finish(mut self) -> Vec<Record> {
        self.trim();
        self.records
    }
}

/// Returns the bytes of both directions.
pub(crate) fn total_bytes(record: &Record) -> u64 {
    record.bytes[0] + record.bytes[1]
}

/// Returns the packets of both directions.
pub(crate) fn total_packets(record: &Record) -> u64 {
    record.packets[0] + record.packets[1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::EndReason;

    #[test]
    fn keeps_the_largest_flows_in_order() {
        let record = |bytes: u64| Record {
            key: wire::FlowKey::default(),
            start_ns: 0,
            end_ns: 0,
            packets: [1, 0],
            bytes: [bytes, 0],
            tcp_flags: [0; 2],
            icmp_type_code: 0,
            end_reason: EndReason::EndOfInput,
        };
        for size in [0, 1, 3, 200] {
            let mut top = TopFlows {
                size,
                records: Vec::new(),
            };
            for number in 0..100u64 {
                top.offer(&record(number * 37 % 101));
            }
            let mut all: Vec<u64> = (0..100).map(|number| number * 37 % 101).collect();
            all.sort_unstable_by_key(|&bytes| Reverse(bytes));
            all.truncate(size);
            assert_eq!(
                top.finish().iter().map(total_bytes).collect::<Vec<_>>(),
                all
            );
        }
    }
}
