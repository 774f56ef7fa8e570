//! Quantiles of values: a log-linear histogram, which divides each power of two into equally many
//! buckets (as Tene's HdrHistogram). Its error is relative to the value, and merging is addition.

use crate::bytes::{self, Reader};
use crate::error::{MergeError, SizeError, StateError};
use crate::geometry::{Geometry, Kind};
use crate::interface::{ErrorBound, Overlap, Sketch};
use crate::seed::{Seed, SeedDigest};
use crate::updates::{Updates, Weights};

/// A histogram of 64-bit values (bytes, nanoseconds).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantiles {
    /// Values below two to this plus one have a bucket each; above, each power of two has two to this.
    lg_buckets: u8,
    counts: Box<[u64]>,
    count: u64,
    sum: u128,
    least: u64,
    most: u64,
}

/// The value below which a share of all values lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuantileEstimate {
    /// The estimate, the middle of the bucket.
    pub value: u64,
    /// The true quantile is not smaller.
    pub low: u64,
    /// The true quantile is not larger.
    pub high: u64,
}

/// A histogram has no hash, so it has no seed: all states agree.
const NO_SEED: SeedDigest = SeedDigest(0);

impl Quantiles {
    /// Binary logarithms of the number of buckets of a power of two.
    pub const LG_BUCKETS: core::ops::RangeInclusive<u8> = 2..=14;

    /// Creates a histogram with 2^`lg_buckets` buckets for each power of two. An estimate is at most
    /// 2^-(`lg_buckets` + 1) of the value away from it. 7 take 58 KB and give 0.4 %.
    ///
    /// # Errors
    /// Fails if the number is outside its range.
    pub fn new(lg_buckets: u8) -> Result<Self, SizeError> {
        if !Self::LG_BUCKETS.contains(&lg_buckets) {
            return Err(SizeError::Range {
                what: "the binary logarithm of the buckets of a power of two",
                least: (*Self::LG_BUCKETS.start()).into(),
                most: (*Self::LG_BUCKETS.end()).into(),
                given: lg_buckets.into(),
            });
        }
        Ok(Self {
            lg_buckets,
            counts: vec![0; buckets(lg_buckets)].into_boxed_slice(),
            count: 0,
            sum: 0,
            least: u64::MAX,
            most: 0,
        })
    }

    /// Creates a histogram whose estimates are at most a fraction of `error` away from the value.
    ///
    /// # Errors
    /// Fails if no size has such an error.
    pub fn for_error(error: f64) -> Result<Self, SizeError> {
        let fits = |lg: &u8| relative_error(*lg) <= error;
        let lg = Self::LG_BUCKETS.into_iter().find(fits);
        Self::new(lg.ok_or(SizeError::Range {
            what: "the relative error",
            least: relative_error(*Self::LG_BUCKETS.end()),
            most: 1.0,
            given: error,
        })?)
    }

    /// Counts values.
    pub fn insert_all(&mut self, values: impl IntoIterator<Item = u64>) {
        for value in values {
            self.insert(value);
        }
    }

    /// Counts a value.
    #[inline]
    pub fn insert(&mut self, value: u64) {
        let index = bucket_of(self.lg_buckets, value);
        self.counts[index] += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.least = self.least.min(value);
        self.most = self.most.max(value);
    }

    /// Returns the number of values.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the smallest and the largest value, or `None` if there is none. Both are exact.
    #[must_use]
    pub const fn range(&self) -> Option<(u64, u64)> {
        if self.count == 0 {
            return None;
        }
        Some((self.least, self.most))
    }

    /// Returns the mean, which is exact, or `None` if there is no value.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Returns the smallest value that is not below a `share` (0 to 1) of all values, or `None` if
    /// there is no value.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<QuantileEstimate> {
        let (least, most) = self.range()?;
        let rank = (share.clamp(0.0, 1.0) * self.count as f64).ceil() as u64;
        let rank = rank.clamp(1, self.count);
        let mut below = 0u64;
        let index = self.counts.iter().position(|&count| {
            below = below.saturating_add(count);
            below >= rank
        })?;
        let (first, last) = bucket_values(self.lg_buckets, index);
        let (low, high) = (first.clamp(least, most), last.clamp(least, most));
        // The ends are known exactly.
        let (low, high) = match rank {
            1 => (least, least),
            rank if rank == self.count => (most, most),
            _ => (low, high),
        };
        Some(QuantileEstimate {
            value: low + (high - low) / 2,
            low,
            high,
        })
    }

    /// Returns the buckets that have values: first value, last value, and number.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let filled = self.counts.iter().enumerate().filter(|(_, n)| **n > 0);
        filled.map(|(index, &n)| {
            let (first, last) = bucket_values(self.lg_buckets, index);
            (first, last, n)
        })
    }
}

/// Half of a bucket, whose width is at most 2^-`lg_buckets` of its first value.
fn relative_error(lg_buckets: u8) -> f64 {
    0.5f64.powi(i32::from(lg_buckets) + 1)
}

const fn buckets(lg_buckets: u8) -> usize {
    (u64::BITS as usize + 1 - lg_buckets as usize) << lg_buckets
}

#[inline]
const fn bucket_of(lg_buckets: u8, value: u64) -> usize {
    // Setting a low bit sends all values below 2^lg to the first power of two without a branch.
    let power = u64::BITS - 1 - (value | 1 << lg_buckets).leading_zeros();
    let shift = power - lg_buckets as u32;
    ((shift as usize) << lg_buckets) + (value >> shift) as usize
}

/// Returns the first and the last value of a bucket.
const fn bucket_values(lg_buckets: u8, index: usize) -> (u64, u64) {
    let of_power = 1usize << lg_buckets;
    if index < 2 * of_power {
        return (index as u64, index as u64);
    }
    let shift = (index >> lg_buckets) - 1;
    let first = ((index - (shift << lg_buckets)) as u64) << shift;
    (first, first + ((1 << shift) - 1))
}

impl Sketch for Quantiles {
    /// Counts the weights as values; the keys do not matter.
    fn update(&mut self, updates: Updates<'_>) {
        match updates.weights() {
            Weights::Ones => (0..updates.len()).for_each(|_| self.insert(1)),
            Weights::Each(values) => self.insert_all(values.iter().map(|&value| value.into())),
        }
    }

    fn clear(&mut self) {
        self.counts.fill(0);
        (self.count, self.sum, self.least, self.most) = (0, 0, u64::MAX, 0);
    }

    fn total(&self) -> u64 {
        u64::try_from(self.sum).unwrap_or(u64::MAX)
    }

    fn geometry(&self) -> Geometry {
        Geometry {
            kind: Kind::Quantiles,
            dimensions: [self.lg_buckets.into(), 0, 0, 0, 0, 0],
            seed: NO_SEED,
        }
    }

    /// The result is the state of one histogram that saw all values, exactly.
    fn merge(&mut self, other: &Self, _: Overlap) -> Result<(), MergeError> {
        self.geometry().check_equal(&other.geometry())?;
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
        Ok(())
    }

    fn memory(&self) -> usize {
        size_of_val(&*self.counts)
    }

    /// Always holds.
    fn error_bound(&self, _: f64) -> ErrorBound {
        let error = relative_error(self.lg_buckets);
        ErrorBound {
            over: error,
            under: error,
            relative: true,
            confidence: 1.0,
        }
    }

    /// The state is sum, smallest and largest value, the number of buckets that are not empty, and for
    /// each of them its distance from the one before and its count.
    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.sum.to_le_bytes());
        out.extend(self.least.to_le_bytes());
        out.extend(self.most.to_le_bytes());
        let filled = self.counts.iter().filter(|&&count| count > 0).count();
        out.extend((filled as u32).to_le_bytes());
        let mut next = 0;
        for (index, &count) in self.counts.iter().enumerate() {
            if count > 0 {
                bytes::write_varint(out, (index - next) as u64);
                bytes::write_varint(out, count);
                next = index + 1;
            }
        }
    }

    fn read(
        geometry: &Geometry,
        _: Option<Seed>,
        reader: &mut Reader<'_>,
    ) -> Result<Self, StateError> {
        let [lg, rest @ ..] = geometry.dimensions;
        if rest != [0; 5] || geometry.seed != NO_SEED {
            return Err(StateError::Damaged(
                "it has dimensions that the kind has not",
            ));
        }
        let mut read = Self::new(u8::try_from(lg).unwrap_or(u8::MAX))?;
        read.sum = reader.u128()?;
        read.least = reader.u64()?;
        read.most = reader.u64()?;
        let filled = reader.u32()?;
        let mut next = 0u64;
        for _ in 0..filled {
            let index = next.saturating_add(reader.varint()?);
            let count = reader.varint()?;
            let slot = usize::try_from(index)
                .ok()
                .and_then(|index| read.counts.get_mut(index));
            let (Some(slot), 1..) = (slot, count) else {
                return Err(StateError::Damaged("a bucket is none of the histogram's"));
            };
            *slot = count;
            read.count = read
                .count
                .checked_add(count)
                .ok_or(StateError::Damaged("its counts exceed 64 bits"))?;
            next = index + 1;
        }
        read.check_ends()?;
        Ok(read)
    }
}

impl Quantiles {
    /// Returns the sum if all values were `value`.
    fn sum_of_all(&self, value: u64) -> u128 {
        u128::from(self.count) * u128::from(value)
    }

    /// Smallest and largest value must be in the first and last bucket that is not empty.
    fn check_ends(&self) -> Result<(), StateError> {
        let expected = self.buckets().next().zip(self.buckets().last());
        let fits = match expected {
            None => (self.sum, self.least, self.most) == (0, u64::MAX, 0),
            Some((first, last)) => {
                (first.0..=first.1).contains(&self.least)
                    && (last.0..=last.1).contains(&self.most)
                    && self.least <= self.most
                    && (self.sum_of_all(self.least)..=self.sum_of_all(self.most))
                        .contains(&self.sum)
            }
        };
        fits.then_some(())
            .ok_or(StateError::Damaged("its ends contradict its buckets"))
    }
}

#[cfg(test)]
mod tests;
