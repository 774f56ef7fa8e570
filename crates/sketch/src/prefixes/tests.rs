use super::*;
use crate::test_support::{disturb, read_back, table, written};
use crate::{HeavyHitters, Policy};
use hw::random::Random;
use std::net::{Ipv4Addr, Ipv6Addr};

const V4: [u8; 4] = [8, 16, 24, 32];
const V6: [u8; 3] = [32, 64, 128];

fn with(choice: Levels, policy: Policy, seed: u64, bytes: usize) -> Prefixes<HeavyHitters> {
    let seed = Seed::new(seed);
    Prefixes::new(&V4, &V6, choice, seed, || Ok(table(bytes, policy, seed))).unwrap()
}

fn count(sketch: &mut Prefixes<HeavyHitters>, packets: &[(u128, u32)]) {
    for packets in packets.chunks(200) {
        let keys: Vec<u128> = packets.iter().map(|packet| packet.0).collect();
        let weights: Vec<u32> = packets.iter().map(|packet| packet.1).collect();
        let hashes = vec![0; keys.len()];
        sketch.update(Updates::new(&keys, &hashes, Weights::Each(&weights)));
    }
}

fn v4(a: u8, b: u8, c: u8, d: u8) -> u128 {
    address_key(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
}

fn v6(site: u16, subnet: u16, host: u16) -> u128 {
    address_key(IpAddr::V6(Ipv6Addr::new(
        0x2001, site, 0, subnet, 0, 0, 0, host,
    )))
}

/// Traffic with a carpet bombing of 198.51.100.0/24 (each address 200 times, in sum 51,200), of the
/// 16 networks 203.0.x.0/24 (3,200 each), one heavy address in it (10,000), one in 10.0.0.0/8 beside
/// much light traffic there, and a heavy /64 of IPv6. Weights are 1 to 3, and 2 on average.
fn traffic(seed: u64) -> Vec<(u128, u32)> {
    let mut random = Random::new(seed, 2);
    let mut packets = Vec::new();
    for _ in 0..51_200 {
        packets.push(v4(198, 51, 100, random.below(256) as u8));
        packets.push(v4(203, 0, random.below(16) as u8, random.below(256) as u8));
    }
    packets.extend([v4(203, 0, 3, 7); 10_000]);
    packets.extend([v4(10, 1, 2, 3); 15_000]);
    for _ in 0..20_000 {
        let [_, b, c, d, ..] = random.bits().to_le_bytes();
        packets.push(v4(10, b, c, d));
        packets.push(v6(9, 5, random.below(30_000) as u16));
        let [a, b, c, d, ..] = random.bits().to_le_bytes();
        packets.push(v4(a, b, c, d));
    }
    let mut weighted: Vec<_> = packets
        .into_iter()
        .map(|key| (key, 1 + random.below(3) as u32))
        .collect();
    for index in (1..weighted.len()).rev() {
        weighted.swap(index, random.below(index as u64 + 1) as usize);
    }
    weighted
}

/// Returns the true weight of a prefix.
fn truth(packets: &[(u128, u32)], family: Family, length: u8, address: u128) -> u64 {
    let mask = family.mask(length);
    let inside = packets.iter().filter(|(key, _)| key & mask == address);
    inside.map(|(_, weight)| u64::from(*weight)).sum()
}

const THRESHOLD: u64 = 18_000;

/// The heavy prefixes of [`traffic`]: not the hosts of a bombed network, nor the network of a heavy
/// host.
fn expected() -> Vec<(Family, u8, u128)> {
    vec![
        (Family::V4, 32, v4(203, 0, 3, 7)),
        (Family::V4, 32, v4(10, 1, 2, 3)),
        (Family::V4, 24, v4(198, 51, 100, 0)),
        (Family::V4, 16, v4(203, 0, 0, 0)),
        (Family::V4, 8, v4(10, 0, 0, 0)),
        (Family::V6, 64, v6(9, 5, 0)),
    ]
}

fn sorted(mut prefixes: Vec<(Family, u8, u128)>) -> Vec<(Family, u8, u128)> {
    prefixes.sort_by_key(|(family, length, address)| (*family == Family::V6, *length, *address));
    prefixes
}

fn found(sketch: &Prefixes<HeavyHitters>) -> Vec<(Family, u8, u128)> {
    let found = sketch.heavy_prefixes(THRESHOLD).into_iter();
    sorted(
        found
            .map(|prefix| (prefix.family, prefix.length, prefix.address))
            .collect(),
    )
}

/// Checks the estimates of all listed prefixes, and returns the mean error of the heavy ones.
fn check(sketch: &Prefixes<HeavyHitters>, packets: &[(u128, u32)]) -> f64 {
    let bound = sketch.error_bound(0.99);
    let prefixes = sketch.heavy_prefixes(THRESHOLD);
    let error = |prefix: &HeavyPrefix| {
        let truth = truth(packets, prefix.family, prefix.length, prefix.address);
        let estimate = prefix.estimate;
        assert!(
            (estimate.low..=estimate.high).contains(&truth),
            "{prefix:?}: {truth}"
        );
        let error = estimate.value as f64 - truth as f64;
        assert!(
            (-bound.under..=bound.over).contains(&error),
            "{error}: {bound:?}"
        );
        error / truth as f64
    };
    prefixes.iter().map(error).sum::<f64>() / prefixes.len() as f64
}

#[test]
fn heavy_prefixes_are_found_at_their_level_over_30_seeds() {
    for seed in 0..30 {
        let packets = traffic(seed);
        for policy in [Policy::RandomAdmission, Policy::SpaceSaving] {
            let mut sketch = with(Levels::All, policy, seed, 64 << 10);
            count(&mut sketch, &packets);
            assert_eq!(found(&sketch), sorted(expected()), "seed {seed}");
            let mean = check(&sketch, &packets);
            assert!(mean.abs() < 0.02, "{mean}");
        }
    }
}

#[test]
fn a_drawn_level_is_unbiased_over_30_seeds() {
    let mut mean = 0.0;
    for seed in 0..30 {
        let packets = traffic(seed);
        let mut sketch = with(Levels::Drawn, Policy::RandomAdmission, seed, 64 << 10);
        count(&mut sketch, &packets);
        for prefix in [
            (Family::V4, 24, v4(198, 51, 100, 0)),
            (Family::V4, 16, v4(203, 0, 0, 0)),
        ] {
            assert!(found(&sketch).contains(&prefix), "seed {seed}");
        }
        mean += check(&sketch, &packets) / 30.0;
    }
    assert!(mean.abs() < 0.01, "{mean}");
}

#[test]
fn what_a_prefix_contains_is_subtracted() {
    let mut sketch = with(Levels::All, Policy::SpaceSaving, 1, 64 << 10);
    let packets = [
        (v4(10, 1, 2, 3), 70),
        (v4(10, 1, 2, 4), 20),
        (v4(10, 1, 9, 9), 40),
    ];
    count(&mut sketch, &packets);
    let own: Vec<_> = sketch
        .heavy_prefixes(40)
        .iter()
        .map(|p| (p.length, p.own))
        .collect();
    // 10.1.2.0/24 has 20 beyond its host, 10.1.0.0/16 the same 20.
    assert_eq!(own, [(32, 70), (32, 40)]);
    let own: Vec<_> = sketch
        .heavy_prefixes(41)
        .iter()
        .map(|p| (p.length, p.own))
        .collect();
    assert_eq!(own, [(32, 70), (16, 60)]);
    let of_length = sketch.of_length(Family::V4, 24, 1).unwrap();
    assert_eq!(of_length[0].estimate.value, 90);
    assert_eq!(sketch.of_length(Family::V4, 25, 1), None);
}

/// A prefix is in several queues even if each flow is in one: Space-Saving must add the minimum.
#[test]
fn eight_parts_are_within_the_sum_of_the_bounds() {
    let packets = traffic(7);
    for policy in [Policy::RandomAdmission, Policy::SpaceSaving] {
        let mut merged = with(Levels::All, policy, 7, 64 << 10);
        for part in 0..8 {
            let mut sketch = with(Levels::All, policy, 7, 64 << 10);
            let own: Vec<_> = packets.iter().copied().skip(part).step_by(8).collect();
            count(&mut sketch, &own);
            merged.merge(&sketch, Overlap::Disjoint).unwrap();
        }
        let weights = packets.iter().map(|(_, weight)| u64::from(*weight));
        assert_eq!(merged.total(), weights.sum::<u64>());
        for (family, length, address) in expected() {
            let listed = merged.of_length(family, length, 1).unwrap();
            let found = listed.iter().find(|hitter| hitter.key == address).unwrap();
            let truth = truth(&packets, family, length, address);
            let estimate = found.estimate;
            assert!(
                (estimate.low..=estimate.high).contains(&truth),
                "{found:?}: {truth}"
            );
        }
    }
}

#[test]
fn packets_of_a_family_without_lengths_are_counted_as_uncovered() {
    let seed = Seed::new(1);
    let create = || Ok(table(4096, Policy::SpaceSaving, seed));
    let mut sketch = Prefixes::new(&[24], &[], Levels::All, seed, create).unwrap();
    count(
        &mut sketch,
        &[(v4(1, 2, 3, 4), 5), (v6(1, 2, 3), 6), (v4(1, 2, 3, 9), 7)],
    );
    assert_eq!((sketch.total(), sketch.uncovered()), (18, 6));
    assert_eq!(
        sketch.of_length(Family::V4, 24, 1).unwrap()[0]
            .estimate
            .value,
        12
    );
    let refuse = |v4: &[u8], v6: &[u8]| Prefixes::new(v4, v6, Levels::All, seed, create).is_err();
    assert!(refuse(&[], &[]) && refuse(&[24, 24], &[]) && refuse(&[33], &[]));
    assert!(refuse(&[0], &[]) && refuse(&[], &[129]) && !refuse(&[32], &[1, 128]));
}

#[test]
fn others_are_refused_and_damage_is_found() {
    let mut sketch = with(Levels::All, Policy::RandomAdmission, 1, 2048);
    count(&mut sketch, &traffic(1)[..500]);
    let refused = sketch.merge(
        &with(Levels::Drawn, Policy::RandomAdmission, 1, 2048),
        Overlap::Shared,
    );
    assert!(matches!(refused, Err(MergeError::Dimensions(..))));
    let other = with(Levels::All, Policy::RandomAdmission, 2, 2048);
    assert_eq!(sketch.merge(&other, Overlap::Shared), Err(MergeError::Seed));
    let read = read_back(&sketch).unwrap();
    assert_eq!(read.heavy_prefixes(1), sketch.heavy_prefixes(1));
    assert_eq!(written(&read), written(&sketch));
    disturb::<Prefixes<HeavyHitters>>(&sketch.geometry(), &written(&sketch), |read| {
        let _ = (read.heavy_prefixes(1), read.error_bound(0.9));
    });
    sketch.clear();
    assert_eq!((sketch.total(), sketch.heavy_prefixes(1)), (0, Vec::new()));
}
