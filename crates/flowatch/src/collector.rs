//! The thread that takes records: it writes them, and remembers what the summary shows.

use engine::merge::{MergeOptions, Merger};
use engine::{Returned, Stop};
use export::{ExportError, Exporter};
use flow::{Record, RecordBatch};
use std::cmp::Reverse;
use std::time::{Duration, Instant};

/// How long a record waits in an output that gathers them.
const FLUSH_EVERY: Duration = Duration::from_millis(500);

/// An output and its name in messages.
pub(crate) struct Output {
    pub(crate) name: String,
    pub(crate) exporter: Box<dyn Exporter>,
}

/// What is done with records.
pub(crate) struct Collector {
    outputs: Vec<Output>,
    /// Records wait here when they are to be sorted.
    waiting: Option<RecordBatch>,
    /// Statistics in a record.
    width: usize,
    /// Joins records of one flow from several queues of a link.
    merger: Option<Merger>,
    top: Top,
    faults: Vec<String>,
    /// A reader of an output has gone.
    reader_gone: bool,
}

/// What became of the records.
pub(crate) struct Collected {
    /// The largest flows.
    pub(crate) top: Vec<Record>,
    /// Faults of outputs.
    pub(crate) faults: Vec<String>,
    /// Whether a reader of an output has gone.
    pub(crate) reader_gone: bool,
    /// Name, records written and records lost of each output.
    pub(crate) outputs: Vec<(String, u64, u64)>,
    /// Records of one flow from two queues that became one.
    pub(crate) merged: u64,
}

impl Collector {
    /// `width`: statistics in a record. `sort`: records are held back, and written in order.
    pub(crate) fn new(outputs: Vec<Output>, width: usize, sort: bool, top: usize) -> Self {
        Self {
            outputs,
            waiting: sort.then(RecordBatch::default),
            width,
            merger: None,
            top: Top {
                size: top,
                records: Vec::with_capacity(2 * top),
            },
            faults: Vec::new(),
            reader_gone: false,
        }
    }

    /// Has records of one flow from several queues joined.
    pub(crate) fn merging(mut self, options: Option<MergeOptions>) -> Self {
        self.merger = options.map(Merger::new);
        self
    }

    /// Takes records until there are no more. When a reader has gone, it asks the run to stop.
    pub(crate) fn run(mut self, records: &Returned, stop: &Stop) -> Collected {
        let (started, mut flushed) = (Instant::now(), Instant::now());
        let mut ready = RecordBatch::default();
        loop {
            if flushed.elapsed() >= FLUSH_EVERY {
                flushed = Instant::now();
                self.each(|exporter| exporter.flush());
            }
            match records.next_of_worker_within(FLUSH_EVERY) {
                Ok(None) => break,
                Ok(Some((worker, batch))) => {
                    match &mut self.merger {
                        Some(merger) => {
                            merger.take(worker, &batch, started.elapsed(), &mut ready);
                        }
                        None => self.handle(&batch),
                    }
                    records.give_back(batch);
                }
                Err(_) => {
                    if let Some(merger) = &mut self.merger {
                        merger.release(started.elapsed(), &mut ready);
                    }
                }
            }
            self.handle_ready(&mut ready);
            if self.reader_gone {
                stop.request();
            }
        }
        if let Some(merger) = &mut self.merger {
            merger.finish(&mut ready);
            self.handle_ready(&mut ready);
        }
        if let Some(waiting) = self.waiting.take() {
            self.write_sorted(&waiting);
        }
        self.each(|exporter| exporter.finish());
        Collected {
            top: self.top.finish(),
            faults: self.faults,
            merged: self.merger.as_ref().map_or(0, Merger::merged),
            reader_gone: self.reader_gone,
            outputs: self
                .outputs
                .iter()
                .map(|output| {
                    (
                        output.name.clone(),
                        output.exporter.written(),
                        output.exporter.lost(),
                    )
                })
                .collect(),
        }
    }

    fn handle_ready(&mut self, ready: &mut RecordBatch) {
        if !ready.records.is_empty() {
            self.handle(ready);
            *ready = RecordBatch::default();
        }
    }

    fn handle(&mut self, batch: &RecordBatch) {
        for record in &batch.records {
            self.top.show(record);
        }
        match &mut self.waiting {
            Some(waiting) => {
                waiting.records.extend_from_slice(&batch.records);
                waiting.values.extend_from_slice(&batch.values);
                waiting.analyses.extend_from_slice(&batch.analyses);
            }
            None => self.each(|exporter| exporter.write(batch)),
        }
    }

    fn write_sorted(&mut self, waiting: &RecordBatch) {
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
                let values = index * self.width..(index + 1) * self.width;
                batch.values.extend_from_slice(&waiting.values[values]);
                batch.analyses.extend(waiting.analyses.get(index).cloned());
            }
            self.each(|exporter| exporter.write(&batch));
        }
    }

    /// Does the same to each output; the first fault of each is remembered in words.
    fn each(&mut self, act: impl Fn(&mut dyn Exporter) -> Result<(), ExportError>) {
        for output in &mut self.outputs {
            if let Err(error) = act(output.exporter.as_mut()) {
                if error.is_broken_pipe() {
                    self.reader_gone = true;
                } else if !self.faults.contains(&error.to_string()) {
                    self.faults.push(error.to_string());
                }
            }
        }
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
