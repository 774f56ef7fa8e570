//! Rings that stay where they are while they are read or sent on.
//!
//! The driver of memif takes the rings of a peer away when it leaves, on DPDK's interrupt thread, be
//! they read at that moment or not. While a [`Staying`] lives, that thread does so between two bursts
//! (of callers who say that the rings go with the peer).

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use super::eal::Eal;
use super::shim;

/// How many there are.
static HELD: Mutex<usize> = Mutex::new(0);

/// Held by a device whose rings go with its peer, until it is closed.
#[derive(Debug)]
pub(super) struct Staying {
    /// The layer whose thread it is.
    _eal: Eal,
}

impl Staying {
    /// From now on; a negative error number where it cannot be.
    pub(super) fn begin(eal: &Eal) -> Result<Self, c_int> {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        if *held == 0 {
            // SAFETY: the layer runs, and nobody else is told to begin or to end: the lock is held.
            let result = unsafe { shim::flowatch_dpdk_begin_staying() };
            if result != 0 {
                return Err(result);
            }
        }
        *held += 1;
        Ok(Self { _eal: eal.clone() })
    }
}

impl Drop for Staying {
    fn drop(&mut self) {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        *held -= 1;
        // SAFETY: as for the beginning; it was begun, and the layer still runs.
        if *held == 0 && unsafe { shim::flowatch_dpdk_end_staying() } != 0 {
            // It goes on, for whoever comes next.
            *held += 1;
        }
    }
}
