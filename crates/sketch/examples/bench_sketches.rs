//! Measures the CPU time per packet of sketches, hash included, and how many of the heaviest 1000 keys
//! they find. All variants take turns within each round, in batches of 256, on one thread.
//!
//! `cargo run --release -p flowatch-sketch --example bench_sketches -- [ROUNDS] [KEYS-FILE]`. The file
//! holds keys of 16 bytes each, in the order of packets; the default is a Zipf distribution with
//! exponent 1 over a million keys.
#![expect(clippy::print_stdout, reason = "an example reports on standard output")]

use hw::memory::HugeSlice;
use hw::random::Random;
use sketch::count_min::{CountMin, CountMinOptions, Rule};
use sketch::{
    FrequencySketch, HashedKey, HeavyHitters, Policy, Seed, Sketch, Updates, Weights, Width,
};
use std::collections::HashMap;
use std::error::Error;

const BATCH: usize = 256;
const TOP: usize = 1000;
const SEED: Seed = Seed::new(0x5eed);

/// A sketch that is measured.
struct Variant {
    name: &'static str,
    sketch: Box<dyn Measured>,
    /// Nanoseconds per packet, by round.
    ns: Vec<f64>,
}

trait Measured {
    fn count(&mut self, updates: Updates<'_>);
    fn reset(&mut self);
    fn memory(&self) -> usize;
    /// The estimates of `candidates`, or of the keys that the sketch holds itself.
    fn found(&self, candidates: &[HashedKey]) -> Vec<(u128, u64)>;
}

impl<S: FrequencySketch> Measured for S {
    fn count(&mut self, updates: Updates<'_>) {
        self.update(updates);
    }
    fn reset(&mut self) {
        self.clear();
    }
    fn memory(&self) -> usize {
        Sketch::memory(self)
    }
    fn found(&self, candidates: &[HashedKey]) -> Vec<(u128, u64)> {
        let listed = self.heavy_hitters(1);
        if !listed.is_empty() {
            return listed
                .iter()
                .map(|found| (found.key, found.estimate.value))
                .collect();
        }
        let estimates = candidates
            .iter()
            .map(|&key| (key.key, self.query(key).value));
        estimates.collect()
    }
}

struct Stream {
    name: String,
    keys: HugeSlice<u128>,
    truth: HashMap<u128, u64>,
    /// The packets of the key at rank [`TOP`].
    threshold: u64,
}

impl Stream {
    fn new(name: &str, keys: HugeSlice<u128>) -> Self {
        let mut truth = HashMap::new();
        for &key in keys.iter() {
            *truth.entry(key).or_insert(0) += 1;
        }
        let mut counts: Vec<u64> = truth.values().copied().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let threshold = counts[TOP.min(counts.len()) - 1];
        println!(
            "{name}: {} packets, {} keys, {threshold} at rank {TOP}",
            keys.len(),
            truth.len()
        );
        Self {
            name: name.to_owned(),
            keys,
            truth,
            threshold,
        }
    }

    /// Returns recall of the heaviest keys, ties counted, and the average relative error of those found.
    fn accuracy(&self, mut found: Vec<(u128, u64)>) -> (f64, f64) {
        found.sort_unstable_by_key(|(key, count)| (std::cmp::Reverse(*count), *key));
        found.truncate(TOP);
        let heavy = found.iter().filter_map(|(key, estimate)| {
            let truth = *self.truth.get(key)?;
            (truth >= self.threshold).then_some((truth as f64, *estimate as f64))
        });
        let errors: Vec<f64> = heavy
            .map(|(truth, estimate)| (estimate - truth).abs() / truth)
            .collect();
        let sum: f64 = errors.iter().sum();
        (
            errors.len() as f64 / TOP as f64,
            sum / errors.len().max(1) as f64,
        )
    }
}

fn zipf(length: usize, population: usize) -> Result<HugeSlice<u128>, Box<dyn Error>> {
    let mut random = Random::new(3, 0);
    let names: Vec<u128> = (0..population)
        .map(|_| u128::from(random.bits()) << 64 | u128::from(random.bits()))
        .collect();
    let mut sum = 0.0;
    let cumulated: Vec<f64> = (1..=population)
        .map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        })
        .collect();
    let mut keys = HugeSlice::try_zeroed(length)?;
    for key in keys.iter_mut() {
        let point = random.unit() * sum;
        *key = names[cumulated
            .partition_point(|&c| c < point)
            .min(population - 1)];
    }
    Ok(keys)
}

/// Inserts a packet of a new key before each of at most the first 8 million.
fn flood(keys: &[u128]) -> Result<HugeSlice<u128>, Box<dyn Error>> {
    let keys = &keys[..keys.len().min(8_000_000)];
    let mut random = Random::new(4, 0);
    let mut flooded = HugeSlice::try_zeroed(2 * keys.len())?;
    let (pairs, _) = flooded.as_chunks_mut::<2>();
    for (pair, &key) in pairs.iter_mut().zip(keys) {
        let new = u128::from(random.bits()) << 64 | u128::from(random.bits());
        *pair = [new, key];
    }
    Ok(flooded)
}

/// Lets every fifth packet be one of the key before it.
fn bursts(keys: &[u128]) -> Result<HugeSlice<u128>, Box<dyn Error>> {
    let mut copy = HugeSlice::try_zeroed(keys.len())?;
    for (index, key) in copy.iter_mut().enumerate() {
        *key = keys[if index % 5 == 1 { index - 1 } else { index }];
    }
    Ok(copy)
}

fn count_min(options: CountMinOptions) -> Result<Box<dyn Measured>, Box<dyn Error>> {
    Ok(Box::new(CountMin::new(options, SEED)?))
}

fn variants(bytes: usize) -> Result<Vec<Variant>, Box<dyn Error>> {
    let rows = CountMinOptions::new(4, 1).with_memory(bytes)?;
    let listed = CountMinOptions {
        candidates: 2048,
        ..rows
    };
    let wide = CountMinOptions {
        width: Width::Wide,
        ..rows
    }
    .with_memory(bytes)?;
    let table = |policy, width| -> Result<Box<dyn Measured>, Box<dyn Error>> {
        Ok(Box::new(HeavyHitters::with_memory(
            bytes, policy, width, SEED,
        )?))
    };
    let list = [
        ("Count-Min, 4 rows, bare", count_min(rows)?),
        (
            "Count-Min, running",
            count_min(CountMinOptions {
                running: true,
                ..rows
            })?,
        ),
        ("Count-Min, 2048 candidates", count_min(listed)?),
        (
            "conservative, 2048 candidates",
            count_min(CountMinOptions {
                rule: Rule::Conservative,
                ..listed
            })?,
        ),
        ("Count-Min, 64 bits", count_min(wide)?),
        (
            "random admission",
            table(Policy::RandomAdmission, Width::Narrow)?,
        ),
        ("Space-Saving", table(Policy::SpaceSaving, Width::Narrow)?),
        ("unbiased", table(Policy::Unbiased, Width::Narrow)?),
        (
            "random admission, 64 bits",
            table(Policy::RandomAdmission, Width::Wide)?,
        ),
        (
            "Space-Saving, 64 bits",
            table(Policy::SpaceSaving, Width::Wide)?,
        ),
    ];
    let variants = list.into_iter().map(|(name, sketch)| Variant {
        name,
        sketch,
        ns: Vec::new(),
    });
    Ok(variants.collect())
}

fn measure(stream: &Stream, bytes: usize, rounds: usize) -> Result<(), Box<dyn Error>> {
    let hash = SEED.hash();
    let mut variants = variants(bytes)?;
    for _ in 0..rounds {
        for variant in &mut variants {
            variant.sketch.reset();
            let mut hashes = [0; BATCH];
            let start = hw::time::thread_cpu();
            for keys in stream.keys.chunks(BATCH) {
                let hashes = &mut hashes[..keys.len()];
                hash.hash(keys, hashes);
                variant
                    .sketch
                    .count(Updates::new(keys, hashes, Weights::Ones));
            }
            let spent = hw::time::thread_cpu().saturating_sub(start);
            variant
                .ns
                .push(spent.as_nanos() as f64 / stream.keys.len() as f64);
        }
    }
    let names: Vec<u128> = stream.truth.keys().copied().collect();
    let mut hashes = vec![0; names.len()];
    hash.hash(&names, &mut hashes);
    let candidates: Vec<HashedKey> = names
        .iter()
        .zip(&hashes)
        .map(|(&key, &hash)| HashedKey { key, hash })
        .collect();
    println!(
        "\n{}, {} KB\n{:<32}{:>10}{:>8}{:>8}{:>9}{:>10}",
        stream.name,
        bytes >> 10,
        "",
        "KB",
        "ns",
        "ratio",
        "recall",
        "ARE"
    );
    let bare = variants[0].ns.clone();
    for variant in &variants {
        let mut ratios: Vec<f64> = variant
            .ns
            .iter()
            .zip(&bare)
            .map(|(own, bare)| own / bare)
            .collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let ns = variant.ns.iter().copied().fold(f64::MAX, f64::min);
        let (recall, error) = stream.accuracy(variant.sketch.found(&candidates));
        let kilobytes = variant.sketch.memory() >> 10;
        let ratio = ratios[ratios.len() / 2];
        println!(
            "{:<32}{kilobytes:>10}{ns:>8.2}{ratio:>8.2}{recall:>9.3}{error:>10.5}",
            variant.name
        );
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let rounds = arguments.next().map_or(Ok(5), |rounds| rounds.parse())?;
    let keys = if let Some(path) = arguments.next() {
        let bytes = std::fs::read(path)?;
        let (chunks, _) = bytes.as_chunks::<16>();
        let mut keys = HugeSlice::try_zeroed(chunks.len())?;
        for (key, chunk) in keys.iter_mut().zip(chunks) {
            *key = u128::from_le_bytes(*chunk);
        }
        Stream::new("file", keys)
    } else {
        Stream::new("Zipf", zipf(1 << 24, 1_000_000)?)
    };
    let bursts = Stream::new("bursts", bursts(&keys.keys)?);
    let flooded = Stream::new("flood", flood(&keys.keys)?);
    for bytes in [512 << 10, 1 << 20, 64 << 20] {
        for stream in [&keys, &bursts, &flooded] {
            measure(stream, bytes, rounds)?;
        }
    }
    Ok(())
}
