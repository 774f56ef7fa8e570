//! A merge of parts beside one sketch that saw all.

use crate::streams::{Stream, hashed};
use sketch::count_min::{CountMinOptions, Rule};
use sketch::{
    CountMin, FrequencySketch, HeavyHitters, MergeError, Overlap, Policy, Reversible,
    ReversibleOptions, Seed, SimpleTable, Sketch, Width,
};

const PARTS: usize = 8;
const SEED: Seed = Seed::new(41);

fn written(sketch: &impl Sketch) -> Vec<u8> {
    let mut bytes = Vec::new();
    sketch.write(&mut bytes);
    bytes
}

/// Merges parts that saw every eighth packet (shared), or each an eighth of the keys (disjoint).
fn merged<S: Sketch>(stream: &Stream, new: impl Fn() -> S, overlap: Overlap) -> S {
    let mut parts: Vec<S> = (0..PARTS).map(|_| new()).collect();
    stream.count_parts(&mut parts, SEED, |index, key| match overlap {
        Overlap::Shared => index % PARTS,
        Overlap::Disjoint => (key % PARTS as u128) as usize,
    });
    let mut parts = parts.into_iter();
    let mut sum = parts.next().unwrap();
    for part in parts {
        sum.merge(&part, overlap).unwrap();
    }
    sum
}

#[test]
fn plain_count_min_and_the_reversible_sketch_merge_exactly() {
    let stream = Stream::zipf(20_000, 3000, 1.0, 5);
    for overlap in [Overlap::Shared, Overlap::Disjoint] {
        for width in [Width::Narrow, Width::Wide] {
            let options = CountMinOptions {
                width,
                ..CountMinOptions::new(3, 400)
            };
            let new = || CountMin::new(options, SEED).unwrap();
            let mut whole = new();
            stream.count_packets(&mut whole, SEED);
            assert_eq!(written(&merged(&stream, new, overlap)), written(&whole));

            let options = ReversibleOptions {
                rows: 3,
                key_bytes: 4,
                column_bits: 8,
                width,
            };
            let new = || Reversible::new(options, SEED).unwrap();
            let mut whole = new();
            stream.count_packets(&mut whole, SEED);
            assert_eq!(written(&merged(&stream, new, overlap)), written(&whole));
        }
        // Which key a slot shows depends on the order of packets, its count does not.
        let new = || SimpleTable::with_slots(500, Width::Narrow, SEED).unwrap();
        let mut whole = new();
        stream.count_packets(&mut whole, SEED);
        let merged = merged(&stream, new, overlap);
        assert_eq!(merged.total(), whole.total());
        for &key in stream.packets.keys() {
            let key = hashed(key, SEED);
            assert_eq!(merged.query(key), whole.query(key));
        }
    }
}

#[test]
fn candidates_of_merged_parts_are_those_of_the_whole() {
    let stream = Stream::zipf(60_000, 8000, 1.0, 6);
    let options = CountMinOptions {
        candidates: 400,
        running: true,
        ..CountMinOptions::new(4, 4096)
    };
    for overlap in [Overlap::Shared, Overlap::Disjoint] {
        let merged = merged(&stream, || CountMin::new(options, SEED).unwrap(), overlap);
        let heavy = merged.heavy_hitters(1);
        for key in stream.heaviest(200) {
            let found = heavy.iter().find(|found| found.key == key);
            let estimate = found.map(|found| found.estimate);
            assert_eq!(estimate, Some(merged.query(hashed(key, SEED))));
        }
        // The list says from which weight on it is complete.
        let complete = merged.candidates().unwrap().complete_from();
        assert!(complete > 0);
        for (key, _) in stream
            .packets
            .iter()
            .filter(|(_, packets)| **packets >= complete)
        {
            assert!(heavy.iter().any(|found| found.key == *key));
        }
        assert_eq!(
            merged.running().map(|(key, _)| key.key),
            Some(stream.heaviest(1)[0])
        );
    }
}

/// Trap "conservative update merges only in one way": added cells are an upper bound, never worse than
/// plain ones. The larger of both is one only if no key is on both sides, where it is better.
#[test]
fn conservative_sketches_stay_upper_bounds() {
    let stream = Stream::zipf(40_000, 6000, 1.0, 7);
    let new = |rule| {
        let options = CountMinOptions {
            rule,
            ..CountMinOptions::new(4, 1024)
        };
        move || CountMin::new(options, SEED).unwrap()
    };
    let sum_of_errors = |sketch: &CountMin| {
        let errors = stream.packets.iter().map(|(&key, &truth)| {
            let estimate = sketch.query(hashed(key, SEED)).value;
            assert!(estimate >= truth, "{estimate} for {truth}");
            estimate - truth
        });
        errors.sum::<u64>()
    };
    let plain = sum_of_errors(&merged(&stream, new(Rule::Plain), Overlap::Shared));
    let shared = merged(&stream, new(Rule::Conservative), Overlap::Shared);
    let disjoint = merged(&stream, new(Rule::Conservative), Overlap::Disjoint);
    assert!(sum_of_errors(&shared) <= plain);
    assert!(2 * sum_of_errors(&disjoint) < sum_of_errors(&shared));

    // The larger of both sides, where keys were on both, is too low: the caller must say what it has.
    let mut parts = [(); 2].map(|()| new(Rule::Conservative)());
    stream.count_parts(&mut parts, SEED, |index, _| index % 2);
    let [mut larger, other] = parts;
    larger.merge(&other, Overlap::Disjoint).unwrap();
    let low = stream
        .packets
        .iter()
        .filter(|(key, truth)| larger.query(hashed(**key, SEED)).value < **truth);
    assert!(low.count() > 100);
}

fn table(policy: Policy) -> impl Fn() -> HeavyHitters {
    move || HeavyHitters::with_memory(100 << 10, policy, Width::Narrow, SEED).unwrap()
}

/// Trap "merging Space-Saving": a key absent from one side gets that side's smallest count, or the bound
/// breaks; where flows are disjoint it must not, or light keys become heavy.
#[test]
fn merged_space_saving_keeps_its_guarantee() {
    let stream = Stream::zipf(80_000, 20_000, 0.9, 8);
    let error_of_heaviest = |table: &HeavyHitters| {
        let errors = stream.heaviest(100).into_iter().map(|key| {
            let truth = stream.packets[&key] as f64;
            (table.query(hashed(key, SEED)).value as f64 - truth).abs() / truth
        });
        errors.sum::<f64>() / 100.0
    };
    for overlap in [Overlap::Shared, Overlap::Disjoint] {
        let merged = merged(&stream, table(Policy::SpaceSaving), overlap);
        assert_eq!(merged.total(), stream.keys.len() as u64);
        for (&key, &truth) in &stream.packets {
            let estimate = merged.query(hashed(key, SEED));
            assert!(
                estimate.low <= truth && truth <= estimate.high,
                "{truth} {estimate:?} {overlap:?}"
            );
        }
    }
    let disjoint = merged(&stream, table(Policy::SpaceSaving), Overlap::Disjoint);
    let shared = merged(&stream, table(Policy::SpaceSaving), Overlap::Shared);
    assert!(
        error_of_heaviest(&disjoint) < 0.02,
        "{}",
        error_of_heaviest(&disjoint)
    );
    assert!(error_of_heaviest(&shared) > error_of_heaviest(&disjoint));
}

#[test]
fn merged_random_admission_finds_the_heavy_and_bounds_its_excess() {
    let stream = Stream::zipf(80_000, 20_000, 0.9, 9);
    for overlap in [Overlap::Shared, Overlap::Disjoint] {
        let merged = merged(&stream, table(Policy::RandomAdmission), overlap);
        let mut missed = 0;
        for key in stream.heaviest(100) {
            missed += u32::from(merged.query(hashed(key, SEED)).value == 0);
        }
        assert!(missed <= 2, "{missed} {overlap:?}");
        for (&key, &truth) in &stream.packets {
            let estimate = merged.query(hashed(key, SEED));
            assert!(estimate.low <= truth, "{truth} {estimate:?} {overlap:?}");
        }
    }
}

/// A dropped key hands its count to a survivor: the total stays.
#[test]
fn merged_unbiased_tables_lose_no_weight() {
    let stream = Stream::zipf(80_000, 20_000, 0.9, 10);
    for overlap in [Overlap::Shared, Overlap::Disjoint] {
        let merged = merged(&stream, table(Policy::Unbiased), overlap);
        let counted: u64 = merged
            .heavy_hitters(1)
            .iter()
            .map(|found| found.estimate.value)
            .sum();
        assert_eq!(counted, stream.keys.len() as u64);
        let bound = merged.error_bound(0.9).over;
        for found in merged.heavy_hitters(1) {
            let error = found.estimate.value as f64 - stream.packets[&found.key] as f64;
            assert!(error <= bound, "{error} {bound} {overlap:?}");
        }
    }
}

/// Trap "seeds": another seed, size, policy or width is refused, and nothing has changed then.
#[test]
fn what_must_not_be_merged_is_refused() {
    let stream = Stream::zipf(1000, 100, 1.0, 11);
    let new = |bytes, policy, width, seed| {
        let mut table = HeavyHitters::with_memory(bytes, policy, width, seed).unwrap();
        stream.count_packets(&mut table, seed);
        table
    };
    let (policy, width) = (Policy::SpaceSaving, Width::Narrow);
    let mut ours = new(10_000, policy, width, SEED);
    let before = written(&ours);
    let mut refused = |other: HeavyHitters| {
        let error = ours.merge(&other, Overlap::Shared).unwrap_err();
        assert_eq!(written(&ours), before);
        error
    };
    assert_eq!(
        refused(new(10_000, policy, width, Seed::new(42))),
        MergeError::Seed
    );
    for other in [
        new(12_000, policy, width, SEED),
        new(10_000, Policy::Unbiased, width, SEED),
        new(10_000, policy, Width::Wide, SEED),
    ] {
        assert!(matches!(refused(other), MergeError::Dimensions(..)));
    }
    let options = CountMinOptions::new(2, 64);
    let mut plain = CountMin::new(options, SEED).unwrap();
    let rule = Rule::Conservative;
    let other = CountMin::new(CountMinOptions { rule, ..options }, SEED).unwrap();
    assert!(matches!(
        plain.merge(&other, Overlap::Shared),
        Err(MergeError::Dimensions(..))
    ));
}
