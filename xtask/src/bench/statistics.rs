//! Medians, and ratios of medians with confidence intervals.

use hw::random::Random;

const RESAMPLES: usize = 4000;

/// The median; NaN without values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// A ratio of medians with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// The ratio of the medians of `above` and `below`, which were measured in the same rounds. The
/// interval is the percentile bootstrap (Efron 1979) over rounds. Both values of a round are drawn
/// together, because a slow round is slow for both.
pub(crate) fn ratio(above: &[f64], below: &[f64]) -> Ratio {
    let rounds = above.len().min(below.len());
    let mut random = Random::from_state(42);
    let mut ratios: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let drawn: Vec<usize> = (0..rounds)
                .map(|_| random.below(rounds as u64) as usize)
                .collect();
            let of = |side: &[f64]| median(&drawn.iter().map(|&at| side[at]).collect::<Vec<_>>());
            of(above) / of(below)
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    Ratio {
        value: median(above) / median(below),
        low: ratios[RESAMPLES / 40],
        high: ratios[RESAMPLES - RESAMPLES / 40 - 1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_count_is_the_mean_of_the_middle_two() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_round_that_is_slow_for_both_does_not_widen_the_interval() {
        let below = [10.0, 11.0, 30.0, 10.5, 9.5];
        let above: Vec<f64> = below.iter().map(|value| value * 6.0).collect();
        let found = ratio(&above, &below);
        assert!((found.value - 6.0).abs() < 1e-9);
        assert!((found.low - 6.0).abs() < 1e-9 && (found.high - 6.0).abs() < 1e-9);
    }

    #[test]
    fn the_interval_contains_the_ratio() {
        let found = ratio(
            &[50.0, 60.0, 70.0, 55.0, 65.0],
            &[10.0, 9.0, 11.0, 10.0, 10.0],
        );
        assert!(found.low < found.value && found.value < found.high);
        assert_eq!(found.value, 6.0);
    }
}
