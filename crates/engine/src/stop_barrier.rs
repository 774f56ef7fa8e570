//! A barrier for threads that read the same packets. When the run is stopped, they agree on the packet
//! to stop after: the last one that the fastest thread has read. Without it, the flows of one thread
//! would contain packets that the flows of another do not.

use std::sync::{Condvar, Mutex, PoisonError};

/// The point where all threads wait for each other when the run is stopped.
#[derive(Debug)]
pub(crate) struct StopBarrier {
    threads: usize,
    state: Mutex<BarrierState>,
    all_arrived: Condvar,
}

/// How many threads have arrived, and the most packets that any of them had read.
#[derive(Debug, Default)]
struct BarrierState {
    threads: usize,
    packets: u64,
}

impl StopBarrier {
    /// Creates a barrier for `threads` threads.
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            threads,
            state: Mutex::default(),
            all_arrived: Condvar::new(),
        }
    }

    /// Returns the ticket of one of the threads.
    pub(crate) const fn ticket(&self) -> StopTicket<'_> {
        StopTicket {
            barrier: self,
            has_arrived: false,
        }
    }

    fn arrive(&self, packets: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.threads += 1;
        state.packets = state.packets.max(packets);
        self.all_arrived.notify_all();
    }
}

/// The right of one thread to use the barrier. Dropping it counts as arriving, so that the other
/// threads never wait for a thread that has ended.
#[derive(Debug)]
pub(crate) struct StopTicket<'a> {
    barrier: &'a StopBarrier,
    has_arrived: bool,
}

impl StopTicket<'_> {
    /// Arrives without waiting: this thread has read `packets` packets and will read no more.
    pub(crate) fn arrive(&mut self, packets: u64) {
        if !std::mem::replace(&mut self.has_arrived, true) {
            self.barrier.arrive(packets);
        }
    }

    /// Arrives, having read `packets` packets, and waits for all other threads. Returns the number of
    /// packets after which to stop.
    pub(crate) fn wait_for_stop(&mut self, packets: u64) -> u64 {
        self.arrive(packets);
        let state = &self.barrier.state;
        let state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_incomplete = |state: &mut BarrierState| state.threads < self.barrier.threads;
        let state = self.barrier.all_arrived.wait_while(state, is_incomplete);
        state.unwrap_or_else(PoisonError::into_inner).packets
    }
}

impl Drop for StopTicket<'_> {
    fn drop(&mut self) {
        self.arrive(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_stop_after_the_packet_of_the_fastest() {
        let barrier = StopBarrier::new(4);
        let mut ended = barrier.ticket();
        ended.arrive(7);
        drop(barrier.ticket());
        std::thread::scope(|scope| {
            let stop = |packets| barrier.ticket().wait_for_stop(packets);
            let one = scope.spawn(move || stop(5));
            let other = scope.spawn(move || stop(9));
            assert_eq!(one.join().unwrap(), 9);
            assert_eq!(other.join().unwrap(), 9);
        });
    }
}
