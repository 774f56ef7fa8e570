use super::*;
use crate::test_support::{disturb, hashed_key, read_back, table, written};
use crate::{HeavyHitters, Policy};
use hw::random::{Random, mix};

/// Packets as source and destination.
type Pairs = Vec<(u128, u64)>;

/// 50 scanners with 300 to 3,240 destinations, 20,000 hosts with 1 to 5, each pair with 1 to 3 packets,
/// in random order.
fn traffic(seed: u64) -> Pairs {
    let mut random = Random::new(seed, 1);
    let mut packets = Vec::new();
    for source in 0..20_050 {
        let partners = if source < 50 {
            targets(source)
        } else {
            1 + random.below(5)
        };
        for partner in 0..partners {
            let destination = mix(source << 20 | partner);
            for _ in 0..=random.below(3) {
                packets.push((u128::from(source), destination));
            }
        }
    }
    for index in (1..packets.len()).rev() {
        packets.swap(index, random.below(index as u64 + 1) as usize);
    }
    packets
}

const fn targets(scanner: u64) -> u64 {
    300 + scanner * 60
}

fn new(seed: u64, lg_bits: u8) -> FanOut<HeavyHitters> {
    let seed = Seed::new(seed);
    FanOut::new(
        lg_bits,
        table(64 << 10, Policy::RandomAdmission, seed),
        seed,
    )
    .unwrap()
}

fn count(sketch: &mut FanOut<HeavyHitters>, seed: u64, packets: &[(u128, u64)]) {
    for packets in packets.chunks(256) {
        let sources: Vec<u128> = packets.iter().map(|packet| packet.0).collect();
        let pairs: Vec<u128> = packets
            .iter()
            .map(|(source, destination)| source << 64 | u128::from(*destination))
            .collect();
        let mut hashes = vec![0; pairs.len()];
        Seed::new(seed).hash().hash(&pairs, &mut hashes);
        sketch.update(Updates::new(&sources, &hashes, Weights::Ones));
    }
}

fn of(seed: u64, lg_bits: u8, packets: &[(u128, u64)]) -> FanOut<HeavyHitters> {
    let mut sketch = new(seed, lg_bits);
    count(&mut sketch, seed, packets);
    sketch
}

/// Returns the mean error of the scanners, having checked that all are found, within their bounds.
fn check_scanners(sketch: &FanOut<HeavyHitters>) -> f64 {
    let found = sketch.heavy_hitters(150).unwrap();
    assert_eq!(found.len(), 50);
    let error = |found: &HeavyHitter| {
        let truth = targets(found.key as u64);
        let estimate = found.estimate;
        assert!(
            (estimate.low..=estimate.high).contains(&truth),
            "{found:?}: {truth}"
        );
        estimate.value as f64 / truth as f64 - 1.0
    };
    found.iter().map(error).sum::<f64>() / 50.0
}

/// At a load of 0.34, a count of bits alone would be 18 % low.
#[test]
fn scanners_are_found_without_bias_over_30_seeds() {
    for lg_bits in [18, 22] {
        let mut mean = 0.0;
        for seed in 0..30 {
            let packets = traffic(seed);
            let sketch = of(seed, lg_bits, &packets);
            mean += check_scanners(&sketch) / 30.0;
            let bound = sketch.error_bound(0.99);
            let found = sketch.heavy_hitters(150).unwrap();
            let error = |f: &HeavyHitter| f.estimate.value.abs_diff(targets(f.key as u64)) as f64;
            let outside = found
                .iter()
                .filter(|f| error(f) > bound.over.max(bound.under));
            assert!(outside.count() <= 1, "seed {seed}");
            let pairs = sketch.pairs().unwrap();
            let truth = traffic(seed)
                .into_iter()
                .collect::<std::collections::HashSet<_>>()
                .len();
            assert!(
                (pairs / truth as f64 - 1.0).abs() < 0.01,
                "{pairs}, {truth}"
            );
        }
        assert!(mean.abs() < 0.006, "{lg_bits}: {mean}");
    }
}

#[test]
fn a_full_bitmap_refuses_to_answer() {
    let sketch = of(1, 15, &traffic(1));
    assert!(sketch.load() > LOAD_MAX);
    let Err(overloaded) = sketch.heavy_hitters(1) else {
        panic!("it answered");
    };
    assert_eq!(overloaded.load, sketch.load());
    assert!(sketch.query(hashed_key(Seed::new(1), 1)).is_err() && sketch.pairs().is_err());
}

#[test]
fn eight_parts_with_one_bitmap_are_one_that_saw_all() {
    let packets = traffic(3);
    let whole = of(3, 20, &packets);
    let first = new(3, 20);
    let seed = Seed::new(3);
    let parts: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|part| {
                let own: Pairs = packets.iter().copied().skip(part).step_by(8).collect();
                let mut sketch = first.share(table(64 << 10, Policy::RandomAdmission, seed));
                scope.spawn(move || {
                    count(&mut sketch, 3, &own);
                    sketch
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let mut merged = first;
    for part in &parts {
        merged.merge(part, Overlap::Shared).unwrap();
    }
    assert_eq!(merged.pairs().unwrap(), whole.pairs().unwrap());
    assert_eq!((merged.total(), merged.repeated), (whole.total(), 0));
    assert!(check_scanners(&merged).abs() < 0.03);
}

/// Probes at different links see different pairs of the same sources.
#[test]
fn probes_with_other_pairs_are_merged_and_with_the_same_refused() {
    let packets = traffic(4);
    let links: Vec<Pairs> = (0..8)
        .map(|link| {
            packets
                .iter()
                .copied()
                .filter(|packet| packet.1 % 8 == link)
                .collect()
        })
        .collect();
    let mut merged = of(4, 20, &links[0]);
    for link in &links[1..] {
        merged.merge(&of(4, 20, link), Overlap::Shared).unwrap();
    }
    assert!(check_scanners(&merged).abs() < 0.03);
    let (pairs, whole) = (
        merged.pairs().unwrap(),
        of(4, 20, &packets).pairs().unwrap(),
    );
    assert_eq!(pairs, whole);
    let before = written(&merged);
    let refused = merged.merge(&of(4, 20, &links[2]), Overlap::Shared);
    assert!(
        matches!(refused, Err(MergeError::NotMergeable(_))),
        "{refused:?}"
    );
    assert_eq!(
        merged.merge(&of(5, 20, &[]), Overlap::Shared),
        Err(MergeError::Seed)
    );
    let other = new(4, 19);
    let refused = merged.merge(&other, Overlap::Shared);
    assert!(matches!(refused, Err(MergeError::Dimensions(..))));
    assert_eq!(written(&merged), before);
}

fn sketch_of(read: &FanOut<HeavyHitters>) -> FanOut<HeavyHitters> {
    let state = written(read);
    FanOut::read(&read.geometry(), None, &mut Reader::new(&state)).unwrap()
}

#[test]
fn states_return_and_damage_is_found() {
    let mut sketch = of(5, 12, &traffic(5)[..1000]);
    let read = read_back(&sketch).unwrap();
    assert_eq!(read.heavy_hitters(1), sketch.heavy_hitters(1));
    assert_eq!(written(&read), written(&sketch));
    disturb::<FanOut<HeavyHitters>>(&sketch.geometry(), &written(&sketch), |read| {
        let _ = (read.heavy_hitters(1), read.pairs(), read.error_bound(0.9));
        let mut twice = sketch_of(read);
        let _ = twice.merge(read, Overlap::Disjoint);
        let _ = twice.heavy_hitters(0);
    });
    sketch.clear();
    assert_eq!((sketch.total(), sketch.load()), (0, 0.0));
    assert!(
        FanOut::new(
            5,
            table(4096, Policy::SpaceSaving, Seed::new(1)),
            Seed::new(1)
        )
        .is_err()
    );
}
