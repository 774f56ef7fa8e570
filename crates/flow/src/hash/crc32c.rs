//! CRC32C of the whole key (RFC 3720, appendix B.4). It is fast and well distributed on real keys, but
//! linear, so an outsider can compute colliding keys.

/// Computes the CRC32C of each key's 16 bytes.
pub(super) fn hash(keys: &[u128], hashes: &mut [u32]) {
    hw::crc32c::hash(keys, hashes);
}
