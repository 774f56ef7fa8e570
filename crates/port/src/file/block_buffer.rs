//! One buffer that stays in the cache, filled by readings of large blocks.
//!
//! ```text
//! 0            landing                                   landing + BLOCK_BYTES
//! |   room for a tail  |  each block is read to here              |
//!               |tail..|block.....................................|
//! ```
//! Each block lands at the same place, so its lines are still in the cache, and what is left of the block
//! before (an incomplete record) is moved right before it: the only bytes that are ever copied.

use super::decompress::is_pause;
use std::io::{self, Read};

/// Bytes asked for at a time. The measured best for one pass over a file in the page cache: large
/// enough that the call does not matter, small enough to stay in a core's own cache.
pub(super) const BLOCK_BYTES: usize = 256 << 10;

/// The longest tail that needs no other treatment.
const TAIL_BYTES: usize = 64 << 10;

/// Alignment of the place where blocks land: a page, since the kernel copies whole pages.
const PAGE_BYTES: usize = 4096;

/// What came of an attempt to get more bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// There is more than before.
    More,
    /// Nothing yet: a pipe is silent, or a signal came.
    Idle,
    /// The input has ended.
    End,
}

/// Bytes of `reader` that have been read and not yet consumed.
pub(super) struct BlockBuffer<R> {
    reader: R,
    bytes: Vec<u8>,
    /// Where blocks land.
    landing: usize,
    start: usize,
    end: usize,
    /// Bytes consumed, all told.
    consumed: u64,
    /// Bytes still to be thrown away before anything else.
    skip: u64,
    ended: bool,
}

impl<R: Read> BlockBuffer<R> {
    /// An empty buffer before `reader`.
    pub(super) fn new(reader: R) -> Self {
        let bytes = vec![0; TAIL_BYTES + PAGE_BYTES + BLOCK_BYTES];
        let misaligned = bytes.as_ptr().addr() % PAGE_BYTES;
        let landing = TAIL_BYTES + (PAGE_BYTES - misaligned) % PAGE_BYTES;
        Self {
            reader,
            bytes,
            landing,
            start: landing,
            end: landing,
            consumed: 0,
            skip: 0,
            ended: false,
        }
    }

    /// The bytes that are there.
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// Takes `count` of the bytes, which stay where they are until the next [`BlockBuffer::fill`].
    pub(super) fn consume(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        self.start += count;
        self.consumed += count as u64;
    }

    /// Throws away the next `count` bytes, whether they are there yet or not.
    pub(super) fn skip(&mut self, count: u64) {
        let there = count.min((self.end - self.start) as u64);
        self.start += there as usize;
        self.consumed += there;
        self.skip += count - there;
    }

    /// Bytes still to be skipped; [`BlockBuffer::fill`] has to be called until there are none.
    pub(super) fn to_skip(&self) -> u64 {
        self.skip
    }

    /// Bytes consumed since the start.
    pub(super) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// What is read from.
    pub(super) fn reader(&self) -> &R {
        &self.reader
    }

    /// Reads once, so that there is more, up to `needed` bytes if so much has to be there together.
    ///
    /// The buffer grows only as bytes come, whatever `needed` claims: twice the bytes that are there at
    /// the most.
    ///
    /// # Errors
    /// What the reader fails with; what came before is there.
    pub(super) fn fill(&mut self, needed: usize) -> io::Result<Filled> {
        if self.ended {
            return Ok(Filled::End);
        }
        self.make_room(needed);
        let until = self.bytes.len().min(self.end + BLOCK_BYTES);
        match self.reader.read(&mut self.bytes[self.end..until]) {
            Ok(0) => {
                self.ended = true;
                Ok(Filled::End)
            }
            Ok(count) => {
                self.end += count;
                let skip = std::mem::take(&mut self.skip);
                self.skip(skip);
                Ok(Filled::More)
            }
            Err(error) if is_pause(&error) => Ok(Filled::Idle),
            Err(error) => {
                self.ended = true;
                Err(error)
            }
        }
    }

    /// Makes room after `end`.
    fn make_room(&mut self, needed: usize) {
        let have = self.end - self.start;
        let room = (self.landing + BLOCK_BYTES).saturating_sub(self.end);
        if have == 0 {
            (self.start, self.end) = (self.landing, self.landing);
        } else if have <= self.landing && needed <= have + BLOCK_BYTES {
            // Where a reader gives little at a time, moving the tail each time would cost more than
            // the cache gains.
            if room < BLOCK_BYTES / 4 {
                self.move_to(self.landing - have);
            }
        } else {
            if self.start > 0 && self.start + needed > self.bytes.len() {
                self.move_to(0);
            }
            if self.end == self.bytes.len() {
                let length = needed.min(self.bytes.len() * 2).max(self.end + BLOCK_BYTES);
                self.bytes.resize(length, 0);
            }
        }
    }

    fn move_to(&mut self, start: usize) {
        self.bytes.copy_within(self.start..self.end, start);
        self.end = start + (self.end - self.start);
        self.start = start;
    }
}
