//! Registers threads with DPDK, which did not start them: only registered threads have mempool caches.

use super::shim;

/// Registration of the calling thread, until the thread ends.
struct Registration;

thread_local! {
    static REGISTRATION: Option<Registration> = {
        // SAFETY: any thread may register while the EAL runs; callers of `register` hold the EAL.
        let is_registered = unsafe { shim::flowatch_dpdk_register_thread() } != 0;
        is_registered.then_some(Registration)
    };
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: called on the registered thread; DPDK ignores this for threads of its own. The EAL
        // may have ended already, but thread IDs are in the library's static memory.
        unsafe { shim::flowatch_dpdk_unregister_thread() };
    }
}

/// Registers the calling thread, if it is not registered. If DPDK has no free thread ID, the thread
/// works more slowly, without mempool caches.
pub(super) fn register() {
    REGISTRATION.with(|_| {});
}
