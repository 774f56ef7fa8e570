//! The default: a hash with a secret seed, so that an outsider cannot flood one bucket.

use hw::hash::KeyedHash;

/// Computes the 64-bit hash of each key.
pub(super) fn hash(function: &KeyedHash, keys: &[u128], hashes: &mut [u64]) {
    function.hash(keys, hashes);
}
