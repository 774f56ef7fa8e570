use super::*;
use crate::test_support::{Zipf, disturb, hashed, read_back, table, written};
use crate::{HeavyHitters, Policy};

fn of(packets: &[u128], seed: u64) -> Entropy<HeavyHitters> {
    let seed = Seed::new(seed);
    let table = table(48 << 10, Policy::RandomAdmission, seed);
    let mut entropy = Entropy::new(table, FlowSample::new(11).unwrap());
    hashed(seed, packets.iter().copied(), |updates| {
        entropy.update(updates);
    });
    entropy
}

fn truth(zipf: &Zipf) -> f64 {
    let total = zipf.packets.len() as f64;
    let shares = zipf.truth.values().map(|&count| count as f64 / total);
    shares.map(|share| -share * share.log2()).sum()
}

#[test]
fn sampled_entropy_is_unbiased_and_within_its_bound_over_40_seeds() {
    for exponent in [0.8, 1.1] {
        let (mut mean, mut outside) = (0.0, 0);
        for seed in 0..40 {
            let zipf = Zipf::new(seed, 60_000, 200_000, exponent);
            let entropy = of(&zipf.packets, seed);
            let found = entropy.estimate();
            let truth = truth(&zipf);
            mean += (found.bits / truth - 1.0) / 40.0;
            assert!(
                (found.bits / truth - 1.0).abs() < 0.06,
                "{found:?}, {truth}"
            );
            outside += usize::from((found.bits - truth).abs() > entropy.error_bound(0.95).over);
            let keys = zipf.truth.len() as f64;
            assert!((found.keys / keys - 1.0).abs() < 0.15, "{found:?}, {keys}");
        }
        assert!(mean.abs() < 0.01, "exponent {exponent}: mean error {mean}");
        // The errors of the table's counts are not in the standard error: a few more than 2 of 40.
        assert!(outside <= 6, "exponent {exponent}: {outside} of 40");
    }
}

#[test]
fn with_few_keys_it_is_exact() {
    let entropy = of(&[1, 2, 3, 4, 1, 2, 3, 4], 1);
    let found = entropy.estimate();
    assert!((found.bits - 2.0).abs() < 1e-12 && (found.normalised() - 1.0).abs() < 1e-12);
    assert_eq!((found.standard_error, found.keys), (0.0, 4.0));
    assert_eq!(of(&[7; 100], 1).estimate().bits, 0.0);
    assert_eq!(of(&[7; 100], 1).estimate().normalised(), 0.0);
    assert_eq!(of(&[], 1).estimate().bits, 0.0);
}

#[test]
fn an_even_rest_is_rather_too_high() {
    for seed in 0..30 {
        let zipf = Zipf::new(seed, 60_000, 200_000, 1.0);
        let entropy = of(&zipf.packets, seed);
        let found = with_even_rest(entropy.table(), zipf.truth.len() as f64);
        let error = found.bits / truth(&zipf) - 1.0;
        assert!((-0.005..0.05).contains(&error), "{error}");
    }
}

#[test]
fn eight_parts_are_one_that_saw_all_within_the_bound() {
    let zipf = Zipf::new(3, 60_000, 200_000, 1.0);
    let whole = of(&zipf.packets, 3);
    let mut merged = of(&[], 3);
    for part in 0..8 {
        let part: Vec<u128> = zipf.packets.iter().copied().skip(part).step_by(8).collect();
        merged.merge(&of(&part, 3), Overlap::Shared).unwrap();
    }
    assert_eq!(merged.sample, whole.sample);
    let bound = merged.error_bound(0.99).over;
    let (merged, truth) = (merged.estimate(), truth(&zipf));
    assert!(
        bound < 0.1 * truth && (merged.bits - truth).abs() < bound,
        "{merged:?}, {truth}"
    );
}

#[test]
fn others_are_refused_and_damage_is_found() {
    let mut entropy = of(&(0..3000).collect::<Vec<_>>(), 1);
    assert_eq!(
        entropy.merge(&of(&[1], 2), Overlap::Shared),
        Err(MergeError::Seed)
    );
    let small = Entropy::new(
        table(48 << 10, Policy::RandomAdmission, Seed::new(1)),
        FlowSample::new(10).unwrap(),
    );
    let refused = entropy.merge(&small, Overlap::Shared);
    assert!(matches!(refused, Err(MergeError::Dimensions(..))));
    let read = read_back(&entropy).unwrap();
    assert_eq!(read.estimate(), entropy.estimate());
    disturb::<Entropy<HeavyHitters>>(&entropy.geometry(), &written(&entropy), |read| {
        assert!(!read.estimate().bits.is_nan());
    });
    entropy.clear();
    assert_eq!(entropy.estimate().keys, 0.0);
}
