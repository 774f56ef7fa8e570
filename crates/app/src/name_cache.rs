//! The names that clients resolved: a bounded cache from a client and a server address to the name
//! for which a DNS response gave the client that server address.

use core::num::NonZeroU32;
use hw::hash::KeyedHash;
use hw::memory::{HugeSlice, Line};
use hw::prefetch;
use std::io;

/// Ways of a set. The oldest entry of a full set is replaced.
const WAYS: usize = 4;

/// Bytes of names for each entry, on average.
const NAME_BYTES: usize = 64;

/// The longest name, in bytes.
pub(crate) const NAME_MAX: usize = 255;

/// An entry, one cache line: client address (words 0 and 1), server address (2 and 3), then the
/// words at `TIME`, `POSITION` and `LENGTH`.
type Entry = Line<u64, 8>;

/// For each entry of a set, a few bits of its hash; 0 if the entry is empty. Most flows have no
/// resolved name. The tags are small enough to stay in the CPU's cache, so that such a miss reads no
/// entry.
type Tags = [u16; WAYS];

/// Word of the time of the response.
const TIME: usize = 4;
/// Word of the position of the name.
const POSITION: usize = 5;
/// Word of the length of the name.
const LENGTH: usize = 6;

/// The cache.
#[derive(Debug)]
pub(crate) struct NameCache {
    entries: HugeSlice<Entry>,
    tags: HugeSlice<Tags>,
    /// A ring of names. A position is a count of bytes written since the start; entries whose name
    /// was overwritten count as missing.
    names: HugeSlice<u8>,
    /// Bytes written since the start.
    written: u64,
    hash: KeyedHash,
}

impl NameCache {
    /// Creates a cache of at least `entries_max` entries. `seed` must be secret, so that no attacker
    /// can choose addresses that share a set.
    pub(crate) fn new(entries_max: usize, seed: u64) -> io::Result<Self> {
        let sets = entries_max.div_ceil(WAYS).max(1);
        Ok(Self {
            entries: HugeSlice::try_zeroed(sets * WAYS)?,
            tags: HugeSlice::try_zeroed(sets)?,
            names: HugeSlice::try_zeroed((sets * WAYS * NAME_BYTES).max(2 * NAME_MAX))?,
            written: 0,
            hash: KeyedHash::new(seed),
        })
    }

    /// Touches all memory now, so that it causes no page faults later.
    pub(crate) fn populate(&mut self) {
        self.entries.populate();
        self.tags.populate();
        self.names.populate();
    }

    /// Whether no name was ever stored.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.written == 0
    }

    /// Stores a name for the next calls of [`NameCache::insert`], and returns its position. `None` if
    /// the name is empty or too long.
    pub(crate) fn store_name(&mut self, name: &[u8]) -> Option<u64> {
        if name.is_empty() || name.len() > NAME_MAX {
            return None;
        }
        let size = self.names.len() as u64;
        let mut offset = self.written % size;
        if offset + name.len() as u64 > size {
            self.written += size - offset;
            offset = 0;
        }
        let position = self.written;
        self.names[offset as usize..offset as usize + name.len()].copy_from_slice(name);
        self.written += name.len() as u64;
        Some(position)
    }

    /// Inserts that at `time_ns` a response gave `client` the address `server` for the name of
    /// `length` bytes at `position`.
    pub(crate) fn insert(
        &mut self,
        client: u128,
        server: u128,
        time_ns: i64,
        position: u64,
        length: usize,
    ) {
        let hash = self.hash([client, server]);
        let (set, tag) = self.set(hash);
        let addresses = words([client, server]);
        let time = |way: usize| self.entries[set * WAYS + way].0[TIME].cast_signed();
        let empty = || self.tags[set].iter().position(|&tag| tag == 0);
        let way = self
            .way(set, tag, &addresses)
            .or_else(empty)
            .or_else(|| (0..WAYS).min_by_key(|&way| time(way)))
            .unwrap_or(0);
        self.tags[set][way] = tag;
        let entry = &mut self.entries[set * WAYS + way].0;
        entry[..TIME].copy_from_slice(&addresses);
        entry[TIME] = time_ns.cast_unsigned();
        entry[POSITION] = position;
        entry[LENGTH] = length as u64;
    }

    /// Prefetches the tags that [`NameCache::find`] will read.
    pub(crate) fn prefetch(&self, hash: NonZeroU32) {
        prefetch::read(&self.tags, self.set(hash).0);
    }

    /// Returns the last name for a client and a server address, and the time of the response. `hash`
    /// must be their hash.
    pub(crate) fn find(
        &self,
        hash: NonZeroU32,
        addresses: impl FnOnce() -> [u128; 2],
    ) -> Option<(&[u8], i64)> {
        let (set, tag) = self.set(hash);
        // A fold without an early exit becomes a single SIMD comparison.
        let is_there = |any, other: &u16| any | (*other == tag);
        if !self.tags[set].iter().fold(false, is_there) {
            return None;
        }
        let way = self.way(set, tag, &words(addresses()))?;
        let entry = &self.entries[set * WAYS + way].0;
        let size = self.names.len() as u64;
        if self.written - entry[POSITION] > size {
            return None;
        }
        let offset = (entry[POSITION] % size) as usize;
        let name = &self.names[offset..offset + entry[LENGTH] as usize];
        Some((name, entry[TIME].cast_signed()))
    }

    /// The hash of a client and a server address.
    pub(crate) fn hash(&self, [client, server]: [u128; 2]) -> NonZeroU32 {
        let hash = self.hash.digest(&[client, server, 0]) as u32;
        NonZeroU32::new(hash).unwrap_or(NonZeroU32::MIN)
    }

    /// The set of a hash and its tag.
    #[inline]
    fn set(&self, hash: NonZeroU32) -> (usize, u16) {
        let hash = hash.get();
        let set = (u64::from(hash) * self.tags.len() as u64) >> 32;
        (set as usize, (hash as u16).max(1))
    }

    /// The way of a set that has these addresses.
    #[inline]
    fn way(&self, set: usize, tag: u16, addresses: &[u64; TIME]) -> Option<usize> {
        let tags = self.tags[set];
        (0..WAYS)
            .find(|&way| tags[way] == tag && self.entries[set * WAYS + way].0[..TIME] == *addresses)
    }

    /// Memory of a full cache, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.entries.len() * size_of::<Entry>()
            + self.tags.len() * size_of::<Tags>()
            + self.names.len()
    }
}

fn words([client, server]: [u128; 2]) -> [u64; 4] {
    [
        client as u64,
        (client >> 64) as u64,
        server as u64,
        (server >> 64) as u64,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(cache: &NameCache, client: u128, server: u128) -> Option<(&[u8], i64)> {
        let addresses = [client, server];
        cache.find(cache.hash(addresses), || addresses)
    }

    #[test]
    fn finds_the_latest_answer_until_it_is_evicted() {
        let mut cache = NameCache::new(8, 1).unwrap();
        let insert = |cache: &mut NameCache, server: u128, time, name: &str| {
            let position = cache.store_name(name.as_bytes()).unwrap();
            cache.insert(1, server, time, position, name.len());
        };
        insert(&mut cache, 2, 10, "first.example");
        insert(&mut cache, 2, 20, "second.example");
        assert_eq!(find(&cache, 1, 2), Some((&b"second.example"[..], 20)));
        assert_eq!(find(&cache, 2, 1), None);
        for server in 3..200 {
            insert(&mut cache, server, 20 + server as i64, "another.example");
        }
        assert_eq!(find(&cache, 1, 2), None);
        let found = (0..200).filter(|&s| find(&cache, 1, s).is_some()).count();
        assert!((4..=8).contains(&found), "{found}");
        assert_eq!(cache.store_name(&[b'a'; 256]), None);
    }

    #[test]
    fn overwritten_name_is_not_found() {
        let mut cache = NameCache::new(4, 1).unwrap();
        let position = cache.store_name(b"a.example").unwrap();
        cache.insert(1, 2, 0, position, 9);
        while find(&cache, 1, 2).is_some() {
            assert_eq!(find(&cache, 1, 2), Some((&b"a.example"[..], 0)));
            assert!(cache.written < 2000);
            cache.store_name(&[b'b'; 100]).unwrap();
        }
    }
}
