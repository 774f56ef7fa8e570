//! Streams that are put together: the pieces of a handshake that spans packets, in any order.

use hw::pool::{Linked, Pool};
use std::io;

/// The most pieces with gaps between them that are kept: clients of QUIC cut a ClientHello into many
/// and send them in any order.
pub(super) const PIECES_MAX: usize = 64;

/// The most of a stream of TCP: with more of them the bytes between are lost rather than late, and
/// what is read next is not to wait for them.
pub(super) const TCP_PIECES_MAX: usize = 8;

/// The most bytes of a stream: places in it are kept in two.
const STREAM_MAX: u32 = u16::MAX as u32;

/// Bytes `start..end` of the stream are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Piece {
    start: u16,
    end: u16,
}

/// A stream with gaps.
#[derive(Debug)]
pub(super) struct Assembly {
    /// Place of the first byte, in the stream's own numbers (modulo 2^32).
    pub(super) base: u32,
    /// Whose it is.
    owner: Owner,
    /// Handles of those that were touched before and after it, 0 for none.
    older: u16,
    newer: u16,
    /// Bytes of memory that are counted for it, lent out or not.
    counted: u32,
    bytes: Vec<u8>,
    /// Sorted, apart from each other.
    pieces: [Piece; PIECES_MAX],
    count: u8,
    /// How many of them there may be.
    pieces_max: u8,
}

impl Default for Assembly {
    fn default() -> Self {
        Self {
            base: 0,
            owner: Owner::default(),
            older: 0,
            newer: 0,
            counted: 0,
            bytes: Vec::new(),
            pieces: [Piece::default(); PIECES_MAX],
            count: 0,
            pieces_max: PIECES_MAX as u8,
        }
    }
}

impl Linked for Assembly {
    fn link(&mut self) -> &mut u32 {
        &mut self.base
    }
}

/// A piece that did not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Assembly {
    /// Adds bytes that lie `offset` behind the base; bytes that are there already stay.
    pub(super) fn insert(&mut self, offset: u32, bytes: &[u8], most: u32) -> Result<(), Full> {
        let end = u32::try_from(bytes.len())
            .ok()
            .and_then(|length| offset.checked_add(length))
            .filter(|&end| end <= most.min(STREAM_MAX))
            .ok_or(Full)?;
        let (offset, end) = (offset as u16, end as u16);
        if bytes.is_empty() {
            return Ok(());
        }
        let count = usize::from(self.count);
        let pieces = &self.pieces[..count];
        // The pieces that the new one overlaps or touches become one with it.
        let first = pieces.partition_point(|piece| piece.end < offset);
        let last = pieces.partition_point(|piece| piece.start <= end);
        if first == last && self.count >= self.pieces_max {
            return Err(Full);
        }
        if self.bytes.len() <= usize::from(offset) {
            self.bytes.reserve(usize::from(end) - self.bytes.len());
            self.bytes.resize(usize::from(offset), 0);
            self.bytes.extend_from_slice(bytes);
        } else {
            let there = self.bytes.len().max(usize::from(end));
            self.bytes.resize(there, 0);
            let mut at = offset;
            for piece in &pieces[first..last] {
                if at < piece.start {
                    let upto = piece.start.min(end);
                    copy(&mut self.bytes, at, upto, offset, bytes);
                }
                at = at.max(piece.end);
            }
            if at < end {
                copy(&mut self.bytes, at, end, offset, bytes);
            }
        }
        let mut merged = Piece { start: offset, end };
        if first < last {
            merged.start = merged.start.min(pieces[first].start);
            merged.end = merged.end.max(pieces[last - 1].end);
            self.pieces[first] = merged;
            self.pieces.copy_within(last..count, first + 1);
            self.count -= (last - first - 1) as u8;
        } else {
            self.pieces.copy_within(first..count, first + 1);
            self.pieces[first] = merged;
            self.count += 1;
        }
        Ok(())
    }

    /// The bytes from the base on that are there without a gap.
    pub(super) fn contiguous(&self) -> &[u8] {
        match self.pieces.first() {
            Some(piece) if self.count > 0 && piece.start == 0 => {
                &self.bytes[..usize::from(piece.end)]
            }
            _ => &[],
        }
    }

    /// Lends all bytes out, of which [`Assembly::contiguous`] told how many are contiguous: who
    /// reads them needs the pool that this assembly is in.
    pub(super) fn lend(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Takes back what was lent.
    pub(super) fn take_back(&mut self, bytes: Vec<u8>) {
        self.bytes = bytes;
    }

    /// Takes the first `length` bytes out, whether there or not: the base moves behind them.
    pub(super) fn advance(&mut self, length: u32) {
        self.base = self.base.wrapping_add(length);
        let cut = (length as usize).min(self.bytes.len());
        self.bytes.drain(..cut);
        let mut kept = 0;
        for index in 0..usize::from(self.count) {
            let piece = self.pieces[index];
            if u32::from(piece.end) > length {
                let length = length as u16;
                self.pieces[kept] = Piece {
                    start: piece.start.saturating_sub(length),
                    end: piece.end - length,
                };
                kept += 1;
            }
        }
        self.count = kept as u8;
    }

    /// Whether the first `length` bytes are all that is kept.
    pub(super) fn is_only(&self, length: u32) -> bool {
        self.pieces[..usize::from(self.count)]
            .iter()
            .all(|piece| u32::from(piece.end) <= length)
    }
}

fn copy(to: &mut [u8], start: u16, end: u16, offset: u16, from: &[u8]) {
    let range = usize::from(start - offset)..usize::from(end - offset);
    to[usize::from(start)..usize::from(end)].copy_from_slice(&from[range]);
}

/// A flow, by its handle, and the direction of the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) flow: u32,
    pub(super) direction: u8,
}

/// What was in a buffer that had to make room.
#[derive(Debug)]
pub(super) struct Evicted {
    pub(super) owner: Owner,
    /// The bytes from the beginning on that were there without a gap.
    pub(super) bytes: Vec<u8>,
}

/// Bytes of all buffers together. Most handshakes are far shorter than a buffer may become.
const BYTES_MAX: usize = 32 << 20;

/// Buffers that make room for a packet at most, so that no packet waits for many.
const EVICTED_MAX: usize = 8;

/// The assemblies of all flows, bounded in number, each in bytes, and all in bytes. Where there is no
/// room, the one that was touched the longest ago makes it: streams that never go on keep nobody
/// from being read.
#[derive(Debug)]
pub(super) struct Assemblies {
    pool: Pool<Assembly>,
    pub(super) bytes_max: u32,
    count_max: usize,
    /// Bytes that all of them have now, and may have.
    held: usize,
    held_max: usize,
    /// Handles of those that were touched the longest ago and last, 0 for none.
    oldest: u16,
    newest: u16,
    /// The flow that is read now: a handle of a buffer that is another's by now gives nothing.
    pub(super) flow: u32,
    /// What had to make room for the packet at hand.
    evicted: Vec<Evicted>,
}

impl Assemblies {
    pub(super) fn new(count_max: u16, bytes_max: u32) -> io::Result<Self> {
        let count_max = usize::from(count_max);
        let bytes_max = bytes_max.min(STREAM_MAX);
        Ok(Self {
            pool: Pool::new(count_max)?,
            bytes_max,
            count_max,
            held: 0,
            held_max: BYTES_MAX.min(count_max * bytes_max as usize),
            oldest: 0,
            newest: 0,
            flow: 0,
            evicted: Vec::with_capacity(EVICTED_MAX),
        })
    }

    /// Takes the memory of the places from the machine now; that of the bytes comes with them.
    pub(super) fn populate(&mut self) {
        self.pool.populate();
    }

    /// A fresh assembly for a direction of the flow at hand, whose stream begins at `base`, of so many
    /// pieces; 0 where none can be had.
    pub(super) fn take(&mut self, direction: u8, base: u32, pieces_max: usize) -> u16 {
        if self.pool.left() == 0 && !self.evict(0) {
            return 0;
        }
        let handle = self.pool.take();
        let owner = Owner {
            flow: self.flow,
            direction,
        };
        if let Some(assembly) = self.pool.get_mut(handle) {
            assembly.base = base;
            assembly.pieces_max = pieces_max.min(PIECES_MAX) as u8;
            assembly.owner = owner;
            self.append(handle as u16);
        }
        handle as u16
    }

    /// The assembly, if it is that of this direction of the flow at hand.
    pub(super) fn get_mut(&mut self, handle: u16, direction: u8) -> Option<&mut Assembly> {
        let owner = Owner {
            flow: self.flow,
            direction,
        };
        let assembly = self.pool.get_mut(u32::from(handle))?;
        (assembly.owner == owner).then_some(assembly)
    }

    /// Adds bytes to one ([`Assembly::insert`]).
    pub(super) fn insert(
        &mut self,
        handle: u16,
        direction: u8,
        offset: u32,
        bytes: &[u8],
    ) -> Result<(), Full> {
        let most = self.bytes_max;
        let assembly = self.get_mut(handle, direction).ok_or(Full)?;
        let inserted = assembly.insert(offset, bytes, most);
        let counted = assembly.bytes.capacity() as u32;
        let before = std::mem::replace(&mut assembly.counted, counted);
        self.held = self.held + counted as usize - before as usize;
        self.unlink(handle);
        self.append(handle);
        while self.held > self.held_max {
            if !self.evict(handle) {
                return Err(Full);
            }
        }
        inserted
    }

    /// Lets the one go that was touched the longest ago, unless it is `but`; false where none may.
    fn evict(&mut self, but: u16) -> bool {
        let handle = self.oldest;
        if handle == but || self.evicted.len() >= EVICTED_MAX {
            return false;
        }
        let Some(assembly) = self.pool.get_mut(u32::from(handle)) else {
            return false;
        };
        let there = assembly.contiguous().len();
        let mut bytes = assembly.lend();
        bytes.truncate(there);
        let owner = assembly.owner;
        self.evicted.push(Evicted { owner, bytes });
        self.free(handle);
        true
    }

    /// One that had to make room for the packet at hand, and has not been looked at yet.
    #[inline]
    pub(super) fn next_evicted(&mut self) -> Option<Evicted> {
        self.evicted.pop()
    }

    /// Gives one back, with its memory.
    pub(super) fn release(&mut self, handle: &mut u16, direction: u8) {
        let handle = std::mem::take(handle);
        if self.get_mut(handle, direction).is_some() {
            self.free(handle);
        }
    }

    fn free(&mut self, handle: u16) {
        self.unlink(handle);
        if let Some(assembly) = self.pool.get_mut(u32::from(handle)) {
            self.held -= assembly.counted as usize;
            *assembly = Assembly::default();
            self.pool.release(u32::from(handle));
        }
    }

    /// Puts one behind all others in the order of their last use.
    fn append(&mut self, handle: u16) {
        let before = std::mem::replace(&mut self.newest, handle);
        if let Some(assembly) = self.pool.get_mut(u32::from(handle)) {
            assembly.older = before;
        }
        match self.pool.get_mut(u32::from(before)) {
            Some(assembly) => assembly.newer = handle,
            None => self.oldest = handle,
        }
    }

    /// Takes one out of that order.
    fn unlink(&mut self, handle: u16) {
        let Some(assembly) = self.pool.get_mut(u32::from(handle)) else {
            return;
        };
        let older = std::mem::take(&mut assembly.older);
        let newer = std::mem::take(&mut assembly.newer);
        match self.pool.get_mut(u32::from(older)) {
            Some(assembly) => assembly.newer = newer,
            None => self.oldest = newer,
        }
        match self.pool.get_mut(u32::from(newer)) {
            Some(assembly) => assembly.older = older,
            None => self.newest = older,
        }
    }

    /// Assemblies that are taken now.
    pub(super) fn taken(&self) -> usize {
        self.pool.taken()
    }

    /// Memory when all are taken and as full as they may be together. (The one that is written to
    /// may hold twice what was asked of it before others make room.)
    pub(super) fn memory_bytes(&self) -> usize {
        self.count_max * size_of::<Assembly>() + self.held_max + 2 * self.bytes_max as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Pieces in any order, overlapping or not, give the stream back; and what is taken out in
        /// between is not missed.
        #[test]
        fn pieces_in_any_order_make_the_stream(
            stream in prop::collection::vec(any::<u8>(), 1..300),
            cuts in prop::collection::vec((0usize..300, 1usize..80), 1..40),
            takes in prop::collection::vec(0u32..40, 40),
        ) {
            let mut assembly = Assembly { base: u32::MAX - 20, ..Assembly::default() };
            let mut there = vec![false; stream.len()];
            let mut done = 0usize;
            for ((at, length), take) in cuts.into_iter().zip(takes) {
                let start = at.min(stream.len()).max(done);
                let end = (at + length).min(stream.len()).max(start);
                let offset = (start - done) as u32;
                if assembly.insert(offset, &stream[start..end], 1000).is_ok() {
                    there[start..end].fill(true);
                }
                let known = there[done..].iter().take_while(|&&known| known).count();
                prop_assert_eq!(assembly.contiguous(), &stream[done..done + known]);
                if take as usize <= known {
                    assembly.advance(take);
                    done += take as usize;
                }
            }
            prop_assert_eq!(assembly.base, (u32::MAX - 20).wrapping_add(done as u32));
        }
    }

    #[test]
    fn limits_hold() {
        let mut assembly = Assembly::default();
        assert_eq!(assembly.insert(90, &[0; 11], 100), Err(Full));
        assert_eq!(assembly.insert(u32::MAX, &[0; 2], u32::MAX), Err(Full));
        for piece in 0..PIECES_MAX as u32 {
            assert_eq!(assembly.insert(1 + piece * 2, &[7], 200), Ok(()));
        }
        assert_eq!(assembly.insert(150, &[7], 200), Err(Full));
        assert_eq!(assembly.insert(0, &[7; 128], 200), Ok(()));
        assert_eq!(assembly.contiguous(), [7; 128]);
        assembly.advance(140);
        assert!(assembly.is_only(0));
    }

    #[test]
    fn the_one_touched_the_longest_ago_makes_room() {
        let mut pool = Assemblies::new(3, 100).unwrap();
        let mut handles = [0; 4];
        for (flow, handle) in (0..).zip(&mut handles[..3]) {
            pool.flow = flow;
            *handle = pool.take(0, 5, PIECES_MAX);
            assert_eq!(pool.insert(*handle, 0, 0, &[flow as u8; 3]), Ok(()));
        }
        assert_eq!(pool.insert(handles[2], 1, 0, &[0]), Err(Full), "of nobody");
        pool.flow = 0;
        assert_eq!(pool.insert(handles[0], 0, 7, &[0; 3]), Ok(()));
        pool.flow = 3;
        handles[3] = pool.take(1, 6, PIECES_MAX);
        let evicted = pool.next_evicted().unwrap();
        assert_eq!((evicted.owner.flow, evicted.bytes), (1, vec![1; 3]));
        assert!(pool.next_evicted().is_none());
        // The handle of the one that made room is another's now.
        pool.flow = 1;
        assert!(pool.get_mut(handles[1], 0).is_none());
        pool.release(&mut handles[1], 0);
        assert_eq!((handles[1], pool.taken()), (0, 3));
        for (flow, direction) in [(3, 1), (0, 0), (2, 0)] {
            pool.flow = flow;
            pool.release(&mut handles[flow as usize], direction);
        }
        assert_eq!((pool.taken(), pool.held), (0, 0));
        assert_eq!((pool.oldest, pool.newest), (0, 0));
        let mut none = Assemblies::new(0, 100).unwrap();
        assert_eq!(none.take(0, 0, PIECES_MAX), 0);
    }

    #[test]
    fn all_together_have_a_bound_too() {
        let (count, each) = (u16::MAX, 16 << 10);
        let mut pool = Assemblies::new(count, each).unwrap();
        assert!(pool.memory_bytes() < (BYTES_MAX + (40 << 20)));
        let mut evicted = 0;
        for flow in 0..3000 {
            pool.flow = flow;
            let handle = pool.take(0, 0, PIECES_MAX);
            assert_eq!(pool.insert(handle, 0, 0, &vec![1; each as usize]), Ok(()));
            assert!(pool.held <= BYTES_MAX);
            while pool.next_evicted().is_some() {
                evicted += 1;
            }
        }
        assert_eq!(evicted, 3000 - BYTES_MAX / each as usize);
        // Many that are small make no packet wait.
        let mut pool = Assemblies::new(100, 1000).unwrap();
        pool.held_max = 1000;
        for flow in 0..100 {
            pool.flow = flow;
            let handle = pool.take(0, 0, PIECES_MAX);
            assert_eq!(pool.insert(handle, 0, 0, &[1; 10]), Ok(()));
        }
        pool.flow = 99;
        assert_eq!(pool.insert(pool.newest, 0, 10, &[1; 900]), Err(Full));
        assert_eq!(std::iter::from_fn(|| pool.next_evicted()).count(), 8);
    }
}
