//! Flow-affinity sorting (proposed as future work by DPDKStat): groups the frames of a flow, so that
//! its state is accessed while it is in the cache.

use super::block::Block;
use crate::frame::{BURST, Frame};
use std::ops::Range;
use wire::fast::simple_ipv4;
use wire::{Decapsulate, FlowKey, LinkType, dissect};

/// Refers to a frame by its block and its index in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FrameRef {
    block: u32,
    frame: u32,
}

/// References to a burst of frames in one block.
pub(super) struct BurstRefs {
    refs: [FrameRef; BURST],
    count: usize,
}

impl std::ops::Deref for BurstRefs {
    type Target = [FrameRef];

    fn deref(&self) -> &[FrameRef] {
        &self.refs[..self.count]
    }
}

impl FrameRef {
    /// Refers to these frames of the first block, at most a burst.
    pub(super) fn in_block(frames: Range<usize>) -> BurstRefs {
        let mut refs = [Self::default(); BURST];
        let count = frames.len().min(BURST);
        for (entry, frame) in refs.iter_mut().zip(frames) {
            entry.frame = frame as u32;
        }
        BurstRefs { refs, count }
    }

    pub(super) fn block(self) -> usize {
        self.block as usize
    }

    pub(super) fn frame(self) -> usize {
        self.frame as usize
    }
}

/// Frames sorted by flow.
#[derive(Debug, Default)]
pub(super) struct FlowOrder {
    /// Sort keys: the flow's hash in the upper half and the order of arrival in the lower, so that
    /// frames of a flow keep their order.
    keys: Vec<(u64, FrameRef)>,
    refs: Vec<FrameRef>,
}

/// Frames are sorted only within this time span, so that the delay of a frame cannot expire many flows
/// too early.
const SPAN_NS: u64 = 100_000_000;

/// Prefetch distance of headers, in frames.
const PREFETCH_FRAMES: usize = 16;
/// End of the TCP or UDP ports in an Ethernet frame with an IPv4 header without options.
const PORTS_END: usize = 38;

impl FlowOrder {
    /// Sorts the frames of `blocks` by flow within each [`SPAN_NS`].
    pub(super) fn sort(&mut self, blocks: &[Block]) {
        self.keys.clear();
        self.refs.clear();
        let mut arrival = 0u32;
        let (mut span, mut span_start_ns) = (0, None);
        for (block, block_index) in blocks.iter().zip(0u32..) {
            for index in 0..block.frames.len() {
                if index + PREFETCH_FRAMES < block.frames.len() {
                    let ahead = block.frame(index + PREFETCH_FRAMES).bytes;
                    // The cache lines of addresses and ports.
                    hw::prefetch::offset(ahead, 0);
                    hw::prefetch::offset(ahead, PORTS_END);
                }
                let current = block.frame(index);
                // Absolute, since the clock may also be set back.
                let elapsed_ns = current
                    .time_ns
                    .abs_diff(*span_start_ns.get_or_insert(current.time_ns));
                if elapsed_ns > SPAN_NS {
                    self.keys[span..].sort_unstable_by_key(|&(key, _)| key);
                    (span, span_start_ns) = (self.keys.len(), Some(current.time_ns));
                }
                let hash = flow_hash(block.link, &current);
                let reference = FrameRef {
                    block: block_index,
                    frame: index as u32,
                };
                self.keys
                    .push((u64::from(hash) << 32 | u64::from(arrival), reference));
                arrival = arrival.wrapping_add(1);
            }
        }
        self.keys[span..].sort_unstable_by_key(|&(key, _)| key);
        self.refs
            .extend(self.keys.iter().map(|&(_, reference)| reference));
    }

    /// The sorted frames.
    pub(super) fn refs(&self) -> &[FrameRef] {
        &self.refs
    }
}

/// Returns a hash of the frame's flow, equal for both directions; 0 for a frame of no flow.
fn flow_hash(link: LinkType, frame: &Frame<'_>) -> u32 {
    let plain = if link == LinkType::Ethernet {
        simple_ipv4(frame.bytes, frame.wire_length).map(|plain| FlowKey::from_compact(plain.key))
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
    // A sum is symmetric in the directions, and distinguishes endpoints better than an exclusive or.
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
