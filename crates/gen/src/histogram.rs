//! A histogram for percentiles, with 32 bins per octave: the relative error is at most 3 %.

/// The binary logarithm of the number of bins per octave.
const BITS: u32 = 5;

/// Bins for the octaves from 2^BITS to 2^63, and one bin for each smaller value.
const BINS: usize = ((64 - BITS as usize) + 1) << BITS;

/// A histogram of nanoseconds or other values.
#[derive(Clone)]
pub struct Histogram {
    bins: Box<[u64; BINS]>,
    count: u64,
    sum: u128,
    max: u64,
    min: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            bins: Box::new([0; BINS]),
            count: 0,
            sum: 0,
            max: 0,
            min: u64::MAX,
        }
    }
}

#[inline]
fn bin(value: u64) -> usize {
    let octave = (63 - (value | 1).leading_zeros()).saturating_sub(BITS);
    // Each value below 2^(BITS + 1) has its own bin.
    ((octave as usize) << BITS) + (value >> octave) as usize
}

/// The lowest value of a bin, and its width.
fn bin_range(bin: usize) -> (u64, u64) {
    let octave = (bin >> BITS).saturating_sub(1) as u32;
    let low = (bin - ((octave as usize) << BITS)) as u64;
    (low << octave, 1 << octave)
}

impl Histogram {
    /// Counts `value` as often as `times` says.
    #[inline]
    pub fn record(&mut self, value: u64, times: u64) {
        self.bins[bin(value)] += times;
        self.count += times;
        self.sum += u128::from(value) * u128::from(times);
        self.max = self.max.max(value);
        self.min = self.min.min(value);
    }

    /// The number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean, or 0 if the histogram is empty.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }

    /// The maximum, or 0 if the histogram is empty.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The minimum, or 0 if the histogram is empty.
    #[must_use]
    pub fn min(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }

    /// The value that `percent` % of all values do not exceed, with a relative error of at most 3 %; 0 if
    /// the histogram is empty.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> u64 {
        let rank = ((percent / 100.0 * self.count as f64).ceil() as u64).max(1);
        if rank >= self.count {
            return self.max;
        }
        let mut seen = 0;
        for (index, &count) in self.bins.iter().enumerate() {
            seen += count;
            if seen >= rank {
                let (low, width) = bin_range(index);
                return (low + (width - 1) / 2).clamp(self.min(), self.max);
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bin_contains_its_value(value: u64) {
            let (low, width) = bin_range(bin(value));
            prop_assert!(low <= value && value - low < width);
            prop_assert!(width == 1 || width <= low >> BITS);
        }

        #[test]
        fn percentile_error_is_at_most_three_per_cent(
            mut values in proptest::collection::vec(0u64..1 << 40, 1..300), percent in 0.1f64..100.0,
        ) {
            let mut histogram = Histogram::default();
            for &value in &values {
                histogram.record(value, 1);
            }
            values.sort_unstable();
            let rank = (percent / 100.0 * values.len() as f64).ceil() as usize;
            let exact = values[rank.max(1) - 1];
            let estimate = histogram.percentile(percent);
            prop_assert!(estimate.abs_diff(exact) <= exact / 32 + 1, "{} {}", estimate, exact);
            prop_assert_eq!(histogram.percentile(100.0), *values.last().unwrap());
        }
    }

    #[test]
    fn empty_histogram_returns_zero() {
        let histogram = Histogram::default();
        assert_eq!(
            (histogram.percentile(50.0), histogram.max(), histogram.min()),
            (0, 0, 0)
        );
    }
}
