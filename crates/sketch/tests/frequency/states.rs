//! Stored states.

use crate::streams::{Stream, hashed};
use proptest::prelude::*;
use sketch::bytes::Reader;
use sketch::count_min::{CountMinOptions, Rule};
use sketch::{
    CountMin, FrequencySketch, Geometry, HeavyHitters, Policy, Reversible, ReversibleOptions, Seed,
    SimpleTable, Sketch, StateError, Width,
};

const SEED: Seed = Seed::new(51);

fn written(sketch: &impl Sketch) -> Vec<u8> {
    let mut bytes = Vec::new();
    sketch.write(&mut bytes);
    bytes
}

fn read<S: Sketch>(geometry: &Geometry, bytes: &[u8]) -> Result<S, StateError> {
    let mut reader = Reader::new(bytes);
    let sketch = S::read(geometry, Some(SEED), &mut reader)?;
    reader.end()?;
    Ok(sketch)
}

/// Writes and reads a sketch, which must stay the same; then reads every truncation, and as many damaged
/// states as `damages` has: no error is expected of the latter, only that reading and asking ends.
fn check<S: Sketch>(sketch: &S, damages: &[(usize, u8)], query: impl Fn(&S)) {
    let (geometry, bytes) = (sketch.geometry(), written(sketch));
    let again: S = read(&geometry, &bytes).unwrap();
    assert_eq!(written(&again), bytes);
    assert_eq!(again.geometry(), geometry);
    assert_eq!(
        (again.total(), again.memory()),
        (sketch.total(), sketch.memory())
    );
    for length in (0..bytes.len())
        .step_by(bytes.len() / 50 + 1)
        .chain([bytes.len() - 1])
    {
        let error = read::<S>(&geometry, &bytes[..length]).err();
        assert!(
            matches!(error, Some(StateError::Truncated { .. })),
            "{error:?}"
        );
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(read::<S>(&geometry, &longer).is_err());
    for &(position, byte) in damages {
        let mut damaged = bytes.clone();
        let position = position % damaged.len();
        damaged[position] = byte;
        if let Ok(sketch) = read::<S>(&geometry, &damaged) {
            query(&sketch);
        }
    }
    // A head that promises more than there are bytes for reserves no memory for it.
    for index in 0..geometry.dimensions.len() {
        for number in [0, 1, 9, 33, 1 << 20, 1 << 40, u64::MAX] {
            let mut other = geometry;
            other.dimensions[index] = number;
            if let Ok(sketch) = read::<S>(&other, &bytes) {
                query(&sketch);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn states_are_read_as_written_and_damage_is_survived(
        packets in 0usize..3000,
        seed: u64,
        wide: bool,
        damages in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..30),
    ) {
        let stream = Stream::zipf(packets, 500, 1.0, seed);
        let width = if wide { Width::Wide } else { Width::Narrow };
        let key = hashed(5, SEED);
        for policy in [Policy::RandomAdmission, Policy::SpaceSaving, Policy::Unbiased] {
            let mut table = HeavyHitters::with_memory(8000, policy, width, SEED).unwrap();
            stream.count_bytes(&mut table, SEED);
            check(&table, &damages, |table| {
                let _ = (table.heavy_hitters(1), table.query(key), table.error_bound(0.9));
            });
        }
        for (rule, candidates, running) in [(Rule::Plain, 0, false), (Rule::Conservative, 40, true)] {
            let options = CountMinOptions { rule, candidates, running, width, ..CountMinOptions::new(3, 50) };
            let mut sketch = CountMin::new(options, SEED).unwrap();
            stream.count_bytes(&mut sketch, SEED);
            check(&sketch, &damages, |sketch| {
                let _ = (sketch.heavy_hitters(1), sketch.query(key), sketch.error_bound(0.9));
            });
        }
        let mut table = SimpleTable::with_slots(100, width, SEED).unwrap();
        stream.count_packets(&mut table, SEED);
        check(&table, &damages, |table| {
            let _ = (table.heavy_hitters(1), table.query(key), table.error_bound(0.9));
        });
        let options = ReversibleOptions { rows: 2, key_bytes: 4, column_bits: 8, width };
        let mut sketch = Reversible::new(options, SEED).unwrap();
        stream.count_packets(&mut sketch, SEED);
        check(&sketch, &damages, |sketch| {
            let _ = (sketch.heavy_hitters(1), sketch.query(5), sketch.error_bound(0.9));
        });
    }
}

#[test]
fn a_reversible_sketch_needs_its_seed() {
    let options = ReversibleOptions {
        rows: 2,
        key_bytes: 4,
        column_bits: 8,
        width: Width::Narrow,
    };
    let sketch = Reversible::new(options, SEED).unwrap();
    let bytes = written(&sketch);
    for seed in [None, Some(Seed::new(1))] {
        let error = Reversible::read(&sketch.geometry(), seed, &mut Reader::new(&bytes)).err();
        assert_eq!(error, Some(StateError::SeedNeeded));
    }
}
