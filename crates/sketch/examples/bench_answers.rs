//! Measures the CPU time per packet of the sketches that do not list heavy keys, hash included, beside
//! the simple hash table. All take turns within each round, in batches of 256, on one thread.
//!
//! `cargo run --release -p flowatch-sketch --example bench_answers -- [ROUNDS]`
#![expect(clippy::print_stdout, reason = "an example reports on standard output")]

use hw::memory::HugeSlice;
use hw::random::{Random, mix};
use sketch::prefixes::{Levels, Prefixes};
use sketch::{
    DistinctHash, Entropy, FanOut, FlowSample, HeavyHitters, HyperLogLog, Policy, Quantiles, Seed,
    SimpleTable, SizeError, Sketch, Updates, Weights, Width,
};
use std::error::Error;

const BATCH: usize = 256;
const SEED: Seed = Seed::new(0x5eed);
const PACKETS: usize = 1 << 23;
const PAIRS: usize = 1_000_000;

/// Which keys a sketch is given. The hashes are always those of the pairs.
#[derive(Clone, Copy)]
enum Keys {
    Pairs,
    Sources,
    Addresses,
}

trait Measured {
    fn count(&mut self, updates: Updates<'_>);
    fn reset(&mut self);
    fn bytes(&self) -> usize;
}

impl<S: Sketch> Measured for S {
    fn count(&mut self, updates: Updates<'_>) {
        self.update(updates);
    }
    fn reset(&mut self) {
        self.clear();
    }
    fn bytes(&self) -> usize {
        self.memory()
    }
}

struct Variant {
    name: &'static str,
    keys: Keys,
    sketch: Box<dyn Measured>,
    /// Nanoseconds per packet, by round.
    ns: Vec<f64>,
}

/// Packets of pairs whose numbers follow Zipf's law with exponent 1; the sources are 2^16, the addresses
/// those of IPv4.
struct Stream {
    pairs: HugeSlice<u128>,
    sources: HugeSlice<u128>,
    addresses: HugeSlice<u128>,
    sizes: Vec<u32>,
}

impl Stream {
    fn new() -> Result<Self, Box<dyn Error>> {
        let mut random = Random::new(3, 0);
        let mut sum = 0.0;
        let sums: Vec<f64> = (1..=PAIRS)
            .map(|rank| {
                sum += 1.0 / rank as f64;
                sum
            })
            .collect();
        let mut stream = Self {
            pairs: HugeSlice::try_zeroed(PACKETS)?,
            sources: HugeSlice::try_zeroed(PACKETS)?,
            addresses: HugeSlice::try_zeroed(PACKETS)?,
            sizes: Vec::with_capacity(PACKETS),
        };
        for packet in 0..PACKETS {
            let at = random.unit() * sum;
            let rank = sums.partition_point(|&sum| sum < at).min(PAIRS - 1);
            let pair = mix(rank as u64 + 1);
            stream.pairs[packet] = pair.into();
            stream.sources[packet] = (pair >> 48).into();
            stream.addresses[packet] = 0xffff << 32 | u128::from(pair as u32);
            stream.sizes.push(64 + random.below(1437) as u32);
        }
        Ok(stream)
    }

    const fn keys(&self, keys: Keys) -> &HugeSlice<u128> {
        match keys {
            Keys::Pairs => &self.pairs,
            Keys::Sources => &self.sources,
            Keys::Addresses => &self.addresses,
        }
    }
}

fn variants() -> Result<Vec<Variant>, SizeError> {
    let table =
        |bytes, width| HeavyHitters::with_memory(bytes, Policy::RandomAdmission, width, SEED);
    let fan_out = |lg_bits| FanOut::new(lg_bits, table(64 << 10, Width::Wide)?, SEED);
    let prefixes = |choice| {
        let create = || table(64 << 10, Width::Narrow);
        Prefixes::new(&[8, 16, 24, 32], &[32, 48, 64, 128], choice, SEED, create)
    };
    let distinct = |hash| HyperLogLog::new(14, hash, SEED);
    let entropy = Entropy::new(table(48 << 10, Width::Narrow)?, FlowSample::new(13)?);
    let simple = SimpleTable::with_memory(512 << 10, Width::Narrow, SEED)?;
    let murmur = DistinctHash::Murmur { key_bytes: 13 };
    let list: [(_, _, Box<dyn Measured>); 10] = [
        ("simple hash table", Keys::Pairs, Box::new(simple)),
        (
            "distinct",
            Keys::Pairs,
            Box::new(distinct(DistinctHash::Keyed)?),
        ),
        ("distinct, murmur", Keys::Pairs, Box::new(distinct(murmur)?)),
        ("quantiles", Keys::Pairs, Box::new(Quantiles::new(7)?)),
        ("fan-out, 2^22 bits", Keys::Sources, Box::new(fan_out(22)?)),
        ("fan-out, 2^25 bits", Keys::Sources, Box::new(fan_out(25)?)),
        (
            "heavy hitters, 48 KB",
            Keys::Pairs,
            Box::new(table(48 << 10, Width::Narrow)?),
        ),
        ("entropy, 48 KB and sample", Keys::Pairs, Box::new(entropy)),
        (
            "prefixes, 4 lengths",
            Keys::Addresses,
            Box::new(prefixes(Levels::All)?),
        ),
        (
            "prefixes, a length drawn",
            Keys::Addresses,
            Box::new(prefixes(Levels::Drawn)?),
        ),
    ];
    let variants = list.into_iter().map(|(name, keys, sketch)| Variant {
        name,
        keys,
        sketch,
        ns: Vec::new(),
    });
    Ok(variants.collect())
}

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = std::env::args()
        .nth(1)
        .map_or(Ok(5), |rounds| rounds.parse())?;
    let stream = Stream::new()?;
    let hash = SEED.hash();
    let mut variants = variants()?;
    for _ in 0..rounds {
        for variant in &mut variants {
            variant.sketch.reset();
            let (mut hashes, mut batch) = ([0; BATCH], [0; BATCH]);
            let start = hw::time::thread_cpu();
            let batches = stream
                .pairs
                .chunks(BATCH)
                .zip(stream.keys(variant.keys).chunks(BATCH));
            for ((pairs, keys), sizes) in batches.zip(stream.sizes.chunks(BATCH)) {
                // In the engine the keys of a batch were just written, so they are in the cache.
                let keys = {
                    batch[..keys.len()].copy_from_slice(keys);
                    &batch[..keys.len()]
                };
                let hashes = &mut hashes[..pairs.len()];
                hash.hash(pairs, hashes);
                let weights = match variant.name {
                    "quantiles" => Weights::Each(sizes),
                    _ => Weights::Ones,
                };
                variant.sketch.count(Updates::new(keys, hashes, weights));
            }
            let spent = hw::time::thread_cpu().saturating_sub(start);
            variant.ns.push(spent.as_nanos() as f64 / PACKETS as f64);
        }
    }
    println!("{:<28}{:>8}{:>8}{:>8}", "", "KB", "ns", "ratio");
    let simple = variants[0].ns.clone();
    for variant in &variants {
        let ratios = variant
            .ns
            .iter()
            .zip(&simple)
            .map(|(own, simple)| own / simple);
        let mut ratios: Vec<f64> = ratios.collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let ns = variant.ns.iter().copied().fold(f64::MAX, f64::min);
        let (bytes, ratio) = (variant.sketch.bytes() >> 10, ratios[ratios.len() / 2]);
        println!("{:<28}{bytes:>8}{ns:>8.2}{ratio:>8.2}", variant.name);
    }
    Ok(())
}
