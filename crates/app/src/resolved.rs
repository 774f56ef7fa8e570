//! Names that clients resolved: a bounded cache from (client, server) addresses to the name that a
//! DNS response gave the server's address for.

use super::Progress;
use hw::hash::KeyedHash;
use hw::memory::{HugeSlice, Line};
use hw::prefetch;
use std::io;

/// Ways of a set: the oldest of them makes room.
const WAYS: usize = 4;

/// Bytes of names for each entry, on average.
const NAME_BYTES: usize = 64;

/// The longest name that is kept.
pub(super) const NAME_MAX: usize = 255;

/// Client address, server address, time of the response, place of the name and, in the last word but
/// one, its length.
type Entry = Line<u64, 8>;

/// Of each entry of a set a few bits of its hash, 0 for an empty one: what is not in the set, as of
/// most flows, is known by them, which lie in the cache.
type Tags = [u16; WAYS];

const TIME: usize = 4;
const PLACE: usize = 5;
const LENGTH: usize = 6;

/// The cache.
#[derive(Debug)]
pub(super) struct Resolved {
    entries: HugeSlice<Entry>,
    tags: HugeSlice<Tags>,
    /// Names, written around and around; a name whose place has been written over is forgotten.
    names: HugeSlice<u8>,
    written: u64,
    hash: KeyedHash,
}

impl Resolved {
    /// At most so many entries; `seed` is secret, so that nobody can tell whose share a set.
    pub(super) fn new(entries_max: usize, seed: u64) -> io::Result<Self> {
        let sets = entries_max.div_ceil(WAYS).max(1);
        Ok(Self {
            entries: HugeSlice::try_zeroed(sets * WAYS)?,
            tags: HugeSlice::try_zeroed(sets)?,
            names: HugeSlice::try_zeroed((sets * WAYS * NAME_BYTES).max(2 * NAME_MAX))?,
            written: 0,
            hash: KeyedHash::new(seed),
        })
    }

    /// Takes all memory from the machine now.
    pub(super) fn populate(&mut self) {
        self.entries.populate();
        self.tags.populate();
        self.names.populate();
    }

    /// Whether no name was ever kept.
    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.written == 0
    }

    /// Keeps a name for the entries that [`Resolved::insert`] makes next; its place.
    pub(super) fn keep(&mut self, name: &[u8]) -> Option<u64> {
        if name.is_empty() || name.len() > NAME_MAX {
            return None;
        }
        let size = self.names.len() as u64;
        let mut at = self.written % size;
        if at + name.len() as u64 > size {
            self.written += size - at;
            at = 0;
        }
        let place = self.written;
        self.names[at as usize..at as usize + name.len()].copy_from_slice(name);
        self.written += name.len() as u64;
        Some(place)
    }

    /// Notes that `client` was told at `time_ns` that the name of `length` bytes at `place` is
    /// `server`'s.
    pub(super) fn insert(
        &mut self,
        client: u128,
        server: u128,
        time_ns: i64,
        place: u64,
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
        entry[PLACE] = place;
        entry[LENGTH] = length as u64;
    }

    /// Asks for the tags among which [`Resolved::find`] will look.
    pub(super) fn prefetch(&self, hash: u32) {
        prefetch::read(&self.tags, self.set(hash).0);
    }

    /// The name that the first of these addresses, whose hash is `hash`, was last told for the second,
    /// and when.
    pub(super) fn find(
        &self,
        hash: u32,
        addresses: impl FnOnce() -> [u128; 2],
    ) -> Option<(&[u8], i64)> {
        let (set, tag) = self.set(hash);
        // All at once, in one comparison.
        let is_there = |any, other: &u16| any | (*other == tag);
        if !self.tags[set].iter().fold(false, is_there) {
            return None;
        }
        let way = self.way(set, tag, &words(addresses()))?;
        let entry = &self.entries[set * WAYS + way].0;
        let size = self.names.len() as u64;
        if self.written - entry[PLACE] > size {
            return None;
        }
        let at = (entry[PLACE] % size) as usize;
        let name = &self.names[at..at + entry[LENGTH] as usize];
        Some((name, entry[TIME].cast_signed()))
    }

    /// The hash of a client's and a server's address, at least 2: what is less says something else
    /// where it is kept.
    pub(super) fn hash(&self, [client, server]: [u128; 2]) -> u32 {
        (self.hash.digest(&[client, server, 0]) as u32).max(Progress::HASH_LEAST)
    }

    /// The set of a hash, and its tag in it.
    #[inline]
    fn set(&self, hash: u32) -> (usize, u16) {
        let set = (u64::from(hash) * self.tags.len() as u64) >> 32;
        (set as usize, (hash as u16).max(1))
    }

    /// The entry of a set that has these addresses.
    #[inline]
    fn way(&self, set: usize, tag: u16, addresses: &[u64; TIME]) -> Option<usize> {
        let tags = self.tags[set];
        (0..WAYS)
            .find(|&way| tags[way] == tag && self.entries[set * WAYS + way].0[..TIME] == *addresses)
    }

    /// Memory when it is full, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
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

    fn find(cache: &Resolved, client: u128, server: u128) -> Option<(&[u8], i64)> {
        let addresses = [client, server];
        cache.find(cache.hash(addresses), || addresses)
    }

    #[test]
    fn the_last_answer_is_found_until_it_is_pushed_out() {
        let mut cache = Resolved::new(8, 1).unwrap();
        let tell = |cache: &mut Resolved, server: u128, time, name: &str| {
            let place = cache.keep(name.as_bytes()).unwrap();
            cache.insert(1, server, time, place, name.len());
        };
        tell(&mut cache, 2, 10, "first.example");
        tell(&mut cache, 2, 20, "second.example");
        assert_eq!(find(&cache, 1, 2), Some((&b"second.example"[..], 20)));
        assert_eq!(find(&cache, 2, 1), None);
        for server in 3..200 {
            tell(&mut cache, server, 20 + server as i64, "another.example");
        }
        assert_eq!(find(&cache, 1, 2), None);
        let found = (0..200).filter(|&s| find(&cache, 1, s).is_some()).count();
        assert!((4..=8).contains(&found), "{found}");
        assert_eq!(cache.keep(&[b'a'; 256]), None);
    }

    #[test]
    fn a_name_that_was_written_over_is_forgotten() {
        let mut cache = Resolved::new(4, 1).unwrap();
        let place = cache.keep(b"a.example").unwrap();
        cache.insert(1, 2, 0, place, 9);
        while find(&cache, 1, 2).is_some() {
            assert_eq!(find(&cache, 1, 2), Some((&b"a.example"[..], 0)));
            assert!(cache.written < 2000);
            cache.keep(&[b'b'; 100]).unwrap();
        }
    }
}
