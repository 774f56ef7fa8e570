//! A bitmap of what was seen, by hash, which threads can share.

use crate::bytes::Reader;
use crate::error::{SizeError, StateError};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A set of hashes, one bit each, chosen by their highest bits. Several threads may insert: of equal
/// hashes exactly one insertion is the first. Nothing is published by a bit, so no order is needed.
#[derive(Debug)]
pub(crate) struct PairBitmap {
    words: Box<[AtomicU64]>,
    set: AtomicU64,
}

impl Clone for PairBitmap {
    fn clone(&self) -> Self {
        let words = self.words.iter();
        Self {
            words: words.map(|word| word.load(Relaxed).into()).collect(),
            set: self.set.load(Relaxed).into(),
        }
    }
}

impl PairBitmap {
    const LG_BITS: core::ops::RangeInclusive<u8> = 6..=36;

    pub(crate) fn new(lg_bits: u8) -> Result<Self, SizeError> {
        Self::check(lg_bits)?;
        let words = (0..1usize << (lg_bits - 6)).map(|_| AtomicU64::new(0));
        Ok(Self {
            words: words.collect(),
            set: AtomicU64::new(0),
        })
    }

    fn check(lg_bits: u8) -> Result<(), SizeError> {
        if Self::LG_BITS.contains(&lg_bits) {
            return Ok(());
        }
        Err(SizeError::Range {
            what: "the binary logarithm of the bits for pairs",
            least: (*Self::LG_BITS.start()).into(),
            most: (*Self::LG_BITS.end()).into(),
            given: lg_bits.into(),
        })
    }

    pub(crate) fn lg_bits(&self) -> u8 {
        self.words.len().trailing_zeros() as u8 + 6
    }

    fn bits(&self) -> f64 {
        self.words.len() as f64 * f64::from(u64::BITS)
    }

    #[inline]
    fn position(&self, hash: u64) -> (&AtomicU64, u64) {
        // Two shifts: a bitmap of one word would shift by 64.
        let lg_words = self.words.len().trailing_zeros();
        let index = (hash >> 1 >> (u64::BITS - 1 - lg_words)) as usize & (self.words.len() - 1);
        (&self.words[index], 1 << (hash << lg_words >> 58))
    }

    /// Returns whether the bit of `hash` is set. Most packets belong to a pair that was seen, and a
    /// load costs them much less than the locked instruction of [`insert`](Self::insert).
    #[inline]
    pub(crate) fn contains(&self, hash: u64) -> bool {
        let (word, bit) = self.position(hash);
        word.load(Relaxed) & bit != 0
    }

    /// Sets the bit of `hash`; returns whether this call was the one that set it.
    #[inline]
    pub(crate) fn insert(&self, hash: u64) -> bool {
        let (word, bit) = self.position(hash);
        word.fetch_or(bit, Relaxed) & bit == 0
    }

    /// Sets the bit of `hash` while no other thread has this bitmap; returns whether it was not set.
    #[inline]
    pub(crate) fn insert_alone(&self, hash: u64) -> bool {
        let (word, bit) = self.position(hash);
        let before = word.load(Relaxed);
        word.store(before | bit, Relaxed);
        before & bit == 0
    }

    /// Adds the number of bits that were set; returns the load before.
    pub(crate) fn add_set(&self, count: u64) -> f64 {
        self.set.fetch_add(count, Relaxed) as f64 / self.bits()
    }

    /// Returns the share of bits that are set.
    pub(crate) fn load(&self) -> f64 {
        self.set.load(Relaxed) as f64 / self.bits()
    }

    /// Estimates the number of different hashes: linear counting (Whang, Vander-Zanden and Taylor, 1990).
    pub(crate) fn distinct(&self) -> f64 {
        // A full bitmap would give infinity; half a bit is the most that it can mean.
        let free = (1.0 - self.load()).max(0.5 / self.bits());
        -self.bits() * free.ln()
    }

    /// Estimates how many hashes are in both: those of each less those of the union.
    pub(crate) fn in_both(&self, other: &Self) -> f64 {
        let mut union = self.clone();
        union.unite(other);
        (self.distinct() + other.distinct() - union.distinct()).max(0.0)
    }

    /// Sets the bits of another bitmap of the same size.
    pub(crate) fn unite(&mut self, other: &Self) {
        let mut set = 0;
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            let word = word.get_mut();
            *word |= more.load(Relaxed);
            set += u64::from(word.count_ones());
        }
        *self.set.get_mut() = set;
    }

    pub(crate) fn clear(&self) {
        self.words.iter().for_each(|word| word.store(0, Relaxed));
        self.set.store(0, Relaxed);
    }

    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.words)
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        for word in &self.words {
            out.extend(word.load(Relaxed).to_le_bytes());
        }
    }

    pub(crate) fn read(lg_bits: u8, reader: &mut Reader<'_>) -> Result<Self, StateError> {
        Self::check(lg_bits)?;
        let words = 1 << (lg_bits - 6);
        reader.check_left(words, size_of::<u64>())?;
        let mut bitmap = Self::new(lg_bits)?;
        for word in &mut bitmap.words {
            let bits = reader.u64()?;
            *word.get_mut() = bits;
            *bitmap.set.get_mut() += u64::from(bits.count_ones());
        }
        Ok(bitmap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hw::random::Random;
    use std::sync::Barrier;

    #[test]
    fn of_equal_hashes_one_is_the_first_whatever_thread_inserts_it() {
        let bitmap = PairBitmap::new(16).unwrap();
        let start = Barrier::new(4);
        let insert_all = || {
            start.wait();
            let mut random = Random::new(3, 0);
            (0..20_000).filter(|_| bitmap.insert(random.bits())).count()
        };
        let firsts: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(insert_all)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).sum()
        });
        let ones: u32 = bitmap
            .words
            .iter()
            .map(|w| w.load(Relaxed).count_ones())
            .sum();
        assert_eq!(firsts, ones as usize);
    }

    #[test]
    fn all_bits_are_used() {
        for lg_bits in [6, 7, 12] {
            let bitmap = PairBitmap::new(lg_bits).unwrap();
            let mut random = Random::new(1, 0);
            for _ in 0..20 << lg_bits {
                bitmap.insert_alone(random.bits());
            }
            assert!(
                bitmap
                    .words
                    .iter()
                    .all(|word| word.load(Relaxed) == u64::MAX)
            );
        }
    }

    #[test]
    fn unions_and_intersections_are_estimated() {
        let of = |stream, count: u64| {
            let mut random = Random::new(8, stream);
            let bitmap = PairBitmap::new(16).unwrap();
            let set = (0..count).filter(|_| bitmap.insert(random.bits())).count();
            bitmap.add_set(set as u64);
            bitmap
        };
        let (one, longer, other) = (of(0, 20_000), of(0, 30_000), of(1, 20_000));
        assert!((one.distinct() / 20_000.0 - 1.0).abs() < 0.02);
        assert!((one.in_both(&longer) / 20_000.0 - 1.0).abs() < 0.02);
        assert!(one.in_both(&other) < 400.0);
    }
}
