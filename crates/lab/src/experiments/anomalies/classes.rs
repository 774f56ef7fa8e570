//! Classes: what each packet out of sequence is, and how it is judged.

use super::path::{DELAY, OVERTAKEN_BY, analyse, converse, each_frame, place_of, tally};
use crate::experiments::Context;
use crate::outcome::{Cell, Comparison, Finding, Holds, Outcome, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::trial::TrialError;
use analysis::tcp::{CLASSES, Class};
use conversations::{Classifier, Faults as Behind, Frames, Random, ReferenceReader};
use port::{Impaired, Impairments, MemoryPort};
use std::collections::HashMap;
use wire::{Decapsulate, LinkType, PacketInfo, dissect};

/// Classes as they are (rows) and as they were judged, the last of either: in sequence.
type Confusion = [[u64; CLASSES + 1]; CLASSES + 1];

/// Mixtures of faults before and behind the probe, out of which every class but the unknown comes.
fn mixtures() -> [Behind; 4] {
    let none = Behind::default();
    [
        Behind {
            lost_before: 10,
            lost_after: 20,
            duplicated: 5,
            ..none
        },
        Behind {
            reordered: 20,
            ..none
        },
        Behind {
            acks_lost: 300,
            acks_delayed: 10,
            ..none
        },
        Behind {
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

/// How packets were judged.
struct Judged {
    confusion: Confusion,
    packets: u64,
    conversations: usize,
    /// Conversations whose records tell as many of each class.
    alike: usize,
}

/// How each packet of mixed conversations is judged, behind a port that injects faults besides.
fn judge(context: &mut Context<'_>, conversations: usize) -> Result<Judged, TrialError> {
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
    for behind in mixtures() {
        converse(&mut frames, conversations / 4, behind, true, &mut random);
    }
    let memory = MemoryPort::new(LinkType::Ethernet, frames.take());
    let mut judges = Classifier::new(conversations)?;
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
        let judged = judges.classify(number, side, frame.time_ns, &segment);
        let index = |class: Option<Class>| class.map_or(CLASSES, |class| class as usize);
        confusion[index(packet.class)][index(judged)] += 1;
        if let Some(class) = judged {
            let of_side = classes.entry((packet.conversation, packet.side));
            of_side.or_default()[class as usize] += 1;
        }
        packets += 1;
    })?;
    let mut alike = 0;
    let mut port = Impaired::new(memory, faults);
    let counted = analyse(&mut port, conversations, |record, analysis| {
        let (number, client) = place_of(record);
        let of = |side| classes.get(&(number, side)).copied().unwrap_or_default();
        let told = |side: usize| analysis.cold[side ^ client].anomalies.classes;
        alike += usize::from([0, 1].map(of) == [0, 1].map(told));
    })?;
    tally(context, counted);
    Ok(Judged {
        confusion,
        packets,
        conversations,
        alike,
    })
}

/// Packets of a class that are judged so, and all of them.
fn right_of(confusion: &Confusion, class: usize) -> [u64; 2] {
    [confusion[class][class], confusion[class].iter().sum()]
}

/// The first of the second, in per cent; NaN of nothing.
fn per_cent([part, all]: [u64; 2]) -> f64 {
    100.0 * part as f64 / all as f64
}

/// A table with a row for each class that there was, and what was in sequence.
fn confusion_table(confusion: &Confusion) -> Table {
    let names = Class::ALL.map(Class::name);
    let mut columns = vec!["is \\ judged"];
    columns.extend(names);
    columns.extend(["in sequence", "right, %"]);
    let mut table = Table::new(
        "classes",
        "Packets by what they are and how they were judged",
        &columns,
    );
    for (class, row) in confusion.iter().enumerate() {
        if row.iter().sum::<u64>() == 0 {
            continue;
        }
        let name = names.get(class).copied().unwrap_or("in sequence");
        let mut cells: Vec<Cell> = vec![name.into()];
        cells.extend(row.iter().map(|&count| Cell::from(count)));
        cells.push(per_cent(right_of(confusion, class)).into());
        table.row(cells);
    }
    table
}

/// Classes out of sequence that there were, each with its packets that were judged right, and all.
fn rights(confusion: &Confusion) -> Vec<(Class, [u64; 2])> {
    let of = |class: Class| (class, right_of(confusion, class as usize));
    let all = Class::ALL.into_iter().map(of);
    all.filter(|(_, [_, all])| *all > 0).collect()
}

/// Mixed faults, and the confusion of classes.
pub(super) fn tell(context: &mut Context<'_>, outcome: &mut Outcome) -> Result<(), TrialError> {
    context.say("classes");
    let judged = judge(context, context.pick(600, 4000))?;
    let confusion = judged.confusion;
    let rights = rights(&confusion);
    let [right, all] = rights.iter().fold([0, 0], |sum, (_, of_class)| {
        [sum[0] + of_class[0], sum[1] + of_class[1]]
    });
    let share = per_cent([right, all]);
    let wrongly: u64 = confusion[CLASSES][..CLASSES].iter().sum();
    let worst = rights
        .iter()
        .min_by(|a, b| per_cent(a.1).total_cmp(&per_cent(b.1)))
        .map_or(("none", [0, 0]), |(class, of_class)| {
            (class.name(), *of_class)
        });
    outcome.figures.push(
        Figure::new(
            "classes",
            "Packets out of sequence that are judged to be what they are, by class; none is of the eighth, the unknown.",
            Axis::names("", rights.iter().map(|(class, _)| class.name())),
            Axis::linear("judged right (%)").within(0.0, 100.0),
        )
        .with(Series::bars(
            "",
            rights
                .iter()
                .enumerate()
                .map(|(place, (_, of_class))| Point::new(place as f64, per_cent(*of_class)))
                .collect(),
        )),
    );
    outcome.comparisons.push(Comparison {
        what: "packets out of sequence in their class".into(),
        paper: "-".into(),
        here: format!("{right} of {all}: {share:.1} %"),
    });
    outcome.findings.push(Finding {
        paper: "Segments out of sequence are told apart by what made them so.".into(),
        holds: if share >= 95.0 && per_cent(worst.1) >= 50.0 {
            Holds::Yes
        } else if share >= 90.0 {
            Holds::Partly
        } else {
            Holds::No
        },
        because: format!(
            "{share:.1} % of {all} packets out of sequence (of {}) are judged right; least of \"{}\": {} of {}. Of \
             the packets in sequence {wrongly} were judged not to be.",
            judged.packets, worst.0, worst.1[0], worst.1[1]
        ),
    });
    outcome.notes.push(format!(
        "Records tell how many packets of each class there were; the class of each packet is asked of the analysis of \
         TCP alone. In {} of {} conversations both tell the same.",
        judged.alike, judged.conversations
    ));
    outcome.tables.push(confusion_table(&confusion));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::anomalies::with_context;

    #[test]
    fn packets_are_judged_as_records_count_them() {
        with_context(|context| {
            let judged = judge(context, 200).unwrap();
            assert_eq!(judged.alike, judged.conversations);
            let packets: u64 = judged.confusion.iter().flatten().sum();
            assert_eq!(packets, judged.packets);
            let rights = rights(&judged.confusion);
            assert!(rights.len() >= 6, "{rights:?}");
            let all: u64 = rights.iter().map(|(_, [_, all])| all).sum();
            let right: u64 = rights.iter().map(|(_, [right, _])| right).sum();
            assert!(right * 100 >= all * 95, "{rights:?}");
        });
    }
}
