//! Counts: faults of one kind at a time, and what records tell of them.

use super::path::{DELAY, OVERTAKEN_BY, SEGMENTS, analyse, converse, each_frame, place_of, tally};
use crate::experiments::Context;
use crate::outcome::{Finding, Holds, Outcome, Table};
use crate::plot::{Axis, Figure, Kind as PlotKind, Point, Series};
use crate::trial::TrialError;
use analysis::Analysis;
use analysis::{AnalysisColumn, AnalysisValue, COLUMNS};
use conversations::{Faults as Behind, Frames, PAYLOAD, Random, ReferenceReader, TruthAtProbe};
use port::{Impaired, Impairment, Impairments, MemoryPort};
use wire::LinkType;

/// Rates of faults: one in a thousand frames, and so on.
const RATES: [u32; 4] = [1, 3, 10, 30];

/// A kind of fault.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    /// What the analysis counts of it.
    counted_as: &'static str,
    count: fn(&Counts) -> u64,
    /// In front of the probe and behind it, so many frames in a thousand.
    faults: fn(u32) -> (Impairments, Behind),
}

const KINDS: [Kind; 5] = [
    Kind {
        name: "lost by the capture",
        counted_as: "segments missed",
        count: |counts| counts.missed_bytes / u64::from(PAYLOAD),
        faults: |rate| {
            let faults = Impairments {
                loss_ppm: rate * 1000,
                ..Impairments::default()
            };
            (faults, Behind::default())
        },
    },
    Kind {
        name: "copied",
        counted_as: "duplicates",
        count: |counts| counts.copies,
        faults: |rate| {
            let faults = Impairments {
                duplicate_ppm: rate * 1000,
                ..Impairments::default()
            };
            (faults, Behind::default())
        },
    },
    Kind {
        name: "overtaken",
        counted_as: "segments out of order",
        count: |counts| counts.out_of_order,
        faults: |rate| {
            let faults = Impairments {
                reorder_ppm: rate * 1000,
                reorder_distance_max: OVERTAKEN_BY,
                ..Impairments::default()
            };
            (faults, Behind::default())
        },
    },
    Kind {
        name: "delayed",
        counted_as: "segments out of order",
        count: |counts| counts.out_of_order,
        faults: |rate| {
            let faults = Impairments {
                delay_ppm: rate * 1000,
                delay_max: DELAY,
                ..Impairments::default()
            };
            (faults, Behind::default())
        },
    },
    Kind {
        name: "lost behind the probe",
        counted_as: "segments sent again",
        count: |counts| counts.retransmitted,
        faults: |rate| {
            let behind = Behind {
                lost_after: u64::from(rate),
                ..Behind::default()
            };
            (Impairments::default(), behind)
        },
    },
];

/// What is counted of clients' data.
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

/// The columns that a record's counts are read from, of either side.
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

/// What one run told, and what was true.
struct Run {
    frames: u64,
    /// Faults that hit clients' data; behind the probe, what the client sent again.
    injected: u64,
    truth: Counts,
    told: Counts,
    /// Conversations, those of them whose counts are all true, those of which a limit cut something, and
    /// those that are neither.
    flows: usize,
    exact: usize,
    cut: usize,
    wrong: usize,
}

/// Conversations with one kind of fault.
fn count(
    context: &mut Context<'_>,
    kind: &Kind,
    rate: u32,
    conversations: usize,
) -> Result<Run, TrialError> {
    let (faults, behind) = (kind.faults)(rate);
    let seed = kind.name.bytes().fold(context.seed(), |seed, byte| {
        seed.wrapping_mul(31).wrapping_add(u64::from(byte))
    });
    let faults = Impairments { seed, ..faults };
    let mut frames = Frames::default();
    let mut random = Random::new(seed.wrapping_mul(1000).wrapping_add(u64::from(rate)));
    converse(&mut frames, conversations, behind, false, &mut random);
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
    let (mut truth, mut told) = (Counts::default(), Counts::default());
    let (mut flows, mut exact, mut cut, mut wrong) = (0, 0, 0, 0);
    let counted = analyse(&mut port, conversations, |record, analysis| {
        let (number, side) = place_of(record);
        let counts = columns.counts(side, analysis);
        let true_counts = truths.get(&number).map(Counts::of_truth);
        told.add(&counts);
        flows += 1;
        let is_exact = true_counts == Some(counts);
        let is_cut = analysis.tcp.as_ref().is_some_and(|tcp| tcp.limits() != 0);
        exact += usize::from(is_exact);
        cut += usize::from(is_cut);
        wrong += usize::from(!is_exact && !is_cut);
    })?;
    for of_one in truths.values() {
        truth.add(&Counts::of_truth(of_one));
    }
    let hits_data = |(number, _): &&(u64, Impairment)| {
        let is_data = sent.get(usize::try_from(*number).unwrap_or(usize::MAX));
        is_data.copied().unwrap_or_default()
    };
    let mut injected = log.entries().iter().filter(hits_data).count() as u64;
    if behind.lost_after > 0 {
        injected = frames.retransmissions() as u64;
    }
    tally(context, counted);
    Ok(Run {
        frames: sent.len() as u64,
        injected,
        truth,
        told,
        flows,
        exact,
        cut,
        wrong,
    })
}

/// The two tables of counts, empty.
fn tables() -> [Table; 2] {
    let packets = Table::new(
        "packets",
        "Faults injected into clients' data, and packets that are true of them beside those that were told",
        &[
            "fault",
            "rate, ‰",
            "frames",
            "injected",
            "sent again",
            "sent again, told",
            "out of order",
            "out of order, told",
            "duplicates",
            "duplicates, told",
        ],
    );
    let bytes = Table::new(
        "bytes",
        "Bytes that are true and were told, and conversations of which all five counts are true",
        &[
            "fault",
            "rate, ‰",
            "unique bytes",
            "unique bytes, told",
            "missed bytes",
            "missed bytes, told",
            "conversations",
            "all true",
            "marked as cut by a limit",
            "neither",
        ],
    );
    [packets, bytes]
}

/// Enters a run in the tables.
fn enter(tables: &mut [Table; 2], kind: &Kind, rate: u32, run: &Run) {
    let (truth, told) = (run.truth, run.told);
    let [packets, bytes] = tables;
    packets.row(vec![
        kind.name.into(),
        rate.into(),
        run.frames.into(),
        run.injected.into(),
        truth.retransmitted.into(),
        told.retransmitted.into(),
        truth.out_of_order.into(),
        told.out_of_order.into(),
        truth.copies.into(),
        told.copies.into(),
    ]);
    bytes.row(vec![
        kind.name.into(),
        rate.into(),
        truth.unique_bytes.into(),
        told.unique_bytes.into(),
        truth.missed_bytes.into(),
        told.missed_bytes.into(),
        run.flows.into(),
        run.exact.into(),
        run.cut.into(),
        run.wrong.into(),
    ]);
}

/// Every kind of fault at every rate.
pub(super) fn tell(context: &mut Context<'_>, outcome: &mut Outcome) -> Result<(), TrialError> {
    let conversations = context.pick(150, 1500);
    let mut tables = tables();
    let mut by_kind: [Vec<Point>; 3] = Default::default();
    let mut by_rate = Figure::new(
        "rates",
        "What the analysis told of each kind of fault, by how many were injected into clients' data. On the line all of \
         them were told.",
        Axis::log10("injected (packets)").within(10.0, f64::NAN),
        Axis::log10("told (packets)").within(10.0, f64::NAN),
    );
    let (mut flows, mut exact, mut cut, mut wrong, mut frames) = (0, 0, 0, 0, 0);
    let mut most: f64 = 1.0;
    for (place, kind) in KINDS.iter().enumerate() {
        context.say(kind.name);
        let mut points = Vec::new();
        let mut highest = [0.0; 3];
        for rate in RATES {
            let run = count(context, kind, rate, conversations)?;
            enter(&mut tables, kind, rate, &run);
            let counts = [
                run.injected,
                (kind.count)(&run.truth),
                (kind.count)(&run.told),
            ];
            let [injected, true_count, told_count] = counts.map(|count| count as f64);
            points.push(Point::new(injected, told_count));
            highest = [injected, true_count, told_count];
            most = most.max(injected);
            flows += run.flows;
            exact += run.exact;
            cut += run.cut;
            wrong += run.wrong;
            frames += run.frames;
        }
        for (points, count) in by_kind.iter_mut().zip(highest) {
            points.push(Point::new(place as f64, count));
        }
        let label = format!("{}: {}", kind.name, kind.counted_as);
        let series = Series::of(&label, PlotKind::Points, points);
        by_rate.series.push(series);
    }
    let diagonal = vec![Point::new(10.0, 10.0), Point::new(most, most)];
    by_rate.series.push(Series::curve("all", diagonal));
    let [injected, visible, told] = by_kind;
    outcome.figures.push(
        Figure::new(
            "told",
            "Faults in 3 % of the frames: those injected into clients' data, those of them that a probe can see (a frame \
             that none of its own conversation has overtaken, or that is late without it, is not), and what the \
             analysis told.",
            Axis::names("", KINDS.iter().map(|kind| kind.name)),
            Axis::linear("packets").from_zero(),
        )
        .with(Series::bars("injected", injected))
        .with(Series::bars("to be seen by a probe", visible))
        .with(Series::bars("told", told)),
    );
    outcome.figures.push(by_rate);
    outcome.settings.push((
        "conversations a run".into(),
        format!("{conversations}, of {SEGMENTS} segments of {PAYLOAD} B"),
    ));
    outcome.findings.push(Finding {
        paper: "What a probe can see of losses, copies and reordering is counted as it is: segments sent again, out of \
                order and doubled, unique bytes and bytes missed."
            .into(),
        holds: if wrong == 0 {
            Holds::Yes
        } else if exact * 100 >= flows * 99 {
            Holds::Partly
        } else {
            Holds::No
        },
        because: format!(
            "Of {flows} conversations ({frames} frames) with faults of five kinds at rates of up to 3 %, all five \
             counts of {exact} equal the truth; of {cut} the record says that a limit cut something. {wrong} are neither."
        ),
    });
    outcome.tables.extend(tables);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::anomalies::with_context;

    #[test]
    fn every_count_is_true_and_what_can_be_seen_is_told() {
        with_context(|context| {
            for kind in &KINDS {
                let run = count(context, kind, 30, 40).unwrap();
                assert_eq!((run.flows, run.told), (40, run.truth), "{}", kind.name);
                assert_eq!((run.exact, run.wrong), (run.flows, 0), "{}", kind.name);
                let told = (kind.count)(&run.told);
                assert!(run.injected > 100 && told <= run.injected, "{}", kind.name);
                assert!(told * 2 >= run.injected, "{}: {told}", kind.name);
            }
            let copied = count(context, &KINDS[1], 10, 40).unwrap();
            assert_eq!(copied.told.copies, copied.injected);
        });
    }
}
