//! Hashes of flow keys: the keyed one that is the default, and those that the FloWatcher paper
//! compares (section on hash functions).
//!
//! Every hash is a function of the 16 bytes of a table key and comes in two forms: the 32 bits that
//! the function is known for ([`FlowHash::hash32_burst`]), by which experiments judge it, and 64
//! bits that a table can take any part of ([`FlowHash::hash_burst`]). Where a function has only 32,
//! the 64 are [`spread`] from them: no collision is added and none is mended.

mod add;
mod crc32c;
mod keyed;
mod murmur3;
mod spooky;
mod spread;
mod toeplitz;
mod xor;

pub use spread::{fmix32, spread};

use std::fmt;
use std::str::FromStr;
use toeplitz::KeyToeplitz;
use wire::FlowKey;

/// The hash that a key is which is nothing else.
#[inline(always)]
fn carried(key: u128) -> u32 {
    ((key >> 32) as u32).swap_bytes()
}

/// Which hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HashKind {
    /// Three AES rounds under a secret seed: nobody outside can choose keys that collide.
    #[default]
    Keyed,
    /// Receive-side scaling's hash of addresses and ports, with Microsoft's key.
    Toeplitz,
    /// The same with the key 0x6d5a repeated: both directions alike. It has 16 bits of entropy and
    /// merges flows in tables that trust it; it is here to be measured, and to steer queues.
    SymmetricToeplitz,
    /// The sum of the fields.
    Add,
    /// The exclusive or of the fields.
    Xor,
    /// CRC32C.
    Crc32c,
    /// Murmur3, the variant x86_32.
    Murmur3,
    /// Spooky, version 2, for short messages.
    Spooky,
}

impl HashKind {
    /// Every hash, the default first.
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

    /// Its name on the command line.
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

/// A name that is no hash's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no hash is called `{name}`: there are {}", HashKind::ALL.map(HashKind::name).join(", "))]
pub struct UnknownHash {
    /// The name that was given.
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

/// A hash, made ready for bursts of table keys (see [`wire::FlowKey::compact`]).
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
    /// The key is a hash already.
    Hashes,
}

/// Why a symmetric key's hash cannot be a flow's identity.
pub const SYMMETRIC_IS_NO_IDENTITY: &str = "a symmetric RSS key leaves 16 bits of entropy in the hash: it steers \
     packets to queues, and as a flow's identity it would merge nearly all flows";

/// Keys whose 32-bit hashes are made together before they are spread.
const CHUNK: usize = 64;

impl FlowHash {
    /// The hash `kind`. `seed` is the keyed hash's secret, the others ignore it: they are what the
    /// paper measured, and what devices compute.
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

    /// For keys that are hashes already (see [`wire::FlowKey::compact_hash`]): [`spread`] of them.
    #[must_use]
    pub fn of_hashes() -> Self {
        Self(Function::Hashes)
    }

    /// The RSS key with which a device makes the same 32 bits for TCP and UDP over IPv4.
    #[must_use]
    pub fn rss_key(&self) -> Option<&'static [u8]> {
        match &self.0 {
            Function::Toeplitz(function) => Some(function.rss_key()),
            _ => None,
        }
    }

    /// The 64-bit hash of each key: its halves, and the lowest 16 bits, each serve as an index.
    ///
    /// # Panics
    /// When the slices differ in length.
    pub fn hash_burst(&self, keys: &[u128], hashes: &mut [u64]) {
        assert_eq!(keys.len(), hashes.len());
        match &self.0 {
            Function::Keyed(function) => keyed::hash(function, keys, hashes),
            Function::Spooky => each(keys, hashes, spooky::hash64),
            Function::Murmur3 => each(keys, hashes, |key| spread(murmur3::hash(key))),
            Function::Add => each(keys, hashes, |key| spread(add::hash(key))),
            Function::Xor => each(keys, hashes, |key| spread(xor::hash(key))),
            Function::Hashes => each(keys, hashes, |key| spread(carried(key))),
            Function::Toeplitz(_) | Function::Crc32c => {
                let mut narrow = [0; CHUNK];
                for (keys, hashes) in keys.chunks(CHUNK).zip(hashes.chunks_mut(CHUNK)) {
                    let narrow = &mut narrow[..keys.len()];
                    self.hash32_burst(keys, narrow);
                    for (hash, &narrow) in hashes.iter_mut().zip(&*narrow) {
                        *hash = spread(narrow);
                    }
                }
            }
        }
    }

    /// The 64-bit hash of one key.
    #[must_use]
    pub fn hash_one(&self, key: u128) -> u64 {
        let mut hash = [0];
        self.hash_burst(&[key], &mut hash);
        hash[0]
    }

    /// The function's own 32 bits for each key, nothing done to them (of a 64-bit hash the lower
    /// half): what the paper's tables index and compare.
    ///
    /// # Panics
    /// When the slices differ in length.
    pub fn hash32_burst(&self, keys: &[u128], hashes: &mut [u32]) {
        assert_eq!(keys.len(), hashes.len());
        match &self.0 {
            Function::Keyed(function) => {
                let mut wide = [0; CHUNK];
                for (keys, hashes) in keys.chunks(CHUNK).zip(hashes.chunks_mut(CHUNK)) {
                    let wide = &mut wide[..keys.len()];
                    keyed::hash(function, keys, wide);
                    for (hash, &wide) in hashes.iter_mut().zip(&*wide) {
                        *hash = wide as u32;
                    }
                }
            }
            Function::Toeplitz(function) => function.hash(keys, hashes),
            Function::Add => each(keys, hashes, add::hash),
            Function::Xor => each(keys, hashes, xor::hash),
            Function::Hashes => each(keys, hashes, carried),
            Function::Crc32c => crc32c::hash(keys, hashes),
            Function::Murmur3 => each(keys, hashes, murmur3::hash),
            Function::Spooky => each(keys, hashes, |key| spooky::hash64(key) as u32),
        }
    }

    /// The function's own 32 bits for keys that do not fit 16 bytes, and their digests: Toeplitz
    /// covers addresses and ports as a device does, the others the digest.
    ///
    /// # Panics
    /// When the slices differ in length.
    pub fn hash32_wide_burst(&self, digests: &[u128], keys: &[FlowKey], hashes: &mut [u32]) {
        assert!(digests.len() == hashes.len() && keys.len() == hashes.len());
        match &self.0 {
            Function::Toeplitz(function) => function.hash_wide(keys, hashes),
            _ => self.hash32_burst(digests, hashes),
        }
    }
}

#[inline(always)]
fn each<H>(keys: &[u128], hashes: &mut [H], function: impl Fn(u128) -> H) {
    for (hash, &key) in hashes.iter_mut().zip(keys) {
        *hash = function(key);
    }
}
