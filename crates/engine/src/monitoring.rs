//! The counting half of a model that hands packets on: batches come over a ring and are metered.

use crate::options::Seat;
use crate::output::Records;
use crate::pace::{Pace, Patience};
use crate::progress::Progress;
use crate::receive::PUBLISH_MS;
use crate::report::{QueueReport, Worked};
use crate::sending::Message;
use flow::{Batch, Meter};
use rtrb::{Consumer, PopError, Producer};

/// A monitor.
pub(crate) struct Monitor<'a> {
    pub(crate) name: String,
    /// Number of its place in the progress.
    pub(crate) place: usize,
    pub(crate) full: Consumer<Message>,
    pub(crate) empty: Producer<Box<Batch>>,
    pub(crate) live: bool,
    pub(crate) progress: &'a Progress,
}

impl Monitor<'_> {
    /// The task of a monitor.
    pub(crate) async fn run(
        mut self,
        mut meter: Meter,
        mut records: Records,
        seat: Seat,
        pace: Pace,
    ) -> Worked {
        let place = self.progress.queues.get(self.place);
        let mut patience = Patience::default();
        let (mut clock_ms, mut shown_ms) = (0u32, 0u32);
        loop {
            match self.full.pop() {
                Ok(Message::Packets(batch)) => {
                    patience.reset();
                    meter.process(&batch, &mut records);
                    clock_ms = batch
                        .packets()
                        .last()
                        .map_or(clock_ms, |packet| packet.clock_ms);
                    // With no room left on the way back, the batch is let go.
                    let _ = self.empty.push(batch);
                }
                Ok(Message::Clock(now_ms)) => {
                    clock_ms = now_ms;
                    meter.advance_idle(clock_ms, &mut records);
                    meter.flush(&mut records);
                }
                Ok(Message::End(end_ms)) => {
                    clock_ms = end_ms;
                    break;
                }
                // The receiver has gone without an end. The ring is looked at once more: it may have
                // pushed between the pop and its going.
                Err(PopError::Empty) if self.full.is_abandoned() && self.full.is_empty() => break,
                Err(PopError::Empty) => pace.wait(&mut patience).await,
            }
            if clock_ms.wrapping_sub(shown_ms) >= PUBLISH_MS {
                shown_ms = clock_ms;
                if self.live {
                    meter.flush_after(clock_ms, &mut records);
                }
                if let Some(place) = place {
                    place.show_meter(&mut meter);
                }
            }
        }
        records.wait_from_now_on();
        meter.finish(clock_ms, &mut records);
        if let Some(place) = place {
            place.show_meter(&mut meter);
        }
        let queue = QueueReport {
            name: self.name,
            flows: meter.counters(),
            ..seat.report()
        };
        let mut worked = Worked {
            queue,
            memory_bytes: meter.memory_bytes(),
            ..Worked::default()
        };
        worked.told.faults.extend(seat.fault);
        worked
    }
}
