//! Addresses that were replaced lately, in a bounded table: a flow's address is seen again and
//! again, and the cipher costs as much as the rest of a record.

/// Sets of the table, a power of two; with two places each it holds some 2^15 addresses in 1.5 MiB.
const SETS: usize = 1 << 14;

/// An address and what stands for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pair {
    /// 4 or 6; 0 where there is none.
    version: u8,
    theirs: u128,
    ours: u128,
}

/// Two-way sets; the place that was not asked for last makes room. Its memory is taken with the
/// first address.
#[derive(Clone, Debug, Default)]
pub(super) struct Cache {
    sets: Vec<[Pair; 2]>,
}

impl Cache {
    /// What stands for `address`, by `make` where it is not known.
    #[inline]
    pub(super) fn get(&mut self, version: u8, address: u128, make: impl FnOnce() -> u128) -> u128 {
        if self.sets.is_empty() {
            self.sets = vec![[Pair::default(); 2]; SETS];
        }
        let folded = address as u64 ^ (address >> 64) as u64;
        // Fibonacci hashing: networks number their hosts one after the other.
        let place = folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SETS.trailing_zeros());
        let Some(set) = self.sets.get_mut(place as usize) else {
            return make();
        };
        let is_it = |pair: &Pair| pair.version == version && pair.theirs == address;
        if !is_it(&set[0]) {
            set.swap(0, 1);
            if !is_it(&set[0]) {
                set[0] = Pair {
                    version,
                    theirs: address,
                    ours: make(),
                };
            }
        }
        set[0].ours
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn answers_are_those_of_the_function(addresses in proptest::collection::vec((any::<bool>(), 0_u128..50_000), 1..2000)) {
            let mut cache = Cache::default();
            for (six, address) in addresses {
                let version = if six { 6 } else { 4 };
                let expected = address * 3 + u128::from(version);
                prop_assert_eq!(cache.get(version, address, || expected), expected);
                prop_assert_eq!(cache.get(version, address, || unreachable!()), expected);
            }
        }
    }
}
