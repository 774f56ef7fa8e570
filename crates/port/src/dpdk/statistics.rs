//! Counters of a device, accumulated over resets.

use super::shim;

/// Counters of a device, in the order of [`shim::flowatch_dpdk_statistics`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DeviceStatistics {
    /// Frames received.
    pub(super) received: u64,
    /// Bytes received.
    pub(super) received_bytes: u64,
    /// Frames dropped because the receive queue was full.
    pub(super) missed: u64,
    /// Frames with receive errors.
    pub(super) errors: u64,
    /// Frames dropped because no buffer was free.
    pub(super) no_buffer: u64,
    /// Frames sent.
    pub(super) sent: u64,
    /// Bytes sent.
    pub(super) sent_bytes: u64,
    /// Frames with transmit errors.
    pub(super) send_errors: u64,
}

const COUNTS: usize = 8;

/// Accumulates the counters of a device that may read 0 for some time (a memif without a peer) or be
/// reset (some devices on restart).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CounterAccumulator {
    last: [u64; COUNTS],
    total: [u64; COUNTS],
}

impl CounterAccumulator {
    /// Starts at the port's current counters.
    pub(super) fn new(port: u16) -> Self {
        Self {
            last: read_counters(port).unwrap_or_default(),
            total: [0; COUNTS],
        }
    }

    /// Reads the port's counters and returns the totals since the start.
    pub(super) fn update(&mut self, port: u16) -> DeviceStatistics {
        // If the device returns an error, the last values stand.
        if let Some(now) = read_counters(port) {
            self.add(now);
        }
        self.totals()
    }

    fn add(&mut self, now: [u64; COUNTS]) {
        for ((sum, last), now) in self.total.iter_mut().zip(&mut self.last).zip(now) {
            // Counters not available. After a reset, a later value is less than the last.
            if now == 0 {
                continue;
            }
            *sum += if now >= *last { now - *last } else { now };
            *last = now;
        }
    }

    pub(super) fn totals(&self) -> DeviceStatistics {
        let [
            received,
            received_bytes,
            missed,
            errors,
            no_buffer,
            sent,
            sent_bytes,
            send_errors,
        ] = self.total;
        DeviceStatistics {
            received,
            received_bytes,
            missed,
            errors,
            no_buffer,
            sent,
            sent_bytes,
            send_errors,
        }
    }
}

fn read_counters(port: u16) -> Option<[u64; COUNTS]> {
    let mut counts = [0; COUNTS];
    // SAFETY: the array has the number of counters that the shim writes.
    let result = unsafe { shim::flowatch_dpdk_statistics(port, counts.as_mut_ptr()) };
    (result == 0).then_some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_survive_missing_and_reset_counters() {
        let mut counting = CounterAccumulator::default();
        let at = |received, missed| {
            let mut counts = [0; COUNTS];
            (counts[0], counts[2]) = (received, missed);
            counts
        };
        for counts in [at(10, 3), at(15, 3), at(0, 0), at(18, 0), at(20, 2)] {
            counting.add(counts);
        }
        let sums = counting.totals();
        assert_eq!((sums.received, sums.missed), (20, 5));
    }
}
