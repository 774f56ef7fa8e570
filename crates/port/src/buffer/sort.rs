//! Flow-affinity sorting (DPDKStat's open idea): frames of one flow one after the other, so that the
//! flow's state is touched while it is in the cache.

use super::block::Block;
use crate::frame::{BURST, Frame};
use std::ops::Range;
use wire::plain::plain_ipv4;
use wire::{Decapsulate, FlowKey, LinkType, dissect};

/// Where a frame lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    block: u32,
    frame: u32,
}

/// Places of a burst in one block.
pub(super) struct InBlock {
    places: [Place; BURST],
    count: usize,
}

impl std::ops::Deref for InBlock {
    type Target = [Place];

    fn deref(&self) -> &[Place] {
        &self.places[..self.count]
    }
}

impl Place {
    /// Frames of the first block, at most a burst.
    pub(super) fn of_block(frames: Range<usize>) -> InBlock {
        let mut places = [Self::default(); BURST];
        let count = frames.len().min(BURST);
        for (place, frame) in places.iter_mut().zip(frames) {
            place.frame = frame as u32;
        }
        InBlock { places, count }
    }

    pub(super) fn block(self) -> usize {
        self.block as usize
    }

    pub(super) fn frame(self) -> usize {
        self.frame as usize
    }
}

/// Frames in an order of flows.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Hash of the flow above the number of arrival: equal flows keep their order.
    keys: Vec<(u64, Place)>,
    places: Vec<Place>,
}

/// Frames are sorted among those of so much time: what comes late by that cannot end many flows early.
const SPAN_NS: u64 = 100_000_000;

/// Frames ahead of the one at hand whose headers are asked for.
const AHEAD: usize = 16;
/// Behind the ports of TCP and UDP in a plain frame of IPv4.
const PORTS_END: usize = 38;

impl Order {
    /// Orders the frames of `blocks`, those of each [`SPAN_NS`] among themselves.
    pub(super) fn sort(&mut self, blocks: &[Block]) {
        self.keys.clear();
        self.places.clear();
        let mut arrival = 0u32;
        let (mut span, mut begun_ns) = (0, None);
        for (block, place) in blocks.iter().zip(0u32..) {
            for index in 0..block.frames.len() {
                if index + AHEAD < block.frames.len() {
                    let ahead = block.frame(index + AHEAD).bytes;
                    // Where addresses and ports begin and end.
                    hw::prefetch::ahead(ahead, 0);
                    hw::prefetch::ahead(ahead, PORTS_END);
                }
                let arrived = block.frame(index);
                // The clock may go back, too.
                let passed_ns = arrived
                    .time_ns
                    .abs_diff(*begun_ns.get_or_insert(arrived.time_ns));
                if passed_ns > SPAN_NS {
                    self.keys[span..].sort_unstable_by_key(|&(key, _)| key);
                    (span, begun_ns) = (self.keys.len(), Some(arrived.time_ns));
                }
                let hash = flow_hash(block.link, &arrived);
                let frame = index as u32;
                let place = Place {
                    block: place,
                    frame,
                };
                self.keys
                    .push((u64::from(hash) << 32 | u64::from(arrival), place));
                arrival = arrival.wrapping_add(1);
            }
        }
        self.keys[span..].sort_unstable_by_key(|&(key, _)| key);
        self.places
            .extend(self.keys.iter().map(|&(_, place)| place));
    }

    /// The frames in their order.
    pub(super) fn places(&self) -> &[Place] {
        &self.places
    }
}

/// A hash of a frame's flow, the same for both directions; 0 for what has none.
fn flow_hash(link: LinkType, frame: &Frame<'_>) -> u32 {
    let plain = if link == LinkType::Ethernet {
        plain_ipv4(frame.bytes, frame.wire_length).map(|plain| FlowKey::from_compact(plain.key))
    } else {
        None
    };
    let key = plain.or_else(|| {
        let headers = dissect(link, frame.bytes, frame.wire_length, Decapsulate::No);
        headers.no_flow.is_none().then_some(headers.key)
    });
    let Some(key) = key else {
        return 0;
    };
    // Sums do not tell the directions apart, and tell endpoints apart better than an exclusive or.
    let address = |bytes: &[u8; 16]| {
        let [low, high] =
            [0, 8].map(|at| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte])));
        low ^ high.rotate_left(23)
    };
    let mix = |value: u64| {
        let value = (value ^ value >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        value ^ value >> 29
    };
    let end = |bytes: &[u8; 16], port: u16| mix(address(bytes).wrapping_add(u64::from(port) << 40));
    let source = end(&key.source, key.source_port);
    let destination = end(&key.destination, key.destination_port);
    (mix(source.wrapping_add(destination)) >> 32) as u32
}
