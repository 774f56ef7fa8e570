//! The path: conversations in memory, a port with faults, and what reads what it hands over.

use crate::experiments::Context;
use crate::trial::TrialError;
use analysis::{Analysis, Level};
use conversations::{Conversation, Faults as Behind, Frames, MS, Random};
use engine::parser::PacketParser;
use flow::statistic::Selection;
use flow::{
    Batch, FlowDefinition, FramePayloads, Meter, MeterOptions, Record, RecordBatch, RecordSink,
    Timeouts,
};
use port::{Frame, Port, Received};
use std::time::Duration;
use wire::Decapsulate;

/// Segments of data of each conversation.
pub(super) const SEGMENTS: u32 = 200;

/// Frames that are overtaken are so by this many at most, and late ones come so much later at most.
pub(super) const OVERTAKEN_BY: u32 = 40;
pub(super) const DELAY: Duration = Duration::from_millis(30);

/// Conversations over paths of their own, some hundred of which are under way together.
pub(super) fn converse(
    frames: &mut Frames,
    count: usize,
    behind: Behind,
    probes: bool,
    random: &mut Random,
) {
    for number in 0..count {
        let to_probe_ns = (1 + random.below(20) as i64) * MS;
        let to_receiver_ns = (1 + random.below(20) as i64) * MS;
        // Of the class that is told by its form a few are enough.
        let probes = u32::from(probes && number % 6 == 0);
        let conversation = Conversation {
            segments: SEGMENTS,
            window: 1 + random.below(8) as u32,
            to_probe_ns,
            to_receiver_ns,
            timeout_ns: 2 * (to_probe_ns + to_receiver_ns) + 250 * MS,
            start: random.below(1 << 32) as u32,
            has_identifications: true,
            keep_alives: probes,
            window_probes: 2 * probes,
            faults: behind,
        };
        let later_ns = random.below(20 * count as u64) as i64 * MS;
        frames.add(&conversation, later_ns, random);
    }
}

/// A record's conversation, and which side of it the client is: a SYN that was lost makes the server
/// the initiator.
pub(super) fn place_of(record: &Record) -> (usize, usize) {
    let ports = [record.key.source_port, record.key.destination_port];
    let client = usize::from(ports[0] == Frames::SERVER_PORT);
    (Frames::conversation(ports), client)
}

/// Records to whoever looks at them.
struct Each<F>(F);

impl<F: FnMut(&Record, &Analysis)> RecordSink for Each<F> {
    fn take(&mut self, batch: &mut RecordBatch) {
        for (record, analysis) in batch.records.iter().zip(&batch.analyses) {
            (self.0)(record, analysis);
        }
        batch.clear();
    }
}

/// All of the analysis over a port; packets that were received, and those in records.
pub(super) fn analyse(
    port: &mut dyn Port,
    conversations: usize,
    each: impl FnMut(&Record, &Analysis),
) -> Result<[u64; 2], TrialError> {
    let options = MeterOptions {
        flow: FlowDefinition::Bidirectional,
        flows_max: 2 * conversations,
        timeouts: Timeouts::NONE,
        statistics: Selection {
            analysis: Some(Level::Full),
            ..Selection::default()
        },
        ..MeterOptions::default()
    };
    let mut intake = PacketParser::new(&options, Decapsulate::No);
    let mut meter = Meter::new(&options)?;
    let (mut batch, mut sink) = (Batch::default(), Each(each));
    loop {
        match port.receive().map_err(TrialError::missing)? {
            Received::Burst(burst) => {
                batch.clear();
                intake.parse(&burst, &mut batch);
                meter.process_with(&batch, &FramePayloads(burst.frames), &mut sink);
            }
            Received::Idle => {}
            Received::Fault(message) => return Err(TrialError::Missing(message)),
            Received::End => break,
        }
    }
    meter.finish(intake.clock_ms(), &mut sink);
    let received = intake.books().received.packets;
    Ok([received, meter.counters().recorded[0]])
}

/// Every frame that a port hands over.
pub(super) fn each_frame(
    port: &mut dyn Port,
    mut look: impl FnMut(&Frame<'_>),
) -> Result<(), TrialError> {
    loop {
        match port.receive().map_err(TrialError::missing)? {
            Received::Burst(burst) => burst.frames.iter().for_each(&mut look),
            Received::Idle => {}
            Received::Fault(message) => return Err(TrialError::Missing(message)),
            Received::End => return Ok(()),
        }
    }
}

/// Enters a run among the trials, with its books.
pub(super) fn tally(context: &mut Context<'_>, [received, recorded]: [u64; 2]) {
    let balances = received == recorded;
    let against = (!balances).then(|| "packets received are not those in records".to_owned());
    context.trials.count(against.as_slice());
    context.trials.example = format!("received {received} = in flows {recorded}");
}
