//! Drawing from any distribution in two look-ups (Walker 1977; the table as by Vose 1991).

use hw::prefetch;

/// A draw lands on an entry; with the entry's probability it stays, else it takes the alias.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The probability of staying, times 2^32.
    stay: u32,
    alias: u32,
}

/// The alias table of a distribution over 0 to n-1.
#[derive(Clone, Debug)]
pub struct AliasTable {
    entries: Vec<Entry>,
}

/// How many draws are in flight at a time, so that each entry is asked for before it is needed.
const AHEAD: usize = 64;

impl AliasTable {
    /// The distribution in which number i has the i-th weight. At least one weight, none below 0,
    /// their sum above 0 and finite; at most 2^32 of them.
    #[must_use]
    pub fn new(weights: &[f64]) -> Self {
        let sum: f64 = weights.iter().sum();
        let mean = sum / weights.len() as f64;
        let mut shares: Vec<f64> = weights.iter().map(|weight| weight / mean).collect();
        let mut entries: Vec<Entry> = (0..weights.len() as u32)
            .map(|alias| Entry {
                stay: u32::MAX,
                alias,
            })
            .collect();
        // What is below the mean is filled up from what is above it.
        let (mut below, mut above): (Vec<u32>, Vec<u32>) =
            (0..weights.len() as u32).partition(|&number| shares[number as usize] < 1.0);
        while let (Some(&small), Some(&large)) = (below.last(), above.last()) {
            below.pop();
            let share = shares[small as usize];
            entries[small as usize] = Entry {
                stay: (share * 4_294_967_296.0) as u32,
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

    /// The number that 64 random bits stand for.
    #[inline]
    #[must_use]
    pub fn pick(&self, bits: u64) -> u32 {
        let (index, rest) = self.place(bits);
        self.choose(index, rest)
    }

    /// Numbers for as many random words as `numbers` has places.
    pub fn fill(&self, mut bits: impl FnMut() -> u64, numbers: &mut [u32]) {
        let mut places = [(0usize, 0u32); AHEAD];
        for chunk in numbers.chunks_mut(AHEAD) {
            let places = &mut places[..chunk.len()];
            for place in places.iter_mut() {
                *place = self.place(bits());
                prefetch::read(&self.entries, place.0);
            }
            for (number, &(index, rest)) in chunk.iter_mut().zip(places.iter()) {
                *number = self.choose(index, rest);
            }
        }
    }

    /// The entry, and 32 bits that say whether to stay.
    #[inline]
    fn place(&self, bits: u64) -> (usize, u32) {
        let product = u128::from(bits) * self.entries.len() as u128;
        ((product >> 64) as usize, (product >> 32) as u32)
    }

    #[inline]
    fn choose(&self, index: usize, rest: u32) -> u32 {
        let entry = self.entries[index];
        // Which one it is cannot be learned: no branch.
        std::hint::select_unpredictable(rest < entry.stay, index as u32, entry.alias)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hw::random::Random;

    #[test]
    fn weights_come_out_as_given() {
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
    fn one_at_a_time_and_many_at_a_time_agree() {
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
