//! Samples from any discrete distribution with one table lookup (Walker 1977; table built as in Vose
//! 1991).

use hw::prefetch;

/// A sample selects an entry uniformly, and takes either the entry itself or its alias.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The probability of the entry itself, times 2^32.
    keep: u32,
    alias: u32,
}

/// The alias table of a distribution over 0 to n-1.
#[derive(Clone, Debug)]
pub struct AliasTable {
    entries: Vec<Entry>,
}

/// Samples in flight: all their entries are prefetched before the first is used.
const IN_FLIGHT: usize = 64;

impl AliasTable {
    /// Creates the table in which number i has the i-th weight. There must be 1 to 2^32 weights, none
    /// negative, with a positive finite sum.
    #[must_use]
    pub fn new(weights: &[f64]) -> Self {
        let sum: f64 = weights.iter().sum();
        let mean = sum / weights.len() as f64;
        let mut shares: Vec<f64> = weights.iter().map(|weight| weight / mean).collect();
        let mut entries: Vec<Entry> = (0..weights.len() as u32)
            .map(|alias| Entry {
                keep: u32::MAX,
                alias,
            })
            .collect();
        // Entries below the mean are filled up with a part of an entry above it.
        let (mut below, mut above): (Vec<u32>, Vec<u32>) =
            (0..weights.len() as u32).partition(|&number| shares[number as usize] < 1.0);
        while let (Some(&small), Some(&large)) = (below.last(), above.last()) {
            below.pop();
            let share = shares[small as usize];
            entries[small as usize] = Entry {
                keep: (share * 4_294_967_296.0) as u32,
                alias: large,
            };
            shares[large as usize] -= 1.0 - share;
            if shares[large as usize] < 1.0 {
                above.pop();
                below.push(large);
            }
        }
        Self { entries }
    }

    /// Maps 64 random bits to a number.
    #[inline]
    #[must_use]
    pub fn pick(&self, bits: u64) -> u32 {
        let (index, random) = self.entry(bits);
        self.choose(index, random)
    }

    /// Fills `numbers`, with one call of `bits` each. Faster than [`AliasTable::pick`] for large tables,
    /// because cache misses overlap.
    pub fn fill(&self, mut bits: impl FnMut() -> u64, numbers: &mut [u32]) {
        let mut samples = [(0usize, 0u32); IN_FLIGHT];
        for chunk in numbers.chunks_mut(IN_FLIGHT) {
            let samples = &mut samples[..chunk.len()];
            for sample in samples.iter_mut() {
                *sample = self.entry(bits());
                prefetch::read(&self.entries, sample.0);
            }
            for (number, &(index, random)) in chunk.iter_mut().zip(samples.iter()) {
                *number = self.choose(index, random);
            }
        }
    }

    /// Returns the index of an entry, and 32 random bits that choose between it and its alias.
    #[inline]
    fn entry(&self, bits: u64) -> (usize, u32) {
        let product = u128::from(bits) * self.entries.len() as u128;
        ((product >> 64) as usize, (product >> 32) as u32)
    }

    #[inline]
    fn choose(&self, index: usize, random: u32) -> u32 {
        let entry = self.entries[index];
        // The outcome is random: a branch would be mispredicted.
        std::hint::select_unpredictable(random < entry.keep, index as u32, entry.alias)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hw::random::Random;

    #[test]
    fn frequencies_match_weights() {
        let weights = [1.0, 0.0, 3.0, 4.0];
        let table = AliasTable::new(&weights);
        let mut random = Random::new(7, 0);
        let mut counts = [0u64; 4];
        let mut numbers = [0; 100];
        for _ in 0..8_000 {
            table.fill(|| random.bits(), &mut numbers);
            for &number in &numbers {
                counts[number as usize] += 1;
            }
        }
        assert_eq!(counts[1], 0);
        for (count, weight) in counts.iter().zip(weights) {
            // Five standard deviations of a binomial count.
            let expected = weight * 100_000.0;
            let deviation = (expected * (1.0 - weight / 8.0)).sqrt();
            assert!(
                (*count as f64 - expected).abs() <= 5.0 * deviation,
                "{counts:?}"
            );
        }
    }

    #[test]
    fn fill_agrees_with_pick() {
        let weights: Vec<f64> = (1..=1000).map(|rank| 1.0 / f64::from(rank)).collect();
        let table = AliasTable::new(&weights);
        let (mut one, mut many) = (Random::new(3, 1), Random::new(3, 1));
        let mut numbers = [0; 300];
        table.fill(|| many.bits(), &mut numbers);
        assert!(
            numbers
                .iter()
                .all(|&number| number == table.pick(one.bits()))
        );
    }
}
