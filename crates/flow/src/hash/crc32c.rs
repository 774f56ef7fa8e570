//! CRC32C of the whole key (RFC 3720, appendix B.4). Fast, well spread on real keys; linear, so that
//! an outsider can compute keys that collide.

/// The CRC32C of each key's 16 bytes.
pub(super) fn hash(keys: &[u128], hashes: &mut [u32]) {
    hw::crc32c::hash(keys, hashes);
}
