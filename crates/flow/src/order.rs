//! Many numbers put into order by their digits (radix sort, the least digit first): each is looked at a
//! few times, where comparing takes as many times as the count of numbers has bits.

/// Bits of a digit.
const DIGIT: u32 = 11;

/// Below so many, comparing is as fast.
const FEW: usize = 256;

/// Puts `items` into the order of their first parts; equal ones stay in theirs.
pub(crate) fn by_digits(items: &mut Vec<(u64, u32)>) {
    let least = items.iter().map(|item| item.0).min().unwrap_or(0);
    let most = items.iter().map(|item| item.0).max().unwrap_or(0);
    if items.len() < FEW {
        return items.sort_by_key(|item| item.0);
    }
    let bits = u64::BITS - (most - least).leading_zeros();
    let mut sorted = vec![(0, 0); items.len()];
    for shift in (0..bits).step_by(DIGIT as usize) {
        let digit = |number: u64| ((number - least) >> shift) as usize & ((1 << DIGIT) - 1);
        let mut ends = [0; 1 << DIGIT];
        for &(number, _) in items.iter() {
            ends[digit(number)] += 1;
        }
        let mut sum = 0;
        for end in &mut ends {
            // Where the first one of the digit goes.
            sum += std::mem::replace(end, sum);
        }
        for &item in items.iter() {
            let place = &mut ends[digit(item.0)];
            sorted[*place] = item;
            *place += 1;
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
        fn equals_a_stable_sort_by_comparison(
            numbers in prop::collection::vec(
                prop_oneof![0u64..5, any::<u64>(), (1u64 << 40)..(1 << 41)], 0..1000,
            )
        ) {
            let mut items: Vec<(u64, u32)> = numbers.into_iter().zip(0..).collect();
            let mut expected = items.clone();
            expected.sort_by_key(|item| item.0);
            by_digits(&mut items);
            prop_assert_eq!(items, expected);
        }
    }
}
