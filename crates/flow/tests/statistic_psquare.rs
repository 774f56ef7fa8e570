//! Compares P-square with the worked example of its paper, and with exact percentiles.

use flow::statistic::psquare::Markers;
use flow::statistic::{NO_VALUE, PSquare, Statistic, Value};
use hw::lines::Lines;
use hw::prefetch::CacheLevel;
use hw::random::Random;
use proptest::prelude::*;

/// The worked example of Jain and Chlamtac 1985: the median of twenty observations is estimated.
const OBSERVATIONS: [f64; 20] = [
    0.02, 0.15, 0.74, 3.39, 0.83, 22.37, 10.15, 15.43, 38.62, 15.92, 34.60, 10.28, 1.47, 0.40,
    0.05, 11.39, 0.27, 0.42, 0.09, 11.37,
];

/// The markers' positions and heights, to two places, after each observation from the fifth on.
#[rustfmt::skip]
const MARKERS: [([u64; 5], [f64; 5]); 16] = [
    ([1, 2, 3, 4, 5], [0.02, 0.15, 0.74, 0.83, 3.39]),
    ([1, 2, 3, 4, 6], [0.02, 0.15, 0.74, 0.83, 22.37]),
    ([1, 2, 3, 5, 7], [0.02, 0.15, 0.74, 4.47, 22.37]),
    ([1, 2, 4, 6, 8], [0.02, 0.15, 2.18, 8.59, 22.37]),
    ([1, 3, 5, 7, 9], [0.02, 0.87, 4.75, 15.52, 38.62]),
    ([1, 3, 5, 7, 10], [0.02, 0.87, 4.75, 15.52, 38.62]),
    ([1, 3, 6, 8, 11], [0.02, 0.87, 9.27, 21.57, 38.62]),
    ([1, 3, 6, 9, 12], [0.02, 0.87, 9.27, 21.57, 38.62]),
    ([1, 4, 7, 10, 13], [0.02, 2.13, 9.27, 21.57, 38.62]),
    ([1, 5, 8, 11, 14], [0.02, 2.13, 9.27, 21.57, 38.62]),
    ([1, 5, 8, 12, 15], [0.02, 0.73, 6.30, 21.57, 38.62]),
    ([1, 5, 8, 13, 16], [0.02, 0.73, 6.30, 21.57, 38.62]),
    ([1, 5, 9, 13, 17], [0.02, 0.59, 6.30, 17.20, 38.62]),
    ([1, 6, 10, 14, 18], [0.02, 0.59, 6.30, 17.20, 38.62]),
    ([1, 6, 10, 15, 19], [0.02, 0.49, 4.44, 17.20, 38.62]),
    ([1, 6, 10, 16, 20], [0.02, 0.49, 4.44, 17.20, 38.62]),
];

#[test]
fn reproduces_the_worked_example_of_the_paper() {
    let mut markers = Markers::default();
    for (number, observation) in (1..).zip(OBSERVATIONS) {
        markers.observe(observation, 0.5);
        if number < 5 {
            continue;
        }
        let (positions, heights) = MARKERS[number - 5];
        assert_eq!(markers.positions, positions, "after observation {number}");
        for (height, expected) in markers.heights.iter().zip(heights) {
            assert!(
                (height - expected).abs() < 0.0051,
                "{height} for {expected} after {number}"
            );
        }
    }
    // The paper's result.
    let estimate = markers.estimate(0.5).unwrap();
    assert!((estimate - 4.44).abs() < 0.005, "{estimate}");
}

fn estimate_of(percentile: f64, values: &[u64]) -> f64 {
    let mut estimator = PSquare::new(Value::Gap, percentile, Lines::zeroed(1));
    for burst in values.chunks(256) {
        estimator.update(&vec![0; burst.len()], burst);
    }
    let mut out = Vec::new();
    estimator.summarise(0, f64::NAN, &mut out);
    out[0]
}

#[test]
fn exact_up_to_five_values() {
    assert!(estimate_of(50.0, &[]).is_nan());
    assert!(estimate_of(50.0, &[NO_VALUE]).is_nan());
    assert_eq!(estimate_of(50.0, &[NO_VALUE, 8]), 8.0);
    assert_eq!(
        [0.0, 50.0, 51.0, 100.0].map(|p| estimate_of(p, &[9, 3])),
        [3.0, 3.0, 9.0, 9.0]
    );
    assert_eq!(
        [20.0, 40.0, 50.0, 99.0].map(|p| estimate_of(p, &[5, 1, 4, 2, 3])),
        [1.0, 2.0, 3.0, 5.0]
    );
}

#[test]
fn constant_values_are_exact_and_markers_move_after_2_to_the_24_observations() {
    assert_eq!(estimate_of(99.0, &[1514; 1000]), 1514.0);
    let mut markers = Markers {
        heights: [0.0, 10.0, 20.0, 30.0, 40.0],
        ..Markers::default()
    };
    let count = 1 << 26;
    markers.positions = [1, count / 4, count / 2, count / 4 * 3, count];
    for value in 0..1_000_000 {
        markers.observe(f64::from(value % 41), 0.5);
    }
    let positions = markers.positions;
    assert_eq!(positions[4], count + 1_000_000);
    assert!(
        positions[2].abs_diff((count + 1_000_000) / 2) < 3,
        "{positions:?}"
    );
}

#[test]
fn slots_are_independent_and_can_be_cleared() {
    let mut estimator = PSquare::new(Value::InterArrivalTime, 50.0, Lines::zeroed(2));
    estimator.prefetch(CacheLevel::L1, &[0, 1, u32::MAX]);
    for value in 0..100u64 {
        let values = [value * 1_000_000_000, 5_000_000_000, 77];
        estimator.update(&[0, 1, u32::MAX], &values);
    }
    let mut out = Vec::new();
    estimator.summarise(0, f64::NAN, &mut out);
    estimator.summarise(1, f64::NAN, &mut out);
    estimator.clear(1);
    estimator.summarise(1, f64::NAN, &mut out);
    assert!((out[0] - 50.0).abs() < 3.0, "{out:?}");
    assert_eq!(out[1], 5.0);
    assert!(out[2].is_nan());
}

#[test]
fn estimates_of_uniform_values_are_within_two_per_cent_after_ten_thousand() {
    let mut random = Random::from_state(3);
    let values: Vec<u64> = (0..10_000).map(|_| random.bits() % 1_000_000).collect();
    for percentile in [50.0, 90.0, 99.0] {
        let estimate = estimate_of(percentile, &values);
        assert!(
            (estimate / (percentile * 1e4) - 1.0).abs() < 0.02,
            "{percentile}: {estimate}"
        );
    }
}

proptest! {
    #[test]
    fn estimates_stay_between_the_extremes(
        values in prop::collection::vec(any::<u64>(), 1..300), percentile in 0.0..=100.0,
    ) {
        let valid: Vec<u64> = values.iter().copied().filter(|value| *value != NO_VALUE).collect();
        let estimate = estimate_of(percentile, &values);
        if let (Some(min), Some(max)) = (valid.iter().min(), valid.iter().max()) {
            prop_assert!(*min as f64 <= estimate && estimate <= *max as f64);
            let extremes = [0.0, 100.0].map(|percentile| estimate_of(percentile, &values));
            prop_assert_eq!(extremes, [min, max].map(|&value| value as f64));
        }
    }
}
