use super::*;
use crate::count_min::CountMinOptions;
use crate::prefixes::Levels;
use crate::test_support::{Zipf, hashed, table};
use crate::{
    CountMin, DistinctHash, Entropy, FanOut, FlowSample, HyperLogLog, Policy, Prefixes, Quantiles,
    Reversible, ReversibleOptions, SimpleTable, Width,
};

const SEED: Seed = Seed::new(11);

fn head(part: u32) -> StateHead {
    StateHead {
        key: "src".into(),
        unit: Unit::Packets,
        start_ns: 1_000,
        end_ns: 2_000,
        keys_stay_in_part: false,
        sources: vec![Source { probe: 5, part }],
    }
}

fn empty(index: usize, seed: Seed) -> AnySketch {
    let small = || table(2048, Policy::RandomAdmission, seed);
    match index {
        0 => CountMin::new(CountMinOptions::new(4, 64), seed)
            .unwrap()
            .into(),
        1 => small().into(),
        2 => HyperLogLog::new(6, DistinctHash::Keyed, seed)
            .unwrap()
            .into(),
        3 => FanOut::new(14, small(), seed).unwrap().into(),
        4 => Quantiles::new(3).unwrap().into(),
        5 => Reversible::new(
            ReversibleOptions {
                rows: 2,
                key_bytes: 4,
                column_bits: 8,
                width: Width::Wide,
            },
            seed,
        )
        .unwrap()
        .into(),
        6 => SimpleTable::with_slots(64, Width::Narrow, seed)
            .unwrap()
            .into(),
        7 => Prefixes::new(&[24], &[48], Levels::All, seed, || Ok(small()))
            .unwrap()
            .into(),
        _ => Entropy::new(small(), FlowSample::new(5).unwrap()).into(),
    }
}

/// The number of kinds.
const KINDS: usize = 9;
/// Only this kind cannot be read without its seed.
const REVERSIBLE: usize = 5;

fn update(sketch: &mut AnySketch, seed: Seed, packets: &[u128]) {
    hashed(
        seed,
        packets.iter().copied(),
        |updates| match &mut *sketch {
            AnySketch::Quantiles(sketch) => {
                sketch.insert_all(updates.hashes().iter().map(|hash| hash >> 40));
            }
            sketch => sketch.update(updates),
        },
    );
}

fn state(index: usize, part: u32, packets: &[u128]) -> State {
    let mut sketch = empty(index, SEED);
    update(&mut sketch, SEED, packets);
    State {
        head: head(part),
        sketch,
    }
}

fn packets() -> Vec<u128> {
    Zipf::new(1, 300, 2_000, 1.0).packets
}

#[test]
fn states_of_all_kinds_return() {
    for index in 0..KINDS {
        let state = state(index, 1, &packets());
        let bytes = state.write();
        for seed in [None, Some(SEED)] {
            if seed.is_none() && index == REVERSIBLE {
                assert_eq!(
                    State::read(&bytes, seed).err(),
                    Some(StateError::SeedNeeded)
                );
                continue;
            }
            let read = State::read(&bytes, seed).unwrap();
            assert_eq!(read.head, state.head);
            assert_eq!(read.write(), bytes);
            assert_eq!(read.sketch.total(), state.sketch.total());
        }
        // With the seed, counting goes on where it was.
        let mut read = State::read(&bytes, Some(SEED)).unwrap();
        update(&mut read.sketch, SEED, &[1, 2, 3]);
        assert!(read.sketch.total() > state.sketch.total());
    }
}

#[test]
fn truncated_and_damaged_files_give_their_errors() {
    for index in 0..KINDS {
        let bytes = state(index, 1, &packets()).write();
        for length in (0..bytes.len()).step_by(bytes.len() / 500 + 1) {
            let read = State::read(&bytes[..length], None);
            assert!(
                matches!(read, Err(StateError::Truncated { .. })),
                "{length}"
            );
        }
        for at in (0..bytes.len()).step_by(bytes.len() / 500 + 1) {
            let mut other = bytes.clone();
            other[at] ^= 0x10;
            let error = State::read(&other, None).err().unwrap();
            let expected = match at {
                0..8 => matches!(error, StateError::NotAState),
                8..10 => matches!(error, StateError::Version { known: VERSION, .. }),
                10..18 => matches!(
                    error,
                    StateError::Truncated { .. }
                        | StateError::Damaged(_)
                        | StateError::Checksum { .. }
                ),
                _ => matches!(error, StateError::Checksum { .. }),
            };
            assert!(expected, "{at}: {error}");
        }
        assert!(State::read(&[&*bytes, &[0]].concat(), None).is_err());
    }
    assert!(matches!(
        State::read(b"PK\x03\x04", None),
        Err(StateError::NotAState)
    ));
    assert!(matches!(
        State::read(b"", None),
        Err(StateError::Truncated { .. })
    ));
}

/// A forged file has a checksum that fits.
#[test]
fn forged_files_are_refused_or_consistent() {
    for index in 0..KINDS {
        let bytes = state(index, 1, &packets()).write();
        for at in 18..bytes.len().min(600) - 4 {
            for change in [1, 0x80, 0xff] {
                let mut forged = bytes.clone();
                forged[at] ^= change;
                seal(&mut forged);
                if let Ok(read) = State::read(&forged, Some(SEED)) {
                    let again = read.write();
                    assert!(
                        State::read(&again, Some(SEED)).unwrap().write() == again,
                        "byte {at}"
                    );
                }
            }
        }
    }
}

#[test]
fn anything_that_differs_is_refused_with_the_reason() {
    let ours = state(2, 1, &packets());
    let refused = |change: fn(&mut State)| {
        let mut ours = state(2, 1, &packets());
        let mut other = state(2, 2, &packets());
        change(&mut other);
        let before = ours.write();
        let error = ours.merge(&other).unwrap_err();
        assert_eq!(ours.write(), before);
        error
    };
    let error = refused(|other| other.head.key = "dst".into());
    assert_eq!(error, MergeError::Key("src".into(), "dst".into()));
    let error = refused(|other| other.head.unit = Unit::Bytes);
    assert_eq!(error, MergeError::Unit("packets", "bytes"));
    let error = refused(|other| other.head.end_ns = 3_000);
    assert_eq!(error, MergeError::Interval(1_000, 2_000, 1_000, 3_000));
    let error = refused(|other| other.head.start_ns = 0);
    assert_eq!(error, MergeError::Interval(1_000, 2_000, 0, 2_000));
    let error = refused(|other| other.head.sources[0].part = 1);
    assert_eq!(error, MergeError::Twice { probe: 5, part: 1 });
    let error = refused(|other| other.sketch = empty(1, SEED));
    assert!(matches!(error, MergeError::Kind(..)));
    let error = refused(|other| other.sketch = empty(2, Seed::new(12)));
    assert_eq!(error, MergeError::Seed);
    let error = refused(|other| {
        other.sketch = HyperLogLog::new(7, DistinctHash::Keyed, SEED)
            .unwrap()
            .into();
    });
    assert!(matches!(error, MergeError::Dimensions(..)));
    let read = State::read(&ours.write(), Some(Seed::new(12)));
    assert!(matches!(read, Err(StateError::OtherSeed)));
    // Distributions have no seed.
    assert!(State::read(&state(4, 1, &[]).write(), Some(Seed::new(12))).is_ok());
}

#[test]
fn eight_probes_are_one_that_saw_all() {
    let packets = packets();
    for index in 0..KINDS {
        // Fan-out takes the hashes as pairs: each of its pairs must stay in one part.
        let part_of = |at: usize, packet: u128| {
            if index == 3 {
                packet as usize % 8
            } else {
                at % 8
            }
        };
        let own = |part: usize| -> Vec<u128> {
            let indexed = packets.iter().copied().enumerate();
            indexed
                .filter(|&(at, packet)| part_of(at, packet) == part)
                .map(|(_, p)| p)
                .collect()
        };
        let mut merged = state(index, 0, &own(0));
        for part in 1..8 {
            let bytes = state(index, part, &own(part as usize)).write();
            merged
                .merge(&State::read(&bytes, Some(SEED)).unwrap())
                .unwrap();
        }
        let mut whole = state(index, 0, &packets);
        assert_eq!(merged.head.sources.len(), 8);
        assert_eq!(merged.sketch.total(), whole.sketch.total());
        whole.head.sources.clone_from(&merged.head.sources);
        // Count-Min, distinct counts and quantiles: to the bit.
        if [0, 2, 4, REVERSIBLE].contains(&index) {
            assert_eq!(merged.write(), whole.write(), "kind {index}");
        }
        let merged_again = State::read(&merged.write(), Some(SEED)).unwrap();
        assert_eq!(merged_again.head, merged.head);
    }
}

/// Trap "merging Space-Saving": where a key is in one part only, nothing may be added to it; where it
/// may be in several, the smallest count must be.
#[test]
fn only_parts_of_one_probe_that_keep_keys_are_disjoint() {
    let merged = |change: fn(&mut StateHead)| {
        let state = |part: u32| {
            let mut sketch = table(2048, Policy::SpaceSaving, SEED);
            // More keys than slots, so that each bucket has a smallest count.
            let keys = (0..2_000).map(|key| key << 32 | u128::from(part));
            hashed(SEED, keys, |updates| sketch.update(updates));
            let mut head = StateHead {
                keys_stay_in_part: true,
                ..head(part)
            };
            if part == 2 {
                change(&mut head);
            }
            State {
                head,
                sketch: sketch.into(),
            }
        };
        let mut merged = state(1);
        merged.merge(&state(2)).unwrap();
        let AnySketch::HeavyHitters(table) = merged.sketch else {
            panic!("the kind has changed");
        };
        let stays = merged.head.keys_stay_in_part;
        (table.largest_minimum(), stays)
    };
    let (disjoint, stays) = merged(|_| ());
    assert!(stays);
    let (shared, _) = merged(|head| head.sources[0].probe = 6);
    assert!(shared > disjoint, "{shared}, {disjoint}");
    let (shared, stays) = merged(|head| head.keys_stay_in_part = false);
    assert!(shared > disjoint && !stays);
}
