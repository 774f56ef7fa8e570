//! Streams that are put together: the pieces of a handshake that spans packets, in any order.

use crate::pool::{Linked, Pool};
use std::io;

/// The most pieces with gaps between them that are kept.
const PIECES_MAX: usize = 8;

/// Bytes `start..end` of the stream are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Piece {
    start: u32,
    end: u32,
}

/// A stream with gaps.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    /// Place of the first byte, in the stream's own numbers (modulo 2^32).
    pub(super) base: u32,
    bytes: Vec<u8>,
    /// Sorted, apart from each other.
    pieces: [Piece; PIECES_MAX],
    count: usize,
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
            .filter(|&end| end <= most)
            .ok_or(Full)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let pieces = &self.pieces[..self.count];
        // The pieces that the new one overlaps or touches become one with it.
        let first = pieces.partition_point(|piece| piece.end < offset);
        let last = pieces.partition_point(|piece| piece.start <= end);
        if first == last && self.count == PIECES_MAX {
            return Err(Full);
        }
        if self.bytes.len() <= offset as usize {
            self.bytes.reserve(end as usize - self.bytes.len());
            self.bytes.resize(offset as usize, 0);
            self.bytes.extend_from_slice(bytes);
        } else {
            let there = self.bytes.len().max(end as usize);
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
            self.pieces.copy_within(last..self.count, first + 1);
            self.count -= last - first - 1;
        } else {
            self.pieces.copy_within(first..self.count, first + 1);
            self.pieces[first] = merged;
            self.count += 1;
        }
        Ok(())
    }

    /// The bytes from the base on that are there without a gap.
    pub(super) fn contiguous(&self) -> &[u8] {
        match self.pieces.first() {
            Some(piece) if self.count > 0 && piece.start == 0 => &self.bytes[..piece.end as usize],
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
        for index in 0..self.count {
            let piece = self.pieces[index];
            if piece.end > length {
                self.pieces[kept] = Piece {
                    start: piece.start.saturating_sub(length),
                    end: piece.end - length,
                };
                kept += 1;
            }
        }
        self.count = kept;
    }

    /// Whether the first `length` bytes are all that is kept.
    pub(super) fn is_only(&self, length: u32) -> bool {
        self.pieces[..self.count]
            .iter()
            .all(|piece| piece.end <= length)
    }
}

fn copy(to: &mut [u8], start: u32, end: u32, offset: u32, from: &[u8]) {
    let range = (start - offset) as usize..(end - offset) as usize;
    to[start as usize..end as usize].copy_from_slice(&from[range]);
}

/// The assemblies of all flows, bounded in number and each in bytes.
#[derive(Debug)]
pub(super) struct Assemblies {
    pool: Pool<Assembly>,
    pub(super) bytes_max: u32,
    count_max: usize,
}

impl Assemblies {
    pub(super) fn new(count_max: u16, bytes_max: u32) -> io::Result<Self> {
        Ok(Self {
            pool: Pool::new(usize::from(count_max))?,
            bytes_max,
            count_max: usize::from(count_max),
        })
    }

    /// Takes the memory of the places from the machine now; that of the bytes comes with them.
    pub(super) fn populate(&mut self) {
        self.pool.populate();
    }

    /// A fresh assembly whose stream begins at `base`; 0 when all are taken.
    pub(super) fn take(&mut self, base: u32) -> u16 {
        let handle = self.pool.take();
        if let Some(assembly) = self.pool.get_mut(handle) {
            assembly.base = base;
        }
        handle as u16
    }

    pub(super) fn get_mut(&mut self, handle: u16) -> Option<&mut Assembly> {
        self.pool.get_mut(u32::from(handle))
    }

    /// Gives one back, with its memory.
    pub(super) fn release(&mut self, handle: &mut u16) {
        let handle = u32::from(std::mem::take(handle));
        if let Some(assembly) = self.pool.get_mut(handle) {
            *assembly = Assembly::default();
            self.pool.release(handle);
        }
    }

    /// Assemblies that are taken now.
    pub(super) fn taken(&self) -> usize {
        self.pool.taken()
    }

    /// Memory when all are taken and full (a vector may hold twice what was asked of it).
    pub(super) fn memory_bytes(&self) -> usize {
        self.count_max * (size_of::<Assembly>() + 2 * self.bytes_max as usize)
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
            assert_eq!(assembly.insert(1 + piece * 2, &[7], 100), Ok(()));
        }
        assert_eq!(assembly.insert(50, &[7], 100), Err(Full));
        assert_eq!(assembly.insert(0, &[7; 16], 100), Ok(()));
        assert_eq!(assembly.contiguous(), [7; 16]);
        assembly.advance(20);
        assert!(assembly.is_only(0));
        let mut pool = Assemblies::new(1, 10).unwrap();
        let mut handle = pool.take(5);
        assert_eq!((handle, pool.take(6)), (1, 0));
        pool.release(&mut handle);
        assert_eq!((handle, pool.taken()), (0, 0));
    }
}
