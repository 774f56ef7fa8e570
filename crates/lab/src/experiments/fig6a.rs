//! FloWatcher-DPDK, figure 6a: the speed of hash functions of a 5-tuple.

use super::context::{Context, Estimate, parameter, repetitions_parameter};
use super::experiment::Experiment;
use crate::outcome::{Comparison, Finding, Part, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::statistics::{abba, median};
use crate::trial::TrialError;
use flow::hash::{FlowHash, HashKind};
use generator::Random;
use hw::time::{TickRate, ticks};
use std::hint::black_box;
use wire::toeplitz::{MICROSOFT_KEY, Toeplitz};

/// Keys per batch, and batches per measurement.
const KEYS: usize = 256;
const BATCHES: usize = 64;

/// Bytes of a 5-tuple that Toeplitz covers: addresses and ports.
const TUPLE: usize = 12;

/// The cycles per hash of the paper's hashes other than Toeplitz, least and most.
const PAPER_CYCLES: [f64; 2] = [47.0, 268.0];

pub(super) struct Fig6a;

pub(super) struct Results {
    rounds: usize,
    ticks_per_second: f64,
    /// Bitwise Toeplitz first.
    hashes: Vec<Measured>,
}

struct Measured {
    name: String,
    /// Ticks per hash.
    ticks: Estimate,
}

impl Results {
    fn millions_per_second(&self, hash: &Measured) -> f64 {
        self.ticks_per_second / hash.ticks.mean() / 1e6
    }

    /// The least and the most ticks of the hashes other than bitwise Toeplitz.
    fn range_of_others(&self) -> [f64; 2] {
        let others = self.hashes[1..].iter().map(|hash| hash.ticks.mean());
        [
            others.clone().fold(f64::INFINITY, f64::min),
            others.fold(0.0, f64::max),
        ]
    }
}

/// Toeplitz by its definition, one bit of the input at a time: the paper's `toeplitz`.
fn toeplitz_bitwise(input: &[u8; TUPLE]) -> u32 {
    let mut hash = 0;
    let mut window = u32::from_be_bytes([
        MICROSOFT_KEY[0],
        MICROSOFT_KEY[1],
        MICROSOFT_KEY[2],
        MICROSOFT_KEY[3],
    ]);
    for (index, &byte) in input.iter().enumerate() {
        for bit in 0..8 {
            if byte & (0x80 >> bit) != 0 {
                hash ^= window;
            }
            let next = MICROSOFT_KEY[index + 4] >> (7 - bit) & 1;
            window = window << 1 | u32::from(next);
        }
    }
    hash
}

/// A function that hashes a batch of keys.
enum Function {
    ToeplitzBitwise,
    ToeplitzByTables(Toeplitz),
    Flow(FlowHash),
}

impl Function {
    fn hash(&self, keys: &[u128], tuples: &[[u8; TUPLE]], hashes: &mut [u32]) {
        match self {
            Self::ToeplitzBitwise => {
                for (hash, tuple) in hashes.iter_mut().zip(black_box(tuples)) {
                    *hash = toeplitz_bitwise(tuple);
                }
            }
            Self::ToeplitzByTables(tables) => {
                for (hash, tuple) in hashes.iter_mut().zip(black_box(tuples)) {
                    *hash = tables.hash(tuple);
                }
            }
            Self::Flow(function) => function.hash32_burst(black_box(keys), hashes),
        }
    }
}

fn functions(seed: u64) -> Vec<(String, Function)> {
    let tables = Toeplitz::new(&MICROSOFT_KEY).expect("Microsoft's key is long enough");
    let mut functions = vec![
        ("toeplitz, bit by bit".to_owned(), Function::ToeplitzBitwise),
        (
            "toeplitz, by tables".to_owned(),
            Function::ToeplitzByTables(tables),
        ),
    ];
    functions.extend(HashKind::ALL.map(|kind| {
        let name = match kind {
            HashKind::Keyed => "keyed (three AES rounds)".to_owned(),
            HashKind::Toeplitz => "toeplitz, flowatch's".to_owned(),
            other => other.name().to_owned(),
        };
        (name, Function::Flow(FlowHash::new(kind, seed)))
    }));
    functions
}

impl Experiment for Fig6a {
    type Results = Results;

    const NAME: &'static str = "fig6a";
    const TITLE: &'static str = "Hash functions alone";
    const SOURCE: &'static str = "FloWatcher-DPDK, figure 6a";

    fn instrument() -> String {
        "Timestamp counter around batches of 256 keys in the cache; the median over batches, so that a stall of the \
         machine does not count."
            .into()
    }

    fn measure(context: &mut Context<'_>) -> Result<Results, TrialError> {
        let rounds = context.pick(40, 400);
        let mut random = Random::from_state(context.seed());
        let keys: Vec<u128> = (0..KEYS)
            .map(|_| u128::from(random.bits()) | u128::from(random.bits() as u32) << 64 | 17 << 96)
            .collect();
        let tuples: Vec<[u8; TUPLE]> = keys
            .iter()
            .map(|key| {
                let bytes = key.to_le_bytes();
                std::array::from_fn(|index| bytes[index])
            })
            .collect();
        let functions = functions(context.seed());
        let mut hashes = vec![0u32; KEYS];
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); functions.len()];
        for round in 0..rounds {
            for index in abba(functions.len(), round) {
                let mut batches = Vec::with_capacity(BATCHES);
                for _ in 0..BATCHES {
                    let begun = ticks();
                    functions[index].1.hash(&keys, &tuples, &mut hashes);
                    black_box(&mut hashes);
                    batches.push((ticks() - begun) as f64 / KEYS as f64);
                }
                times[index].push(median(&batches));
            }
        }
        Ok(Results {
            rounds,
            ticks_per_second: TickRate::get().per_second(),
            hashes: functions
                .into_iter()
                .zip(&times)
                .map(|((name, _), times)| Measured {
                    name,
                    ticks: context.estimate(times),
                })
                .collect(),
        })
    }

    fn parameters(results: &Results) -> Vec<(String, String)> {
        vec![parameter("rounds", repetitions_parameter(results.rounds).1)]
    }

    fn judge(results: &Results) -> Vec<Finding> {
        let [least, most] = results.range_of_others();
        let [paper_least, paper_most] = PAPER_CYCLES;
        let bitwise = results.hashes[0].ticks.mean();
        let slowest = results
            .hashes
            .iter()
            .max_by(|a, b| a.ticks.mean().total_cmp(&b.ticks.mean()))
            .map_or("none", |hash| &hash.name);
        vec![Finding::new(
            &format!(
                "Software Toeplitz is the slowest hash by far; the others take {paper_least} to {paper_most} cycles."
            ),
            [
                Part::compared(
                    "Software Toeplitz is the slowest hash.",
                    bitwise > most,
                    format!(
                        "The slowest is {slowest}; Toeplitz bit by bit takes {bitwise:.1} ticks, the slowest other \
                         hash {most:.1}."
                    ),
                ),
                Part::compared(
                    &format!("The others take {paper_least} to {paper_most} cycles."),
                    least >= paper_least && most <= paper_most,
                    format!(
                        "Hashed a batch at a time, the others take {least:.2} to {most:.1} ticks: the CPU overlaps \
                         keys that do not depend on each other."
                    ),
                ),
            ],
        )]
    }

    fn compare(results: &Results) -> Vec<Comparison> {
        let [least, most] = results.range_of_others();
        let bitwise = results.millions_per_second(&results.hashes[0]);
        vec![
            Comparison::new(
                "Toeplitz bit by bit",
                "below 10 million per second",
                format!("{bitwise:.0} million per second"),
            ),
            Comparison::new(
                "the other hashes",
                format!("{} to {} cycles", PAPER_CYCLES[0], PAPER_CYCLES[1]),
                format!("{least:.2} to {most:.1} ticks"),
            ),
        ]
    }

    fn tabulate(results: &Results) -> Vec<Table> {
        let [low, high, half] = Estimate::COLUMNS;
        let mut table = Table::new(
            "hashes",
            "Time of one hash of a 5-tuple within a batch of 256",
            &["hash", "ns", low, high, half, "ticks", "million per second"],
        );
        for hash in &results.hashes {
            let ns = hash.ticks.scaled(1e9 / results.ticks_per_second);
            let mut row = vec![hash.name.as_str().into()];
            row.extend(ns.cells());
            row.push(hash.ticks.mean().into());
            row.push(results.millions_per_second(hash).into());
            table.row(row);
        }
        vec![table]
    }

    fn draw(results: &Results) -> Vec<Figure> {
        let names = results.hashes.iter().map(|hash| {
            hash.name
                .replace("symmetric-toeplitz", "symm. toeplitz")
                .replace("toeplitz, bit by bit", "toeplitz bits")
                .replace("toeplitz, by tables", "toeplitz tables")
                .replace("toeplitz, flowatch's", "toeplitz")
                .replace("keyed (three AES rounds)", "keyed (AES)")
        });
        let rates = results.hashes.iter().enumerate();
        let points =
            rates.map(|(index, hash)| Point::new(index as f64, results.millions_per_second(hash)));
        vec![
            Figure::new(
                "rate",
                "Hashes of a 5-tuple per second on one core, in batches of 256.",
                Axis::names("", names),
                Axis::log10("million hashes per second").within(1.0, f64::NAN),
            )
            .horizontal("14.88 Mpps", 14.88)
            .with(Series::bars("", points.collect())),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bitwise_toeplitz_equals_toeplitz_by_tables() {
        let toeplitz = Toeplitz::new(&MICROSOFT_KEY).unwrap();
        let mut random = Random::from_state(3);
        for _ in 0..100 {
            let input: [u8; TUPLE] = std::array::from_fn(|_| random.bits() as u8);
            assert_eq!(toeplitz_bitwise(&input), toeplitz.hash(&input));
        }
    }
}
