//! The log-linear histogram against exact percentiles: its certain bounds, and the errors that its
//! documentation states.

use flow::statistic::{LogLinear, NO_VALUE, Statistic, Value};
use hw::lines::Lines;
use hw::prefetch::CacheLevel;
use hw::random::Random;
use proptest::prelude::*;

const ASKED: [f64; 4] = [25.0, 50.0, 95.0, 99.0];

fn fed(percentiles: &[f64], values: &[u64]) -> LogLinear {
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

/// The nearest-rank percentile: the definition.
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

/// What an estimate is off by, relative to the truth plus one.
fn error(estimate: f64, exact: u64) -> f64 {
    (estimate - exact as f64).abs() / (exact as f64 + 1.0)
}

/// Above 0 and below 1.
fn open_unit(random: &mut Random) -> f64 {
    ((random.bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

#[test]
fn none_one_and_two_values() {
    assert!(
        estimates(&fed(&ASKED, &[]))
            .iter()
            .all(|estimate| estimate.is_nan())
    );
    assert!(
        estimates(&fed(&ASKED, &[NO_VALUE]))
            .iter()
            .all(|estimate| estimate.is_nan())
    );
    assert_eq!(estimates(&fed(&ASKED, &[NO_VALUE, 0])), [0.0; 4]);
    assert_eq!(
        estimates(&fed(&ASKED, &[1514, 60])),
        [60.0, 60.0, 1514.0, 1514.0]
    );
}

#[test]
fn up_to_26_values_below_2047_are_exact() {
    let values: Vec<u64> = (0..26).map(|i| i * 757 % 2047).collect();
    for count in 1..=values.len() {
        let values = &values[..count];
        let expected = ASKED.map(|percentile| exact(percentile, values) as f64);
        assert_eq!(estimates(&fed(&ASKED, values)), expected);
    }
}

#[test]
fn one_value_over_and_over_is_exact() {
    for value in [0, 1, 54, 1514, 2046] {
        for count in [1, 26, 27, 255, 256, 300, 100_000] {
            assert_eq!(
                estimates(&fed(&ASKED, &vec![value; count])),
                [value as f64; 4]
            );
        }
    }
    let far = 1u64 << 48;
    let found = estimates(&fed(&ASKED, &vec![far; 100_000]));
    assert!(
        found.iter().all(|estimate| error(*estimate, far) < 1e-3),
        "{found:?}"
    );
}

#[test]
fn slots_are_apart_and_clear() {
    let mut histogram = LogLinear::new(Value::InterArrivalTime, &[50.0], Lines::zeroed(2));
    histogram.prefetch(CacheLevel::Second, &[0, 1, u32::MAX]);
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

/// Largest error allowed of 25th, 50th, 95th and 99th percentile asked for together, and of the 99th
/// alone, for each distribution at 100 to 1,000,000 values of one flow. At few values the bound is
/// the width of a bin (an eighth, or a quarter where the values span many octaves).
#[test]
fn errors_keep_to_what_is_stated() {
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
            for (asked, allowed) in [(&ASKED[..], together), (&[99.0][..], alone)] {
                let histogram = fed(asked, &values);
                for (&percentile, estimate) in asked.iter().zip(estimates(&histogram)) {
                    let truth = exact(percentile, &values);
                    let error = error(estimate, truth);
                    assert!(
                        error <= allowed,
                        "{name}, {count} values, percentile {percentile} of {asked:?}: {estimate} \
                         for {truth}"
                    );
                    if let Some((least, greatest)) = histogram.bounds(0, percentile) {
                        assert!((least..=greatest).contains(&truth), "{name} {percentile}");
                    }
                }
            }
        }
    }
}

/// Rounding when counts are halved does not move ranks: a million values of which one in 200 is
/// large, and every percentile still in its bin.
#[test]
fn halving_keeps_the_shares() {
    let values: Vec<u64> = (0..1_000_000)
        .map(|i| if i % 200 == 0 { 900 } else { 100 + i % 3 })
        .collect();
    let found = estimates(&fed(&[50.0, 99.0, 99.9], &values));
    assert!(
        (100.0..=111.0).contains(&found[0]) && (100.0..=111.0).contains(&found[1]),
        "{found:?}"
    );
    assert!((found[2] / 900.0 - 1.0).abs() < 0.01, "{found:?}");
}

/// Sequences with a structure: several sources, each with its own range, one after the other or
/// mixed.
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
    fn the_truth_lies_within_the_bounds_and_so_does_the_estimate(values in sequences()) {
        for asked in [&ASKED[..], &[99.0], &[1.0, 99.9], &[50.0]] {
            let histogram = fed(asked, &values);
            for (&percentile, estimate) in asked.iter().zip(estimates(&histogram)) {
                if let Some((least, greatest)) = histogram.bounds(0, percentile) {
                    let truth = exact(percentile, &values);
                    prop_assert!((least..=greatest).contains(&truth), "{} in {}..={}", truth, least, greatest);
                    prop_assert!(least as f64 <= estimate && estimate <= greatest as f64);
                }
            }
        }
    }

    #[test]
    fn two_merged_are_as_one(one in sequences(), other in sequences()) {
        let asked = [50.0, 99.0];
        let mut merged = fed(&asked, &one);
        merged.merge(0, &fed(&asked, &other), 0);
        let all: Vec<u64> = one.iter().chain(&other).copied().collect();
        for percentile in asked {
            if let Some((least, greatest)) = merged.bounds(0, percentile) {
                let truth = exact(percentile, &all);
                prop_assert!((least..=greatest).contains(&truth), "{} in {}..={}", truth, least, greatest);
            }
        }
    }

    #[test]
    fn no_value_is_too_much(values in prop::collection::vec(any::<u64>(), 0..600), percentile in 0.0..=100.0) {
        let histogram = fed(&[percentile, 0.0, 100.0], &values);
        let found = estimates(&histogram);
        let known = values.iter().any(|value| *value != NO_VALUE);
        prop_assert!(found.iter().all(|estimate| estimate.is_nan() != known));
    }
}
