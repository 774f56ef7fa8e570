//! The traffic of an emulated wire: frames in memory, and their sequence.

use std::collections::HashMap;
use std::num::NonZeroU32;
use wire::{Decapsulate, FlowKey, LinkType, dissect};

/// Entries of a device's redirection table.
pub const REDIRECTIONS: u32 = 128;

/// A stored frame.
#[derive(Clone, Copy, Debug)]
struct Stored {
    start: usize,
    length: u32,
    wire_length: u32,
    rss_hash: u32,
    flow: u32,
}

/// Frames and their sequence, which repeats.
pub struct Wire {
    link: LinkType,
    bytes: Vec<u8>,
    frames: Vec<Stored>,
    sequence: Vec<u32>,
    flows: Vec<FlowKey>,
    rss_key: Option<Vec<u8>>,
}

/// A frame on the wire.
#[derive(Clone, Copy, Debug)]
pub struct WireFrame<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Length on the wire.
    pub wire_length: u32,
    /// The device's hash; 0 means none.
    pub rss_hash: u32,
    /// The number of its flow, if it has one ([`Wire::flows`]).
    pub flow: Option<u32>,
}

impl WireFrame<'_> {
    /// The hash as a port reports it.
    #[must_use]
    pub const fn hash(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.rss_hash)
    }

    /// The queue of the frame in a device with `queues` queues.
    #[must_use]
    pub const fn queue(&self, queues: u32) -> u32 {
        (self.rss_hash % REDIRECTIONS) % queues
    }
}

/// The flow number of a frame without a flow.
const NO_FLOW: u32 = u32::MAX;

impl Wire {
    /// A wire of `frames` (bytes, wire length, the device's hash), in the order of the frame numbers in
    /// `sequence`; with an empty sequence each frame once per round.
    ///
    /// # Panics
    /// When there are no frames, or `sequence` has a number that does not exist.
    pub fn new<B: AsRef<[u8]>>(
        link: LinkType,
        frames: impl IntoIterator<Item = (B, u32, u32)>,
        mut sequence: Vec<u32>,
    ) -> Self {
        let mut bytes = Vec::new();
        let mut stored = Vec::new();
        let mut numbers: HashMap<FlowKey, u32> = HashMap::new();
        let mut flows = Vec::new();
        for (frame, wire_length, rss_hash) in frames {
            let frame = frame.as_ref();
            let headers = dissect(link, frame, wire_length, Decapsulate::No);
            let flow = if headers.no_flow.is_some() {
                NO_FLOW
            } else {
                *numbers.entry(headers.key).or_insert_with(|| {
                    flows.push(headers.key);
                    flows.len() as u32 - 1
                })
            };
            stored.push(Stored {
                start: bytes.len(),
                length: frame.len() as u32,
                wire_length,
                rss_hash,
                flow,
            });
            bytes.extend_from_slice(frame);
        }
        assert!(!stored.is_empty(), "a wire without frames");
        if sequence.is_empty() {
            sequence = (0..stored.len() as u32).collect();
        }
        let within = |number: &u32| (*number as usize) < stored.len();
        assert!(
            sequence.iter().all(within),
            "a frame number that does not exist"
        );
        Self {
            link,
            bytes,
            frames: stored,
            sequence,
            flows,
            rss_key: None,
        }
    }

    /// The same; its hashes are Toeplitz hashes of addresses and ports with `key`.
    #[must_use]
    pub fn with_rss_key(mut self, key: &[u8]) -> Self {
        self.rss_key = Some(key.to_vec());
        self
    }

    /// The key of the hashes, if known.
    #[must_use]
    pub fn rss_key(&self) -> Option<&[u8]> {
        self.rss_key.as_deref()
    }

    /// Link type of all frames.
    #[must_use]
    pub const fn link(&self) -> LinkType {
        self.link
    }

    /// The 5-tuple of each flow.
    #[must_use]
    pub fn flows(&self) -> &[FlowKey] {
        &self.flows
    }

    /// The frame number `index` on the wire, counted from 0 over all rounds.
    #[inline]
    #[must_use]
    pub fn frame(&self, index: u64) -> WireFrame<'_> {
        let position = (index % self.sequence.len() as u64) as usize;
        self.stored(self.sequence[position])
    }

    fn stored(&self, number: u32) -> WireFrame<'_> {
        let stored = &self.frames[number as usize];
        WireFrame {
            bytes: &self.bytes[stored.start..stored.start + stored.length as usize],
            wire_length: stored.wire_length,
            rss_hash: stored.rss_hash,
            flow: (stored.flow != NO_FLOW).then_some(stored.flow),
        }
    }

    /// The longest frame, in bytes.
    #[must_use]
    pub fn longest(&self) -> usize {
        let lengths = self.frames.iter().map(|stored| stored.length as usize);
        lengths.max().unwrap_or(0)
    }

    /// Mean length on the wire over a round of the sequence.
    #[must_use]
    pub fn mean_wire_length(&self) -> f64 {
        let sum: u64 = self
            .sequence
            .iter()
            .map(|&number| u64::from(self.frames[number as usize].wire_length))
            .sum();
        sum as f64 / self.sequence.len() as f64
    }

    /// Frames per round.
    #[must_use]
    pub fn round(&self) -> u64 {
        self.sequence.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::virtual_clock::frames::udp_frame;

    #[test]
    fn frames_repeat_in_the_order_of_the_sequence() {
        let frames: Vec<_> = (0..3).map(|flow| (udp_frame(flow), 64, flow + 1)).collect();
        let wire = Wire::new(LinkType::Ethernet, frames, vec![2, 0, 2]);
        let flows: Vec<_> = (0..6).map(|index| wire.frame(index).flow).collect();
        assert_eq!(flows, [2, 0, 2, 2, 0, 2].map(Some));
        assert_eq!(wire.flows().len(), 3);
        assert_eq!(wire.mean_wire_length(), 64.0);
        assert_eq!((wire.round(), wire.longest()), (3, 60));
    }

    #[test]
    fn equal_keys_are_one_flow_and_arp_has_none() {
        let arp = [&[0xff; 12][..], &[0x08, 0x06], &[0; 46]].concat();
        let frames = [
            (udp_frame(7).to_vec(), 64, 1),
            (arp, 64, 0),
            (udp_frame(7).to_vec(), 64, 1),
        ];
        let wire = Wire::new(LinkType::Ethernet, frames, Vec::new());
        let flows: Vec<_> = (0..3).map(|index| wire.frame(index).flow).collect();
        assert_eq!(flows, [Some(0), None, Some(0)]);
        assert_eq!(wire.frame(1).hash(), None);
    }

    #[test]
    fn redirection_table_spreads_hashes_over_all_queues() {
        let frame = |rss_hash| WireFrame {
            bytes: &[],
            wire_length: 64,
            rss_hash,
            flow: None,
        };
        for queues in [1, 2, 3, 4] {
            let mut counts = vec![0; queues as usize];
            (0..12_800u32).for_each(|hash| counts[frame(hash).queue(queues) as usize] += 1);
            assert!(
                counts.iter().all(|&count| count > 4000 / queues),
                "{counts:?}"
            );
        }
    }
}
