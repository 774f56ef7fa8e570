//! A pool of buffers that frames are written into and lent out from: what a port in memory has in
//! place of a device's buffers.

use crate::frame::{BURST, Frame};
use crate::frame_list::FrameList;
use hw::memory::HugeSlice;
use std::io;
use std::num::NonZeroU32;

/// What is said of a frame besides its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said {
    /// Nanoseconds since the Unix epoch.
    pub time_ns: i64,
    /// Bytes of the frame in the pool.
    pub length: u32,
    /// Length on the wire.
    pub wire_length: u32,
    /// The device's hash, where it has made one.
    pub rss_hash: Option<NonZeroU32>,
}

/// Buffers of one size, used in turn as those of a device are.
pub struct FramePool {
    bytes: HugeSlice<u8>,
    buffer_bytes: usize,
    buffers: usize,
    /// The buffer that is written next.
    next: usize,
    /// Where the frames that are written and not lent yet begin, and what is said of them.
    first: usize,
    said: Vec<Said>,
    list: FrameList,
}

impl FramePool {
    /// `buffers` buffers (at least a burst of them) of `buffer_bytes` each.
    ///
    /// # Errors
    /// When the machine has no room for them.
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
            first: 0,
            said: Vec::with_capacity(BURST),
            list: FrameList::default(),
        })
    }

    /// Takes memory of all buffers from the machine now, not when they are first written; as
    /// [`HugeSlice::populate`] does it.
    pub fn populate(&self) {
        self.bytes.populate();
    }

    /// Bytes of a buffer.
    #[must_use]
    pub const fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    /// Writes a frame into the next buffer; it is lent with the next [`FramePool::lend`]. With
    /// `cold`, its bytes are sent out of the caches. A frame longer than a buffer is cut, and of a
    /// burst that is full no more are taken.
    ///
    /// Returns whether it was taken.
    pub fn write(&mut self, frame: &[u8], mut said: Said, cold: bool) -> bool {
        if self.said.len() == BURST {
            return false;
        }
        let length = frame.len().min(self.buffer_bytes);
        let at = self.next * self.buffer_bytes;
        let place = &mut self.bytes[at..at + length];
        place.copy_from_slice(&frame[..length]);
        if cold {
            hw::cache::flush(place);
        }
        said.length = length as u32;
        self.said.push(said);
        self.next = (self.next + 1) % self.buffers;
        true
    }

    /// Frames that are written and not lent yet.
    #[must_use]
    pub fn written(&self) -> usize {
        self.said.len()
    }

    /// Lends the frames that were written since the last time, in their order, until the pool is
    /// written again.
    pub fn lend(&mut self) -> &[Frame<'_>] {
        let count = self.said.len();
        {
            // SAFETY: the frames' bytes lie in `self.bytes`, which is written and moved through
            // `&mut self` only; the frames are lent as long as `self` is borrowed, and the list is
            // written anew before it is lent again.
            let room = unsafe { self.list.borrow() };
            let mut buffer = self.first;
            for (frame, said) in room.iter_mut().zip(&self.said) {
                let at = buffer * self.buffer_bytes;
                *frame = Frame {
                    bytes: &self.bytes[at..at + said.length as usize],
                    time_ns: said.time_ns,
                    wire_length: said.wire_length,
                    rss_hash: said.rss_hash,
                };
                buffer += 1;
                if buffer == self.buffers {
                    buffer = 0;
                }
            }
        }
        self.said.clear();
        self.first = self.next;
        self.list.first(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_lent_as_they_were_written_round_and_round_the_pool() {
        let mut pool = FramePool::new(300, 64).unwrap();
        let mut number = 0u32;
        for burst in [1, 255, 256, 100, 7, 256] {
            let begun = number;
            for _ in 0..burst {
                let said = Said {
                    time_ns: i64::from(number),
                    wire_length: number,
                    rss_hash: NonZeroU32::new(number),
                    ..Said::default()
                };
                assert!(pool.write(&number.to_le_bytes(), said, number.is_multiple_of(2)));
                number += 1;
            }
            assert_eq!(pool.written(), burst);
            let frames = pool.lend();
            assert_eq!(frames.len(), burst);
            for (frame, expected) in frames.iter().zip(begun..) {
                assert_eq!(frame.bytes, expected.to_le_bytes());
                assert_eq!(frame.time_ns, i64::from(expected));
                assert_eq!(frame.rss_hash, NonZeroU32::new(expected));
            }
            assert_eq!(pool.written(), 0);
        }
        assert!(pool.lend().is_empty());
    }

    #[test]
    fn a_burst_is_full_and_a_long_frame_is_cut() {
        let mut pool = FramePool::new(0, 4).unwrap();
        let taken = (0..BURST + 5)
            .filter(|_| pool.write(&[9; 10], Said::default(), false))
            .count();
        assert_eq!(taken, BURST);
        assert!(pool.lend().iter().all(|frame| frame.bytes == [9; 4]));
    }

    #[test]
    fn taking_memory_leaves_frames_as_they_were_written() {
        let mut pool = FramePool::new(BURST, 4096).unwrap();
        for number in 0..BURST {
            assert!(pool.write(&[number as u8 | 1; 60], Said::default(), false));
        }
        pool.populate();
        for (number, frame) in pool.lend().iter().enumerate() {
            assert_eq!(frame.bytes, [number as u8 | 1; 60]);
        }
    }
}
