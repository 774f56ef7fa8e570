//! The generator's traffic as a wire of the virtual clock.

use crate::trial::TrialError;
use crate::virtual_clock::Wire;
use generator::{FCS_BYTES, FlowOrder, Replay, Source, Traffic, TrafficOptions};
use port::{NullSink, Slot, Transmit};
use std::collections::HashMap;
use std::sync::Arc;
use wire::LinkType;

/// Frames per call of the generator.
const BURST: usize = 256;

/// The shortest round of packets that a wire repeats, so that random numbers do not repeat soon.
const ROUND_MIN: usize = 1 << 20;

/// The name of an order of flows in the results.
#[must_use]
pub fn order_name(order: FlowOrder) -> String {
    match order {
        FlowOrder::Uniform => "uniform".into(),
        FlowOrder::RoundRobin => "round robin".into(),
        FlowOrder::Zipf(alpha) => format!("Zipf({alpha})"),
        FlowOrder::RateInverse => "rate 1/k".into(),
    }
}

/// UDP flows in frames of 64 bytes.
#[must_use]
pub fn small_frames(flows: u32, order: FlowOrder, seed: u64) -> TrafficOptions {
    TrafficOptions {
        flows,
        order,
        seed,
        ..TrafficOptions::default()
    }
}

/// A wire of the generator's traffic, in rounds of at least 2^20 packets and four per flow. For round
/// robin a round has one packet per flow.
///
/// # Errors
/// When the options of the traffic are invalid.
pub fn wire(options: &TrafficOptions) -> Result<Arc<Wire>, TrialError> {
    let flows = options.flows as usize;
    let packets = match options.order {
        FlowOrder::RoundRobin => flows,
        _ => ROUND_MIN.max(4 * flows),
    };
    wire_of(options, packets)
}

/// The same with a round of `packets`.
///
/// # Errors
/// As `wire`.
pub fn wire_of(options: &TrafficOptions, packets: usize) -> Result<Arc<Wire>, TrialError> {
    let mut traffic = Traffic::new(options).map_err(TrialError::missing)?;
    let mut frames: Vec<(Vec<u8>, u32, u32)> = Vec::new();
    // A flow may have frames of several sizes.
    let mut numbers: HashMap<(u32, u32), u32> = HashMap::new();
    let mut sequence = Vec::with_capacity(packets);
    for_each_frame(&mut traffic, packets, |slot, flow| {
        let number = *numbers
            .entry((flow, slot.length as u32))
            .or_insert_with(|| {
                frames.push(stored(slot));
                frames.len() as u32 - 1
            });
        sequence.push(number);
    })?;
    let wire = Wire::new(LinkType::Ethernet, frames, sequence);
    Ok(Arc::new(wire.with_rss_key(&options.rss_key)))
}

/// A wire of a replayed recording: each packet of all copies once per round.
///
/// # Errors
/// When the recording is empty.
pub fn wire_of_replay(replay: &mut Replay, packets: usize) -> Result<Arc<Wire>, TrialError> {
    let link = replay.recording().link();
    let mut frames = Vec::with_capacity(packets);
    for_each_frame(replay, packets, |slot, _| frames.push(stored(slot)))?;
    Ok(Arc::new(Wire::new(link, frames, Vec::new())))
}

/// A frame of a wire: bytes, length with the frame check sequence, hash.
fn stored(slot: &Slot<'_>) -> (Vec<u8>, u32, u32) {
    let bytes = slot.bytes[..slot.length].to_vec();
    (bytes, (slot.length + FCS_BYTES) as u32, slot.rss_hash)
}

/// Calls `observe` with the first `frames` frames of `source` and their flows.
fn for_each_frame(
    source: &mut impl Source,
    frames: usize,
    mut observe: impl FnMut(&Slot<'_>, u32),
) -> Result<(), TrialError> {
    let mut sink = NullSink::new();
    let mut flows = [0; BURST];
    let mut observed = 0;
    while observed < frames {
        let count = BURST.min(frames - observed);
        let slots = sink
            .reserve(count, source.slot_bytes())
            .map_err(TrialError::missing)?;
        let filled = source
            .fill(slots, &mut flows)
            .map_err(TrialError::missing)?;
        if filled.frames == 0 {
            return Err(TrialError::Missing("the generator has no frames".into()));
        }
        for (slot, &flow) in slots.iter().zip(&flows).take(filled.frames) {
            observe(slot, flow);
        }
        observed += filled.frames;
        sink.submit(filled.frames).map_err(TrialError::missing)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_has_the_generators_flows_and_hashes() {
        let wire = wire_of(&small_frames(100, FlowOrder::Uniform, 1), 5000).unwrap();
        assert_eq!((wire.flows().len(), wire.round()), (100, 5000));
        assert!((0..5000).all(|index| wire.frame(index).hash().is_some()));
        assert_eq!(wire.mean_wire_length(), 64.0);
    }

    #[test]
    fn kth_flow_has_one_kth_of_the_packets() {
        let wire = wire_of(&small_frames(10, FlowOrder::RateInverse, 1), 29_290).unwrap();
        let mut counts = [0u32; 10];
        for index in 0..wire.round() {
            counts[wire.frame(index).flow.unwrap() as usize] += 1;
        }
        // Flows are numbered by their first packet, which is by rate.
        for (k, &count) in (1..).zip(&counts) {
            assert!(count.abs_diff(counts[0] / k) <= 1, "{counts:?}");
        }
    }
}
