//! A pool of frame buffers for ports in memory, in place of a device's buffers.

use crate::frame::{BURST, Frame};
use crate::frame_list::FrameList;
use hw::memory::HugeSlice;
use std::io;
use std::num::NonZeroU32;

/// Metadata of a frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrameMeta {
    /// Timestamp in nanoseconds since the Unix epoch.
    pub time_ns: i64,
    /// Captured length: bytes of the frame in the pool.
    pub length: u32,
    /// Length on the wire in bytes.
    pub wire_length: u32,
    /// RSS hash, if there is one.
    pub rss_hash: Option<NonZeroU32>,
}

/// Buffers of one size, used round-robin as a device does.
pub struct FramePool {
    bytes: HugeSlice<u8>,
    buffer_bytes: usize,
    buffers: usize,
    /// The next buffer to write.
    next: usize,
    /// The buffer of the first pending frame: written, and not returned by `take_burst` yet.
    first_pending: usize,
    /// Metadata of the pending frames.
    pending: Vec<FrameMeta>,
    list: FrameList,
}

impl FramePool {
    /// Creates a pool of `buffers` buffers (at least a burst) of `buffer_bytes` bytes.
    ///
    /// # Errors
    /// If memory is exhausted.
    pub fn new(buffers: usize, buffer_bytes: usize) -> io::Result<Self> {
        let buffers = buffers.max(BURST);
        let total = buffers
            .checked_mul(buffer_bytes)
            .ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            bytes: HugeSlice::try_zeroed(total)?,
            buffer_bytes,
            buffers,
            next: 0,
            first_pending: 0,
            pending: Vec::with_capacity(BURST),
            list: FrameList::default(),
        })
    }

    /// Faults in the memory of all buffers now instead of at the first write, with
    /// [`HugeSlice::populate`].
    pub fn populate(&self) {
        self.bytes.populate();
    }

    /// Size of a buffer in bytes.
    #[must_use]
    pub const fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    /// Writes a frame to the next buffer, to be returned by the next [`FramePool::take_burst`]. With
    /// `cold`, its bytes are flushed from the caches. A frame longer than a buffer is truncated.
    ///
    /// Returns whether it was written: not if a burst of frames is pending already.
    pub fn write(&mut self, frame: &[u8], mut meta: FrameMeta, cold: bool) -> bool {
        if self.pending.len() == BURST {
            return false;
        }
        let length = frame.len().min(self.buffer_bytes);
        let at = self.next * self.buffer_bytes;
        let buffer = &mut self.bytes[at..at + length];
        buffer.copy_from_slice(&frame[..length]);
        if cold {
            hw::cache::flush(buffer);
        }
        meta.length = length as u32;
        self.pending.push(meta);
        self.next = (self.next + 1) % self.buffers;
        true
    }

    /// Number of frames written and not returned yet.
    #[must_use]
    pub fn pending_frames(&self) -> usize {
        self.pending.len()
    }

    /// Returns the pending frames in order. They are valid until the next write to the pool.
    pub fn take_burst(&mut self) -> &[Frame<'_>] {
        let count = self.pending.len();
        {
            // SAFETY: the frames' bytes are in `self.bytes`, which only `&mut self` writes or moves.
            // The frames are returned with a borrow of `self`, and the list is overwritten before it is
            // returned again.
            let list = unsafe { self.list.slots() };
            let mut buffer = self.first_pending;
            for (frame, meta) in list.iter_mut().zip(&self.pending) {
                let at = buffer * self.buffer_bytes;
                *frame = Frame {
                    bytes: &self.bytes[at..at + meta.length as usize],
                    time_ns: meta.time_ns,
                    wire_length: meta.wire_length,
                    rss_hash: meta.rss_hash,
                };
                buffer += 1;
                if buffer == self.buffers {
                    buffer = 0;
                }
            }
        }
        self.pending.clear();
        self.first_pending = self.next;
        self.list.first(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_returned_as_written_when_the_pool_wraps_around() {
        let mut pool = FramePool::new(300, 64).unwrap();
        let mut number = 0u32;
        for burst in [1, 255, 256, 100, 7, 256] {
            let first = number;
            for _ in 0..burst {
                let meta = FrameMeta {
                    time_ns: i64::from(number),
                    wire_length: number,
                    rss_hash: NonZeroU32::new(number),
                    ..FrameMeta::default()
                };
                assert!(pool.write(&number.to_le_bytes(), meta, number.is_multiple_of(2)));
                number += 1;
            }
            assert_eq!(pool.pending_frames(), burst);
            let frames = pool.take_burst();
            assert_eq!(frames.len(), burst);
            for (frame, expected) in frames.iter().zip(first..) {
                assert_eq!(frame.bytes, expected.to_le_bytes());
                assert_eq!(frame.time_ns, i64::from(expected));
                assert_eq!(frame.rss_hash, NonZeroU32::new(expected));
            }
            assert_eq!(pool.pending_frames(), 0);
        }
        assert!(pool.take_burst().is_empty());
    }

    #[test]
    fn full_burst_rejects_frames_and_long_frames_are_truncated() {
        let mut pool = FramePool::new(0, 4).unwrap();
        let written = (0..BURST + 5)
            .filter(|_| pool.write(&[9; 10], FrameMeta::default(), false))
            .count();
        assert_eq!(written, BURST);
        assert!(pool.take_burst().iter().all(|frame| frame.bytes == [9; 4]));
    }

    #[test]
    fn populate_keeps_written_frames() {
        let mut pool = FramePool::new(BURST, 4096).unwrap();
        for number in 0..BURST {
            assert!(pool.write(&[number as u8 | 1; 60], FrameMeta::default(), false));
        }
        pool.populate();
        for (number, frame) in pool.take_burst().iter().enumerate() {
            assert_eq!(frame.bytes, [number as u8 | 1; 60]);
        }
    }
}
