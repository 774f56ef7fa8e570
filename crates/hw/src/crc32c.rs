//! CRC32C (Castagnoli) of 16-byte keys, by the CPU's instruction if it has one.

/// Writes the CRC32C of each key's 16 bytes, in little-endian order, to `hashes`.
///
/// # Panics
/// Panics if the slices differ in length.
pub fn hash(keys: &[u128], hashes: &mut [u32]) {
    assert_eq!(keys.len(), hashes.len());
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the CPU supports the function's target features.
        return unsafe { hash_sse42(keys, hashes) };
    }
    for (key, hash) in keys.iter().zip(hashes) {
        *hash = bytes(&key.to_le_bytes());
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn hash_sse42(keys: &[u128], hashes: &mut [u32]) {
    use core::arch::x86_64::_mm_crc32_u64;
    for (key, hash) in keys.iter().zip(hashes) {
        let low = _mm_crc32_u64(0xffff_ffff, *key as u64);
        *hash = !(_mm_crc32_u64(low, (*key >> 64) as u64) as u32);
    }
}

/// Returns the CRC32C of `bytes`, by table.
#[must_use]
pub fn bytes(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(0xffff_ffff, |crc: u32, &byte| {
        TABLE[((crc ^ u32::from(byte)) & 0xff) as usize] ^ crc >> 8
    })
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            // 0x82f63b78 is the polynomial 0x1edc6f41 with its bits reversed (RFC 3720, appendix B.4).
            crc = if crc & 1 == 1 {
                crc >> 1 ^ 0x82f6_3b78
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_gives_the_catalogued_check_value() {
        assert_eq!(bytes(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn instruction_agrees_with_table() {
        let keys: Vec<u128> = (0..100u128)
            .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834))
            .collect();
        let mut hashes = vec![0; keys.len()];
        hash(&keys, &mut hashes);
        for (key, hash) in keys.iter().zip(hashes) {
            assert_eq!(hash, bytes(&key.to_le_bytes()));
        }
    }
}
