//! FloWatcher-DPDK, table IV: a profile of the packet path.

use super::Experiment;
use super::context::{Context, outcome};
use crate::outcome::{Comparison, Finding, Holds, Outcome, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::traffic::{small_frames, wire_of};
use crate::trial::TrialError;
use generator::FlowOrder;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "table4",
    title: "Profile: instructions, cache misses and mispredictions a packet",
    source: "FloWatcher-DPDK, table IV",
    run,
};

/// What is measured, as flags of `watch`.
const WORK: [(&str, &[&str]); 5] = [
    ("packets counted", &["--level", "packet"]),
    ("flows counted", &[]),
    ("and gap moments", &["--statistics", "gap"]),
    (
        "and gap p99, histogram",
        &["--statistics", "gap-percentile=99"],
    ),
    (
        "and gap p99, P-square",
        &[
            "--statistics",
            "gap-percentile=99",
            "--estimator",
            "psquare",
        ],
    ),
];

/// What valgrind counts of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    instructions: f64,
    data: f64,
    first_misses: f64,
    last_misses: f64,
    branches: f64,
    mispredicted: f64,
}

impl Counted {
    /// What the longer of two runs has more, for each of so many packets.
    fn less(self, shorter: Self, packets: f64) -> Self {
        Self {
            instructions: (self.instructions - shorter.instructions) / packets,
            data: (self.data - shorter.data) / packets,
            first_misses: (self.first_misses - shorter.first_misses) / packets,
            // Memory lies elsewhere in each run: where hardly anything misses, the longer run may miss
            // less.
            last_misses: (self.last_misses - shorter.last_misses).max(0.0) / packets,
            branches: (self.branches - shorter.branches) / packets,
            mispredicted: (self.mispredicted - shorter.mispredicted) / packets,
        }
    }
}

/// A directory of this run's own, removed when it is let go.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, TrialError> {
        let path = std::env::temp_dir().join(format!("flowatch-lab-{}", std::process::id()));
        fs::create_dir_all(&path).map_err(TrialError::missing)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is small, and in the place for such things.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A capture of so many frames of 64 bytes.
fn capture(path: &Path, packets: u64, flows: u32, seed: u64) -> Result<(), TrialError> {
    let wire = wire_of(
        &small_frames(flows, FlowOrder::Uniform, seed),
        packets as usize,
    )?;
    let mut file = BufWriter::new(fs::File::create(path).map_err(TrialError::missing)?);
    let mut put = |bytes: &[u8]| file.write_all(bytes).map_err(TrialError::missing);
    // The header of a capture with nanoseconds, Ethernet.
    for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        put(&word.to_le_bytes())?;
    }
    for index in 0..packets {
        let frame = wire.frame(index);
        let ns = index * 67;
        for word in [
            1_600_000_000 + (ns / 1_000_000_000) as u32,
            (ns % 1_000_000_000) as u32,
            frame.bytes.len() as u32,
            frame.wire_length,
        ] {
            put(&word.to_le_bytes())?;
        }
        put(frame.bytes)?;
    }
    file.flush().map_err(TrialError::missing)
}

/// Runs this program under valgrind over a capture.
fn profile(capture: &Path, flags: &[&str], output: &Path) -> Result<Counted, TrialError> {
    let program = std::env::current_exe().map_err(TrialError::missing)?;
    let result = Command::new("valgrind")
        .args(["--tool=callgrind", "--cache-sim=yes", "--branch-sim=yes"])
        .arg(format!("--callgrind-out-file={}", output.display()))
        .arg(program)
        .args([
            "watch",
            "--summary",
            "none",
            "--seed",
            "1",
            "--whole-flows",
            "-r",
        ])
        .arg(capture)
        .args(flags)
        .output()
        .map_err(|error| {
            TrialError::missing(format!("valgrind: {error} (apt-get install valgrind)"))
        })?;
    if !result.status.success() {
        let text = String::from_utf8_lossy(&result.stderr);
        let last = text.lines().last().unwrap_or_default().to_owned();
        return Err(TrialError::missing(format!("valgrind: {last}")));
    }
    counted(&fs::read_to_string(output).map_err(TrialError::missing)?)
        .ok_or_else(|| TrialError::missing("valgrind's output has no totals"))
}

/// The totals of a callgrind file, by the names of its events.
fn counted(text: &str) -> Option<Counted> {
    let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let names: Vec<&str> = line("events:")?.split_whitespace().collect();
    let totals: Vec<f64> = line("totals:")
        .or_else(|| line("summary:"))?
        .split_whitespace()
        .map(|number| number.parse().unwrap_or(0.0))
        .collect();
    let of = |name: &str| {
        names
            .iter()
            .position(|known| *known == name)
            .and_then(|place| totals.get(place).copied())
            .unwrap_or(0.0)
    };
    Some(Counted {
        instructions: of("Ir"),
        data: of("Dr") + of("Dw"),
        first_misses: of("D1mr") + of("D1mw"),
        last_misses: of("DLmr") + of("DLmw"),
        branches: of("Bc") + of("Bi"),
        mispredicted: of("Bcm") + of("Bim"),
    })
}

fn run(context: &mut Context<'_>) -> Result<Outcome, TrialError> {
    let mut outcome = outcome(
        &EXPERIMENT,
        "valgrind (callgrind, with its simulated caches and branch predictor) over this program reading a capture; \
         the difference of two runs, so that start and end cancel. No hardware counters: no IPC, and prefetching \
         does not hide a miss. Reading the file is in it, a device's receive function is not.",
    );
    let packets = context.pick(40_000u64, 400_000);
    let flows = context.pick(1u32 << 12, 1 << 16);
    let scratch = Scratch::new()?;
    let (short, long) = (scratch.0.join("short.pcap"), scratch.0.join("long.pcap"));
    capture(&short, packets, flows, context.seed())?;
    capture(&long, packets * 2, flows, context.seed())?;
    let mut table = Table::new(
        "profile",
        "For each packet of 64 B",
        &[
            "work",
            "instructions",
            "data accesses",
            "first-level misses",
            "last-level misses",
            "share of accesses that miss the last level",
            "branches",
            "mispredicted",
        ],
    );
    let mut points = Vec::new();
    let mut rows = Vec::new();
    for (place, (name, flags)) in WORK.into_iter().enumerate() {
        context.say(name);
        let output = scratch.0.join("callgrind.out");
        let first = profile(&short, flags, &output)?;
        let each = profile(&long, flags, &output)?.less(first, packets as f64);
        points.push(Point::new(place as f64, each.instructions));
        let share = each.last_misses / each.data;
        rows.push((name, each, share));
        table.row(vec![
            name.into(),
            each.instructions.into(),
            each.data.into(),
            each.first_misses.into(),
            each.last_misses.into(),
            share.into(),
            each.branches.into(),
            each.mispredicted.into(),
        ]);
    }
    outcome.figures.push(
        Figure::new(
            "instructions",
            "Instructions a packet of 64 B, from the file to the flow's entry.",
            Axis::names("", WORK.iter().map(|(name, _)| *name)),
            Axis::linear("instructions a packet").from_zero(),
        )
        .with(Series::bars("", points)),
    );
    outcome.tables.push(table);
    let (_, count, share) = rows[1];
    outcome.comparisons.push(Comparison {
        what: "accesses that miss the last level, flows counted".into(),
        paper: "about 0.01 %".into(),
        here: format!("{:.3} % (simulated)", share * 100.0),
    });
    outcome.comparisons.push(Comparison {
        what: "instructions a cycle".into(),
        paper: "about 2".into(),
        here: "cannot be counted: no hardware counters in this virtual machine".into(),
    });
    outcome.findings.push(Finding {
        paper: "About two instructions a cycle, and hardly any misses of the last-level cache.".into(),
        holds: if share < 1e-3 { Holds::Partly } else { Holds::Unknown },
        because: format!(
            "A packet read from a file and counted in its flow takes {:.0} instructions, and {:.3} % of its accesses \
             miss a simulated last level; instructions a cycle need hardware counters.",
            count.instructions,
            share * 100.0
        ),
    });
    outcome.settings = vec![
        ("flows".into(), flows.to_string()),
        ("packets".into(), format!("{packets}, and twice as many")),
    ];
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read_by_the_names_of_their_events() {
        let text = "version: 1\nevents: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw Bc Bcm Bi Bim\nfn=(1)\n\
            totals: 1000 200 100 1 20 10 1 3 2 90 5 10 1\n";
        let counted = counted(text).unwrap();
        assert_eq!(counted.instructions, 1000.0);
        assert_eq!(counted.data, 300.0);
        assert_eq!((counted.first_misses, counted.last_misses), (30.0, 5.0));
        assert_eq!((counted.branches, counted.mispredicted), (100.0, 6.0));
        assert!(super::counted("events: Ir\n").is_none());
    }
}
