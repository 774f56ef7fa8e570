//! Counts: faults of one kind at a time, and their numbers in the records.

use super::path::{
    DELAY, OVERTAKEN_BY, SEGMENTS, add_conversations, analyse, conversation_of, count_trial,
    each_frame,
};
use crate::experiments::context::Context;
use crate::outcome::{Finding, Part, Table};
use crate::plot::{Axis, Figure, Kind as PlotKind, Point, Series};
use crate::trial::TrialError;
use analysis::Analysis;
use analysis::{AnalysisColumn, AnalysisValue, COLUMNS};
use conversations::{Faults as PathFaults, Frames, PAYLOAD, Random, ReferenceReader, TruthAtProbe};
use port::{Impaired, Impairment, Impairments, MemoryPort};
use wire::LinkType;

/// Rates of faults, per thousand frames.
const RATES: [u32; 4] = [1, 3, 10, 30];

/// A kind of fault.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    /// Makes the random numbers of each kind different; results depend on it.
    salt: &'static str,
    /// The count in which the analysis reports it.
    counted_as: &'static str,
    count: fn(&Counts) -> u64,
    /// Faults before and after the probe, for a rate per thousand frames.
    faults: fn(u32) -> (Impairments, PathFaults),
}

static KINDS: [Kind; 5] = [
    Kind {
        name: "lost by the capture",
        salt: "lost by the capture",
        counted_as: "missed segments",
        count: |counts| counts.missed_bytes / u64::from(PAYLOAD),
        faults: |rate| {
            let faults = Impairments {
                loss_ppm: rate * 1000,
                ..Impairments::default()
            };
            (faults, PathFaults::default())
        },
    },
    Kind {
        name: "copied",
        salt: "copied",
        counted_as: "duplicates",
        count: |counts| counts.copies,
        faults: |rate| {
            let faults = Impairments {
                duplicate_ppm: rate * 1000,
                ..Impairments::default()
            };
            (faults, PathFaults::default())
        },
    },
    Kind {
        name: "overtaken",
        salt: "overtaken",
        counted_as: "out-of-order segments",
        count: |counts| counts.out_of_order,
        faults: |rate| {
            let faults = Impairments {
                reorder_ppm: rate * 1000,
                reorder_distance_max: OVERTAKEN_BY,
                ..Impairments::default()
            };
            (faults, PathFaults::default())
        },
    },
    Kind {
        name: "delayed",
        salt: "delayed",
        counted_as: "out-of-order segments",
        count: |counts| counts.out_of_order,
        faults: |rate| {
            let faults = Impairments {
                delay_ppm: rate * 1000,
                delay_max: DELAY,
                ..Impairments::default()
            };
            (faults, PathFaults::default())
        },
    },
    Kind {
        name: "lost after the probe",
        salt: "lost behind the probe",
        counted_as: "retransmitted segments",
        count: |counts| counts.retransmitted,
        faults: |rate| {
            let path_faults = PathFaults {
                lost_after: u64::from(rate),
                ..PathFaults::default()
            };
            (Impairments::default(), path_faults)
        },
    },
];

/// The counts of clients' data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    retransmitted: u64,
    out_of_order: u64,
    copies: u64,
    unique_bytes: u64,
    missed_bytes: u64,
}

impl Counts {
    fn of_truth(truth: &TruthAtProbe) -> Self {
        Self {
            retransmitted: truth.retransmitted,
            out_of_order: truth.out_of_order,
            copies: truth.copies,
            unique_bytes: truth.unique_bytes,
            missed_bytes: truth.missed_bytes,
        }
    }

    fn add(&mut self, other: &Self) {
        self.retransmitted += other.retransmitted;
        self.out_of_order += other.out_of_order;
        self.copies += other.copies;
        self.unique_bytes += other.unique_bytes;
        self.missed_bytes += other.missed_bytes;
    }
}

/// The columns of a record's counts, for either side.
struct Columns([[&'static AnalysisColumn; 5]; 2]);

impl Columns {
    fn new() -> Result<Self, TrialError> {
        let find = |name: &str, side: usize| {
            let prefix = ["tcp", "reverseTcp"][side];
            let named = |it: &&AnalysisColumn| it.name.strip_prefix(prefix) == Some(name);
            let column = COLUMNS.iter().find(named);
            column.ok_or_else(|| TrialError::Missing(format!("no column {prefix}{name}")))
        };
        let of = |side| {
            Ok::<_, TrialError>([
                find("RetransmittedPackets", side)?,
                find("OutOfOrderPackets", side)?,
                find("DuplicatePackets", side)?,
                find("UniqueBytes", side)?,
                find("MissedBytes", side)?,
            ])
        };
        Ok(Self([of(0)?, of(1)?]))
    }

    fn counts(&self, side: usize, analysis: &Analysis) -> Counts {
        let value = |column: &AnalysisColumn| match column.value(analysis) {
            AnalysisValue::Number(number) => number,
            _ => 0,
        };
        let [
            retransmitted,
            out_of_order,
            copies,
            unique_bytes,
            missed_bytes,
        ] = self.0[side & 1].map(value);
        Counts {
            retransmitted,
            out_of_order,
            copies,
            unique_bytes,
            missed_bytes,
        }
    }
}

/// True and reported counts of one run.
struct Run {
    frames: u64,
    /// Faults that hit clients' data; after the probe: the client's retransmissions.
    injected: u64,
    truth: Counts,
    reported: Counts,
    /// Conversations: all, those with only correct counts, those that a limit cut, and those that are
    /// neither.
    flows: usize,
    exact: usize,
    cut: usize,
    wrong: usize,
}

/// Runs conversations with one kind of fault.
fn run(
    context: &mut Context<'_>,
    kind: &Kind,
    rate: u32,
    conversations: usize,
) -> Result<Run, TrialError> {
    let (faults, path_faults) = (kind.faults)(rate);
    let seed = kind.salt.bytes().fold(context.seed(), |seed, byte| {
        seed.wrapping_mul(31).wrapping_add(u64::from(byte))
    });
    let faults = Impairments { seed, ..faults };
    let mut frames = Frames::default();
    let mut random = Random::new(seed.wrapping_mul(1000).wrapping_add(u64::from(rate)));
    add_conversations(&mut frames, conversations, path_faults, false, &mut random);
    let memory = MemoryPort::new(LinkType::Ethernet, frames.take());
    let (mut sending, mut sent) = (ReferenceReader::new(&frames), Vec::new());
    each_frame(&mut memory.clone(), |frame| {
        sent.push(sending.read(frame.time_ns, frame.bytes).is_data);
    })?;
    let mut reading = ReferenceReader::new(&frames);
    each_frame(&mut Impaired::new(memory.clone(), faults), |frame| {
        reading.read(frame.time_ns, frame.bytes);
    })?;
    let truths = reading.finish();
    let mut port = Impaired::new(memory, faults);
    let log = port.log();
    let columns = Columns::new()?;
    let (mut truth, mut reported) = (Counts::default(), Counts::default());
    let (mut flows, mut exact, mut cut, mut wrong) = (0, 0, 0, 0);
    let counted = analyse(&mut port, conversations, |record, analysis| {
        let (number, side) = conversation_of(record);
        let counts = columns.counts(side, analysis);
        let true_counts = truths.get(&number).map(Counts::of_truth);
        reported.add(&counts);
        flows += 1;
        let is_exact = true_counts == Some(counts);
        let is_cut = analysis.tcp.as_ref().is_some_and(|tcp| tcp.limits() != 0);
        exact += usize::from(is_exact);
        cut += usize::from(is_cut);
        wrong += usize::from(!is_exact && !is_cut);
    })?;
    for conversation in truths.values() {
        truth.add(&Counts::of_truth(conversation));
    }
    let hits_data = |(number, _): &&(u64, Impairment)| {
        let is_data = sent.get(usize::try_from(*number).unwrap_or(usize::MAX));
        is_data.copied().unwrap_or_default()
    };
    let mut injected = log.entries().iter().filter(hits_data).count() as u64;
    if path_faults.lost_after > 0 {
        injected = frames.retransmissions() as u64;
    }
    count_trial(context, counted);
    Ok(Run {
        frames: sent.len() as u64,
        injected,
        truth,
        reported,
        flows,
        exact,
        cut,
        wrong,
    })
}

/// The results of all kinds of faults at all rates.
pub(super) struct Results {
    conversations: usize,
    /// By kind, with a run per rate.
    kinds: Vec<(&'static Kind, Vec<Run>)>,
}

/// Measures every kind of fault at every rate.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Results, TrialError> {
    let conversations = context.pick(150, 1500);
    let mut kinds = Vec::new();
    for kind in &KINDS {
        context.progress(kind.name);
        let mut runs = Vec::new();
        for rate in RATES {
            runs.push(run(context, kind, rate, conversations)?);
        }
        kinds.push((kind, runs));
    }
    Ok(Results {
        conversations,
        kinds,
    })
}

impl Results {
    fn runs(&self) -> impl Iterator<Item = (&'static Kind, u32, &Run)> {
        let kinds = self.kinds.iter();
        kinds.flat_map(|(kind, runs)| {
            RATES
                .into_iter()
                .zip(runs)
                .map(|(rate, run)| (*kind, rate, run))
        })
    }

    fn sum(&self, value: fn(&Run) -> u64) -> u64 {
        self.runs().map(|(_, _, run)| value(run)).sum()
    }

    pub(super) fn parameter(&self) -> (String, String) {
        (
            "conversations per run".into(),
            format!(
                "{}, of {SEGMENTS} segments of {PAYLOAD} B",
                self.conversations
            ),
        )
    }

    pub(super) fn judge(&self) -> Finding {
        let wrong = self.sum(|run| run.wrong as u64);
        Finding::new(
            "The analysis counts the losses, copies and reordering that a probe can see as they are: retransmitted, \
             out-of-order and duplicate segments, unique bytes and missed bytes.",
            [Part::compared(
                "",
                wrong == 0,
                format!(
                    "Of {} conversations ({} frames) with faults of five kinds at rates of up to 3 %, all five counts \
                     of {} equal the truth; the records of {} say that a limit cut the analysis. {wrong} are neither.",
                    self.sum(|run| run.flows as u64),
                    self.sum(|run| run.frames),
                    self.sum(|run| run.exact as u64),
                    self.sum(|run| run.cut as u64)
                ),
            )],
        )
    }

    pub(super) fn tabulate(&self) -> Vec<Table> {
        let mut packets = Table::new(
            "packets",
            "Faults injected into clients' data, with the true and the reported number of packets",
            &[
                "fault",
                "rate, ‰",
                "frames",
                "injected",
                "retransmitted",
                "retransmitted, reported",
                "out of order",
                "out of order, reported",
                "duplicates",
                "duplicates, reported",
            ],
        );
        let mut bytes = Table::new(
            "bytes",
            "True and reported bytes, and conversations of which all five counts are correct",
            &[
                "fault",
                "rate, ‰",
                "unique bytes",
                "unique bytes, reported",
                "missed bytes",
                "missed bytes, reported",
                "conversations",
                "all correct",
                "marked as cut by a limit",
                "neither",
            ],
        );
        for (kind, rate, run) in self.runs() {
            let (truth, reported) = (run.truth, run.reported);
            packets.row(vec![
                kind.name.into(),
                rate.into(),
                run.frames.into(),
                run.injected.into(),
                truth.retransmitted.into(),
                reported.retransmitted.into(),
                truth.out_of_order.into(),
                reported.out_of_order.into(),
                truth.copies.into(),
                reported.copies.into(),
            ]);
            bytes.row(vec![
                kind.name.into(),
                rate.into(),
                truth.unique_bytes.into(),
                reported.unique_bytes.into(),
                truth.missed_bytes.into(),
                reported.missed_bytes.into(),
                run.flows.into(),
                run.exact.into(),
                run.cut.into(),
                run.wrong.into(),
            ]);
        }
        vec![packets, bytes]
    }

    pub(super) fn draw(&self) -> Vec<Figure> {
        let mut by_rate = Figure::new(
            "rates",
            "Reported faults of each kind by the number injected into clients' data. On the line all of them were \
             reported.",
            Axis::log10("injected (packets)").within(10.0, f64::NAN),
            Axis::log10("reported (packets)").within(10.0, f64::NAN),
        );
        let mut most: f64 = 1.0;
        let [mut injected, mut visible, mut reported]: [Vec<Point>; 3] = Default::default();
        for (index, (kind, runs)) in self.kinds.iter().enumerate() {
            let point =
                |run: &Run| Point::new(run.injected as f64, (kind.count)(&run.reported) as f64);
            let label = format!("{}: {}", kind.name, kind.counted_as);
            let points: Vec<Point> = runs.iter().map(point).collect();
            most = points.iter().map(|point| point.x).fold(most, f64::max);
            by_rate
                .series
                .push(Series::of(&label, PlotKind::Points, points));
            if let Some(highest) = runs.last() {
                let x = index as f64;
                injected.push(Point::new(x, highest.injected as f64));
                visible.push(Point::new(x, (kind.count)(&highest.truth) as f64));
                reported.push(Point::new(x, (kind.count)(&highest.reported) as f64));
            }
        }
        let diagonal = vec![Point::new(10.0, 10.0), Point::new(most, most)];
        by_rate.series.push(Series::curve("all", diagonal));
        let counts = Figure::new(
            "reported",
            "Faults in 3 % of the frames: those injected into clients' data, those that a probe can see (a reordered \
             frame is visible only if a frame of its own conversation overtook it), and those that the analysis \
             reported.",
            Axis::names("", KINDS.iter().map(|kind| kind.name)),
            Axis::linear("packets").from_zero(),
        )
        .with(Series::bars("injected", injected))
        .with(Series::bars("visible to a probe", visible))
        .with(Series::bars("reported", reported));
        vec![counts, by_rate]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::anomalies::with_context;

    #[test]
    fn every_count_is_correct_and_most_faults_are_reported() {
        with_context(|context| {
            for kind in &KINDS {
                let run = run(context, kind, 30, 40).unwrap();
                assert_eq!((run.flows, run.reported), (40, run.truth), "{}", kind.name);
                assert_eq!((run.exact, run.wrong), (run.flows, 0), "{}", kind.name);
                let reported = (kind.count)(&run.reported);
                assert!(
                    run.injected > 100 && reported <= run.injected,
                    "{}",
                    kind.name
                );
                assert!(reported * 2 >= run.injected, "{}: {reported}", kind.name);
            }
            let copied = run(context, &KINDS[1], 10, 40).unwrap();
            assert_eq!(copied.reported.copies, copied.injected);
        });
    }
}
