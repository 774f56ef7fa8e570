//! FloWatcher-DPDK, figure 6a: how fast hashes of a 5-tuple are.

use super::Experiment;
use super::context::{Context, outcome};
use crate::outcome::{Comparison, Finding, Holds, Outcome, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::statistics::{abba, median};
use crate::trial::TrialError;
use flow::hash::{FlowHash, HashKind};
use generator::Random;
use hw::time::{TickRate, ticks};
use std::hint::black_box;
use wire::toeplitz::{MICROSOFT_KEY, Toeplitz};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig6a",
    title: "Hash functions alone",
    source: "FloWatcher-DPDK, figure 6a",
    run,
};

/// Keys hashed together, and how many such batches a measurement has.
const KEYS: usize = 256;
const BATCHES: usize = 64;

/// Bytes of a 5-tuple that Toeplitz covers: addresses and ports.
const TUPLE: usize = 12;

/// Toeplitz as it is defined, a bit of the input at a time: what the paper measured as `toeplitz`.
fn toeplitz_by_bits(input: &[u8; TUPLE]) -> u32 {
    let mut hash = 0;
    let mut window = u32::from_be_bytes([
        MICROSOFT_KEY[0],
        MICROSOFT_KEY[1],
        MICROSOFT_KEY[2],
        MICROSOFT_KEY[3],
    ]);
    for (place, &byte) in input.iter().enumerate() {
        for bit in 0..8 {
            if byte & (0x80 >> bit) != 0 {
                hash ^= window;
            }
            let next = MICROSOFT_KEY[place + 4] >> (7 - bit) & 1;
            window = window << 1 | u32::from(next);
        }
    }
    hash
}

/// A way of hashing a batch.
enum Way {
    ByBits,
    ByTables(Toeplitz),
    Function(FlowHash),
}

/// What the paper's other hashes take, least and most.
const PAPER_CYCLES: [f64; 2] = [47.0, 268.0];

fn run(context: &mut Context<'_>) -> Result<Outcome, TrialError> {
    let mut outcome = outcome(
        &EXPERIMENT,
        "Time-stamp counter around batches of 256 keys in the cache; the median over batches, so that \
         a stall of the machine does not count.",
    );
    let rounds = context.pick(40, 400);
    let mut random = Random::from_state(context.seed());
    let keys: Vec<u128> = (0..KEYS)
        .map(|_| u128::from(random.bits()) | u128::from(random.bits() as u32) << 64 | 17 << 96)
        .collect();
    let tuples: Vec<[u8; TUPLE]> = keys
        .iter()
        .map(|key| {
            let bytes = key.to_le_bytes();
            std::array::from_fn(|place| bytes[place])
        })
        .collect();
    let tables = Toeplitz::new(&MICROSOFT_KEY).expect("Microsoft's key is long enough");
    let mut ways = vec![
        ("toeplitz, bit by bit".to_owned(), Way::ByBits),
        ("toeplitz, by tables".to_owned(), Way::ByTables(tables)),
    ];
    ways.extend(HashKind::ALL.map(|kind| {
        let name = match kind {
            HashKind::Keyed => "keyed (three AES rounds)".to_owned(),
            HashKind::Toeplitz => "toeplitz, as it is made here".to_owned(),
            other => other.name().to_owned(),
        };
        (name, Way::Function(FlowHash::new(kind, context.seed())))
    }));
    let rate = TickRate::get().per_second();
    let mut hashes = vec![0u32; KEYS];
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); ways.len()];
    for round in 0..rounds {
        for place in abba(ways.len(), round) {
            let mut batches = Vec::with_capacity(BATCHES);
            for _ in 0..BATCHES {
                let begun = ticks();
                match &ways[place].1 {
                    Way::ByBits => {
                        for (hash, tuple) in hashes.iter_mut().zip(black_box(&tuples)) {
                            *hash = toeplitz_by_bits(tuple);
                        }
                    }
                    Way::ByTables(tables) => {
                        for (hash, tuple) in hashes.iter_mut().zip(black_box(&tuples)) {
                            *hash = tables.hash(tuple);
                        }
                    }
                    Way::Function(function) => {
                        function.hash32_burst(black_box(&keys), &mut hashes);
                    }
                }
                black_box(&mut hashes);
                batches.push((ticks() - begun) as f64 / KEYS as f64);
            }
            times[place].push(median(&batches));
        }
    }
    let mut table = Table::new(
        "hashes",
        "Time of one hash of a 5-tuple within a batch of 256",
        &[
            "hash",
            "ns",
            "95 % from",
            "to",
            "± by t",
            "ticks",
            "million a second",
        ],
    );
    let mut points = Vec::new();
    for (place, ((name, _), times)) in ways.iter().zip(&times).enumerate() {
        let mean = context.mean(times);
        let ns = mean.value * 1e9 / rate;
        points.push(Point::new(place as f64, rate / mean.value / 1e6));
        table.row(vec![
            name.as_str().into(),
            ns.into(),
            (mean.low * 1e9 / rate).into(),
            (mean.high * 1e9 / rate).into(),
            (context.half_by_t(times) * 1e9 / rate).into(),
            mean.value.into(),
            (rate / mean.value / 1e6).into(),
        ]);
    }
    let slowest = (0..ways.len())
        .min_by(|a, b| points[*a].y.total_cmp(&points[*b].y))
        .unwrap_or(0);
    let bit = points[0].y;
    outcome.comparisons.push(Comparison {
        what: "Toeplitz bit by bit".into(),
        paper: "below 10 million a second".into(),
        here: format!("{bit:.0} million a second"),
    });
    let others = points[1..].iter().map(|point| rate / point.y / 1e6);
    let least = others.clone().fold(f64::INFINITY, f64::min);
    let most = others.fold(0.0, f64::max);
    outcome.comparisons.push(Comparison {
        what: "the other hashes".into(),
        paper: format!("{} to {} cycles", PAPER_CYCLES[0], PAPER_CYCLES[1]),
        here: format!("{least:.2} to {most:.1} ticks"),
    });
    let alike = least >= PAPER_CYCLES[0] && most <= PAPER_CYCLES[1];
    outcome.findings.push(Finding {
        paper: format!(
            "Software Toeplitz is the slowest hash by far; the others take {} to {} cycles.",
            PAPER_CYCLES[0], PAPER_CYCLES[1]
        ),
        holds: match (slowest == 0, alike) {
            (true, true) => Holds::Yes,
            (false, false) => Holds::No,
            _ => Holds::Partly,
        },
        because: format!(
            "The slowest is {}. Hashed a batch at a time, the others take {least:.2} to {most:.1} ticks: the \
             processor overlaps keys that do not depend on each other.",
            ways[slowest].0
        ),
    });
    let mut figure = Figure::new(
        "rate",
        "Hashes of a 5-tuple a second on one core, in batches of 256.",
        Axis::names(
            "",
            ways.iter().map(|(name, _)| {
                name.replace("symmetric-toeplitz", "symm. toeplitz")
                    .replace("toeplitz, bit by bit", "toeplitz bits")
                    .replace("toeplitz, by tables", "toeplitz tables")
                    .replace("toeplitz, as it is made here", "toeplitz")
                    .replace("keyed (three AES rounds)", "keyed (AES)")
            }),
        ),
        Axis::log10("million hashes a second").within(1.0, f64::NAN),
    )
    .level("14.88 Mpps", 14.88);
    figure.series.push(Series::bars("", points));
    outcome.figures.push(figure);
    outcome.tables.push(table);
    outcome.settings = vec![("rounds".into(), format!("{rounds}, in ABBA order"))];
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toeplitz_by_bits_is_the_one_by_tables() {
        let toeplitz = Toeplitz::new(&MICROSOFT_KEY).unwrap();
        let mut random = Random::from_state(3);
        for _ in 0..100 {
            let input: [u8; TUPLE] = std::array::from_fn(|_| random.bits() as u8);
            assert_eq!(toeplitz_by_bits(&input), toeplitz.hash(&input));
        }
    }
}
