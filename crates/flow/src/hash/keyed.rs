//! The default: a hash under a secret seed, so that nobody outside can flood one bucket.

use hw::hash::KeyedHash;

/// The 64-bit hash of each key.
pub(super) fn hash(function: &KeyedHash, keys: &[u128], hashes: &mut [u64]) {
    function.hash(keys, hashes);
}
