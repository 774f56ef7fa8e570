//! FloWatcher-DPDK, table IV: a profile of the packet path.

use super::context::{Context, parameter};
use super::experiment::Experiment;
use crate::outcome::{Comparison, Finding, Part, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::traffic::{small_frames, wire_of};
use crate::trial::TrialError;
use generator::FlowOrder;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) struct Table4;

pub(super) struct Results {
    packets: u64,
    flows: u32,
    /// The profile of a packet for each of [`WORK`].
    profiles: Vec<(&'static str, Profile)>,
}

/// Name and `watch` flags of the measured work.
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

/// Index of the work that the paper profiles.
const COUNTING: usize = 1;

/// A share of accesses below this counts as hardly any.
const FEW_MISSES: f64 = 1e-3;

/// Valgrind's counts of a run, or their difference per packet.
#[derive(Clone, Copy, Debug, Default)]
struct Profile {
    instructions: f64,
    data: f64,
    l1_misses: f64,
    last_level_misses: f64,
    branches: f64,
    mispredicted: f64,
}

impl Profile {
    /// The share of data accesses that miss the last level.
    fn last_level_share(&self) -> f64 {
        self.last_level_misses / self.data
    }

    /// Returns this run minus a shorter one, per packet.
    fn difference(self, shorter: Self, packets: f64) -> Self {
        Self {
            instructions: (self.instructions - shorter.instructions) / packets,
            data: (self.data - shorter.data) / packets,
            l1_misses: (self.l1_misses - shorter.l1_misses) / packets,
            // Addresses differ from run to run: with very few misses the longer run may have fewer.
            last_level_misses: (self.last_level_misses - shorter.last_level_misses).max(0.0)
                / packets,
            branches: (self.branches - shorter.branches) / packets,
            mispredicted: (self.mispredicted - shorter.mispredicted) / packets,
        }
    }
}

/// A temporary directory of this run, removed on drop.
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
        // Files that cannot be removed are small and in the temporary directory.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Writes a capture of `packets` frames of 64 bytes.
fn write_capture(path: &Path, packets: u64, flows: u32, seed: u64) -> Result<(), TrialError> {
    let wire = wire_of(
        &small_frames(flows, FlowOrder::Uniform, seed),
        packets as usize,
    )?;
    let mut file = BufWriter::new(fs::File::create(path).map_err(TrialError::missing)?);
    let mut put = |bytes: &[u8]| file.write_all(bytes).map_err(TrialError::missing);
    // pcap file header: nanosecond timestamps, Ethernet.
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
fn profile(capture: &Path, flags: &[&str], output: &Path) -> Result<Profile, TrialError> {
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
    totals(&fs::read_to_string(output).map_err(TrialError::missing)?)
        .ok_or_else(|| TrialError::missing("valgrind's output has no totals"))
}

/// Reads the totals of a callgrind file by the names of its events.
fn totals(text: &str) -> Option<Profile> {
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
            .and_then(|index| totals.get(index).copied())
            .unwrap_or(0.0)
    };
    Some(Profile {
        instructions: of("Ir"),
        data: of("Dr") + of("Dw"),
        l1_misses: of("D1mr") + of("D1mw"),
        last_level_misses: of("DLmr") + of("DLmw"),
        branches: of("Bc") + of("Bi"),
        mispredicted: of("Bcm") + of("Bim"),
    })
}

impl Experiment for Table4 {
    type Results = Results;

    const NAME: &'static str = "table4";
    const TITLE: &'static str = "Profile: instructions, cache misses and mispredictions per packet";
    const SOURCE: &'static str = "FloWatcher-DPDK, table IV";

    fn instrument() -> String {
        "valgrind (callgrind, with its simulated caches and branch predictor) over this program reading a capture; \
         the difference of two runs, so that start and end cancel. No hardware counters: no IPC, and prefetching \
         does not hide a miss. Reading the file is included, a device's receive function is not."
            .into()
    }

    fn measure(context: &mut Context<'_>) -> Result<Results, TrialError> {
        let packets = context.pick(40_000u64, 400_000);
        let flows = context.pick(1u32 << 12, 1 << 16);
        let scratch = Scratch::new()?;
        let (short, long) = (scratch.0.join("short.pcap"), scratch.0.join("long.pcap"));
        write_capture(&short, packets, flows, context.seed())?;
        write_capture(&long, packets * 2, flows, context.seed())?;
        let mut profiles = Vec::new();
        for (name, flags) in WORK {
            context.progress(name);
            let output = scratch.0.join("callgrind.out");
            let first = profile(&short, flags, &output)?;
            let each = profile(&long, flags, &output)?.difference(first, packets as f64);
            profiles.push((name, each));
        }
        Ok(Results {
            packets,
            flows,
            profiles,
        })
    }

    fn parameters(results: &Results) -> Vec<(String, String)> {
        vec![
            parameter("flows", results.flows),
            parameter("packets", format!("{}, and twice as many", results.packets)),
        ]
    }

    fn judge(results: &Results) -> Vec<Finding> {
        let (_, count) = results.profiles[COUNTING];
        let share = count.last_level_share();
        vec![Finding::new(
            "About two instructions per cycle, and hardly any misses of the last-level cache.",
            [
                Part::not_compared(
                    "About two instructions per cycle.",
                    format!(
                        "Instructions per cycle need hardware counters. A packet read from a file and counted in its \
                         flow takes {:.0} instructions.",
                        count.instructions
                    ),
                ),
                Part::new(
                    "Hardly any misses of the last-level cache.",
                    (share < FEW_MISSES).then_some(true),
                    format!(
                        "{:.3} % of the accesses miss a simulated last level, in which prefetching hides nothing.",
                        share * 100.0
                    ),
                ),
            ],
        )]
    }

    fn compare(results: &Results) -> Vec<Comparison> {
        let share = results.profiles[COUNTING].1.last_level_share();
        vec![
            Comparison::new(
                "accesses that miss the last level, flows counted",
                "about 0.01 %",
                format!("{:.3} % (simulated)", share * 100.0),
            ),
            Comparison::new(
                "instructions per cycle",
                "about 2",
                "not measured: valgrind has no hardware counters",
            ),
        ]
    }

    fn tabulate(results: &Results) -> Vec<Table> {
        let mut table = Table::new(
            "profile",
            "For each packet of 64 B",
            &[
                "work",
                "instructions",
                "data accesses",
                "L1 misses",
                "last-level misses",
                "share of accesses that miss the last level",
                "branches",
                "mispredicted",
            ],
        );
        for (name, each) in &results.profiles {
            table.row(vec![
                (*name).into(),
                each.instructions.into(),
                each.data.into(),
                each.l1_misses.into(),
                each.last_level_misses.into(),
                each.last_level_share().into(),
                each.branches.into(),
                each.mispredicted.into(),
            ]);
        }
        vec![table]
    }

    fn draw(results: &Results) -> Vec<Figure> {
        let profiles = results.profiles.iter().enumerate();
        let points = profiles.map(|(index, (_, each))| Point::new(index as f64, each.instructions));
        vec![
            Figure::new(
                "instructions",
                "Instructions per packet of 64 B, from the file to the flow's entry.",
                Axis::names("", WORK.iter().map(|(name, _)| *name)),
                Axis::linear("instructions per packet").from_zero(),
            )
            .with(Series::bars("", points.collect())),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_totals_by_event_name() {
        let text = "version: 1\nevents: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw Bc Bcm Bi Bim\nfn=(1)\n\
            totals: 1000 200 100 1 20 10 1 3 2 90 5 10 1\n";
        let profile = totals(text).unwrap();
        assert_eq!(profile.instructions, 1000.0);
        assert_eq!(profile.data, 300.0);
        assert_eq!((profile.l1_misses, profile.last_level_misses), (30.0, 5.0));
        assert_eq!((profile.branches, profile.mispredicted), (100.0, 6.0));
        assert!(totals("events: Ir\n").is_none());
    }
}
