//! Reassembly of handshakes that span packets. Segments may arrive in any order.

use crate::progress::Progress;
use hw::pool::{FreeListNode, Pool};
use std::io;
use wire::work;

/// The most byte ranges of a stream, with gaps between them. Some QUIC clients cut a ClientHello into
/// many CRYPTO frames and shuffle them.
pub(crate) const RANGES_MAX: usize = 64;

/// The most byte ranges of a TCP stream. If there are more, the bytes between them are lost rather
/// than late, and the stream should not wait for them.
pub(crate) const TCP_RANGES_MAX: usize = 8;

/// The most bytes of a stream: a [`ByteRange`] has 16-bit offsets.
const STREAM_MAX: u32 = u16::MAX as u32;

/// Bytes `start..end` of the stream were received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ByteRange {
    start: u16,
    end: u16,
}

/// A reassembly buffer: the received ranges of a stream.
#[derive(Debug)]
pub(crate) struct ReassemblyBuffer {
    /// Sequence number or offset of the first byte, modulo 2^32.
    pub(crate) base: u32,
    /// The stream that has the buffer.
    owner: Owner,
    /// Handle of the next less recently used buffer, 0 if there is none.
    older: u16,
    /// Handle of the next more recently used buffer, 0 if there is none.
    newer: u16,
    /// Its bytes in [`ReassemblyPool::bytes_held`], also while they are taken out.
    accounted: u32,
    bytes: Vec<u8>,
    /// Sorted; they neither overlap nor touch.
    ranges: [ByteRange; RANGES_MAX],
    ranges_count: u8,
    /// The most ranges of this stream.
    ranges_max: u8,
    /// How far the parser is in the message at the base.
    pub(crate) progress: Progress,
}

impl Default for ReassemblyBuffer {
    fn default() -> Self {
        Self {
            base: 0,
            owner: Owner::default(),
            older: 0,
            newer: 0,
            accounted: 0,
            bytes: Vec::new(),
            ranges: [ByteRange::default(); RANGES_MAX],
            ranges_count: 0,
            ranges_max: RANGES_MAX as u8,
            progress: Progress::NONE,
        }
    }
}

impl FreeListNode for ReassemblyBuffer {
    fn next_free(&mut self) -> &mut u32 {
        &mut self.base
    }
}

/// The bytes did not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BufferFull;

impl ReassemblyBuffer {
    /// Inserts bytes at `offset` from the base. Bytes that were received before are not overwritten.
    ///
    /// # Errors
    /// If they end after `max`, or if there are too many ranges.
    pub(crate) fn insert(&mut self, offset: u32, bytes: &[u8], max: u32) -> Result<(), BufferFull> {
        let end = u32::try_from(bytes.len())
            .ok()
            .and_then(|length| offset.checked_add(length))
            .filter(|&end| end <= max.min(STREAM_MAX))
            .ok_or(BufferFull)?;
        let (offset, end) = (offset as u16, end as u16);
        if bytes.is_empty() {
            return Ok(());
        }
        work::count(bytes.len());
        let count = usize::from(self.ranges_count);
        let ranges = &self.ranges[..count];
        // Merge the ranges that the new one overlaps or touches.
        let first = ranges.partition_point(|range| range.end < offset);
        let last = ranges.partition_point(|range| range.start <= end);
        if first == last && self.ranges_count >= self.ranges_max {
            return Err(BufferFull);
        }
        if self.bytes.len() <= usize::from(offset) {
            self.bytes.reserve(usize::from(end) - self.bytes.len());
            work::count((usize::from(offset) - self.bytes.len()) / work::MOVED);
            self.bytes.resize(usize::from(offset), 0);
            self.bytes.extend_from_slice(bytes);
        } else {
            let length = self.bytes.len().max(usize::from(end));
            self.bytes.resize(length, 0);
            let mut at = offset;
            for range in &ranges[first..last] {
                if at < range.start {
                    let upto = range.start.min(end);
                    copy(&mut self.bytes, at, upto, offset, bytes);
                }
                at = at.max(range.end);
            }
            if at < end {
                copy(&mut self.bytes, at, end, offset, bytes);
            }
        }
        let mut merged = ByteRange { start: offset, end };
        if first < last {
            merged.start = merged.start.min(ranges[first].start);
            merged.end = merged.end.max(ranges[last - 1].end);
            self.ranges[first] = merged;
            self.ranges.copy_within(last..count, first + 1);
            self.ranges_count -= (last - first - 1) as u8;
        } else {
            self.ranges.copy_within(first..count, first + 1);
            self.ranges[first] = merged;
            self.ranges_count += 1;
        }
        Ok(())
    }

    /// The received bytes from the base to the first gap.
    pub(crate) fn contiguous(&self) -> &[u8] {
        match self.ranges.first() {
            Some(range) if self.ranges_count > 0 && range.start == 0 => {
                &self.bytes[..usize::from(range.end)]
            }
            _ => &[],
        }
    }

    /// Takes all bytes out, so that a parser that needs the pool can read them. Call
    /// [`ReassemblyBuffer::contiguous`] first for the number of bytes before the first gap.
    pub(crate) fn take_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Puts the bytes back.
    pub(crate) fn put_bytes(&mut self, bytes: Vec<u8>) {
        self.bytes = bytes;
    }

    /// Removes the first `length` bytes, received or not, and moves the base.
    pub(crate) fn advance(&mut self, length: u32) {
        self.base = self.base.wrapping_add(length);
        let cut = (length as usize).min(self.bytes.len());
        work::count((self.bytes.len() - cut) / work::MOVED);
        self.bytes.drain(..cut);
        let mut kept = 0;
        for index in 0..usize::from(self.ranges_count) {
            let range = self.ranges[index];
            if u32::from(range.end) > length {
                let length = length as u16;
                self.ranges[kept] = ByteRange {
                    start: range.start.saturating_sub(length),
                    end: range.end - length,
                };
                kept += 1;
            }
        }
        self.ranges_count = kept as u8;
    }

    /// Start of the first range after the first gap, as an offset from the base.
    pub(crate) fn gap_end(&self) -> Option<u32> {
        let first = usize::from(!self.contiguous().is_empty());
        let ranges = self.ranges.get(first..usize::from(self.ranges_count))?;
        ranges.first().map(|range| u32::from(range.start))
    }

    /// End of the last range, as an offset from the base.
    pub(crate) fn end(&self) -> u32 {
        let last = self.ranges[..usize::from(self.ranges_count)].last();
        last.map_or(0, |range| u32::from(range.end))
    }

    /// Whether no byte after the first `length` was received.
    pub(crate) fn has_only(&self, length: u32) -> bool {
        self.ranges[..usize::from(self.ranges_count)]
            .iter()
            .all(|range| u32::from(range.end) <= length)
    }
}

fn copy(to: &mut [u8], start: u16, end: u16, offset: u16, from: &[u8]) {
    let range = usize::from(start - offset)..usize::from(end - offset);
    to[usize::from(start)..usize::from(end)].copy_from_slice(&from[range]);
}

/// The stream that has a buffer: handle of its flow, and direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) flow: u32,
    pub(crate) direction: u8,
}

/// The contents of an evicted buffer.
#[derive(Debug)]
pub(crate) struct Evicted {
    pub(crate) owner: Owner,
    /// The bytes before the first gap.
    pub(crate) bytes: Vec<u8>,
}

/// The most bytes of all buffers together. Most handshakes are much shorter than the limit of a
/// buffer.
const BYTES_HELD_MAX: usize = 32 << 20;

/// The most evictions for one packet. It bounds the work for a packet.
const EVICTED_MAX: usize = 8;

/// The reassembly buffers of all flows. There are limits on their number, on the bytes of each and on
/// the bytes of all. If a limit is reached, the least recently used buffer is evicted, so that
/// abandoned streams cannot block others.
#[derive(Debug)]
pub(crate) struct ReassemblyPool {
    pool: Pool<ReassemblyBuffer>,
    pub(crate) bytes_max: u32,
    buffers_max: usize,
    /// Bytes of all buffers now.
    bytes_held: usize,
    bytes_held_max: usize,
    /// Handle of the least recently used buffer, 0 if there is none.
    oldest: u16,
    /// Handle of the most recently used buffer, 0 if there is none.
    newest: u16,
    /// Handle of the current flow. A flow whose buffer was evicted still has its handle, so each
    /// access checks the owner.
    pub(crate) flow: u32,
    /// Buffers that were evicted during the current packet and not read yet.
    evicted: Vec<Evicted>,
}

impl ReassemblyPool {
    pub(crate) fn new(count_max: u16, bytes_max: u32) -> io::Result<Self> {
        let count_max = usize::from(count_max);
        let bytes_max = bytes_max.min(STREAM_MAX);
        Ok(Self {
            pool: Pool::new(count_max)?,
            bytes_max,
            buffers_max: count_max,
            bytes_held: 0,
            bytes_held_max: BYTES_HELD_MAX.min(count_max * bytes_max as usize),
            oldest: 0,
            newest: 0,
            flow: 0,
            evicted: Vec::with_capacity(EVICTED_MAX),
        })
    }

    /// Touches the memory of the pool now. The bytes of streams are allocated as they arrive.
    pub(crate) fn populate(&mut self) {
        self.pool.populate();
    }

    /// Allocates a buffer for a direction of the current flow. Its stream starts at `base` and has at
    /// most `ranges_max` ranges. Returns 0 if no buffer can be freed.
    pub(crate) fn allocate(&mut self, direction: u8, base: u32, ranges_max: usize) -> u16 {
        if self.pool.available() == 0 && !self.evict_oldest(0) {
            return 0;
        }
        let handle = self.pool.allocate();
        let owner = Owner {
            flow: self.flow,
            direction,
        };
        if let Some(buffer) = self.pool.get_mut(handle) {
            buffer.base = base;
            buffer.ranges_max = ranges_max.min(RANGES_MAX) as u8;
            buffer.owner = owner;
            self.append_newest(handle as u16);
        }
        handle as u16
    }

    /// The buffer, if it belongs to this direction of the current flow.
    pub(crate) fn get_mut(&mut self, handle: u16, direction: u8) -> Option<&mut ReassemblyBuffer> {
        let owner = Owner {
            flow: self.flow,
            direction,
        };
        let buffer = self.pool.get_mut(u32::from(handle))?;
        (buffer.owner == owner).then_some(buffer)
    }

    /// Inserts bytes into a buffer ([`ReassemblyBuffer::insert`]).
    ///
    /// # Errors
    /// If they do not fit, or if the buffer belongs to another stream.
    pub(crate) fn insert(
        &mut self,
        handle: u16,
        direction: u8,
        offset: u32,
        bytes: &[u8],
    ) -> Result<(), BufferFull> {
        let max = self.bytes_max;
        let buffer = self.get_mut(handle, direction).ok_or(BufferFull)?;
        let inserted = buffer.insert(offset, bytes, max);
        let capacity = buffer.bytes.capacity() as u32;
        let before = std::mem::replace(&mut buffer.accounted, capacity);
        self.bytes_held = self.bytes_held + capacity as usize - before as usize;
        self.unlink(handle);
        self.append_newest(handle);
        while self.bytes_held > self.bytes_held_max {
            if !self.evict_oldest(handle) {
                return Err(BufferFull);
            }
        }
        inserted
    }

    /// Evicts the least recently used buffer. Returns false if that is `except`, if there is none, or
    /// if this packet has evicted too many.
    fn evict_oldest(&mut self, except: u16) -> bool {
        let handle = self.oldest;
        if handle == except || self.evicted.len() >= EVICTED_MAX {
            return false;
        }
        let Some(buffer) = self.pool.get_mut(u32::from(handle)) else {
            return false;
        };
        let length = buffer.contiguous().len();
        let mut bytes = buffer.take_bytes();
        bytes.truncate(length);
        let owner = buffer.owner;
        self.evicted.push(Evicted { owner, bytes });
        self.free(handle);
        true
    }

    /// Returns a buffer that was evicted during the current packet and not read yet.
    #[inline]
    pub(crate) fn next_evicted(&mut self) -> Option<Evicted> {
        self.evicted.pop()
    }

    /// Releases a buffer with its memory, and sets the handle to 0.
    pub(crate) fn release(&mut self, handle: &mut u16, direction: u8) {
        let handle = std::mem::take(handle);
        if self.get_mut(handle, direction).is_some() {
            self.free(handle);
        }
    }

    fn free(&mut self, handle: u16) {
        self.unlink(handle);
        if let Some(buffer) = self.pool.get_mut(u32::from(handle)) {
            self.bytes_held -= buffer.accounted as usize;
            *buffer = ReassemblyBuffer::default();
            self.pool.free(u32::from(handle));
        }
    }

    /// Makes a buffer the most recently used one.
    fn append_newest(&mut self, handle: u16) {
        let before = std::mem::replace(&mut self.newest, handle);
        if let Some(buffer) = self.pool.get_mut(u32::from(handle)) {
            buffer.older = before;
        }
        match self.pool.get_mut(u32::from(before)) {
            Some(buffer) => buffer.newer = handle,
            None => self.oldest = handle,
        }
    }

    /// Removes a buffer from the list of last uses.
    fn unlink(&mut self, handle: u16) {
        let Some(buffer) = self.pool.get_mut(u32::from(handle)) else {
            return;
        };
        let older = std::mem::take(&mut buffer.older);
        let newer = std::mem::take(&mut buffer.newer);
        match self.pool.get_mut(u32::from(older)) {
            Some(buffer) => buffer.newer = newer,
            None => self.oldest = newer,
        }
        match self.pool.get_mut(u32::from(newer)) {
            Some(buffer) => buffer.older = older,
            None => self.newest = older,
        }
    }

    /// Number of allocated buffers.
    pub(crate) fn allocated(&self) -> usize {
        self.pool.allocated()
    }

    /// Memory with all buffers allocated and full, in bytes. (The buffer that is written to may have
    /// twice its limit until others are evicted.)
    pub(crate) fn memory_bytes(&self) -> usize {
        self.buffers_max * size_of::<ReassemblyBuffer>()
            + self.bytes_held_max
            + 2 * self.bytes_max as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Ranges in any order, overlapping or not, restore the stream, also if its start is removed
        /// in between.
        #[test]
        fn ranges_in_any_order_restore_the_stream(
            stream in prop::collection::vec(any::<u8>(), 1..300),
            cuts in prop::collection::vec((0usize..300, 1usize..80), 1..40),
            takes in prop::collection::vec(0u32..40, 40),
        ) {
            let mut buffer = ReassemblyBuffer { base: u32::MAX - 20, ..ReassemblyBuffer::default() };
            let mut received = vec![false; stream.len()];
            let mut done = 0usize;
            for ((at, length), take) in cuts.into_iter().zip(takes) {
                let start = at.min(stream.len()).max(done);
                let end = (at + length).min(stream.len()).max(start);
                let offset = (start - done) as u32;
                if buffer.insert(offset, &stream[start..end], 1000).is_ok() {
                    received[start..end].fill(true);
                }
                let known = received[done..].iter().take_while(|&&received| received).count();
                prop_assert_eq!(buffer.contiguous(), &stream[done..done + known]);
                if take as usize <= known {
                    buffer.advance(take);
                    done += take as usize;
                }
            }
            prop_assert_eq!(buffer.base, (u32::MAX - 20).wrapping_add(done as u32));
        }
    }

    #[test]
    fn enforces_limits_of_a_buffer() {
        let mut buffer = ReassemblyBuffer::default();
        assert_eq!(buffer.insert(90, &[0; 11], 100), Err(BufferFull));
        assert_eq!(buffer.insert(u32::MAX, &[0; 2], u32::MAX), Err(BufferFull));
        for range in 0..RANGES_MAX as u32 {
            assert_eq!(buffer.insert(1 + range * 2, &[7], 200), Ok(()));
        }
        assert_eq!(buffer.insert(150, &[7], 200), Err(BufferFull));
        assert_eq!(buffer.insert(0, &[7; 128], 200), Ok(()));
        assert_eq!(buffer.contiguous(), [7; 128]);
        buffer.advance(140);
        assert!(buffer.has_only(0));
    }

    #[test]
    fn evicts_the_least_recently_used_buffer() {
        let mut pool = ReassemblyPool::new(3, 100).unwrap();
        let mut handles = [0; 4];
        for (flow, handle) in (0..).zip(&mut handles[..3]) {
            pool.flow = flow;
            *handle = pool.allocate(0, 5, RANGES_MAX);
            assert_eq!(pool.insert(*handle, 0, 0, &[flow as u8; 3]), Ok(()));
        }
        assert_eq!(
            pool.insert(handles[2], 1, 0, &[0]),
            Err(BufferFull),
            "no owner"
        );
        pool.flow = 0;
        assert_eq!(pool.insert(handles[0], 0, 7, &[0; 3]), Ok(()));
        pool.flow = 3;
        handles[3] = pool.allocate(1, 6, RANGES_MAX);
        let evicted = pool.next_evicted().unwrap();
        assert_eq!((evicted.owner.flow, evicted.bytes), (1, vec![1; 3]));
        assert!(pool.next_evicted().is_none());
        // The handle of the evicted buffer belongs to another flow now.
        pool.flow = 1;
        assert!(pool.get_mut(handles[1], 0).is_none());
        pool.release(&mut handles[1], 0);
        assert_eq!((handles[1], pool.allocated()), (0, 3));
        for (flow, direction) in [(3, 1), (0, 0), (2, 0)] {
            pool.flow = flow;
            pool.release(&mut handles[flow as usize], direction);
        }
        assert_eq!((pool.allocated(), pool.bytes_held), (0, 0));
        assert_eq!((pool.oldest, pool.newest), (0, 0));
        let mut none = ReassemblyPool::new(0, 100).unwrap();
        assert_eq!(none.allocate(0, 0, RANGES_MAX), 0);
    }

    #[test]
    fn limits_the_bytes_of_all_buffers() {
        let (count, each) = (u16::MAX, 16 << 10);
        let mut pool = ReassemblyPool::new(count, each).unwrap();
        assert!(pool.memory_bytes() < (BYTES_HELD_MAX + (40 << 20)));
        let mut evicted = 0;
        for flow in 0..3000 {
            pool.flow = flow;
            let handle = pool.allocate(0, 0, RANGES_MAX);
            assert_eq!(pool.insert(handle, 0, 0, &vec![1; each as usize]), Ok(()));
            assert!(pool.bytes_held <= BYTES_HELD_MAX);
            while pool.next_evicted().is_some() {
                evicted += 1;
            }
        }
        assert_eq!(evicted, 3000 - BYTES_HELD_MAX / each as usize);
        // A packet evicts only a few small buffers.
        let mut pool = ReassemblyPool::new(100, 1000).unwrap();
        pool.bytes_held_max = 1000;
        for flow in 0..100 {
            pool.flow = flow;
            let handle = pool.allocate(0, 0, RANGES_MAX);
            assert_eq!(pool.insert(handle, 0, 0, &[1; 10]), Ok(()));
        }
        pool.flow = 99;
        assert_eq!(pool.insert(pool.newest, 0, 10, &[1; 900]), Err(BufferFull));
        assert_eq!(std::iter::from_fn(|| pool.next_evicted()).count(), 8);
    }
}
