//! Pools of buffers.

use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::eal::Eal;
use super::shim::{self, Mempool};
use crate::frame::PortError;

/// A pool of buffers, all of one size. Freed when nobody holds it; buffers of it must be back or
/// forgotten by then.
#[derive(Debug)]
pub(super) struct Pool {
    pool: NonNull<Mempool>,
    _eal: Eal,
}

// SAFETY: a pool may be used by several threads at a time.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

/// Buffers that a thread keeps at hand at most.
pub(super) fn cache_most() -> u32 {
    // SAFETY: a constant of the library.
    unsafe { shim::flowatch_dpdk_cache_most() }
}

impl Pool {
    /// A pool of so many buffers on a NUMA node (negative: any).
    pub(super) fn new(eal: &Eal, buffers: u32, socket: i32) -> Result<Self, PortError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = CString::new(format!("flowatch-{number}")).unwrap_or_default();
        // DPDK wants a cache of at most two thirds of the pool.
        let cache = cache_most().min(buffers / 2);
        let mut error = 0;
        // SAFETY: the EAL runs, the name is a string with its end, and is copied.
        let pool = unsafe {
            shim::flowatch_dpdk_make_pool(name.as_ptr(), buffers, cache, socket, &raw mut error)
        };
        match NonNull::new(pool) {
            Some(pool) => Ok(Self {
                pool,
                _eal: eal.clone(),
            }),
            None => Err(PortError::Failed(format!(
                "DPDK has no room for a pool of {buffers} buffers ({} MiB): {}; give more memory (-- -m MIB) or a \
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
        // SAFETY: the pool was made by the shim, and whoever used it is gone.
        unsafe { shim::flowatch_dpdk_free_pool(self.pool.as_ptr()) };
    }
}
