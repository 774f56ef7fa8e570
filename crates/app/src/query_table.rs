//! The DNS queries that were seen: a bounded table that says whether a response answers one of them.
//! Anyone can send a client a response; only an answer to the client's own query is evidence of what
//! it resolved.

use hw::hash::KeyedHash;
use std::sync::atomic::{AtomicU64, Ordering};

/// Queries of a set, which is one cache line.
const WAYS: usize = 8;

/// Bits of the time in an entry. Its unit is 2^28 ns, about a quarter of a second.
const TIME_SHIFT: u32 = 28;

/// How long a query waits for its response, in units of time: 30 s. No client waits longer.
const AGE_MAX: u16 = 112;

/// Bits of an entry below the tag of its client: the time.
const CLIENT_SHIFT: u32 = 16;

/// Bits of an entry below the fingerprint: client and time.
const FINGERPRINT_SHIFT: u32 = 24;

/// What identifies a query, and what its response must repeat.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query<'a> {
    /// Address of the client, and of the server that it asks.
    pub(crate) addresses: [u128; 2],
    /// Transport ports of the client and of the server.
    pub(crate) ports: [u16; 2],
    /// Whether it came over TCP.
    pub(crate) is_tcp: bool,
    /// Transaction ID.
    pub(crate) id: u16,
    /// Name in lower case, type and class, as in the message.
    pub(crate) question: &'a [u8],
}

/// The set, and the fingerprint and client tag of an entry.
type Slot = (usize, u64);

/// The table. Receive queues share it, because a query may come to another queue than its response.
/// Two threads that write a slot at the same time lose one query, whose answer then counts as
/// unasked.
#[derive(Debug)]
pub struct QueryTable {
    entries: Box<[AtomicU64]>,
    hash: KeyedHash,
}

impl QueryTable {
    /// Creates a table of at least `queries` queries. `seed` must be secret, so that no attacker can
    /// choose questions that share a fingerprint.
    #[must_use]
    pub fn new(queries: usize, seed: u64) -> Self {
        let count = queries.div_ceil(WAYS).max(1) * WAYS;
        Self {
            entries: (0..count).map(|_| AtomicU64::new(0)).collect(),
            hash: KeyedHash::new(seed),
        }
    }

    /// Remembers a query. In a full set it replaces the oldest one of the client that has the most
    /// there, so that a client that sends many queries loses its own.
    pub(crate) fn insert(&self, query: &Query<'_>, time_ns: i64) {
        let (set, tags) = self.slot(query);
        let now = ticks(time_ns);
        let entries = &self.entries[set..set + WAYS];
        let words: [u64; WAYS] = std::array::from_fn(|way| entries[way].load(Ordering::Relaxed));
        let client = |word: u64| (word >> CLIENT_SHIFT) as u8;
        let age = |word: u64| age(word, now);
        let known = words.iter().position(|&word| word >> CLIENT_SHIFT == tags);
        let free = || words.iter().position(|&w| w == 0 || age(w) > AGE_MAX);
        let way = known.or_else(free).unwrap_or_else(|| {
            let share = |word: u64| words.iter().filter(|&&w| client(w) == client(word)).count();
            let rank = |&way: &usize| (share(words[way]), age(words[way]));
            (0..WAYS).max_by_key(rank).unwrap_or(0)
        });
        entries[way].store(tags << CLIENT_SHIFT | u64::from(now), Ordering::Relaxed);
    }

    /// Whether the query that a response repeats was seen within the last 30 s.
    pub(crate) fn has(&self, query: &Query<'_>, time_ns: i64) -> bool {
        let (set, tags) = self.slot(query);
        let now = ticks(time_ns);
        self.entries[set..set + WAYS].iter().any(|entry| {
            let word = entry.load(Ordering::Relaxed);
            word >> CLIENT_SHIFT == tags && age(word, now) <= AGE_MAX
        })
    }

    /// The first entry of the set of a query, and its fingerprint with the tag of its client.
    fn slot(&self, query: &Query<'_>) -> Slot {
        let [client, server] = query.addresses;
        let question = u128::from(self.hash.hash_bytes(query.question));
        let [client_port, server_port] = query.ports.map(u128::from);
        let rest = question
            | client_port << 64
            | server_port << 80
            | u128::from(query.id) << 96
            | u128::from(query.is_tcp) << 112;
        let digest = self.hash.digest(&[client, server, rest]);
        let mut client_hash = [0];
        self.hash.hash(&[client], &mut client_hash);
        let sets = self.entries.len() / WAYS;
        let set = ((u64::from(digest as u32) * sets as u64) >> 32) as usize * WAYS;
        let fingerprint = (digest >> 64) as u64 >> FINGERPRINT_SHIFT;
        // Never 0, which is an empty slot.
        let tags = fingerprint.max(1) << (FINGERPRINT_SHIFT - CLIENT_SHIFT)
            | client_hash[0] & u64::from(u8::MAX);
        (set, tags)
    }

    /// Its memory in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.entries)
    }
}

fn ticks(time_ns: i64) -> u16 {
    (time_ns >> TIME_SHIFT) as u16
}

/// Units of time since a query, or until it if the packets are not in order.
fn age(word: u64, now: u16) -> u16 {
    now.wrapping_sub(word as u16).cast_signed().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn query(client: u128, id: u16) -> Query<'static> {
        Query {
            addresses: [client, 53],
            ports: [4000, 53],
            is_tcp: false,
            id,
            question: b"\x01a\x07example\0\0\x01\0\x01",
        }
    }

    #[test]
    fn only_what_repeats_the_whole_query_answers_it() {
        let table = QueryTable::new(64, 1);
        let asked = query(1, 7);
        table.insert(&asked, SECOND);
        assert!(table.has(&asked, SECOND));
        assert!(table.has(&asked, 30 * SECOND));
        assert!(!table.has(&asked, 40 * SECOND));
        let others = [
            query(2, 7),
            query(1, 8),
            Query {
                addresses: [1, 54],
                ..asked
            },
            Query {
                ports: [4001, 53],
                ..asked
            },
            Query {
                is_tcp: true,
                ..asked
            },
            Query {
                question: b"\x01b\x07example\0\0\x01\0\x01",
                ..asked
            },
        ];
        for other in others {
            assert!(!table.has(&other, SECOND), "{other:?}");
        }
    }

    #[test]
    fn client_with_many_queries_pushes_out_its_own() {
        let table = QueryTable::new(1024, 1);
        for client in 10..110 {
            table.insert(&query(client, 1), 0);
        }
        for id in 0..u16::MAX {
            table.insert(&query(1, id), SECOND);
        }
        let left = (10..110)
            .filter(|&client| table.has(&query(client, 1), SECOND))
            .count();
        // Two clients have the same tag with a probability of 1/256.
        assert!(left >= 98, "{left}");
    }
}
