//! The hashes of a device for receive-side scaling (RSS), of the packets of a batch: as the flow key
//! (`FlowDefinition::Rss`), and as the hash of the flow table, if both are the same function, to save
//! computing it.

use crate::books::Books;
use flow::hash::{FlowHash, spread};
use flow::{BURST, Batch};
use std::num::NonZeroU32;
use wire::FlowKey;

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

    /// Adds the packet in `slot` of the batch, whose key is `key`.
    #[inline]
    pub(super) fn push(&mut self, slot: usize, key: u128) {
        self.slots.push(slot as u16);
        self.keys.push(key);
    }

    /// Adds the packet in `slot` of the batch, whose key does not fit 16 bytes.
    #[inline]
    pub(super) fn push_wide(&mut self, slot: usize, digest: u128, key: FlowKey) {
        self.wide_slots.push(slot as u16);
        self.digests.push(digest);
        self.wide_keys.push(key);
    }

    /// Computes the pending hashes and sets them as keys in `batch`. Returns their number.
    pub(super) fn hash_pending(&mut self, batch: &mut Batch) -> u64 {
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

    /// Fills in the hashes of the packets from slot `start`: the device's if it gave one, otherwise that
    /// of `hash`. Counts the mismatches in `books`.
    pub(super) fn fill(
        &mut self,
        hash: &FlowHash,
        batch: &mut Batch,
        start: usize,
        books: &mut Books,
    ) {
        let (keys, hashes) = batch.keys_and_hashes();
        let given = &self.hashes[start..keys.len()];
        let count = given.len() as u64;
        if self.checked < TRIAL_HASHES {
            hash.hash_burst(&keys[start..], &mut hashes[start..]);
            let pairs = || given.iter().zip(&hashes[start..]);
            let mismatched = pairs().filter(|&(given, &computed)| {
                given.is_some_and(|given| spread(given.get()) != computed)
            });
            books.hashes_mismatched += mismatched.count() as u64;
            self.checked += pairs().filter(|(given, _)| given.is_some()).count() as u64;
        } else {
            for (slot, given) in (start..).zip(given) {
                match given {
                    Some(given) => hashes[slot] = spread(given.get()),
                    None => {
                        self.keys.push(keys[slot]);
                        self.slots.push(slot as u16);
                    }
                }
            }
            books.hashes_reused += count - self.keys.len() as u64;
            let computed = &mut self.computed[..self.keys.len()];
            hash.hash_burst(&self.keys, computed);
            for (&slot, &computed) in self.slots.iter().zip(&*computed) {
                hashes[usize::from(slot)] = computed;
            }
            self.keys.clear();
            self.slots.clear();
            if let (Some(Some(given)), Some(&key)) = (given.first(), keys.get(start)) {
                let computed = hash.hash_one(key);
                books.hashes_mismatched += u64::from(spread(given.get()) != computed);
            }
        }
    }
}
