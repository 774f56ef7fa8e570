//! Compares the log-linear histogram with exact percentiles: its certain bounds, and the errors stated
//! in its documentation.

use flow::statistic::{LogLinear, NO_VALUE, Statistic, Value};
use hw::lines::Lines;
use hw::prefetch::CacheLevel;
use hw::random::Random;
use proptest::prelude::*;

const PERCENTILES: [f64; 4] = [25.0, 50.0, 95.0, 99.0];

fn histogram_of(percentiles: &[f64], values: &[u64]) -> LogLinear {
    let mut histogram = LogLinear::new(Value::Gap, percentiles, Lines::zeroed(1));
    for burst in values.chunks(256) {
        histogram.update(&vec![0; burst.len()], burst);
    }
    histogram
}

fn estimates(histogram: &LogLinear) -> Vec<f64> {
    let mut out = Vec::new();
    histogram.summarise(0, f64::NAN, &mut out);
    out
}

/// Returns the exact percentile by the nearest-rank definition.
fn exact(percentile: f64, values: &[u64]) -> u64 {
    let mut sorted: Vec<u64> = values
        .iter()
        .copied()
        .filter(|value| *value != NO_VALUE)
        .collect();
    sorted.sort_unstable();
    let rank = (percentile * sorted.len() as f64 / 100.0 - 1e-9)
        .ceil()
        .max(1.0);
    sorted[rank as usize - 1]
}

/// Returns the error of an estimate, relative to the exact value plus one.
fn error(estimate: f64, exact: u64) -> f64 {
    (estimate - exact as f64).abs() / (exact as f64 + 1.0)
}

/// Returns a random number above 0 and below 1.
fn open_unit(random: &mut Random) -> f64 {
    ((random.bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

#[test]
fn zero_one_and_two_values() {
    assert!(
        estimates(&histogram_of(&PERCENTILES, &[]))
            .iter()
            .all(|estimate| estimate.is_nan())
    );
    assert!(
        estimates(&histogram_of(&PERCENTILES, &[NO_VALUE]))
            .iter()
            .all(|estimate| estimate.is_nan())
    );
    assert_eq!(
        estimates(&histogram_of(&PERCENTILES, &[NO_VALUE, 0])),
        [0.0; 4]
    );
    assert_eq!(
        estimates(&histogram_of(&PERCENTILES, &[1514, 60])),
        [60.0, 60.0, 1514.0, 1514.0]
    );
}

#[test]
fn up_to_26_values_below_2047_are_exact() {
    let values: Vec<u64> = (0..26).map(|i| i * 757 % 2047).collect();
    for count in 1..=values.len() {
        let values = &values[..count];
        let expected = PERCENTILES.map(|percentile| exact(percentile, values) as f64);
        assert_eq!(estimates(&histogram_of(&PERCENTILES, values)), expected);
    }
}

#[test]
fn a_repeated_value_is_exact() {
    for value in [0, 1, 54, 1514, 2046] {
        for count in [1, 26, 27, 255, 256, 300, 100_000] {
            assert_eq!(
                estimates(&histogram_of(&PERCENTILES, &vec![value; count])),
                [value as f64; 4]
            );
        }
    }
    let far = 1u64 << 48;
    let found = estimates(&histogram_of(&PERCENTILES, &vec![far; 100_000]));
    assert!(
        found.iter().all(|estimate| error(*estimate, far) < 1e-3),
        "{found:?}"
    );
}

#[test]
fn slots_are_independent_and_can_be_cleared() {
    let mut histogram = LogLinear::new(Value::InterArrivalTime, &[50.0], Lines::zeroed(2));
    histogram.prefetch(CacheLevel::L2, &[0, 1, u32::MAX]);
    for value in 1..=101u64 {
        histogram.update(
            &[0, 1, 2, u32::MAX],
            &[value * 1_000_000, 7_000_000_000, 1, 1],
        );
    }
    let mut out = Vec::new();
    for slot in [0, 1, 2] {
        histogram.summarise(slot, f64::NAN, &mut out);
    }
    histogram.clear(1);
    histogram.clear(u32::MAX);
    histogram.summarise(1, f64::NAN, &mut out);
    assert!(
        (out[0] - 0.051).abs() < 0.001 && (out[1] - 7.0).abs() < 0.007,
        "{out:?}"
    );
    assert!(out[2].is_nan() && out[3].is_nan());
}

/// For each distribution, the maximum error of the 25th, 50th, 95th and 99th percentile estimated
/// together, and that of the 99th alone, with 100 to 1,000,000 values of one flow. With few values, the
/// bound is the width of a bin (an eighth, or a quarter if the values span many octaves).
#[test]
fn errors_stay_within_the_stated_limits() {
    type Draw = fn(&mut Random, usize) -> u64;
    let distributions: [(&str, Draw, f64, f64); 8] = [
        ("uniform", |random, _| random.bits() % 1_000_000, 0.04, 0.02),
        (
            "exponential",
            |random, _| (-open_unit(random).ln() * 65536.0) as u64,
            0.09,
            0.04,
        ),
        (
            "Zipf",
            |random, _| (65536f64.powf(open_unit(random))) as u64,
            0.15,
            0.12,
        ),
        (
            "log-normal",
            |random, _| {
                let radius = (-2.0 * open_unit(random).ln()).sqrt();
                (1000.0 * (2.0 * radius * (std::f64::consts::TAU * open_unit(random)).cos()).exp())
                    as u64
            },
            0.15,
            0.13,
        ),
        (
            "two points",
            |random, _| if random.bits() % 10 == 0 { 1514 } else { 66 },
            0.15,
            0.05,
        ),
        (
            "trains",
            |random, _| {
                if random.bits() % 8 == 0 {
                    (-open_unit(random).ln() * 524_288.0) as u64
                } else {
                    0
                }
            },
            0.35,
            0.2,
        ),
        ("rising", |_, index| index as u64, 0.15, 0.15),
        (
            "huge",
            |random, _| (1 << 47) + random.bits() % (1 << 47),
            0.02,
            0.02,
        ),
    ];
    for (name, draw, together, alone) in distributions {
        for count in [100, 1000, 10_000, 100_000, 1_000_000] {
            let mut random = Random::from_state(count as u64);
            let values: Vec<u64> = (0..count).map(|index| draw(&mut random, index)).collect();
            for (percentiles, error_max) in [(&PERCENTILES[..], together), (&[99.0][..], alone)] {
                let histogram = histogram_of(percentiles, &values);
                for (&percentile, estimate) in percentiles.iter().zip(estimates(&histogram)) {
                    let exact = exact(percentile, &values);
                    let error = error(estimate, exact);
                    assert!(
                        error <= error_max,
                        "{name}, {count} values, percentile {percentile} of {percentiles:?}: \
                         {estimate} for {exact}"
                    );
                    if let Some((low, high)) = histogram.bounds(0, percentile) {
                        assert!((low..=high).contains(&exact), "{name} {percentile}");
                    }
                }
            }
        }
    }
}

/// Rounding of halved counts does not move ranks: with a million values of which one in 200 is large,
/// each percentile is still in its bin.
#[test]
fn halving_counts_preserves_ranks() {
    let values: Vec<u64> = (0..1_000_000)
        .map(|i| if i % 200 == 0 { 900 } else { 100 + i % 3 })
        .collect();
    let found = estimates(&histogram_of(&[50.0, 99.0, 99.9], &values));
    assert!(
        (100.0..=111.0).contains(&found[0]) && (100.0..=111.0).contains(&found[1]),
        "{found:?}"
    );
    assert!((found[2] / 900.0 - 1.0).abs() < 0.01, "{found:?}");
}

/// Structured sequences: several sources, each with its own range, in sequence or mixed.
fn sequences() -> impl Strategy<Value = Vec<u64>> {
    let source = (0u32..48, 0u32..20, 1usize..400, any::<u64>());
    (prop::collection::vec(source, 1..5), any::<bool>()).prop_map(|(sources, mixed)| {
        let mut values = Vec::new();
        for (octave, spread, count, seed) in sources {
            let mut random = Random::from_state(seed);
            let draw = |_| (1 << octave) + (random.bits() >> 44 >> (20 - spread));
            values.extend((0..count).map(draw));
        }
        if mixed {
            let mut random = Random::from_state(1);
            values.sort_by_cached_key(|value| value.wrapping_mul(random.bits() | 1));
        }
        values
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_exact_value_and_the_estimate_are_within_the_bounds(values in sequences()) {
        for percentiles in [&PERCENTILES[..], &[99.0], &[1.0, 99.9], &[50.0]] {
            let histogram = histogram_of(percentiles, &values);
            for (&percentile, estimate) in percentiles.iter().zip(estimates(&histogram)) {
                if let Some((low, high)) = histogram.bounds(0, percentile) {
                    let exact = exact(percentile, &values);
                    prop_assert!((low..=high).contains(&exact), "{} in {}..={}", exact, low, high);
                    prop_assert!(low as f64 <= estimate && estimate <= high as f64);
                }
            }
        }
    }

    #[test]
    fn a_merged_histogram_bounds_the_percentiles_of_all_values(one in sequences(), other in sequences()) {
        let percentiles = [50.0, 99.0];
        let mut merged = histogram_of(&percentiles, &one);
        merged.merge(0, &histogram_of(&percentiles, &other), 0);
        let all: Vec<u64> = one.iter().chain(&other).copied().collect();
        for percentile in percentiles {
            if let Some((low, high)) = merged.bounds(0, percentile) {
                let exact = exact(percentile, &all);
                prop_assert!((low..=high).contains(&exact), "{} in {}..={}", exact, low, high);
            }
        }
    }

    #[test]
    fn accepts_any_value(values in prop::collection::vec(any::<u64>(), 0..600), percentile in 0.0..=100.0) {
        let histogram = histogram_of(&[percentile, 0.0, 100.0], &values);
        let found = estimates(&histogram);
        let has_values = values.iter().any(|value| *value != NO_VALUE);
        prop_assert!(found.iter().all(|estimate| estimate.is_nan() != has_values));
    }
}
