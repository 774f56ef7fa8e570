use super::*;
use crate::test_support::{Zipf, hashed, table};
use crate::{HeavyHitters, Policy, Seed, Sketch};
use std::collections::HashMap;

fn counted(packets: &[u128], policy: Policy, seed: u64, bytes: usize) -> HeavyHitters {
    let mut counted = table(bytes, policy, Seed::new(seed));
    hashed(Seed::new(seed), packets.iter().copied(), |updates| {
        counted.update(updates);
    });
    counted
}

/// Two intervals of one distribution, in the second of which every hundredth of the flows with at least
/// 20 packets falls silent, and as many new ones appear with 400 packets each.
fn intervals(seed: u64) -> (Zipf, Zipf) {
    let before = Zipf::new(seed, 30_000, 150_000, 1.0);
    let mut after = Zipf::new(seed + 1000, 30_000, 150_000, 1.0).packets;
    let silent =
        |key: u128| before.truth.get(&key).is_some_and(|n| *n >= 20) && key.is_multiple_of(100);
    after.retain(|&key| !silent(key));
    for new in 0..50 {
        after.extend([u128::MAX - new; 400]);
    }
    (before, Zipf::of(after))
}

fn true_changes(before: &Zipf, after: &Zipf) -> HashMap<u128, i128> {
    let mut changes = HashMap::new();
    for (key, count) in &after.truth {
        *changes.entry(*key).or_default() += i128::from(*count);
    }
    for (key, count) in &before.truth {
        *changes.entry(*key).or_default() -= i128::from(*count);
    }
    changes
}

#[test]
fn largest_changes_are_found_over_30_seeds() {
    let mut recall = 0.0;
    for seed in 0..30 {
        let (before, after) = intervals(seed);
        let truth = true_changes(&before, &after);
        let mut sizes: Vec<u128> = truth.values().map(|change| change.unsigned_abs()).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let least = sizes[99];
        let policy = Policy::RandomAdmission;
        let tables = [&before, &after].map(|i| counted(&i.packets, policy, seed, 96 << 10));
        let found = between(&tables[0], &tables[1], 1, 0.99).unwrap();
        let sorted = found.windows(2);
        assert!(
            sorted
                .map(|pair| (pair[0].value(), pair[1].value()))
                .all(|(a, b)| a.abs() >= b.abs())
        );
        let hits = found
            .iter()
            .take(100)
            .filter(|c| truth[&c.key].unsigned_abs() >= least);
        recall += hits.count() as f64 / 100.0 / 30.0;
        // Rises and falls exchange places with the intervals.
        let back = between(&tables[1], &tables[0], 1, 0.99).unwrap();
        let pairs = found.iter().zip(&back);
        assert!(
            pairs
                .map(|(a, b)| (a.key, a.value(), b.key, b.value()))
                .all(|(k, v, l, w)| k == l && v == -w)
        );
    }
    assert!(recall > 0.95, "{recall}");
}

#[test]
fn guaranteed_bounds_contain_each_change_over_30_seeds() {
    for seed in 0..30 {
        let (before, after) = intervals(seed);
        let truth = true_changes(&before, &after);
        let tables =
            [&before, &after].map(|i| counted(&i.packets, Policy::SpaceSaving, seed, 64 << 10));
        let bound: f64 = tables.iter().map(|table| table.error_bound(1.0).over).sum();
        let found = between(&tables[0], &tables[1], 1, 1.0).unwrap();
        for change in &found {
            let truth = truth[&change.key];
            assert!(
                (change.low()..=change.high()).contains(&truth),
                "{change:?}, {truth}"
            );
            assert!((change.value() - truth).unsigned_abs() as f64 <= bound);
        }
        // What is not listed changed by no more than the bound.
        let listed: HashMap<_, _> = found.iter().map(|change| (change.key, ())).collect();
        let missed = truth.iter().filter(|(key, _)| !listed.contains_key(key));
        assert!(
            missed
                .map(|(_, n)| n.unsigned_abs() as f64)
                .all(|n| n <= bound)
        );
    }
}

#[test]
fn small_changes_are_left_out_and_other_tables_refused() {
    let tables = [
        counted(&[1, 1, 1, 2], Policy::SpaceSaving, 1, 4096),
        counted(&[1, 2], Policy::SpaceSaving, 1, 4096),
    ];
    let found = between(&tables[0], &tables[1], 2, 1.0).unwrap();
    assert_eq!(
        found.iter().map(|c| (c.key, c.value())).collect::<Vec<_>>(),
        [(1, -2)]
    );
    let other = counted(&[1], Policy::SpaceSaving, 2, 4096);
    assert_eq!(between(&tables[0], &other, 1, 1.0), Err(MergeError::Seed));
    let other = counted(&[1], Policy::SpaceSaving, 1, 8192);
    assert!(matches!(
        between(&tables[0], &other, 1, 1.0),
        Err(MergeError::Dimensions(..))
    ));
}
