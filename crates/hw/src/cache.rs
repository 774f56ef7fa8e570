//! Flushing memory from the caches, for measurements of the cost of cold memory.

/// Bytes of a cache line on x86-64.
pub const LINE: usize = 64;

/// Flushes the cache lines of `bytes` from every cache, so that the next read goes to memory.
/// Returns `false`, having done nothing, on a CPU without such an instruction.
pub fn flush(bytes: &[u8]) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let mut offset = 0;
        while offset < bytes.len() {
            // SAFETY: the address is within `bytes`, and a flush changes no memory; CLFLUSH is
            // part of SSE2, which every x86-64 CPU has.
            unsafe { core::arch::x86_64::_mm_clflush(bytes.as_ptr().add(offset)) };
            offset += LINE;
        }
        if let Some(last) = bytes.last() {
            // SAFETY: as above; the last byte may be on a line of its own.
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
    fn flush_changes_no_byte() {
        let bytes: Vec<u8> = (0..=255).collect();
        flush(&bytes[3..200]);
        flush(&[]);
        assert!(bytes.iter().copied().eq(0..=255));
    }
}
