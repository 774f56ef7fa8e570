//! The path: simulated conversations, a port with faults, and the full analysis of its frames.

use crate::experiments::context::Context;
use crate::trial::TrialError;
use analysis::{Analysis, Level};
use conversations::{Conversation, Faults as PathFaults, Frames, MS, Random};
use engine::parser::PacketParser;
use flow::statistic::Selection;
use flow::{
    Batch, FlowDefinition, FramePayloads, Meter, MeterOptions, Record, RecordBatch, RecordSink,
    Timeouts,
};
use port::{Frame, Port, Received};
use std::time::Duration;
use wire::Decapsulate;

/// Data segments per conversation.
pub(super) const SEGMENTS: u32 = 200;

/// Reordered frames are overtaken by at most this many frames, delayed ones arrive at most this much
/// later.
pub(super) const OVERTAKEN_BY: u32 = 40;
pub(super) const DELAY: Duration = Duration::from_millis(30);

/// Adds `count` conversations with individual paths, of which some hundred overlap.
pub(super) fn add_conversations(
    frames: &mut Frames,
    count: usize,
    path_faults: PathFaults,
    probes: bool,
    random: &mut Random,
) {
    for number in 0..count {
        let to_probe_ns = (1 + random.below(20) as i64) * MS;
        let to_receiver_ns = (1 + random.below(20) as i64) * MS;
        // Window and keep-alive probes are recognized by their form: a few are enough.
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
            faults: path_faults,
        };
        let later_ns = random.below(20 * count as u64) as i64 * MS;
        frames.add(&conversation, later_ns, random);
    }
}

/// Returns a record's conversation, and the client's side in it: after a lost SYN the server is the
/// initiator.
pub(super) fn conversation_of(record: &Record) -> (usize, usize) {
    let ports = [record.key.source_port, record.key.destination_port];
    let client = usize::from(ports[0] == Frames::SERVER_PORT);
    (Frames::conversation(ports), client)
}

/// Calls a function for each record.
struct Each<F>(F);

impl<F: FnMut(&Record, &Analysis)> RecordSink for Each<F> {
    fn take(&mut self, batch: &mut RecordBatch) {
        for (record, analysis) in batch.records.iter().zip(&batch.analyses) {
            (self.0)(record, analysis);
        }
        batch.clear();
    }
}

/// Runs the full analysis over a port; returns the packets received and the packets in records.
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
    let mut parser = PacketParser::new(&options, Decapsulate::No);
    let mut meter = Meter::new(&options)?;
    let (mut batch, mut sink) = (Batch::default(), Each(each));
    loop {
        match port.receive().map_err(TrialError::missing)? {
            Received::Burst(burst) => {
                batch.clear();
                parser.parse(&burst, &mut batch);
                meter.process_with(&batch, &FramePayloads(burst.frames), &mut sink);
            }
            Received::Idle => {}
            Received::Fault(message) => return Err(TrialError::Missing(message)),
            Received::End => break,
        }
    }
    meter.finish(parser.clock_ms(), &mut sink);
    let received = parser.books().received.packets;
    Ok([received, meter.counters().recorded[0]])
}

/// Calls `observe` for every frame that a port receives.
pub(super) fn each_frame(
    port: &mut dyn Port,
    mut observe: impl FnMut(&Frame<'_>),
) -> Result<(), TrialError> {
    loop {
        match port.receive().map_err(TrialError::missing)? {
            Received::Burst(burst) => burst.frames.iter().for_each(&mut observe),
            Received::Idle => {}
            Received::Fault(message) => return Err(TrialError::Missing(message)),
            Received::End => return Ok(()),
        }
    }
}

/// Counts a run as a trial, with its books.
pub(super) fn count_trial(context: &mut Context<'_>, [received, recorded]: [u64; 2]) {
    let balances = received == recorded;
    let reason = (!balances).then(|| "packets received are not those in records".to_owned());
    context.trials.count(reason.as_slice());
    context.trials.example = format!("received {received} = in flows {recorded}");
}
