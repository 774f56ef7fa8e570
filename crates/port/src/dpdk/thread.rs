//! Threads that DPDK did not start, made known to it: only then do they have caches of the pools.

use super::shim;

/// The calling thread's number among DPDK's, given back when the thread ends.
struct Entered;

thread_local! {
    static ENTERED: Option<Entered> = {
        // SAFETY: any thread may ask, once the EAL runs, which who calls `enter` holds.
        let entered = unsafe { shim::flowatch_dpdk_enter_thread() } != 0;
        entered.then_some(Entered)
    };
}

impl Drop for Entered {
    fn drop(&mut self) {
        // SAFETY: of the thread that entered; DPDK ignores threads of its own. The layer may have ended
        // by now, but threads' numbers lie in the library's own memory, which stays.
        unsafe { shim::flowatch_dpdk_leave_thread() };
    }
}

/// Makes the calling thread known, if it is not. Where DPDK has no number left for it, it works
/// without caches, more slowly.
pub(super) fn enter() {
    ENTERED.with(|_| {});
}
