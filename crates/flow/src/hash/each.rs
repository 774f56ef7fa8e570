//! Hashing keys one by one.

/// Writes the hash of each key by `function`.
#[inline]
pub(super) fn hash_each<H>(keys: &[u128], hashes: &mut [H], function: impl Fn(u128) -> H) {
    for (hash, &key) in hashes.iter_mut().zip(keys) {
        *hash = function(key);
    }
}
