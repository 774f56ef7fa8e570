//! Distributes flows over workers. The worker of a flow depends on its hash only.

/// Distributes flows over workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Steer {
    workers: u32,
}

impl Steer {
    /// Distributes flows over `workers` workers.
    #[must_use]
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            workers: workers.max(1) as u32,
        }
    }

    /// Returns whether there is only one worker.
    #[must_use]
    pub(crate) fn is_single(self) -> bool {
        self.workers == 1
    }

    /// Returns the worker of a flow. The hash is mixed again, so that the flows of one worker still spread
    /// over all buckets of its table.
    #[inline]
    #[must_use]
    pub(crate) fn worker(self, hash: u64) -> usize {
        let mixed = (hash ^ hash >> 29).wrapping_mul(0x9fb2_1c65_1e98_df25) >> 32;
        ((mixed * u64::from(self.workers)) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_get_equal_shares_of_64_bit_and_32_bit_hashes() {
        for workers in [1, 2, 3, 8] {
            let steer = Steer::new(workers);
            let mut counts = vec![0usize; workers];
            for number in 0..80_000u64 {
                counts[steer.worker(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))] += 1;
                counts[steer.worker((number * 2_654_435_761) & 0xffff_ffff)] += 1;
            }
            let mean = 160_000 / workers;
            assert!(
                counts.iter().all(|count| count.abs_diff(mean) < mean / 10),
                "{counts:?}"
            );
        }
    }
}
