//! A histogram of times, for percentiles: 32 bins an octave, so that each is right to 3 %.

/// Bins in an octave, as a power of two.
const BITS: u32 = 5;

/// Octaves from 2^BITS up to 2^63, and the exact small values below them.
const BINS: usize = ((64 - BITS as usize) + 1) << BITS;

/// Counts of nanoseconds (or of whatever else).
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
    // Below two octaves the value is its own bin.
    ((octave as usize) << BITS) + (value >> octave) as usize
}

/// The lowest value of a bin, and how many it holds.
fn range(bin: usize) -> (u64, u64) {
    let octave = (bin >> BITS).saturating_sub(1) as u32;
    let low = (bin - ((octave as usize) << BITS)) as u64;
    (low << octave, 1 << octave)
}

impl Histogram {
    /// Counts `value`, so many times.
    #[inline]
    pub fn record(&mut self, value: u64, times: u64) {
        self.bins[bin(value)] += times;
        self.count += times;
        self.sum += u128::from(value) * u128::from(times);
        self.max = self.max.max(value);
        self.min = self.min.min(value);
    }

    /// Values counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean, 0 of none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }

    /// The largest, 0 of none.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The least, 0 of none.
    #[must_use]
    pub fn min(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }

    /// The value below or at which `percent` of all lie, to 3 %; 0 of none.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> u64 {
        let wanted = ((percent / 100.0 * self.count as f64).ceil() as u64).max(1);
        if wanted >= self.count {
            return self.max;
        }
        let mut seen = 0;
        for (index, &count) in self.bins.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                let (low, width) = range(index);
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
        fn a_value_lies_in_its_bin(value: u64) {
            let (low, width) = range(bin(value));
            prop_assert!(low <= value && value - low < width);
            prop_assert!(width == 1 || width <= low >> BITS);
        }

        #[test]
        fn percentiles_are_right_to_three_per_cent(
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
    fn none_is_nothing() {
        let histogram = Histogram::default();
        assert_eq!(
            (histogram.percentile(50.0), histogram.max(), histogram.min()),
            (0, 0, 0)
        );
    }
}
