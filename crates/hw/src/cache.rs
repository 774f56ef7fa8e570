//! Sending memory out of the caches, for measurements of what cold memory costs.

/// A cache line of x86-64.
pub const LINE: usize = 64;

/// Writes the lines of `bytes` back to memory and drops them from every cache, so that the next
/// read of them comes from memory. Where the processor has no such instruction, nothing is done,
/// and the result says so.
pub fn flush(bytes: &[u8]) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let mut offset = 0;
        while offset < bytes.len() {
            // SAFETY: the address lies within `bytes`, and a flush changes no memory; CLFLUSH is
            // part of SSE2, which every x86-64 has.
            unsafe { core::arch::x86_64::_mm_clflush(bytes.as_ptr().add(offset)) };
            offset += LINE;
        }
        if let Some(last) = bytes.last() {
            // SAFETY: as above; the last byte may lie on a line of its own.
            unsafe { core::arch::x86_64::_mm_clflush(core::ptr::from_ref(last)) };
        }
        true
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = bytes;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_changes_no_byte() {
        let bytes: Vec<u8> = (0..=255).collect();
        flush(&bytes[3..200]);
        flush(&[]);
        assert!(bytes.iter().copied().eq(0..=255));
    }
}
