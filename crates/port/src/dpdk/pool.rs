//! Mempools of frame buffers.

use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::eal::Eal;
use super::shim::{self, Mempool};
use crate::frame::PortError;

/// A mempool of buffers of one size. Freed on drop; by then all its buffers must be returned or out of
/// use.
#[derive(Debug)]
pub(super) struct Pool {
    pool: NonNull<Mempool>,
    _eal: Eal,
}

// SAFETY: a mempool is thread-safe.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

/// Maximum size of a thread's mempool cache.
pub(super) fn cache_max() -> u32 {
    // SAFETY: returns a constant.
    unsafe { shim::flowatch_dpdk_cache_max() }
}

impl Pool {
    /// Creates a pool of `buffers` buffers on a NUMA node (negative: any).
    pub(super) fn new(eal: &Eal, buffers: u32, socket: i32) -> Result<Self, PortError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = CString::new(format!("flowatch-{number}")).unwrap_or_default();
        // DPDK requires a cache of at most two thirds of the pool.
        let cache = cache_max().min(buffers / 2);
        let mut error = 0;
        // SAFETY: the EAL runs; the name is NUL-terminated and copied.
        let pool = unsafe {
            shim::flowatch_dpdk_make_pool(name.as_ptr(), buffers, cache, socket, &raw mut error)
        };
        match NonNull::new(pool) {
            Some(pool) => Ok(Self {
                pool,
                _eal: eal.clone(),
            }),
            None => Err(PortError::Failed(format!(
                "DPDK has no memory for a pool of {buffers} buffers ({} MiB): {}; use more memory (-- -m MIB) or a \
                 smaller --pool-size",
                (u64::from(buffers) * 2432) >> 20,
                std::io::Error::from_raw_os_error(error),
            ))),
        }
    }

    pub(super) fn as_ptr(&self) -> *mut Mempool {
        self.pool.as_ptr()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the shim created the pool, and no user of it is left.
        unsafe { shim::flowatch_dpdk_free_pool(self.pool.as_ptr()) };
    }
}
