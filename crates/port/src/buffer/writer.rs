//! The writing end of a capture buffer.

use super::block::Block;
use super::shared::Shared;
use crate::frame::{Burst, Counters, PortError};
use rtrb::{Consumer, Producer};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// Copies frames into the buffer in batches: [`BufferWriter::copy`] for each burst,
/// [`BufferWriter::interpolate_times`] if the source does not timestamp each frame, then
/// [`BufferWriter::end_batch`].
pub struct BufferWriter {
    full: Producer<Block>,
    empty: Consumer<Block>,
    shared: Arc<Shared>,
    /// Blocks being filled; the first may begin with frames of the previous batch.
    open: Vec<Block>,
    /// Frames of the first open block that belong to the previous batch.
    previous_batch: usize,
    blocks: usize,
    used_max: usize,
    overflow: [u64; 2],
}

impl BufferWriter {
    pub(super) fn new(
        full: Producer<Block>,
        empty: Consumer<Block>,
        shared: Arc<Shared>,
        blocks: usize,
    ) -> Self {
        Self {
            full,
            empty,
            shared,
            open: Vec::with_capacity(blocks),
            previous_batch: 0,
            blocks,
            used_max: 0,
            overflow: [0; 2],
        }
    }

    /// Copies the frames of `burst` starting at index `first`. Returns the index of the first frame not
    /// copied: less than the burst's length if the buffer is full.
    pub fn copy(&mut self, burst: &Burst<'_>, first: usize) -> usize {
        for (index, frame) in burst.frames.iter().enumerate().skip(first) {
            let fits = self.open.last().is_some_and(|block| {
                block.has_room(frame.bytes.len())
                    && (block.frames.is_empty() || block.link == burst.link)
            });
            if !fits {
                match self.empty.pop() {
                    Ok(block) => self.open.push(block),
                    Err(_) => return index,
                }
            }
            if let Some(block) = self.open.last_mut() {
                block.link = burst.link;
                block.push(frame);
            }
        }
        burst.frames.len()
    }

    /// Counts the frames of `burst` starting at index `first` as overflow.
    pub fn count_overflow(&mut self, burst: &Burst<'_>, first: usize) {
        for frame in &burst.frames[first..] {
            self.overflow[0] += 1;
            self.overflow[1] += u64::from(frame.wire_length);
        }
    }

    /// Spaces the timestamps of the batch evenly over the interval in which it arrived: after
    /// `after_ns`, the last frame at `until_ns` (the correction of DPDKStat). The error of a timestamp
    /// is less than the interval. Returns the number of frames of the batch.
    pub fn interpolate_times(&mut self, after_ns: i64, until_ns: i64) -> usize {
        let skip = self.previous_batch;
        let frames = self.batch_frames();
        let span = i128::from(until_ns) - i128::from(after_ns);
        let blocks = self.open.iter_mut();
        let stored = blocks.flat_map(|block| block.frames.iter_mut()).skip(skip);
        for (frame, number) in stored.zip(1i128..) {
            frame.time_ns = after_ns + (span * number / frames as i128) as i64;
        }
        frames
    }

    /// Number of frames of the batch so far.
    #[must_use]
    pub fn batch_frames(&self) -> usize {
        let all: usize = self.open.iter().map(|block| block.frames.len()).sum();
        all - self.previous_batch
    }

    /// Ends the batch and publishes its full blocks. A partly filled block is published too if `flush`
    /// is set or the reader has no other block.
    pub fn end_batch(&mut self, flush: bool) {
        let publish_partial = flush || self.unread() == 0;
        let keep = usize::from(!publish_partial && !self.open.is_empty());
        let full = self.open.len() - keep;
        for block in self.open.drain(..full) {
            // Cannot fail: the ring holds all blocks.
            let _ = self.full.push(block);
        }
        self.previous_batch = self.open.first().map_or(0, |block| block.frames.len());
        self.used_max = self
            .used_max
            .max(self.unread() + self.open.len())
            .min(self.blocks);
    }

    /// Number of published blocks that the reader has not popped.
    fn unread(&self) -> usize {
        self.blocks - self.full.slots()
    }

    /// Number of blocks, and the maximum in use after a batch.
    #[must_use]
    pub fn usage(&self) -> (usize, usize) {
        (self.blocks, self.used_max)
    }

    /// Frames and their bytes on the wire that did not fit.
    #[must_use]
    pub fn overflow(&self) -> [u64; 2] {
        self.overflow
    }

    /// Whether the reader has stopped.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    /// Whether the reader was dropped.
    #[must_use]
    pub fn is_reader_gone(&self) -> bool {
        self.full.is_abandoned()
    }

    /// Publishes the counters of the source port to the reader.
    pub fn publish_counters(&self, counters: &Counters) {
        let shared = self.shared.counters.lock();
        *shared.unwrap_or_else(PoisonError::into_inner) = Counters {
            overflow: self.overflow[0],
            overflow_bytes: self.overflow[1],
            ..*counters
        };
    }

    /// Passes a fault of the source port on to the reader.
    pub fn report_fault(&self, fault: String) {
        let faults = self.shared.faults.lock();
        faults
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(fault);
    }

    /// Passes the error that ended the source port on to the reader.
    pub fn report_error(&self, error: PortError) {
        let shared = self.shared.error.lock();
        *shared.unwrap_or_else(PoisonError::into_inner) = Some(error);
    }
}

impl Drop for BufferWriter {
    /// Publishes partly filled blocks and marks the end for the reader.
    fn drop(&mut self) {
        self.end_batch(true);
        self.shared.ended.store(true, Ordering::Release);
    }
}
