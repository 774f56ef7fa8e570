//! The names that clients resolved: a bounded cache from a client and a server address to the name
//! for which a DNS response gave the client that server address.
//!
//! Names are evidence, and anyone can send a response. The answer to a query that was seen therefore
//! stays before one that nothing was seen to ask for, and no client can push out more than a small part
//! of the names of the others: its names are in a part of the sets, and in a full set those of the
//! client with the most of them are replaced first.

use core::num::NonZeroU32;
use hw::hash::KeyedHash;
use hw::memory::{HugeSlice, Line};
use hw::prefetch;
use std::io;

/// Ways of a set.
const WAYS: usize = 4;

/// The most sets. A hash has 16 bits for the set.
const SETS_MAX: usize = 1 << 16;

/// The number of sets that have the names of a client. It bounds the names of a client to 4,096, and
/// the names of others that it can push out to one of each of these sets.
const CLIENT_SETS: usize = 1 << 10;

/// Bytes for the name of each entry. Each has its own, so that long names push out no others.
const NAME_BYTES: usize = 256;

/// The longest name, in bytes.
pub(crate) const NAME_MAX: usize = 255;

/// An entry, one cache line: client address (words 0 and 1), server address (2 and 3), then the
/// words at `TIME` and `NAME`.
type Entry = Line<u64, 8>;

/// For each entry of a set, a few bits of its hash; 0 if the entry is empty. Most flows have no
/// resolved name. The tags are small enough to stay in the CPU's cache, so that such a miss reads no
/// entry.
type Tags = [u16; WAYS];

/// Words of the addresses.
const ADDRESSES: usize = 4;
/// Word of the time of the response.
const TIME: usize = 4;
/// Word of the length of the name, with [`ASKED`].
const NAME: usize = 5;

/// Set in the word [`NAME`] if a query for the name was seen.
const ASKED: u64 = 1 << 32;

/// What limits of the application layer cost: names that the cache could not keep, and packets that
/// were not decrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameCounters {
    /// Names that other names pushed out.
    pub evicted: u64,
    /// Names that were not stored: too long, or of a response without a query while all slots have
    /// names that were asked for.
    pub left_out: u64,
    /// DNS responses with addresses whose query was not seen.
    pub unasked: u64,
    /// Initial packets of QUIC that were not decrypted, or whose CRYPTO frames were not all read, because
    /// their flow or all flows together had too many.
    pub quic_cuts: u64,
}

/// A name in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CachedName<'a> {
    pub(crate) name: &'a [u8],
    /// Time of the response.
    pub(crate) time_ns: i64,
    /// Whether its query was seen.
    pub(crate) is_asked: bool,
}

/// The cache.
#[derive(Debug)]
pub(crate) struct NameCache {
    entries: HugeSlice<Entry>,
    tags: HugeSlice<Tags>,
    /// The names, [`NAME_BYTES`] for each entry.
    names: HugeSlice<u8>,
    is_empty: bool,
    hash: KeyedHash,
    pub(crate) counters: NameCounters,
}

impl NameCache {
    /// Creates a cache of at least `entries_max` entries. `seed` must be secret, so that no attacker
    /// can choose addresses that share a set.
    pub(crate) fn new(entries_max: usize, seed: u64) -> io::Result<Self> {
        let sets = entries_max.div_ceil(WAYS).clamp(1, SETS_MAX);
        Ok(Self {
            entries: HugeSlice::try_zeroed(sets * WAYS)?,
            tags: HugeSlice::try_zeroed(sets)?,
            names: HugeSlice::try_zeroed(sets * WAYS * NAME_BYTES)?,
            is_empty: true,
            hash: KeyedHash::new(seed),
            counters: NameCounters::default(),
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
        self.is_empty
    }

    /// Inserts that a response gave the client the address of the server, `addresses`, for a name.
    pub(crate) fn insert(&mut self, addresses: [u128; 2], found: CachedName<'_>) {
        let (set, tag) = set_and_tag(self.hash(addresses));
        let addresses = words(addresses);
        let is_there = (1..=NAME_MAX).contains(&found.name.len());
        let way = is_there.then(|| self.slot(set, tag, &addresses, found.is_asked));
        let Some(way) = way.flatten() else {
            self.counters.left_out += 1;
            return;
        };
        let tags = &mut self.tags[set];
        let index = set * WAYS + way;
        let entry = &mut self.entries[index].0;
        self.counters.evicted += u64::from(tags[way] != 0 && entry[..ADDRESSES] != addresses);
        self.is_empty = false;
        tags[way] = tag;
        entry[..ADDRESSES].copy_from_slice(&addresses);
        entry[TIME] = found.time_ns.cast_unsigned();
        entry[NAME] = found.name.len() as u64 | if found.is_asked { ASKED } else { 0 };
        self.names[index * NAME_BYTES..][..found.name.len()].copy_from_slice(found.name);
    }

    /// The way of a set for a new name, or `None` if it must not be stored.
    #[inline]
    fn slot(
        &self,
        set: usize,
        tag: u16,
        addresses: &[u64; ADDRESSES],
        is_asked: bool,
    ) -> Option<usize> {
        let was_asked = |way: usize| self.entries[set * WAYS + way].0[NAME] & ASKED != 0;
        if let Some(way) = self.way(set, tag, addresses) {
            return (is_asked || !was_asked(way)).then_some(way);
        }
        let empty = self.tags[set].iter().position(|&tag| tag == 0);
        empty.or_else(|| self.victim(set, is_asked))
    }

    /// The way of a full set to replace: one without a query before one with, then one of the client
    /// with the most of them, then the oldest.
    #[inline(never)]
    fn victim(&self, set: usize, is_asked: bool) -> Option<usize> {
        let entries: [&[u64; 8]; WAYS] =
            core::array::from_fn(|way| &self.entries[set * WAYS + way].0);
        let was_asked = |way: usize| entries[way][NAME] & ASKED != 0;
        let others = |way: usize| {
            let [low, high, ..] = *entries[way];
            let is_other = |entry: &&&[u64; 8]| entry[0] != low || entry[1] != high;
            entries.iter().filter(is_other).count()
        };
        (0..WAYS)
            .filter(|&way| is_asked || !was_asked(way))
            .min_by_key(|&way| {
                (
                    was_asked(way),
                    others(way),
                    entries[way][TIME].cast_signed(),
                )
            })
    }

    /// Prefetches the tags that [`NameCache::find`] will read.
    pub(crate) fn prefetch(&self, hash: NonZeroU32) {
        prefetch::read(&self.tags, set_and_tag(hash).0);
    }

    /// Returns the last name for a client and a server address. `hash` must be their hash.
    pub(crate) fn find(
        &self,
        hash: NonZeroU32,
        addresses: impl FnOnce() -> [u128; 2],
    ) -> Option<CachedName<'_>> {
        let (set, tag) = set_and_tag(hash);
        // A fold without an early exit becomes a single SIMD comparison.
        let is_there = |any, other: &u16| any | (*other == tag);
        if !self.tags[set].iter().fold(false, is_there) {
            return None;
        }
        let index = set * WAYS + self.way(set, tag, &words(addresses()))?;
        let entry = &self.entries[index].0;
        let length = entry[NAME] as u32 as usize;
        Some(CachedName {
            name: self.names.get(index * NAME_BYTES..)?.get(..length)?,
            time_ns: entry[TIME].cast_signed(),
            is_asked: entry[NAME] & ASKED != 0,
        })
    }

    /// The hash of a client and a server address: the set, and the tag in the lower half.
    pub(crate) fn hash(&self, [client, server]: [u128; 2]) -> NonZeroU32 {
        let mut hashes = [0; 2];
        self.hash.hash(&[client, server], &mut hashes);
        let [of_client, of_server] = hashes;
        let sets = self.tags.len();
        let first = ((of_client >> 32) as usize * sets) >> 32;
        let offset = ((of_server >> 32) as usize * sets.min(CLIENT_SETS)) >> 32;
        let set = (first + offset) % sets;
        let tag = ((of_client ^ of_server.rotate_left(7)) as u16).max(1);
        NonZeroU32::new((set as u32) << 16 | u32::from(tag)).unwrap_or(NonZeroU32::MIN)
    }

    /// The way of a set that has these addresses.
    #[inline]
    fn way(&self, set: usize, tag: u16, addresses: &[u64; ADDRESSES]) -> Option<usize> {
        let tags = self.tags[set];
        (0..WAYS).find(|&way| {
            tags[way] == tag && self.entries[set * WAYS + way].0[..ADDRESSES] == *addresses
        })
    }

    /// Memory of a full cache, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.entries.len() * size_of::<Entry>()
            + self.tags.len() * size_of::<Tags>()
            + self.names.len()
    }
}

/// The set of a hash and its tag.
#[inline]
const fn set_and_tag(hash: NonZeroU32) -> (usize, u16) {
    ((hash.get() >> 16) as usize, hash.get() as u16)
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

    fn find(cache: &NameCache, client: u128, server: u128) -> Option<CachedName<'_>> {
        let addresses = [client, server];
        cache.find(cache.hash(addresses), || addresses)
    }

    fn insert(cache: &mut NameCache, ends: [u128; 2], time_ns: i64, name: &str, is_asked: bool) {
        let name = name.as_bytes();
        let found = CachedName {
            name,
            time_ns,
            is_asked,
        };
        cache.insert(ends, found);
    }

    /// The name and the time for a client and a server.
    fn name(cache: &NameCache, client: u128, server: u128) -> Option<(&str, i64)> {
        let found = find(cache, client, server)?;
        Some((str::from_utf8(found.name).unwrap(), found.time_ns))
    }

    #[test]
    fn finds_the_latest_answer_until_it_is_evicted() {
        let mut cache = NameCache::new(8, 1).unwrap();
        insert(&mut cache, [1, 2], 10, "first.example", true);
        insert(&mut cache, [1, 2], 20, "second.example", true);
        assert_eq!(name(&cache, 1, 2), Some(("second.example", 20)));
        assert_eq!(name(&cache, 2, 1), None);
        assert_eq!(cache.counters, NameCounters::default());
        for server in 3..200 {
            let time_ns = 20 + server as i64;
            insert(&mut cache, [1, server], time_ns, "another.example", true);
        }
        assert_eq!(find(&cache, 1, 2), None);
        let found = (0..200).filter(|&s| find(&cache, 1, s).is_some()).count();
        assert!((4..=8).contains(&found), "{found}");
        assert_eq!(cache.counters.evicted, 198 - found as u64);
        for name in [&"a".repeat(256), ""] {
            insert(&mut cache, [9, 9], 0, name, true);
        }
        assert_eq!((find(&cache, 9, 9), cache.counters.left_out), (None, 2));
    }

    #[test]
    fn answer_without_a_query_replaces_none_with_one() {
        let mut cache = NameCache::new(64, 1).unwrap();
        insert(&mut cache, [1, 2], 1, "bank.example", true);
        insert(&mut cache, [1, 2], 2, "evil.example", false);
        assert_eq!(name(&cache, 1, 2), Some(("bank.example", 1)));
        assert_eq!(cache.counters.left_out, 1);
        // Those of others fill the cache, but not its slot.
        for (client, server) in (3..10_000).zip(3..) {
            insert(&mut cache, [client, server], 3, "x.example", false);
        }
        assert_eq!(name(&cache, 1, 2), Some(("bank.example", 1)));
        assert!(cache.counters.evicted > 9000);
        insert(&mut cache, [3, 2], 4, "late.example", false);
        let is_asked = |cache: &NameCache| find(cache, 3, 2).map(|it| it.is_asked);
        assert_eq!(is_asked(&cache), Some(false));
        insert(&mut cache, [3, 2], 5, "late.example", true);
        assert_eq!(is_asked(&cache), Some(true));
    }

    #[test]
    fn client_with_many_names_pushes_out_few_of_the_others() {
        let mut cache = NameCache::new(1 << 16, 1).unwrap();
        let others =
            || (1000..1400).flat_map(|client| (0..100).map(move |server| [client, server]));
        for ends in others() {
            insert(&mut cache, ends, 1, "real.example", true);
        }
        let count = |cache: &NameCache| {
            others()
                .filter(|&[c, s]| find(cache, c, s).is_some())
                .count()
        };
        let before = count(&cache);
        assert!(before > 36_000, "{before}");
        let evicted = cache.counters.evicted;
        let long = "b".repeat(NAME_MAX);
        for server in 1..200_000 {
            insert(&mut cache, [1, server], 2, &long, true);
        }
        let lost = before - count(&cache);
        assert!(lost <= CLIENT_SETS, "{lost}");
        assert!(cache.counters.evicted - evicted >= 190_000);
    }
}
