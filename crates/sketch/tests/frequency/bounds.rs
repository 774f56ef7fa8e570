//! Measured errors beside the bounds, over many seeds.

use crate::streams::{Stream, hashed};
use sketch::count_min::{CountMinOptions, Rule};
use sketch::{
    CountMin, FrequencySketch, HeavyHitters, Policy, Reversible, ReversibleOptions, Seed,
    SimpleTable, Sketch, Width,
};

const SEEDS: u64 = 30;
const PACKETS: usize = 20_000;
const COLUMNS: usize = 512;

fn stream(seed: u64) -> Stream {
    Stream::zipf(PACKETS, 4000, 1.0, seed)
}

/// Errors of a sketch that is never too low.
#[derive(Default)]
struct Errors {
    queries: u64,
    /// How many exceeded the bound.
    beyond: u64,
    sum: f64,
}

impl Errors {
    fn add(&mut self, estimate: u64, truth: u64, bound: f64) {
        assert!(estimate >= truth, "{estimate} for {truth}");
        let error = (estimate - truth) as f64;
        self.queries += 1;
        self.beyond += u64::from(error > bound);
        self.sum += error;
    }

    fn mean(&self) -> f64 {
        self.sum / self.queries as f64
    }

    fn check_confidence(&self, confidence: f64) {
        let allowed = (1.0 - confidence) * self.queries as f64;
        assert!(
            self.beyond as f64 <= allowed,
            "{} of {}",
            self.beyond,
            self.queries
        );
    }
}

fn count_min_errors(rows: usize, rule: Rule) -> Errors {
    let mut errors = Errors::default();
    for seed in 0..SEEDS {
        let (stream, seed) = (stream(seed), Seed::new(seed));
        let options = CountMinOptions {
            rule,
            ..CountMinOptions::new(rows, COLUMNS)
        };
        let mut sketch = CountMin::new(options, seed).unwrap();
        stream.count_packets(&mut sketch, seed);
        assert_eq!(sketch.total(), PACKETS as u64);
        let bound = sketch.error_bound(1.0 - (-(rows as f64)).exp()).over;
        let theory = std::f64::consts::E * PACKETS as f64 / COLUMNS as f64;
        assert!((bound / theory - 1.0).abs() < 1e-9);
        for (&key, &truth) in &stream.packets {
            errors.add(sketch.query(hashed(key, seed)).value, truth, bound);
        }
    }
    errors
}

/// Trap "Count-Min's bound is loose": it holds even if a row is lost, or all rows are one. So the mean
/// error is compared too: that of one row is N / columns, and each row must lower it.
#[test]
fn count_min_is_within_its_bound_and_each_row_lowers_the_mean_error() {
    let mut means = Vec::new();
    for rows in 1..=6 {
        let errors = count_min_errors(rows, Rule::Plain);
        errors.check_confidence(1.0 - (-(rows as f64)).exp());
        means.push(errors.mean());
    }
    let expected = PACKETS as f64 / COLUMNS as f64;
    assert!(
        (means[0] / expected - 1.0).abs() < 0.05,
        "{means:?}, {expected}"
    );
    for pair in means.windows(2) {
        assert!(pair[1] < 0.97 * pair[0], "{means:?}");
    }
    // With 4 rows the heaviest keys of Zipf miss most cells.
    assert!(means[3] < 0.45 * expected, "{means:?}");
}

#[test]
fn conservative_update_is_within_the_bound_and_closer() {
    let (plain, closer) = (
        count_min_errors(4, Rule::Plain),
        count_min_errors(4, Rule::Conservative),
    );
    closer.check_confidence(1.0 - (-4.0f64).exp());
    assert!(
        closer.mean() < 0.7 * plain.mean(),
        "{} {}",
        closer.mean(),
        plain.mean()
    );
}

#[test]
fn the_simple_table_is_within_its_bound() {
    let mut errors = Errors::default();
    let mut shown = 0;
    for number in 0..SEEDS {
        let (stream, seed) = (stream(number), Seed::new(number));
        let mut table = SimpleTable::with_slots(COLUMNS, Width::Narrow, seed).unwrap();
        stream.count_packets(&mut table, seed);
        let bound = table.error_bound(0.9).over;
        assert!((bound / (10.0 * PACKETS as f64 / COLUMNS as f64) - 1.0).abs() < 1e-9);
        for (&key, &truth) in &stream.packets {
            errors.add(table.query(hashed(key, seed)).value, truth, bound);
        }
        let counted: u64 = table
            .heavy_hitters(1)
            .iter()
            .map(|found| found.estimate.value)
            .sum();
        assert_eq!(counted, PACKETS as u64);
        shown += table.heavy_hitters(1).len();
        assert!(table.collisions() > 0 && table.collisions() < PACKETS as u64);
    }
    errors.check_confidence(0.9);
    let expected = PACKETS as f64 / COLUMNS as f64;
    assert!(
        (errors.mean() / expected - 1.0).abs() < 0.05,
        "{}",
        errors.mean()
    );
    assert!(shown <= COLUMNS * SEEDS as usize);
}

#[test]
fn the_reversible_sketch_is_within_its_bound_and_each_row_lowers_the_mean_error() {
    let mut means = Vec::new();
    for rows in 1..=4 {
        let mut errors = Errors::default();
        let confidence = 1.0 - (-(rows as f64)).exp();
        for seed in 0..SEEDS {
            let (stream, seed) = (stream(seed), Seed::new(seed));
            let options = ReversibleOptions {
                rows,
                key_bytes: 4,
                column_bits: 9,
                width: Width::Narrow,
            };
            let mut sketch = Reversible::new(options, seed).unwrap();
            stream.count_packets(&mut sketch, seed);
            let bound = sketch.error_bound(confidence).over;
            for (&key, &truth) in &stream.packets {
                errors.add(sketch.query(key).value, truth, bound);
            }
        }
        errors.check_confidence(confidence);
        means.push(errors.mean());
    }
    let expected = PACKETS as f64 / COLUMNS as f64;
    assert!(
        (means[0] / expected - 1.0).abs() < 0.1,
        "{means:?}, {expected}"
    );
    for pair in means.windows(2) {
        assert!(pair[1] < 0.9 * pair[0], "{means:?}");
    }
}

fn table(policy: Policy, seed: Seed) -> HeavyHitters {
    HeavyHitters::with_memory(
        64 * HeavyHitters::bucket_bytes(Width::Wide),
        policy,
        Width::Wide,
        seed,
    )
    .unwrap()
}

/// All keys, those that are not listed too, in packets and in bytes.
#[test]
fn space_saving_guarantees_its_bound() {
    for number in 0..SEEDS {
        let (stream, seed) = (stream(number), Seed::new(number));
        for bytes in [false, true] {
            let mut table = table(Policy::SpaceSaving, seed);
            let truth = if bytes {
                stream.count_bytes(&mut table, seed);
                &stream.bytes
            } else {
                stream.count_packets(&mut table, seed);
                &stream.packets
            };
            let bound = table.error_bound(0.5);
            assert_eq!(bound.confidence, 1.0);
            assert!(bound.over > 0.0);
            for (&key, &truth) in truth {
                let estimate = table.query(hashed(key, seed));
                assert!(
                    estimate.low <= truth && truth <= estimate.high,
                    "{truth} {estimate:?}"
                );
                let error = estimate.value as f64 - truth as f64;
                assert!(
                    error <= bound.over && -error <= bound.under,
                    "{truth} {estimate:?}"
                );
            }
            // Each packet adds its weight to one slot. A lost slot would lose some, or raise the bound.
            let counted: u64 = table
                .heavy_hitters(1)
                .iter()
                .map(|found| found.estimate.value)
                .sum();
            assert_eq!(counted, table.total());
            assert_eq!(table.heavy_hitters(1).len(), table.slots());
            let mean = table.total() as f64 / table.slots() as f64;
            assert!(bound.over < 2.5 * mean, "{bound:?} {mean}");
        }
    }
}

#[test]
fn random_admission_is_within_its_bound() {
    let confidence = 0.9;
    let (mut queries, mut beyond, mut sum) = (0u64, 0u64, 0.0);
    for number in 0..2 * SEEDS {
        let (stream, seed) = (stream(number / 2), Seed::new(number));
        let mut table = table(Policy::RandomAdmission, seed);
        let truth = if number % 2 == 0 {
            stream.count_packets(&mut table, seed);
            &stream.packets
        } else {
            stream.count_bytes(&mut table, seed);
            &stream.bytes
        };
        let bound = table.error_bound(confidence);
        for (&key, &truth) in truth {
            let estimate = table.query(hashed(key, seed));
            assert!(estimate.low <= truth, "{truth} {estimate:?}");
            let error = estimate.value as f64 - truth as f64;
            assert!(error <= bound.over, "{truth} {estimate:?}");
            queries += 1;
            beyond += u64::from(-error > bound.under);
        }
        for key in stream.heaviest(100) {
            let truth = truth[&key] as f64;
            sum += (table.query(hashed(key, seed)).value as f64 - truth).abs() / truth;
        }
    }
    assert!(
        beyond as f64 <= (1.0 - confidence) * queries as f64,
        "{beyond} of {queries}"
    );
    // The 100 heaviest are counted nearly exactly: an update that were lost would show here.
    let mean = sum / (200 * SEEDS) as f64;
    assert!(mean < 0.02, "{mean}");
}

/// Sums over many keys of unbiased estimates err around 0, by seeds: those of random admission are low.
#[test]
fn subset_sums_of_the_unbiased_table_have_no_bias() {
    let deviations = |policy| {
        let mut errors = Vec::new();
        for number in 0..2 * SEEDS {
            let (stream, seed) = (stream(3), Seed::new(number));
            let mut table = table(policy, seed);
            stream.count_bytes(&mut table, seed);
            let bound = table.error_bound(0.9);
            // A group of a third of the keys, without the heaviest.
            let heaviest = stream.heaviest(50);
            let in_group = |key: u128| key % 3 == 1 && !heaviest.contains(&key);
            let truth: u64 = stream
                .bytes
                .iter()
                .filter(|(key, _)| in_group(**key))
                .map(|(_, w)| w)
                .sum();
            let listed = table.heavy_hitters(1);
            for found in &listed {
                let own = stream.bytes[&found.key] as f64;
                assert!(found.estimate.value as f64 - own <= bound.over);
            }
            let group = listed.iter().filter(|found| in_group(found.key));
            let sum: u64 = group.map(|found| found.estimate.value).sum();
            errors.push(sum as f64 / truth as f64 - 1.0);
        }
        let count = errors.len() as f64;
        let mean = errors.iter().sum::<f64>() / count;
        let variance = errors
            .iter()
            .map(|error| (error - mean).powi(2))
            .sum::<f64>()
            / (count - 1.0);
        (mean, (variance / count).sqrt())
    };
    let (mean, deviation) = deviations(Policy::Unbiased);
    assert!(mean.abs() < 4.0 * deviation, "{mean} {deviation}");
    assert!(deviation < 0.02, "{deviation}");
    let (mean, deviation) = deviations(Policy::RandomAdmission);
    assert!(
        mean < -4.0 * deviation,
        "{mean} {deviation}: the test would not notice a bias"
    );
}

#[test]
fn a_table_for_an_error_finds_all_keys_above_it() {
    let error = 0.005;
    for number in 0..SEEDS {
        let seed = Seed::new(number);
        for stream in [stream(number), Stream::flood(PACKETS, 2000, number)] {
            let threshold = (error * PACKETS as f64).ceil() as u64;
            for policy in [Policy::RandomAdmission, Policy::SpaceSaving] {
                let mut table =
                    HeavyHitters::with_error(error, policy, Width::Narrow, seed).unwrap();
                stream.count_packets(&mut table, seed);
                for (&key, &truth) in stream
                    .packets
                    .iter()
                    .filter(|(_, packets)| **packets > threshold)
                {
                    let estimate = table.query(hashed(key, seed));
                    assert!(
                        estimate.value > 0,
                        "{truth} of {PACKETS} missed, {policy:?}"
                    );
                }
            }
        }
    }
}
