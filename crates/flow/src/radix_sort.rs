//! A radix sort, least significant digit first. It passes over the items a few times, where a
//! comparison sort needs log2(n) passes.

/// Bits of a digit.
const DIGIT_BITS: u32 = 11;

/// Below this many items, a comparison sort is as fast.
const RADIX_MIN_ITEMS: usize = 256;

/// Sorts `items` by their first field. The sort is stable.
pub(crate) fn sort_by_key(items: &mut Vec<(u64, u32)>) {
    let least = items.iter().map(|item| item.0).min().unwrap_or(0);
    let most = items.iter().map(|item| item.0).max().unwrap_or(0);
    if items.len() < RADIX_MIN_ITEMS {
        return items.sort_by_key(|item| item.0);
    }
    let bits = u64::BITS - (most - least).leading_zeros();
    let mut sorted = vec![(0, 0); items.len()];
    for shift in (0..bits).step_by(DIGIT_BITS as usize) {
        let digit = |number: u64| ((number - least) >> shift) as usize & ((1 << DIGIT_BITS) - 1);
        let mut ends = [0; 1 << DIGIT_BITS];
        for &(number, _) in items.iter() {
            ends[digit(number)] += 1;
        }
        let mut sum = 0;
        for end in &mut ends {
            // From the count of each digit to the index of its first item.
            sum += std::mem::replace(end, sum);
        }
        for &item in items.iter() {
            let next = &mut ends[digit(item.0)];
            sorted[*next] = item;
            *next += 1;
        }
        std::mem::swap(items, &mut sorted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_a_stable_comparison_sort(
            numbers in prop::collection::vec(
                prop_oneof![0u64..5, any::<u64>(), (1u64 << 40)..(1 << 41)], 0..1000,
            )
        ) {
            let mut items: Vec<(u64, u32)> = numbers.into_iter().zip(0..).collect();
            let mut expected = items.clone();
            expected.sort_by_key(|item| item.0);
            sort_by_key(&mut items);
            prop_assert_eq!(items, expected);
        }
    }
}
