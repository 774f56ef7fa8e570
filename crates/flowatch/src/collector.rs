//! The thread that takes records: it has them written, and remembers what the summary shows.

mod lane;

pub(crate) use lane::{Watched, Written};

use engine::merge::{MergeOptions, Merger};
use engine::{Returned, Stop};
use export::{Anonymiser, ExportError, Exporter};
use flow::{Record, RecordBatch};
use lane::{FLUSH_EVERY, Lane, Writer};
use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Instant;

/// An output and its name in messages.
pub(crate) struct Output {
    pub(crate) name: String,
    pub(crate) exporter: Box<dyn Exporter>,
    /// Whether it is standard output, whose reader may leave when it has seen enough, as `head` does.
    pub(crate) is_standard: bool,
}

/// What a collector does with records.
#[derive(Debug)]
pub(crate) struct CollectorOptions {
    /// Statistics in a record.
    pub(crate) width: usize,
    /// Records are held back, and written in order.
    pub(crate) sort: bool,
    /// How many of the largest flows are remembered.
    pub(crate) top: usize,
    /// Replaces addresses before anybody sees them.
    pub(crate) anonymiser: Option<Anonymiser>,
    /// Whether to wait for outputs that are slow; otherwise they lose records.
    pub(crate) wait: bool,
}

/// What is done with records.
pub(crate) struct Collector {
    outputs: Vec<Output>,
    /// Records wait here when they are to be sorted.
    waiting: Option<RecordBatch>,
    options: CollectorOptions,
    /// Joins records of one flow from several queues of a link.
    merger: Option<Merger>,
    top: Top,
    watched: Watched,
}

/// What became of the records.
pub(crate) struct Collected {
    /// The largest flows.
    pub(crate) top: Vec<Record>,
    /// Faults of outputs.
    pub(crate) faults: Vec<String>,
    /// Whether the reader of standard output has gone.
    pub(crate) reader_gone: bool,
    /// Each output.
    pub(crate) outputs: Vec<Written>,
    /// Records of one flow from two queues that became one.
    pub(crate) merged: u64,
}

impl Collected {
    /// Charges records that found the way to the outputs full to the one that it led to, if there was
    /// but one: how many are left.
    pub(crate) fn charge(&mut self, records_lost: u64) -> u64 {
        let [output] = &mut self.outputs[..] else {
            return records_lost;
        };
        output.lost += records_lost;
        output.too_slow += records_lost;
        0
    }
}

/// Where records go.
enum Way {
    /// No output, or one, which is written here.
    Here(Option<Box<Writer>>),
    /// Each output in a thread.
    Lanes(Vec<Lane>),
}

impl Collector {
    pub(crate) fn new(outputs: Vec<Output>, options: CollectorOptions) -> Self {
        Self {
            outputs,
            waiting: options.sort.then(RecordBatch::default),
            merger: None,
            top: Top {
                size: options.top,
                records: Vec::with_capacity(2 * options.top),
            },
            options,
            watched: Watched::default(),
        }
    }

    /// Has records of one flow from several queues joined.
    pub(crate) fn merging(mut self, options: Option<MergeOptions>) -> Self {
        self.merger = options.map(Merger::new);
        self
    }

    /// What it lost and said so far, to be seen while it runs.
    pub(crate) fn watched(&self) -> Watched {
        self.watched.clone()
    }

    /// Takes records until there are no more. When a reader has gone, it asks the run to stop.
    pub(crate) fn run(mut self, records: &Returned, stop: &Stop) -> Collected {
        let mut faults = Vec::new();
        let mut way = self.way(records, &mut faults);
        let (started, mut flushed) = (Instant::now(), Instant::now());
        let mut ready = RecordBatch::default();
        loop {
            if flushed.elapsed() >= FLUSH_EVERY {
                flushed = Instant::now();
                // Lanes look after themselves.
                way.here(|exporter| exporter.flush());
            }
            match records.next_of_worker_within(FLUSH_EVERY) {
                Ok(None) => break,
                Ok(Some((worker, batch))) => match &mut self.merger {
                    Some(merger) => {
                        merger.take(worker, &batch, started.elapsed(), &mut ready);
                        records.give_back(batch);
                    }
                    None => {
                        if let Some(batch) = self.handle(&mut way, batch) {
                            records.give_back(batch);
                        }
                    }
                },
                Err(_) => {
                    if let Some(merger) = &mut self.merger {
                        merger.release(started.elapsed(), &mut ready);
                    }
                }
            }
            self.handle_ready(&mut way, &mut ready);
            if way.reader_gone() {
                stop.request();
            }
        }
        if let Some(merger) = &mut self.merger {
            merger.finish(&mut ready);
            self.handle_ready(&mut way, &mut ready);
        }
        if let Some(waiting) = self.waiting.take() {
            write_sorted(&mut way, waiting, self.options.width);
        }
        let mut collected = Collected {
            top: self.top.finish(),
            faults,
            reader_gone: false,
            outputs: Vec::new(),
            merged: self.merger.as_ref().map_or(0, Merger::merged),
        };
        for (writer, too_slow) in way.finish() {
            collected.reader_gone |= writer.reader_gone;
            let mut written = writer.written();
            written.lost += too_slow;
            written.too_slow = too_slow;
            collected.outputs.push(written);
            collected.faults.extend(writer.faults);
        }
        collected
    }

    fn handle_ready(&mut self, way: &mut Way, ready: &mut RecordBatch) {
        if !ready.records.is_empty() {
            self.handle(way, std::mem::take(ready));
        }
    }

    /// Does with a batch what is to be done; it comes back where it is not needed any more.
    fn handle(&mut self, way: &mut Way, mut batch: RecordBatch) -> Option<RecordBatch> {
        if let Some(anonymiser) = &mut self.options.anonymiser {
            anonymiser.batch(&mut batch);
        }
        for record in &batch.records {
            self.top.show(record);
        }
        match &mut self.waiting {
            Some(waiting) => {
                append(waiting, &mut batch);
                Some(batch)
            }
            None => way.write(batch),
        }
    }

    fn way(&mut self, records: &Returned, faults: &mut Vec<String>) -> Way {
        let mut writers: Vec<Writer> = self
            .outputs
            .drain(..)
            .map(|output| Writer::new(output, &self.watched))
            .collect();
        if writers.len() <= 1 {
            return Way::Here(writers.pop().map(Box::new));
        }
        let wait = self.options.wait;
        let lanes = writers.into_iter().filter_map(|writer| {
            match Lane::start(writer, records.emptied(), wait) {
                Ok(lane) => Some(lane),
                Err(error) => {
                    faults.push(format!("no thread for an output: {error}"));
                    None
                }
            }
        });
        Way::Lanes(lanes.collect())
    }
}

impl Way {
    /// Does something to the output that is written here.
    fn here(&mut self, act: impl FnOnce(&mut dyn Exporter) -> Result<(), ExportError>) {
        if let Self::Here(Some(writer)) = self {
            writer.act(act);
        }
    }

    /// Writes a batch, which comes back at once where it is not needed any more.
    fn write(&mut self, batch: RecordBatch) -> Option<RecordBatch> {
        match self {
            Self::Here(_) => {
                self.here(|exporter| exporter.write(&batch));
                Some(batch)
            }
            Self::Lanes(lanes) => {
                let batch = Arc::new(batch);
                for lane in lanes {
                    lane.write(&batch);
                }
                Arc::into_inner(batch)
            }
        }
    }

    fn reader_gone(&self) -> bool {
        match self {
            Self::Here(writer) => writer.as_ref().is_some_and(|writer| writer.reader_gone),
            Self::Lanes(lanes) => lanes.iter().any(Lane::reader_gone),
        }
    }

    /// Completes all outputs: each writer, and records that found its queue full.
    fn finish(mut self) -> Vec<(Writer, u64)> {
        self.here(|exporter| exporter.finish());
        match self {
            Self::Here(writer) => writer.into_iter().map(|writer| (*writer, 0)).collect(),
            Self::Lanes(lanes) => lanes.into_iter().filter_map(Lane::finish).collect(),
        }
    }
}

fn append(waiting: &mut RecordBatch, batch: &mut RecordBatch) {
    waiting.records.append(&mut batch.records);
    waiting.values.append(&mut batch.values);
    waiting.analyses.append(&mut batch.analyses);
}

fn write_sorted(way: &mut Way, mut waiting: RecordBatch, width: usize) {
    let mut order: Vec<usize> = (0..waiting.records.len()).collect();
    // Stable: records that are alike in all of this come from one table, in its order.
    order.sort_by_key(|&index| {
        let record = &waiting.records[index];
        (record.start_ns, record.key, record.end_ns, record.packets)
    });
    for indices in order.chunks(flow::meter::RECORDS) {
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

/// The flows with most bytes.
struct Top {
    size: usize,
    records: Vec<Record>,
}

impl Top {
    fn show(&mut self, record: &Record) {
        let enters = match self.records.get(self.size.wrapping_sub(1)) {
            Some(least) => bytes(record) > bytes(least),
            None => self.size > 0,
        };
        if enters {
            self.records.push(*record);
            if self.records.len() == self.size || self.records.len() == 2 * self.size {
                self.shorten();
            }
        }
    }

    fn shorten(&mut self) {
        self.records
            .sort_by_key(|record| (Reverse(bytes(record)), record.start_ns, record.key));
        self.records.truncate(self.size);
    }

    fn finish(mut self) -> Vec<Record> {
        self.shorten();
        self.records
    }
}

/// Bytes of both directions.
pub(crate) fn bytes(record: &Record) -> u64 {
    record.bytes[0] + record.bytes[1]
}

/// Packets of both directions.
pub(crate) fn packets(record: &Record) -> u64 {
    record.packets[0] + record.packets[1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::EndReason;

    #[test]
    fn the_largest_flows_come_first_whatever_the_order() {
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
            let mut top = Top {
                size,
                records: Vec::new(),
            };
            for number in 0..100u64 {
                top.show(&record(number * 37 % 101));
            }
            let mut all: Vec<u64> = (0..100).map(|number| number * 37 % 101).collect();
            all.sort_unstable_by_key(|&bytes| Reverse(bytes));
            all.truncate(size);
            assert_eq!(top.finish().iter().map(bytes).collect::<Vec<_>>(), all);
        }
    }
}
