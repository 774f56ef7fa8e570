//! Keeps the rings of a memif mapped while they are read or written.
//!
//! When a peer disconnects, the memif driver unmaps its rings on DPDK's interrupt thread, even while
//! another thread reads them. While a [`RingGuard`] lives, the interrupt thread does so only between
//! two bursts (of callers that pass `guarded` to the shim).

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use super::eal::Eal;
use super::shim;

/// Number of guards.
static GUARDS: Mutex<usize> = Mutex::new(0);

/// Held by a device whose driver unmaps rings of a peer, until the device is closed.
#[derive(Debug)]
pub(super) struct RingGuard {
    /// The EAL that runs the interrupt thread.
    _eal: Eal,
}

impl RingGuard {
    /// Creates a guard.
    ///
    /// # Errors
    /// A negative error number.
    pub(super) fn new(eal: &Eal) -> Result<Self, c_int> {
        let mut guards = GUARDS.lock().unwrap_or_else(PoisonError::into_inner);
        if *guards == 0 {
            // SAFETY: the EAL runs, and the lock excludes concurrent calls.
            let result = unsafe { shim::flowatch_dpdk_guard_rings() };
            if result != 0 {
                return Err(result);
            }
        }
        *guards += 1;
        Ok(Self { _eal: eal.clone() })
    }
}

impl Drop for RingGuard {
    fn drop(&mut self) {
        let mut guards = GUARDS.lock().unwrap_or_else(PoisonError::into_inner);
        *guards -= 1;
        // SAFETY: guarding was started, the EAL still runs, and the lock excludes concurrent calls.
        if *guards == 0 && unsafe { shim::flowatch_dpdk_unguard_rings() } != 0 {
            // Guarding continues: count it, so that the next guard does not start it again.
            *guards += 1;
        }
    }
}
