//! A monitor of the pipeline and cooperative models: receives batches over a ring and measures them.

use crate::dispatcher::Message;
use crate::executor::{Backoff, Executor};
use crate::measurement::{MeasurementSet, Packets};
use crate::progress::Progress;
use crate::receiver::PUBLISH_MS;
use crate::record_channel::RecordSender;
use crate::report::{QueueReport, ThreadResult};
use crate::thread::ThreadPlacement;
use flow::Batch;
use rtrb::{Consumer, PopError, Producer};

/// A monitor and its ends of the rings to its dispatcher.
pub(crate) struct Monitor<'a> {
    pub(crate) name: String,
    /// Index in [`Progress::queues`].
    pub(crate) progress_index: usize,
    pub(crate) messages: Consumer<Message>,
    pub(crate) recycled: Producer<Box<Batch>>,
    /// Whether packets come from a link.
    pub(crate) live: bool,
    pub(crate) progress: &'a Progress,
}

impl Monitor<'_> {
    /// Measures batches until the dispatcher ends, then flushes all flows.
    pub(crate) async fn run(
        mut self,
        mut measurements: MeasurementSet,
        mut records: RecordSender,
        placement: ThreadPlacement,
        executor: Executor,
    ) -> ThreadResult {
        let queue = self.progress.queues.get(self.progress_index);
        let mut backoff = Backoff::default();
        let (mut clock_ms, mut published_ms) = (0u32, 0u32);
        loop {
            match self.messages.pop() {
                Ok(Message::Packets(batch)) => {
                    backoff.reset();
                    let packets = Packets {
                        batch: &batch,
                        frames: None,
                    };
                    measurements.process(&packets, &mut records);
                    clock_ms = batch
                        .packets()
                        .last()
                        .map_or(clock_ms, |packet| packet.clock_ms);
                    // If the ring is full, the batch is dropped.
                    let _ = self.recycled.push(batch);
                }
                Ok(Message::Clock(now_ms)) => {
                    clock_ms = now_ms;
                    measurements.idle(Some(clock_ms), &mut records);
                }
                Ok(Message::End(end_ms)) => {
                    clock_ms = end_ms;
                    break;
                }
                // The receiver is gone without an end message. Check the ring once more: the receiver may
                // have pushed between the pop and its exit.
                Err(PopError::Empty)
                    if self.messages.is_abandoned() && self.messages.is_empty() =>
                {
                    break;
                }
                Err(PopError::Empty) => executor.back_off(&mut backoff).await,
            }
            if clock_ms.wrapping_sub(published_ms) >= PUBLISH_MS {
                published_ms = clock_ms;
                if self.live {
                    measurements.flush_after(clock_ms, &mut records);
                }
                if let Some(queue) = queue {
                    queue.update_measurements(&mut measurements);
                }
            }
        }
        records.set_blocking();
        measurements.finish(clock_ms, &mut records);
        if let Some(queue) = queue {
            queue.update_measurements(&mut measurements);
        }
        let report = QueueReport {
            name: self.name,
            flows: measurements.counters(),
            ..placement.report()
        };
        let mut result = ThreadResult {
            queue: report,
            memory_bytes: measurements.memory_bytes(),
            findings: measurements.report(None),
            ..ThreadResult::default()
        };
        result.port_faults.messages.extend(placement.fault);
        result
    }
}
