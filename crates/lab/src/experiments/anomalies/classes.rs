//! Classes: the cause of each out-of-sequence packet, and the class that the analysis reports.

use super::path::{
    DELAY, OVERTAKEN_BY, add_conversations, analyse, conversation_of, count_trial, each_frame,
};
use crate::experiments::context::Context;
use crate::outcome::{Cell, Comparison, Finding, Part, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::trial::TrialError;
use analysis::tcp::{CLASSES, Class};
use conversations::{Classifier, Faults as PathFaults, Frames, Random, ReferenceReader};
use port::{Impaired, Impairments, MemoryPort};
use std::collections::HashMap;
use wire::{Decapsulate, LinkType, PacketInfo, dissect};

/// Packets by true class (rows) and reported class; the last of either is in sequence.
type Confusion = [[u64; CLASSES + 1]; CLASSES + 1];

/// Mixtures of faults before and after the probe, which cause every class except unknown.
fn mixtures() -> [PathFaults; 4] {
    let none = PathFaults::default();
    [
        PathFaults {
            lost_before: 10,
            lost_after: 20,
            duplicated: 5,
            ..none
        },
        PathFaults {
            reordered: 20,
            ..none
        },
        PathFaults {
            acks_lost: 300,
            acks_delayed: 10,
            ..none
        },
        PathFaults {
            lost_before: 10,
            lost_after: 10,
            duplicated: 10,
            reordered: 10,
            acks_lost: 20,
            acks_delayed: 3,
            missed: 0,
        },
    ]
}

/// The classes of packets.
pub(super) struct Results {
    confusion: Confusion,
    packets: u64,
    conversations: usize,
    /// Conversations whose records have the same number of packets of each class.
    agreeing: usize,
}

/// Classifies each packet of conversations with mixed faults, after a port that injects more faults.
fn classify(context: &mut Context<'_>, conversations: usize) -> Result<Results, TrialError> {
    let faults = Impairments {
        seed: context.seed(),
        loss_ppm: 1000,
        duplicate_ppm: 2000,
        reorder_ppm: 2000,
        reorder_distance_max: OVERTAKEN_BY,
        delay_ppm: 1000,
        delay_max: DELAY,
    };
    let mut frames = Frames::default();
    let mut random = Random::new(context.seed().wrapping_mul(1000).wrapping_add(77));
    for path_faults in mixtures() {
        add_conversations(
            &mut frames,
            conversations / 4,
            path_faults,
            true,
            &mut random,
        );
    }
    let memory = MemoryPort::new(LinkType::Ethernet, frames.take());
    let mut classifier = Classifier::new(conversations)?;
    let mut reading = ReferenceReader::new(&frames);
    let (mut confusion, mut packets) = (Confusion::default(), 0);
    let mut classes: HashMap<(usize, usize), [u32; CLASSES]> = HashMap::new();
    each_frame(&mut Impaired::new(memory.clone(), faults), |frame| {
        let packet = reading.read(frame.time_ns, frame.bytes);
        let headers = dissect(
            LinkType::Ethernet,
            frame.bytes,
            frame.wire_length,
            Decapsulate::No,
        );
        let segment = PacketInfo::from_headers(frame.bytes, &headers);
        let (number, side) = (packet.conversation, packet.side);
        let reported = classifier.classify(number, side, frame.time_ns, &segment);
        let index = |class: Option<Class>| class.map_or(CLASSES, |class| class as usize);
        confusion[index(packet.class)][index(reported)] += 1;
        if let Some(class) = reported {
            let of_side = classes.entry((packet.conversation, packet.side));
            of_side.or_default()[class as usize] += 1;
        }
        packets += 1;
    })?;
    let mut agreeing = 0;
    let mut port = Impaired::new(memory, faults);
    let counted = analyse(&mut port, conversations, |record, analysis| {
        let (number, client) = conversation_of(record);
        let of = |side| classes.get(&(number, side)).copied().unwrap_or_default();
        let recorded = |side: usize| analysis.cold[side ^ client].anomalies.classes;
        agreeing += usize::from([0, 1].map(of) == [0, 1].map(recorded));
    })?;
    count_trial(context, counted);
    Ok(Results {
        confusion,
        packets,
        conversations,
        agreeing,
    })
}

/// Returns the packets of a class that are classified correctly, and all of them.
fn correct_of(confusion: &Confusion, class: usize) -> [u64; 2] {
    [confusion[class][class], confusion[class].iter().sum()]
}

/// Returns the first as a percentage of the second; NaN of 0 in 0.
fn per_cent([part, all]: [u64; 2]) -> f64 {
    100.0 * part as f64 / all as f64
}

/// The shares of correctly classified packets above which the finding holds: of all packets and of the
/// worst class, in per cent.
const CORRECT: f64 = 95.0;
const CORRECT_OF_WORST: f64 = 50.0;

/// Classifies the packets of many conversations with mixed faults.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Results, TrialError> {
    context.progress("classes");
    let conversations = context.pick(600, 4000);
    classify(context, conversations)
}

impl Results {
    /// The classes that occurred, each with its correctly classified packets and all its packets.
    fn by_class(&self) -> Vec<(Class, [u64; 2])> {
        let of = |class: Class| (class, correct_of(&self.confusion, class as usize));
        let all = Class::ALL.into_iter().map(of);
        all.filter(|(_, [_, all])| *all > 0).collect()
    }

    /// Correctly classified packets and all packets of all classes.
    fn total(&self) -> [u64; 2] {
        let sum = |[correct, all]: [u64; 2], (_, of_class): (Class, [u64; 2])| {
            [correct + of_class[0], all + of_class[1]]
        };
        self.by_class().into_iter().fold([0, 0], sum)
    }

    /// The class with the lowest share of correctly classified packets.
    fn worst(&self) -> (&'static str, [u64; 2]) {
        self.by_class()
            .into_iter()
            .min_by(|a, b| per_cent(a.1).total_cmp(&per_cent(b.1)))
            .map_or(("none", [0, 0]), |(class, counts)| (class.name(), counts))
    }

    pub(super) fn judge(&self) -> Finding {
        let [correct, all] = self.total();
        let share = per_cent([correct, all]);
        let (worst, of_worst) = self.worst();
        let false_alarms: u64 = self.confusion[CLASSES][..CLASSES].iter().sum();
        Finding::new(
            "Out-of-sequence segments are classified by their cause.",
            [
                Part::compared(
                    "At least 95 % of them correctly.",
                    share >= CORRECT,
                    format!(
                        "{share:.1} % of {all} out-of-sequence packets (of {} packets) are classified correctly. Of \
                         the packets in sequence {false_alarms} were classified as out of sequence.",
                        self.packets
                    ),
                ),
                Part::compared(
                    "At least half of every class correctly.",
                    per_cent(of_worst) >= CORRECT_OF_WORST,
                    format!(
                        "The worst class is \"{worst}\": {} of {}.",
                        of_worst[0], of_worst[1]
                    ),
                ),
            ],
        )
    }

    pub(super) fn compare(&self) -> Comparison {
        let [correct, all] = self.total();
        Comparison::new(
            "out-of-sequence packets classified correctly",
            "-",
            format!("{correct} of {all}: {:.1} %", per_cent([correct, all])),
        )
    }

    /// The confusion table, with a row for each class that occurred and for packets in sequence.
    pub(super) fn tabulate(&self) -> Table {
        let names = Class::ALL.map(Class::name);
        let mut columns = vec!["true \\ classified as"];
        columns.extend(names);
        columns.extend(["in sequence", "correct, %"]);
        let mut table = Table::new(
            "classes",
            "Packets by their true class and by the class that the analysis reports",
            &columns,
        );
        for (class, row) in self.confusion.iter().enumerate() {
            if row.iter().sum::<u64>() == 0 {
                continue;
            }
            let name = names.get(class).copied().unwrap_or("in sequence");
            let mut cells: Vec<Cell> = vec![name.into()];
            cells.extend(row.iter().map(|&count| Cell::from(count)));
            cells.push(per_cent(correct_of(&self.confusion, class)).into());
            table.row(cells);
        }
        table
    }

    pub(super) fn draw(&self) -> Figure {
        let classes = self.by_class();
        let shares = classes.iter().enumerate();
        let points = shares.map(|(index, (_, counts))| Point::new(index as f64, per_cent(*counts)));
        Figure::new(
            "classes",
            "Out-of-sequence packets that are classified correctly, by class; none is of the eighth class, unknown.",
            Axis::names("", classes.iter().map(|(class, _)| class.name())),
            Axis::linear("classified correctly (%)").within(0.0, 100.0),
        )
        .with(Series::bars("", points.collect()))
    }

    pub(super) fn note(&self) -> String {
        format!(
            "Records have the number of packets of each class; the class of each packet comes from the TCP analysis \
             alone. In {} of {} conversations both agree.",
            self.agreeing, self.conversations
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::anomalies::with_context;

    #[test]
    fn packets_are_classified_as_records_count_them() {
        with_context(|context| {
            let results = classify(context, 200).unwrap();
            assert_eq!(results.agreeing, results.conversations);
            let packets: u64 = results.confusion.iter().flatten().sum();
            assert_eq!(packets, results.packets);
            let classes = results.by_class();
            assert!(classes.len() >= 6, "{classes:?}");
            let [correct, all] = results.total();
            assert!(correct * 100 >= all * 95, "{classes:?}");
        });
    }
}
