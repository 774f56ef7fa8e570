//! Bursts whose flow key is the device's hash (`FlowDefinition::Rss`).

use super::device_hash::PendingHashes;
use super::{PacketParser, new_packet};
use flow::{Batch, Packet, TableKey};
use hw::prefetch;
use port::{Burst, Frame};
use wire::fast::simple_ipv4;
use wire::{FlowKey, LinkType};

/// Frames between the current one and the one whose headers are prefetched, if it has no hash.
const PREFETCH_DISTANCE: usize = 8;

impl PacketParser {
    /// Parses a burst whose flow key is the device's hash. Frames that the device has hashed are not
    /// read.
    pub(super) fn parse_hash_flows(&mut self, burst: &Burst<'_>, batch: &mut Batch) {
        let Some(mut pending) = self.pending_hashes.take() else {
            return;
        };
        let start = batch.len();
        let mut bytes = 0;
        let first = self.numbers.reserve(burst.frames.len());
        let mut hashed_by_device = 0;
        for (index, frame) in burst.frames.iter().enumerate() {
            bytes += u64::from(frame.wire_length);
            let clock_ms = self.clock.advance(frame.time_ns);
            let packet = new_packet(frame, first + index as u64, clock_ms);
            if let Some(hash) = frame.rss_hash {
                hashed_by_device += 1;
                batch.push(FlowKey::compact_hash(hash.get()), packet);
            } else {
                if let Some(ahead) = burst.frames.get(index + PREFETCH_DISTANCE)
                    && ahead.rss_hash.is_none()
                {
                    prefetch::offset(ahead.bytes, 0);
                }
                self.parse_unhashed(&mut pending, burst.link, frame, packet, batch);
            }
        }
        self.books.hashed_in_software += pending.hash_pending(batch);
        self.books.hashed_by_device += hashed_by_device;
        self.pending_hashes = Some(pending);
        self.finish_burst(burst, bytes);
        let (keys, hashes) = batch.keys_and_hashes();
        self.hash.hash_burst(&keys[start..], &mut hashes[start..]);
    }

    /// Parses the headers of a frame without a hash and adds it to the pending ones.
    fn parse_unhashed(
        &mut self,
        pending: &mut PendingHashes,
        link: LinkType,
        frame: &Frame<'_>,
        packet: Packet,
        batch: &mut Batch,
    ) {
        self.count_truncated(frame);
        let compact = if link == LinkType::Ethernet
            && let Some(simple) = simple_ipv4(frame.bytes, frame.wire_length)
        {
            simple.key
        } else {
            let headers = wire::dissect(link, frame.bytes, frame.wire_length, self.decapsulate);
            if !self.count_headers(link, frame, &headers) {
                return;
            }
            let mut key = headers.key;
            match self.keys.from_key(&mut key).0 {
                TableKey::Compact(key) => key,
                TableKey::Wide(digest) => {
                    pending.push_wide(batch.len(), digest, key);
                    // A placeholder: `hash_pending` sets the key.
                    batch.push(digest, packet);
                    return;
                }
            }
        };
        pending.push(batch.len(), compact);
        batch.push(compact, packet);
    }
}
