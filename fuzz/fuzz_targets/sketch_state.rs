//! Reads states of sketches and DataSketches images.
//!
//! Input: a byte that chooses a valid state or image, and changes to it, each two bytes of offset and one
//! of value; length and checksum of a state are set after that. For two more choices the bytes of a
//! state or of an image follow.

#![no_main]

use datasketches::cpc::CpcSketch;
use datasketches::error::Error;
use datasketches::frequencies::FrequentItemsSketch;
use datasketches::hll::{HllSketch, HllType};
use datasketches::kll::{KllFloat, KllSketch};
use datasketches::req::{ReqFloat, ReqSketch};
use datasketches::tdigest::TDigestMut;
use datasketches::theta::ThetaSketchBuilder;
use libfuzzer_sys::fuzz_target;
use sketch::count_min::CountMinOptions;
use sketch::images::Image;
use sketch::prefixes::Levels;
use sketch::{
    AnySketch, CountMin, DistinctHash, Entropy, FanOut, FlowSample, FrequencySketch, HeavyHitters,
    HyperLogLog, Policy, Prefixes, Quantiles, Reversible, ReversibleOptions, Seed, SimpleTable,
    SizeError, Source, State, StateHead, Unit, Updates, Weights, Width,
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
        SimpleTable::with_slots(32, Width::Narrow, SEED)?.into(),
        Reversible::new(
            ReversibleOptions {
                rows: 2,
                key_bytes: 4,
                column_bits: 6,
                width: Width::Wide,
            },
            SEED,
        )?
        .into(),
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

/// Valid images of all families and modes.
static IMAGES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let of_sizes = [3, 40, 3000].map(|count| images(count).expect("the sizes are valid"));
    of_sizes.concat()
});

fn images(count: u32) -> Result<Vec<Vec<u8>>, Error> {
    let mut hll4 = HllSketch::new(8, HllType::Hll4)?;
    let mut hll6 = HllSketch::new(8, HllType::Hll6)?;
    let mut hll8 = HllSketch::new(8, HllType::Hll8)?;
    let mut cpc = CpcSketch::new(8)?;
    let mut theta = ThetaSketchBuilder::default().lg_k(6).build()?;
    let mut items = FrequentItemsSketch::new(32)?;
    let mut kll = KllSketch::new(20)?;
    let mut req = ReqSketch::default();
    let mut digest = TDigestMut::new(20)?;
    for number in 0..count {
        hll4.update(number);
        hll6.update(number);
        hll8.update(number);
        cpc.update(number);
        theta.update(number);
        items.update(format!("{}", number % 50));
        kll.update(KllFloat::<f32>::new(number as f32)?);
        req.update(ReqFloat::<f32>::new(number as f32)?);
        digest.update(number.into());
    }
    Ok(vec![
        hll4.serialize(),
        hll6.serialize(),
        hll8.serialize(),
        cpc.serialize(),
        theta.compact(true).serialize(),
        theta.compact(true).serialize_compressed(),
        items.serialize(),
        kll.serialize(),
        req.serialize(),
        digest.serialize(),
    ])
}

/// Returns valid bytes with the changes that the rest of an input describes.
fn changed(valid: &[u8], changes: &[u8]) -> Vec<u8> {
    let mut bytes = valid.to_vec();
    for change in changes.as_chunks::<3>().0 {
        let offset = usize::from(u16::from_le_bytes([change[0], change[1]]));
        bytes[offset % valid.len()] = change[2];
    }
    bytes
}

fn read_image(bytes: &[u8]) {
    let Ok(mut image) = Image::read(bytes) else {
        return;
    };
    let _ = (image.distinct(), image.quantile(0.5), image.items());
    let mut again = Image::read(&image.write()).expect("it was read before");
    let _ = again.merge(&image);
    let _ = (again.distinct(), again.quantile(0.5), again.items());
}

/// Reads a state, queries and merges it.
fn read_state(bytes: &[u8]) {
    let Ok(state) = State::read(bytes, Some(SEED)).or_else(|_| State::read(bytes, None)) else {
        return;
    };
    let written = state.write();
    let mut again = State::read(&written, Some(SEED))
        .or_else(|_| State::read(&written, None))
        .expect("it was read before");
    assert_eq!(again.write(), written);
    assert!(again.merge(&state).is_err(), "the same source twice");
    again.head.sources = vec![Source {
        probe: u64::MAX,
        part: u32::MAX,
    }];
    let _ = again.merge(&state);
    query(&again);
    query(&state);
}

fn query(state: &State) {
    match &state.sketch {
        AnySketch::HeavyHitters(table) => drop(table.heavy_hitters(1)),
        AnySketch::Distinct(sketch) => assert!(sketch.estimate().value.is_finite()),
        AnySketch::FanOut(sketch) => drop(sketch.heavy_hitters(1)),
        AnySketch::Quantiles(histogram) => drop(histogram.quantile(0.5)),
        AnySketch::Prefixes(prefixes) => drop(prefixes.heavy_prefixes(1)),
        AnySketch::Entropy(entropy) => assert!(!entropy.estimate().bits.is_nan()),
        // Recovery of light keys takes tenths of a second.
        AnySketch::Reversible(sketch) => drop(sketch.heavy_hitters(state.sketch.total() / 4 + 1)),
        AnySketch::CountMin(sketch) => drop(sketch.heavy_hitters(1)),
        AnySketch::SimpleTable(table) => drop(table.heavy_hitters(1)),
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&kind, rest)) = input.split_first() else {
        return;
    };
    let choice = usize::from(kind) % (STATES.len() + IMAGES.len() + 2);
    if let Some(valid) = STATES.get(choice) {
        let mut bytes = changed(valid, rest);
        sketch::state::seal(&mut bytes);
        read_state(&bytes);
    } else if let Some(valid) = IMAGES.get(choice - STATES.len()) {
        read_image(&changed(valid, rest));
    } else if choice % 2 == 0 {
        read_state(rest);
    } else {
        read_image(rest);
    }
});
