//! A buffer that stays in the cache, filled by reads of large blocks.
//!
//! ```text
//! 0          block_start                              block_start + BLOCK_BYTES
//! |  space for a tail  |  each block is read to here              |
//!               |tail..|block.....................................|
//! ```
//! Each block is read to the same address, whose lines are still in the cache. The incomplete record at
//! the end of the previous block is moved directly before it; no other bytes are copied.

use super::decompress::is_retryable;
use std::io::{self, Read};

/// Bytes per read. The measured optimum for one pass over a file in the page cache: large enough that
/// the system call does not matter, small enough for a core's L2 cache.
pub(super) const BLOCK_BYTES: usize = 256 << 10;

/// The longest tail that fits before `block_start`.
const TAIL_BYTES: usize = 64 << 10;

/// Alignment of `block_start`: a page, since the kernel copies whole pages.
const PAGE_BYTES: usize = 4096;

/// Result of an attempt to read more bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// More bytes are available.
    More,
    /// No bytes yet: the pipe is empty, or a signal interrupted the read.
    Idle,
    /// End of the input.
    End,
}

/// Bytes that were read from `reader` and not consumed yet.
pub(super) struct BlockBuffer<R> {
    reader: R,
    bytes: Vec<u8>,
    /// Where blocks are read to.
    block_start: usize,
    start: usize,
    end: usize,
    /// Total bytes consumed.
    consumed: u64,
    /// Bytes still to skip.
    skip: u64,
    ended: bool,
}

impl<R: Read> BlockBuffer<R> {
    /// Creates an empty buffer for `reader`.
    pub(super) fn new(reader: R) -> Self {
        let bytes = vec![0; TAIL_BYTES + PAGE_BYTES + BLOCK_BYTES];
        let misaligned = bytes.as_ptr().addr() % PAGE_BYTES;
        let block_start = TAIL_BYTES + (PAGE_BYTES - misaligned) % PAGE_BYTES;
        Self {
            reader,
            bytes,
            block_start,
            start: block_start,
            end: block_start,
            consumed: 0,
            skip: 0,
            ended: false,
        }
    }

    /// The bytes available.
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// Consumes `count` bytes, which stay in place until the next [`BlockBuffer::fill`].
    pub(super) fn consume(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        self.start += count;
        self.consumed += count as u64;
    }

    /// Skips the next `count` bytes, available or not.
    pub(super) fn skip(&mut self, count: u64) {
        let available = count.min((self.end - self.start) as u64);
        self.start += available as usize;
        self.consumed += available;
        self.skip += count - available;
    }

    /// Bytes still to skip: call [`BlockBuffer::fill`] until there are none.
    pub(super) fn pending_skip(&self) -> u64 {
        self.skip
    }

    /// Total bytes consumed.
    pub(super) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// The underlying reader.
    pub(super) fn reader(&self) -> &R {
        &self.reader
    }

    /// Reads once. `needed` is the number of contiguous bytes that the caller waits for.
    ///
    /// The buffer grows only as bytes arrive, whatever `needed` claims: at most to twice its size.
    ///
    /// # Errors
    /// The error of the reader; bytes read before stay available.
    pub(super) fn fill(&mut self, needed: usize) -> io::Result<Filled> {
        if self.ended {
            return Ok(Filled::End);
        }
        self.ensure_space(needed);
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
            Err(error) if is_retryable(&error) => Ok(Filled::Idle),
            Err(error) => {
                self.ended = true;
                Err(error)
            }
        }
    }

    /// Makes room for a read after `end`.
    fn ensure_space(&mut self, needed: usize) {
        let available = self.end - self.start;
        let room = (self.block_start + BLOCK_BYTES).saturating_sub(self.end);
        if available == 0 {
            (self.start, self.end) = (self.block_start, self.block_start);
        } else if available <= self.block_start && needed <= available + BLOCK_BYTES {
            // If the reader returns few bytes at a time, moving the tail each time would cost more than
            // cached lines save.
            if room < BLOCK_BYTES / 4 {
                self.move_to(self.block_start - available);
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
