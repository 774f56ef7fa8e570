//! What a device counts, over restarts of its counting.

use super::shim;

/// Counts of a device, as [`shim`] gives them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Statistics {
    /// Frames received, and their bytes.
    pub(super) received: u64,
    pub(super) received_bytes: u64,
    /// Frames that found the receive queue full.
    pub(super) missed: u64,
    /// Frames received damaged.
    pub(super) errors: u64,
    /// Frames for which there was no buffer.
    pub(super) no_buffer: u64,
    /// Frames sent, and their bytes.
    pub(super) sent: u64,
    pub(super) sent_bytes: u64,
    /// Frames that could not be sent.
    pub(super) send_errors: u64,
}

const COUNTS: usize = 8;

/// Adds up the counts of a device that may hide them (a memif shows 0 while it has no peer) or begin
/// again (some do when they are restarted).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counting {
    last: [u64; COUNTS],
    sum: [u64; COUNTS],
}

impl Counting {
    /// From what the port has counted so far.
    pub(super) fn begin(port: u16) -> Self {
        Self {
            last: read(port).unwrap_or_default(),
            sum: [0; COUNTS],
        }
    }

    /// The counts since the beginning.
    pub(super) fn update(&mut self, port: u16) -> Statistics {
        // Should the device not answer, the last answer stands.
        if let Some(now) = read(port) {
            self.add(now);
        }
        self.sums()
    }

    fn add(&mut self, now: [u64; COUNTS]) {
        for ((sum, last), now) in self.sum.iter_mut().zip(&mut self.last).zip(now) {
            // Hidden; should it have begun again, its next count is less than the last.
            if now == 0 {
                continue;
            }
            *sum += if now >= *last { now - *last } else { now };
            *last = now;
        }
    }

    pub(super) fn sums(&self) -> Statistics {
        let [
            received,
            received_bytes,
            missed,
            errors,
            no_buffer,
            sent,
            sent_bytes,
            send_errors,
        ] = self.sum;
        Statistics {
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

fn read(port: u16) -> Option<[u64; COUNTS]> {
    let mut counts = [0; COUNTS];
    // SAFETY: there is room for as many counts as the shim gives.
    let result = unsafe { shim::flowatch_dpdk_statistics(port, counts.as_mut_ptr()) };
    (result == 0).then_some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_hides_its_counts_or_begins_again_loses_none() {
        let mut counting = Counting::default();
        let at = |received, missed| {
            let mut counts = [0; COUNTS];
            (counts[0], counts[2]) = (received, missed);
            counts
        };
        for counts in [at(10, 3), at(15, 3), at(0, 0), at(18, 0), at(20, 2)] {
            counting.add(counts);
        }
        let sums = counting.sums();
        assert_eq!((sums.received, sums.missed), (20, 5));
    }
}
