//! Uses of the device's hash for receive-side scaling (RSS): as the flow key (`FlowDefinition::Rss`),
//! and as the hash of the flow table, if both are the same function, to save computing it.

use super::{PacketParser, new_packet};
use flow::hash::{FlowHash, spread};
use flow::{BURST, Batch, Packet, TableKey};
use hw::prefetch;
use port::{Burst, Frame};
use std::num::NonZeroU32;
use wire::fast::simple_ipv4;
use wire::{FlowKey, LinkType};

/// Frames between the current one and the one whose headers are prefetched, if it has no hash.
const PREFETCH_DISTANCE: usize = 8;

/// Hashes of the device that are compared with computed ones before any is used.
const TRIAL_HASHES: u64 = 4096;

/// The packets of a batch for which the device gave no hash, if the flow key is that hash. Their hashes
/// are computed together at the end of a burst.
#[derive(Debug)]
pub(super) struct PendingHashes {
    hash: FlowHash,
    /// Slots in the batch of the packets without a hash, parallel to `keys`.
    slots: Vec<u16>,
    keys: Vec<u128>,
    /// Slots of packets whose key does not fit 16 bytes, parallel to `wide_keys` and `digests`.
    wide_slots: Vec<u16>,
    wide_keys: Vec<FlowKey>,
    digests: Vec<u128>,
    hashes: Box<[u32; BURST]>,
}

impl PendingHashes {
    pub(super) fn new(hash: FlowHash) -> Self {
        Self {
            hash,
            slots: Vec::with_capacity(BURST),
            keys: Vec::with_capacity(BURST),
            wide_slots: Vec::with_capacity(BURST),
            wide_keys: Vec::with_capacity(BURST),
            digests: Vec::with_capacity(BURST),
            hashes: Box::new([0; BURST]),
        }
    }

    /// Computes the pending hashes and sets them as keys in `batch`. Returns their number.
    fn hash_pending(&mut self, batch: &mut Batch) -> u64 {
        let mut set = |slots: &mut Vec<u16>, hashes: &[u32]| {
            for (slot, &hash) in slots.drain(..).zip(hashes) {
                batch.set_key(usize::from(slot), FlowKey::compact_hash(hash));
            }
        };
        let count = self.keys.len() + self.wide_keys.len();
        let hashes = &mut self.hashes[..self.keys.len()];
        self.hash.hash32_burst(&self.keys, hashes);
        set(&mut self.slots, hashes);
        let hashes = &mut self.hashes[..self.wide_keys.len()];
        self.hash
            .hash32_wide_burst(&self.digests, &self.wide_keys, hashes);
        set(&mut self.wide_slots, hashes);
        self.keys.clear();
        self.wide_keys.clear();
        self.digests.clear();
        count as u64
    }
}

/// The device's hashes of a batch, if they can be used for the flow table.
///
/// All packets of a flow must have the same hash, whether the device hashed them or not. So the hash is
/// defined in software, and the device's is only a shortcut. It is used for simple frames only, for which
/// the fields that a device hashes are known; only after a trial; and one hash per burst is still
/// computed and compared.
#[derive(Debug, PartialEq)]
pub(super) struct DeviceHashes {
    hashes: Box<[Option<NonZeroU32>; BURST]>,
    /// Keys of packets without a hash, parallel to `slots`.
    keys: Vec<u128>,
    slots: Vec<u16>,
    computed: Vec<u64>,
    checked: u64,
}

impl Default for DeviceHashes {
    fn default() -> Self {
        Self {
            hashes: Box::new([None; BURST]),
            keys: Vec::with_capacity(BURST),
            slots: Vec::with_capacity(BURST),
            computed: vec![0; BURST],
            checked: 0,
        }
    }
}

impl DeviceHashes {
    /// Records the device's hash of the packet in `slot` of the batch.
    #[inline]
    pub(super) fn set(&mut self, slot: usize, hash: Option<NonZeroU32>) {
        self.hashes[slot] = hash;
    }

    /// Removes the hashes of unused slots: of the `filled` ones from `first` on, those in the mask `unused`.
    pub(super) fn close_gaps(&mut self, first: usize, filled: usize, unused: u64) {
        flow::batch::close_gaps(&mut self.hashes[first..], filled, unused);
    }
}

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
                    pending.wide_slots.push(batch.len() as u16);
                    pending.digests.push(digest);
                    pending.wide_keys.push(key);
                    // A placeholder: `hash_pending` sets the key.
                    batch.push(digest, packet);
                    return;
                }
            }
        };
        pending.slots.push(batch.len() as u16);
        pending.keys.push(compact);
        batch.push(compact, packet);
    }

    /// Fills in the hashes of the packets from slot `start`: the device's if it gave one.
    pub(super) fn fill_hashes(&mut self, batch: &mut Batch, start: usize) {
        let Some(mut device) = self.device_hashes.take() else {
            return;
        };
        let (keys, hashes) = batch.keys_and_hashes();
        let given = &device.hashes[start..keys.len()];
        let count = given.len() as u64;
        if device.checked < TRIAL_HASHES {
            self.hash.hash_burst(&keys[start..], &mut hashes[start..]);
            let pairs = || given.iter().zip(&hashes[start..]);
            let mismatched = pairs().filter(|&(given, &computed)| {
                given.is_some_and(|hash| spread(hash.get()) != computed)
            });
            self.books.hashes_mismatched += mismatched.count() as u64;
            device.checked += pairs().filter(|(given, _)| given.is_some()).count() as u64;
        } else {
            for (slot, given) in (start..).zip(given) {
                match given {
                    Some(hash) => hashes[slot] = spread(hash.get()),
                    None => {
                        device.keys.push(keys[slot]);
                        device.slots.push(slot as u16);
                    }
                }
            }
            self.books.hashes_reused += count - device.keys.len() as u64;
            let computed = &mut device.computed[..device.keys.len()];
            self.hash.hash_burst(&device.keys, computed);
            for (&slot, &computed) in device.slots.iter().zip(&*computed) {
                hashes[usize::from(slot)] = computed;
            }
            device.keys.clear();
            device.slots.clear();
            if let (Some(Some(hash)), Some(&key)) = (given.first(), keys.get(start)) {
                let computed = self.hash.hash_one(key);
                self.books.hashes_mismatched += u64::from(spread(hash.get()) != computed);
            }
        }
        // After a single mismatch, the device's hashes are never used again.
        if self.books.hashes_mismatched == 0 {
            self.device_hashes = Some(device);
        }
    }
}
