//! Reads states of sketches and DataSketches images.
//!
//! Input: a byte for the kind. For a kind of sketch, changes follow that are made to a valid state of
//! it, each two bytes of offset and one of value, before its length and checksum are set. For two more
//! kinds the bytes of a state or of an image follow.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sketch::count_min::CountMinOptions;
use sketch::images::Image;
use sketch::prefixes::Levels;
use sketch::{
    AnySketch, CountMin, DistinctHash, Entropy, FanOut, FlowSample, FrequencySketch, HeavyHitters,
    HyperLogLog, Policy, Prefixes, Quantiles, Seed, SizeError, Source, State, StateHead, Unit,
    Updates, Weights, Width,
};
use std::sync::LazyLock;

const SEED: Seed = Seed::new(1);

/// Valid states, a kind each.
static STATES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let sketches = sketches().expect("the sizes are valid");
    sketches
        .into_iter()
        .map(|sketch| state(sketch).write())
        .collect()
});

fn sketches() -> Result<Vec<AnySketch>, SizeError> {
    let table = || HeavyHitters::with_memory(1024, Policy::SpaceSaving, Width::Wide, SEED);
    let keys: Vec<u128> = (0..200).collect();
    let mut hashes = vec![0; keys.len()];
    SEED.hash().hash(&keys, &mut hashes);
    let updates = Updates::new(&keys, &hashes, Weights::Ones);
    let mut sketches: Vec<AnySketch> = vec![
        CountMin::new(CountMinOptions::new(4, 16), SEED)?.into(),
        table()?.into(),
        HyperLogLog::new(5, DistinctHash::Keyed, SEED)?.into(),
        FanOut::new(10, table()?, SEED)?.into(),
        Quantiles::new(3)?.into(),
        Prefixes::new(&[24, 32], &[64], Levels::Drawn, SEED, table)?.into(),
        Entropy::new(table()?, FlowSample::new(5)?).into(),
    ];
    sketches
        .iter_mut()
        .for_each(|sketch| sketch.update(updates));
    Ok(sketches)
}

fn state(sketch: AnySketch) -> State {
    let head = StateHead {
        key: "src".into(),
        unit: Unit::Packets,
        start_ns: 0,
        end_ns: 1,
        keys_stay_in_part: false,
        sources: vec![Source { probe: 1, part: 0 }],
    };
    State { head, sketch }
}

/// Queries and merges what was read.
fn use_state(state: &State, bytes: &[u8]) {
    let written = state.write();
    let mut again = State::read(&written, Some(SEED))
        .or_else(|_| State::read(&written, None))
        .expect("it was read before");
    assert_eq!(again.write(), written);
    assert!(again.merge(state).is_err(), "the same source twice");
    let mut other = State::read(bytes, None).expect("it was read before");
    other.head.sources = vec![Source {
        probe: u64::MAX,
        part: u32::MAX,
    }];
    let _ = again.merge(&other);
    match &state.sketch {
        AnySketch::HeavyHitters(table) => drop(table.heavy_hitters(1)),
        AnySketch::Distinct(sketch) => assert!(sketch.estimate().value.is_finite()),
        AnySketch::FanOut(sketch) => drop(sketch.heavy_hitters(1)),
        AnySketch::Quantiles(histogram) => drop(histogram.quantile(0.5)),
        AnySketch::Prefixes(prefixes) => drop(prefixes.heavy_prefixes(1)),
        AnySketch::Entropy(entropy) => assert!(!entropy.estimate().bits.is_nan()),
        _ => {}
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&kind, rest)) = input.split_first() else {
        return;
    };
    let kind = usize::from(kind) % (STATES.len() + 2);
    if let Some(valid) = STATES.get(kind) {
        let mut bytes = valid.clone();
        for change in rest.as_chunks::<3>().0 {
            let offset = usize::from(u16::from_le_bytes([change[0], change[1]]));
            let count = bytes.len();
            bytes[offset % count] = change[2];
        }
        sketch::state::seal(&mut bytes);
        if let Ok(state) = State::read(&bytes, None) {
            use_state(&state, &bytes);
        }
    } else if kind == STATES.len() {
        if let Ok(state) = State::read(rest, Some(SEED)) {
            use_state(&state, rest);
        }
    } else if let Ok(mut image) = Image::read(rest) {
        let _ = (image.distinct(), image.quantile(0.5), image.items());
        let mut again = Image::read(&image.write()).expect("it was read before");
        let _ = again.merge(&image);
    }
});
