//! Separates the receiver's own work from stalls of the machine.

/// Polls between two estimates of the usual cost of a packet.
const WINDOW: usize = 255;

/// Polls before the first estimate.
const WINDOW_FIRST: usize = 15;

/// Polls with fewer packets are not used for the estimate.
const PACKETS_MIN: u64 = 16;

/// A poll longer than this multiple of the usual cost of its packets may be a stall.
const USUAL_MAX: u64 = 8;

/// Before the first estimate, a stall lasts at least this many thresholds.
const UNKNOWN: u64 = 4;

/// The detected stalls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalled {
    /// Stalled polls.
    pub polls: u64,
    /// Total ticks by which they were clipped.
    pub ticks: u64,
    /// Ticks of the longest.
    pub worst: u64,
}

/// Clips polls that the machine stalled.
///
/// A poll is a stall when it lasts longer than the threshold **and** than eight times what its
/// packets usually cost (a median over the last polls): slow work is no stall. A stall counts as
/// the usual cost of its packets.
#[derive(Clone, Debug)]
pub(crate) struct Stalls {
    threshold: u64,
    /// Ticks per packet of the last polls, times 256.
    recent: Vec<u64>,
    usual: Option<u64>,
    pub(crate) stalled: Stalled,
}

impl Stalls {
    /// `threshold` is the shortest stall in ticks; `u64::MAX` clips nothing.
    pub(crate) fn new(threshold: u64) -> Self {
        Self {
            threshold,
            recent: Vec::with_capacity(WINDOW),
            usual: None,
            stalled: Stalled::default(),
        }
    }

    /// Returns the ticks to count for a poll of `ticks` with `packets`, and whether they are its own
    /// work.
    pub(crate) fn clip(&mut self, ticks: u64, packets: u64) -> (u64, bool) {
        let usual = self.usual.map(|cost| cost.saturating_mul(packets) >> 8);
        let limit = match usual {
            Some(usual) => self.threshold.max(usual.saturating_mul(USUAL_MAX)),
            None => self.threshold.saturating_mul(UNKNOWN),
        };
        if packets >= PACKETS_MIN {
            self.recent.push((ticks << 8) / packets);
            let window = match self.usual {
                None => WINDOW_FIRST,
                Some(_) => WINDOW,
            };
            if self.recent.len() == window {
                let middle = window / 2;
                self.usual = Some(*self.recent.select_nth_unstable(middle).1);
                self.recent.clear();
            }
        }
        if ticks <= limit {
            return (ticks, true);
        }
        let counted = usual.unwrap_or(self.threshold);
        self.stalled.polls += 1;
        self.stalled.ticks += ticks - counted;
        self.stalled.worst = self.stalled.worst.max(ticks);
        (counted, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stall_counts_as_the_usual_cost_of_its_packets() {
        let mut stalls = Stalls::new(30_000);
        for _ in 0..WINDOW {
            assert_eq!(stalls.clip(10_000, 256), (10_000, true));
        }
        assert_eq!(stalls.clip(29_999, 256), (29_999, true));
        assert_eq!(stalls.clip(1_000_000, 256), (10_000, false));
        assert_eq!(stalls.clip(500_000, 128), (5_000, false));
        let expected = Stalled {
            polls: 2,
            ticks: 990_000 + 495_000,
            worst: 1_000_000,
        };
        assert_eq!(stalls.stalled, expected);
    }

    #[test]
    fn slow_work_is_no_stall() {
        let mut stalls = Stalls::new(30_000);
        // Before the first estimate, slow polls may count as stalls.
        for _ in 0..WINDOW_FIRST {
            stalls.clip(200_000, 256);
        }
        for _ in 0..10 * WINDOW {
            assert_eq!(stalls.clip(200_000, 256), (200_000, true));
        }
        assert_eq!(stalls.clip(1_600_000, 256), (1_600_000, true));
        assert_eq!(stalls.clip(1_700_000, 256), (200_000, false));
    }

    #[test]
    fn without_a_threshold_nothing_is_clipped() {
        let mut stalls = Stalls::new(u64::MAX);
        for _ in 0..2 * WINDOW {
            assert_eq!(stalls.clip(10, 256), (10, true));
        }
        assert_eq!(stalls.clip(1 << 40, 256), (1 << 40, true));
    }
}
