//! The end of a buffer that is written.

use super::Shared;
use super::block::Block;
use crate::frame::{Burst, Counters, PortError};
use rtrb::{Consumer, Producer};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// Copies frames into the buffer, a batch at a time: [`BufferWriter::copy`] the bursts of the batch,
/// [`BufferWriter::interpolate`] their times if nobody took them, [`BufferWriter::hand_over`].
pub struct BufferWriter {
    full: Producer<Block>,
    empty: Consumer<Block>,
    shared: Arc<Shared>,
    /// Blocks that are being filled; the first may hold frames of the batch before.
    open: Vec<Block>,
    /// Frames of the first open block that belong to the batch before.
    stamped: usize,
    blocks: usize,
    used_most: usize,
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
            stamped: 0,
            blocks,
            used_most: 0,
            overflow: [0; 2],
        }
    }

    /// Copies the frames of `burst` from number `first` on; tells how many of the burst have been
    /// dealt with: fewer than there are when the buffer is full.
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

    /// Counts the frames of `burst` from number `first` on as lost.
    pub fn overflow(&mut self, burst: &Burst<'_>, first: usize) {
        for frame in &burst.frames[first..] {
            self.overflow[0] += 1;
            self.overflow[1] += u64::from(frame.wire_length);
        }
    }

    /// Spreads the times of the batch's frames evenly over the time in which they came: after
    /// `after_ns`, the last of them at `until_ns` (DPDKStat's correction). A frame's time is wrong by
    /// less than the difference of the two. Tells how many frames the batch has.
    pub fn interpolate(&mut self, after_ns: i64, until_ns: i64) -> usize {
        let skip = self.stamped;
        let frames = self.batch_frames();
        let span = i128::from(until_ns) - i128::from(after_ns);
        let blocks = self.open.iter_mut();
        let stored = blocks.flat_map(|block| block.frames.iter_mut()).skip(skip);
        for (frame, place) in stored.zip(1i128..) {
            frame.time_ns = after_ns + (span * place / frames as i128) as i64;
        }
        frames
    }

    /// Frames of the batch so far.
    #[must_use]
    pub fn batch_frames(&self) -> usize {
        let all: usize = self.open.iter().map(|block| block.frames.len()).sum();
        all - self.stamped
    }

    /// Ends the batch: full blocks are handed over, and one that is begun when the reader has
    /// nothing else or `all` is said.
    pub fn hand_over(&mut self, all: bool) {
        let starving = all || self.waiting() == 0;
        let keep = usize::from(!starving && !self.open.is_empty());
        let going = self.open.len() - keep;
        for block in self.open.drain(..going) {
            // The ring holds all blocks that there are.
            let _ = self.full.push(block);
        }
        self.stamped = self.open.first().map_or(0, |block| block.frames.len());
        self.used_most = self
            .used_most
            .max(self.waiting() + self.open.len())
            .min(self.blocks);
    }

    /// Blocks that the reader has not taken.
    fn waiting(&self) -> usize {
        self.blocks - self.full.slots()
    }

    /// Blocks there are, and the most that were in use after a batch.
    #[must_use]
    pub fn usage(&self) -> (usize, usize) {
        (self.blocks, self.used_most)
    }

    /// Frames and bytes on the wire for which there was no room.
    #[must_use]
    pub fn lost(&self) -> [u64; 2] {
        self.overflow
    }

    /// Whether the reader wants no more.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    /// Whether the reader has gone.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.full.is_abandoned()
    }

    /// Shows the reader the counters of the port that is emptied.
    pub fn show(&self, counters: &Counters) {
        let shown = self.shared.counters.lock();
        *shown.unwrap_or_else(PoisonError::into_inner) = Counters {
            overflow: self.overflow[0],
            overflow_bytes: self.overflow[1],
            ..*counters
        };
    }

    /// Tells the reader of a fault.
    pub fn tell(&self, fault: String) {
        let faults = self.shared.faults.lock();
        faults
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(fault);
    }

    /// Tells the reader why the port could not go on.
    pub fn fail(&self, error: PortError) {
        let place = self.shared.error.lock();
        *place.unwrap_or_else(PoisonError::into_inner) = Some(error);
    }
}

impl Drop for BufferWriter {
    /// What is begun is handed over, and the reader told that there will be no more.
    fn drop(&mut self) {
        self.hand_over(true);
        self.shared.ended.store(true, Ordering::Release);
    }
}
