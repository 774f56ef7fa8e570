//! Threads that read the same packets, each for flows of its own, stop behind the same packet: as far
//! as the first of them has come.

use std::sync::{Condvar, Mutex, PoisonError};

/// Where threads that are asked to stop wait for each other.
#[derive(Debug)]
pub(crate) struct Together {
    threads: usize,
    arrived: Mutex<Arrived>,
    all: Condvar,
}

/// How many threads have come to their end, and the most packets that one had read.
#[derive(Debug, Default)]
struct Arrived {
    threads: usize,
    packets: u64,
}

impl Together {
    /// For so many threads.
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            threads,
            arrived: Mutex::default(),
            all: Condvar::new(),
        }
    }

    /// The place of one of them.
    pub(crate) const fn attend(&self) -> Attendance<'_> {
        Attendance {
            together: self,
            has_arrived: false,
        }
    }

    fn arrive(&self, packets: u64) {
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        arrived.threads += 1;
        arrived.packets = arrived.packets.max(packets);
        self.all.notify_all();
    }
}

/// A thread among those that stop together. One that is dropped is waited for no longer.
#[derive(Debug)]
pub(crate) struct Attendance<'a> {
    together: &'a Together,
    has_arrived: bool,
}

impl Attendance<'_> {
    /// This thread has read all that it will read, so many packets.
    pub(crate) fn end(&mut self, packets: u64) {
        if !std::mem::replace(&mut self.has_arrived, true) {
            self.together.arrive(packets);
        }
    }

    /// This thread, which has read so many packets, is asked to stop: up to which packet it is to go on.
    pub(crate) fn stop_behind(&mut self, packets: u64) -> u64 {
        self.end(packets);
        let arrived = &self.together.arrived;
        let arrived = arrived.lock().unwrap_or_else(PoisonError::into_inner);
        let all = |arrived: &mut Arrived| arrived.threads < self.together.threads;
        let arrived = self.together.all.wait_while(arrived, all);
        arrived.unwrap_or_else(PoisonError::into_inner).packets
    }
}

impl Drop for Attendance<'_> {
    fn drop(&mut self) {
        self.end(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_go_on_to_where_the_first_is() {
        let together = Together::new(4);
        let mut ended = together.attend();
        ended.end(7);
        drop(together.attend());
        std::thread::scope(|scope| {
            let stop = |packets| together.attend().stop_behind(packets);
            let one = scope.spawn(move || stop(5));
            let other = scope.spawn(move || stop(9));
            assert_eq!(one.join().unwrap(), 9);
            assert_eq!(other.join().unwrap(), 9);
        });
    }
}
