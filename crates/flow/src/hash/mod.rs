//! Hashes of flow keys: the default keyed hash, and those that the FloWatcher paper compares (section
//! on hash functions).
//!
//! Every hash is a function of the 16 bytes of a table key, in two forms: the function's own 32 bits
//! ([`FlowHash::hash32_burst`]), by which experiments compare it, and 64 bits of which a table can use
//! any part ([`FlowHash::hash_burst`]). If a function has only 32 bits, the 64 bits are [`spread()`] from
//! them, which neither adds nor removes collisions.

mod add;
mod crc32c;
mod each;
mod keyed;
mod murmur3;
mod spooky;
mod spread;
mod toeplitz;
mod xor;

pub use spread::{fmix32, spread};

use each::hash_each;
use std::fmt;
use std::str::FromStr;
use toeplitz::KeyToeplitz;
use wire::FlowKey;

/// Returns the hash in a key that consists of a hash.
#[inline]
fn hash_in_key(key: u128) -> u32 {
    ((key >> 32) as u32).swap_bytes()
}

/// The kind of hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HashKind {
    /// Three AES rounds with a secret seed, so that an outsider cannot choose colliding keys.
    #[default]
    Keyed,
    /// The RSS hash of addresses and ports, with Microsoft's key.
    Toeplitz,
    /// The RSS hash with the key 0x6d5a repeated, the same for both directions. It has 16 bits of
    /// entropy and merges flows in tables that identify flows by hash. It serves to be measured, and
    /// to select queues.
    SymmetricToeplitz,
    /// The sum of the fields.
    Add,
    /// The XOR of the fields.
    Xor,
    /// CRC32C.
    Crc32c,
    /// Murmur3, the variant x86_32.
    Murmur3,
    /// Spooky, version 2, for short messages.
    Spooky,
}

impl HashKind {
    /// All hashes, the default first.
    pub const ALL: [Self; 8] = [
        Self::Keyed,
        Self::Toeplitz,
        Self::SymmetricToeplitz,
        Self::Add,
        Self::Xor,
        Self::Crc32c,
        Self::Murmur3,
        Self::Spooky,
    ];

    /// Returns the name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Keyed => "keyed",
            Self::Toeplitz => "toeplitz",
            Self::SymmetricToeplitz => "symmetric-toeplitz",
            Self::Add => "add",
            Self::Xor => "xor",
            Self::Crc32c => "crc32c",
            Self::Murmur3 => "murmur3",
            Self::Spooky => "spooky",
        }
    }
}

impl fmt::Display for HashKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is not the name of a hash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown hash `{name}`: expected one of {}", HashKind::ALL.map(HashKind::name).join(", "))]
pub struct UnknownHash {
    /// The unknown name.
    pub name: String,
}

impl FromStr for HashKind {
    type Err = UnknownHash;

    fn from_str(name: &str) -> Result<Self, UnknownHash> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownHash {
                name: name.to_owned(),
            })
    }
}

/// A hash function for bursts of table keys (see [`wire::FlowKey::compact`]).
#[derive(Clone, Debug)]
pub struct FlowHash(Function);

#[derive(Clone, Debug)]
enum Function {
    Keyed(hw::hash::KeyedHash),
    Toeplitz(Box<KeyToeplitz>),
    Add,
    Xor,
    Crc32c,
    Murmur3,
    Spooky,
    /// The key is already a hash.
    Precomputed,
}

/// Why a hash with a symmetric key cannot identify flows.
pub const SYMMETRIC_HASH_NOT_UNIQUE: &str = "with a symmetric RSS key, the hash has 16 bits of entropy: it can \
     select a queue, but nearly all flows would merge if it identified them";

/// The number of keys whose 32-bit hashes are computed together before they are spread.
const CHUNK_KEYS: usize = 64;

impl FlowHash {
    /// Creates the hash `kind`. `seed` is the secret of the keyed hash. The others ignore it, to stay
    /// as the paper measured them and as devices compute them.
    #[must_use]
    pub fn new(kind: HashKind, seed: u64) -> Self {
        Self(match kind {
            HashKind::Keyed => Function::Keyed(hw::hash::KeyedHash::new(seed)),
            HashKind::Toeplitz => Function::Toeplitz(Box::new(KeyToeplitz::microsoft())),
            HashKind::SymmetricToeplitz => Function::Toeplitz(Box::new(KeyToeplitz::symmetric())),
            HashKind::Add => Function::Add,
            HashKind::Xor => Function::Xor,
            HashKind::Crc32c => Function::Crc32c,
            HashKind::Murmur3 => Function::Murmur3,
            HashKind::Spooky => Function::Spooky,
        })
    }

    /// Creates the hash for keys that are hashes already (see [`wire::FlowKey::compact_hash`]). It only
    /// applies [`spread()`].
    #[must_use]
    pub fn precomputed() -> Self {
        Self(Function::Precomputed)
    }

    /// Returns the RSS key with which a device computes the same 32 bits for TCP and UDP over IPv4;
    /// `None` for hashes that devices do not compute.
    #[must_use]
    pub fn rss_key(&self) -> Option<&'static [u8]> {
        match &self.0 {
            Function::Toeplitz(function) => Some(function.rss_key()),
            _ => None,
        }
    }

    /// Computes the 64-bit hash of each key. Each half, and the lowest 16 bits, can serve as an index.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn hash_burst(&self, keys: &[u128], hashes: &mut [u64]) {
        assert_eq!(keys.len(), hashes.len());
        match &self.0 {
            Function::Keyed(function) => keyed::hash(function, keys, hashes),
            Function::Spooky => hash_each(keys, hashes, spooky::hash64),
            Function::Murmur3 => hash_each(keys, hashes, |key| spread(murmur3::hash(key))),
            Function::Add => hash_each(keys, hashes, |key| spread(add::hash(key))),
            Function::Xor => hash_each(keys, hashes, |key| spread(xor::hash(key))),
            Function::Precomputed => hash_each(keys, hashes, |key| spread(hash_in_key(key))),
            Function::Toeplitz(_) | Function::Crc32c => {
                let mut narrow = [0; CHUNK_KEYS];
                for (keys, hashes) in keys.chunks(CHUNK_KEYS).zip(hashes.chunks_mut(CHUNK_KEYS)) {
                    let narrow = &mut narrow[..keys.len()];
                    self.hash32_burst(keys, narrow);
                    for (hash, &narrow) in hashes.iter_mut().zip(&*narrow) {
                        *hash = spread(narrow);
                    }
                }
            }
        }
    }

    /// Returns the 64-bit hash of one key.
    #[must_use]
    pub fn hash_one(&self, key: u128) -> u64 {
        let mut hash = [0];
        self.hash_burst(&[key], &mut hash);
        hash[0]
    }

    /// Computes the function's own 32 bits for each key, unchanged (the lower half of a 64-bit hash).
    /// The paper's tables index and compare these.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn hash32_burst(&self, keys: &[u128], hashes: &mut [u32]) {
        assert_eq!(keys.len(), hashes.len());
        match &self.0 {
            Function::Keyed(function) => {
                let mut wide = [0; CHUNK_KEYS];
                for (keys, hashes) in keys.chunks(CHUNK_KEYS).zip(hashes.chunks_mut(CHUNK_KEYS)) {
                    let wide = &mut wide[..keys.len()];
                    keyed::hash(function, keys, wide);
                    for (hash, &wide) in hashes.iter_mut().zip(&*wide) {
                        *hash = wide as u32;
                    }
                }
            }
            Function::Toeplitz(function) => function.hash(keys, hashes),
            Function::Add => hash_each(keys, hashes, add::hash),
            Function::Xor => hash_each(keys, hashes, xor::hash),
            Function::Precomputed => hash_each(keys, hashes, hash_in_key),
            Function::Crc32c => crc32c::hash(keys, hashes),
            Function::Murmur3 => hash_each(keys, hashes, murmur3::hash),
            Function::Spooky => hash_each(keys, hashes, |key| spooky::hash64(key) as u32),
        }
    }

    /// Computes the function's own 32 bits for keys that do not fit 16 bytes. Toeplitz covers addresses
    /// and ports, as a device does; the others cover the digest.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn hash32_wide_burst(&self, digests: &[u128], keys: &[FlowKey], hashes: &mut [u32]) {
        assert!(digests.len() == hashes.len() && keys.len() == hashes.len());
        match &self.0 {
            Function::Toeplitz(function) => function.hash_wide(keys, hashes),
            _ => self.hash32_burst(digests, hashes),
        }
    }
}
