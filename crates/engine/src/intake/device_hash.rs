//! What a device's hash for receive-side scaling is good for: flows that are known by it alone
//! (`FlowDefinition::Rss`), and, where it is the hash that the table is to have, not making it again.

use super::{Intake, packet_of};
use flow::hash::{FlowHash, spread};
use flow::{BURST, Batch, Packet, TableKey};
use hw::prefetch;
use port::{Burst, Frame};
use std::num::NonZeroU32;
use wire::plain::plain_ipv4;
use wire::{FlowKey, LinkType};

/// How many frames ahead the headers of one without a hash are asked for.
const AHEAD: usize = 8;

/// Hashes of the device that are compared with our own before any is trusted.
const TRIAL: u64 = 4096;

/// Flows known by a hash: what stands in for the device's where a packet has none.
#[derive(Debug)]
pub(super) struct Identity {
    hash: FlowHash,
    /// Places in the batch of the packets that the device has not hashed, and their keys.
    places: Vec<u16>,
    keys: Vec<u128>,
    /// The same of keys that do not fit 16 bytes, and their digests.
    wide_places: Vec<u16>,
    wide_keys: Vec<FlowKey>,
    digests: Vec<u128>,
    hashes: Box<[u32; BURST]>,
}

impl Identity {
    pub(super) fn new(hash: FlowHash) -> Self {
        Self {
            hash,
            places: Vec::with_capacity(BURST),
            keys: Vec::with_capacity(BURST),
            wide_places: Vec::with_capacity(BURST),
            wide_keys: Vec::with_capacity(BURST),
            digests: Vec::with_capacity(BURST),
            hashes: Box::new([0; BURST]),
        }
    }

    /// Gives the packets of `batch` that wait for a hash theirs as key; how many they are.
    fn hash_those_that_wait(&mut self, batch: &mut Batch) -> u64 {
        let mut set = |places: &mut Vec<u16>, hashes: &[u32]| {
            for (place, &hash) in places.drain(..).zip(hashes) {
                batch.set_key(usize::from(place), FlowKey::compact_hash(hash));
            }
        };
        let count = self.keys.len() + self.wide_keys.len();
        let hashes = &mut self.hashes[..self.keys.len()];
        self.hash.hash32_burst(&self.keys, hashes);
        set(&mut self.places, hashes);
        let hashes = &mut self.hashes[..self.wide_keys.len()];
        self.hash
            .hash32_wide_burst(&self.digests, &self.wide_keys, hashes);
        set(&mut self.wide_places, hashes);
        self.keys.clear();
        self.wide_keys.clear();
        self.digests.clear();
        count as u64
    }
}

/// The device's hashes of a batch, where they are the table's too.
///
/// A flow must have one hash, whether the device gave its packets one or not. So the table's hash is
/// defined in software, and the device only spares making it: it is taken for plain packets alone,
/// of which it is known what a device covers, only after a trial, and one a burst is made again
/// and compared for as long as they are used.
#[derive(Debug, PartialEq)]
pub(super) struct Reuse {
    hashes: Box<[Option<NonZeroU32>; BURST]>,
    /// Keys of packets without a hash, and their places.
    keys: Vec<u128>,
    places: Vec<u16>,
    made: Vec<u64>,
    tried: u64,
}

impl Default for Reuse {
    fn default() -> Self {
        Self {
            hashes: Box::new([None; BURST]),
            keys: Vec::with_capacity(BURST),
            places: Vec::with_capacity(BURST),
            made: vec![0; BURST],
            tried: 0,
        }
    }
}

impl Reuse {
    /// What the device says of the packet that comes to `place` of the batch.
    #[inline(always)]
    pub(super) fn note(&mut self, place: usize, hash: Option<NonZeroU32>) {
        self.hashes[place] = hash;
    }
}

impl Intake {
    /// Reads a burst whose flows are known by hash: a frame that the device has hashed is not
    /// touched.
    pub(super) fn read_identities(&mut self, burst: &Burst<'_>, batch: &mut Batch) {
        let Some(mut identity) = self.identity.take() else {
            return;
        };
        let begun = batch.len();
        let mut bytes = 0;
        let first = self.numbers.take(burst.frames.len());
        let mut by_device = 0;
        for (index, frame) in burst.frames.iter().enumerate() {
            bytes += u64::from(frame.wire_length);
            let clock_ms = self.clock.advance(frame.time_ns);
            let packet = packet_of(frame, first + index as u64, clock_ms);
            if let Some(hash) = frame.rss_hash {
                by_device += 1;
                batch.push(FlowKey::compact_hash(hash.get()), packet);
            } else {
                if let Some(ahead) = burst.frames.get(index + AHEAD)
                    && ahead.rss_hash.is_none()
                {
                    prefetch::ahead(ahead.bytes, 0);
                }
                self.identify(&mut identity, burst.link, frame, packet, batch);
            }
        }
        self.books.hashed_in_software += identity.hash_those_that_wait(batch);
        self.books.hashed_by_device += by_device;
        self.identity = Some(identity);
        self.finish_burst(burst, bytes);
        let (keys, hashes) = batch.keys_and_hashes();
        self.hash.hash_burst(&keys[begun..], &mut hashes[begun..]);
    }

    /// Reads the headers of a frame without a hash, for one to be made.
    fn identify(
        &mut self,
        identity: &mut Identity,
        link: LinkType,
        frame: &Frame<'_>,
        packet: Packet,
        batch: &mut Batch,
    ) {
        let compact = if link == LinkType::Ethernet
            && let Some(plain) = plain_ipv4(frame.bytes, frame.wire_length)
        {
            self.books.truncated += u64::from(frame.bytes.len() < frame.wire_length as usize);
            plain.key
        } else {
            let headers = wire::dissect(link, frame.bytes, frame.wire_length, self.decapsulate);
            if !self.judge(link, frame, &headers) {
                return;
            }
            let mut key = headers.key;
            match self.keys.from_key(&mut key).0 {
                TableKey::Compact(key) => key,
                TableKey::Wide(digest) => {
                    identity.wide_places.push(batch.len() as u16);
                    identity.digests.push(digest);
                    identity.wide_keys.push(key);
                    // A key is set when the hashes are made.
                    batch.push(digest, packet);
                    return;
                }
            }
        };
        identity.places.push(batch.len() as u16);
        identity.keys.push(compact);
        batch.push(compact, packet);
    }

    /// Gives the packets of the batch from `begun` on their hashes: the device's where it made one.
    pub(super) fn reuse_hashes(&mut self, batch: &mut Batch, begun: usize) {
        let Some(mut reuse) = self.reuse.take() else {
            return;
        };
        let (keys, hashes) = batch.keys_and_hashes();
        let noted = &reuse.hashes[begun..keys.len()];
        let count = noted.len() as u64;
        if reuse.tried < TRIAL {
            self.hash.hash_burst(&keys[begun..], &mut hashes[begun..]);
            let pairs = || noted.iter().zip(&hashes[begun..]);
            let refuted = pairs()
                .filter(|&(noted, &made)| noted.is_some_and(|hash| spread(hash.get()) != made));
            self.books.hashes_refuted += refuted.count() as u64;
            reuse.tried += pairs().filter(|(noted, _)| noted.is_some()).count() as u64;
        } else {
            for (place, noted) in (begun..).zip(noted) {
                match noted {
                    Some(hash) => hashes[place] = spread(hash.get()),
                    None => {
                        reuse.keys.push(keys[place]);
                        reuse.places.push(place as u16);
                    }
                }
            }
            self.books.hashes_reused += count - reuse.keys.len() as u64;
            let made = &mut reuse.made[..reuse.keys.len()];
            self.hash.hash_burst(&reuse.keys, made);
            for (&place, &made) in reuse.places.iter().zip(&*made) {
                hashes[usize::from(place)] = made;
            }
            reuse.keys.clear();
            reuse.places.clear();
            if let (Some(Some(hash)), Some(&key)) = (noted.first(), keys.get(begun)) {
                let made = self.hash.hash_one(key);
                self.books.hashes_refuted += u64::from(spread(hash.get()) != made);
            }
        }
        // One that is wrong, and none is taken any more.
        if self.books.hashes_refuted == 0 {
            self.reuse = Some(reuse);
        }
    }
}
