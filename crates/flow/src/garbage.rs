//! Split garbage collection: every T/M, a fraction F/M of the table is swept for expired flows, never
//! the whole table at once (DPDKStat, section on the split garbage collector).

use std::ops::Range;
use std::time::Duration;

/// How often, and in how large parts, the table is swept for expired flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GarbageSchedule {
    /// T: the time in which `fraction` of the table is swept. T/F is at most
    /// [`GarbageSchedule::ROUND_MAX`].
    pub period: Duration,
    /// M: the number of parts of a period.
    pub parts: u32,
    /// F: the fraction of the table that one period covers, above 0 and at most 1.
    pub fraction: f64,
}

impl GarbageSchedule {
    /// The maximum time for a sweep of the whole table.
    pub const ROUND_MAX: Duration = Duration::from_secs(24 * 3600);

    /// The time that a sweep of the whole table takes.
    #[must_use]
    pub fn round(&self) -> Duration {
        self.period.div_f64(self.fraction.clamp(1e-6, 1.0))
    }
}

impl Default for GarbageSchedule {
    fn default() -> Self {
        Self {
            period: Duration::from_secs(10),
            parts: 10_000,
            fraction: 1.0,
        }
    }
}

/// Decides which slots to sweep next as the meter's clock advances.
#[derive(Clone, Debug)]
pub struct GarbageCollector {
    part_ns: u64,
    /// Fraction of the table in one part.
    part_fraction: f64,
    cursor: u32,
    last_ms: u32,
    elapsed_ns: u64,
    /// Slots that are due but not swept yet; at most the size of the table.
    pending: u32,
    /// How far the clock has advanced since slots became pending.
    pending_for_ms: u32,
}

/// How far the clock may advance before all pending slots are swept at once.
///
/// The clock wraps, and the age of a flow is the difference of two of its readings, so an age must stay
/// below half of the range. One burst may advance the clock by 2048 million ms and a round may take
/// 86 million ms, which leaves little room for slots that stay pending.
const PENDING_MS_MAX: u32 = 1 << 23;

/// The maximum number of slots swept per call when the sweep is behind, unless a part is larger.
///
/// A jump of the clock makes the whole table due. Sweeping it a little at a time keeps bursts from
/// waiting: if every one of these slots holds an expired flow, writing their records takes some 100 µs,
/// and a receive ring of 4096 descriptors lasts 275 µs at 14.88 Mpps.
pub const CATCH_UP_SLOTS: u32 = 1024;

impl GarbageCollector {
    /// Creates a collector that follows `schedule`.
    #[must_use]
    pub fn new(schedule: &GarbageSchedule) -> Self {
        let parts = schedule.parts.max(1);
        Self {
            part_ns: (schedule.period.as_nanos() as u64 / u64::from(parts)).max(1),
            part_fraction: schedule.fraction.clamp(0.0, 1.0) / f64::from(parts),
            cursor: 0,
            last_ms: 0,
            elapsed_ns: 0,
            pending: 0,
            pending_for_ms: 0,
        }
    }

    /// Returns the slots to sweep at `clock_ms` in a table of `slots` slots, as up to two ranges.
    ///
    /// Together they have at most one part or [`CATCH_UP_SLOTS`], whichever is larger, even after a
    /// jump of the clock. The rest stays pending for later calls.
    #[inline]
    pub fn due(&mut self, clock_ms: u32, slots: u32) -> [Range<u32>; 2] {
        let passed_ms = clock_ms.wrapping_sub(self.last_ms);
        if passed_ms == 0 && self.pending == 0 {
            return [0..0, 0..0];
        }
        self.last_ms = clock_ms;
        self.elapsed_ns += u64::from(passed_ms) * 1_000_000;
        let parts = self.elapsed_ns / self.part_ns;
        self.elapsed_ns %= self.part_ns;
        let part_slots = (f64::from(slots) * self.part_fraction).ceil().max(1.0) as u64;
        let due = parts
            .saturating_mul(part_slots)
            .saturating_add(u64::from(self.pending))
            .min(u64::from(slots));
        let most = if self.pending_for_ms.saturating_add(passed_ms) > PENDING_MS_MAX {
            due
        } else {
            part_slots.max(u64::from(CATCH_UP_SLOTS))
        };
        let count = due.min(most) as u32;
        self.pending = due as u32 - count;
        self.pending_for_ms = match self.pending {
            0 => 0,
            _ => self.pending_for_ms.saturating_add(passed_ms),
        };
        let start = self.cursor.min(slots);
        let first = start..start.saturating_add(count).min(slots);
        let second = 0..count - first.len() as u32;
        self.cursor = if first.end < slots {
            first.end
        } else {
            second.end
        };
        [first, second]
    }

    /// Returns whether slots are due that have not been swept.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.pending > 0
    }

    /// Returns whether these ranges reach the end of the table, after which a new round begins.
    #[must_use]
    pub fn is_end_of_round(ranges: &[Range<u32>; 2], slots: u32) -> bool {
        ranges[0].end == slots && !ranges[0].is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sweeps_part_by_part_and_a_clock_jump_sweeps_the_table_once() {
        let schedule = GarbageSchedule {
            period: Duration::from_secs(5),
            parts: 100,
            fraction: 1.0,
        };
        let mut garbage = GarbageCollector::new(&schedule);
        assert_eq!(garbage.due(49, 1000), [0..0, 0..0]);
        assert_eq!(garbage.due(50, 1000), [0..10, 0..0]);
        assert_eq!(garbage.due(5049, 1000), [10..1000, 0..0]);
        assert_eq!(garbage.due(1 << 31, 1000), [0..1000, 0..0]);
    }

    #[test]
    fn a_clock_jump_is_caught_up_in_small_steps_and_only_once() {
        const SLOTS: u32 = 1_000_000;
        let mut garbage = GarbageCollector::new(&GarbageSchedule::default());
        let mut swept = 0;
        for call in 0..SLOTS / CATCH_UP_SLOTS + 1 {
            // The clock jumps by its maximum step, then stands still.
            let ranges = garbage.due(crate::PacketClock::STEP_MS_MAX, SLOTS);
            let count: usize = ranges.iter().map(ExactSizeIterator::len).sum();
            assert!(count <= CATCH_UP_SLOTS as usize, "call {call}");
            swept += count;
        }
        assert_eq!(swept, SLOTS as usize);
        assert!(!garbage.is_behind());
        assert_eq!(
            garbage.due(crate::PacketClock::STEP_MS_MAX, SLOTS),
            [0..0, 0..0]
        );
        // A second jump while slots are pending sweeps all of them before ages can wrap.
        let twice = 2 * crate::PacketClock::STEP_MS_MAX;
        let first: usize = garbage
            .due(twice, SLOTS)
            .iter()
            .map(ExactSizeIterator::len)
            .sum();
        assert_eq!(first, CATCH_UP_SLOTS as usize);
        let third = 3 * crate::PacketClock::STEP_MS_MAX;
        let rest: usize = garbage
            .due(third, SLOTS)
            .iter()
            .map(ExactSizeIterator::len)
            .sum();
        assert_eq!(rest, SLOTS as usize);
    }

    proptest! {
        #[test]
        fn every_slot_is_swept_within_two_periods(
            slots in 1u32..5000, parts in 1u32..200, steps in prop::collection::vec(1u32..40, 200..300)
        ) {
            let schedule = GarbageSchedule { period: Duration::from_secs(1), parts, fraction: 1.0 };
            let mut garbage = GarbageCollector::new(&schedule);
            let mut last_seen = vec![0u32; slots as usize];
            let mut clock = 0;
            for step in steps {
                clock += step;
                let ranges = garbage.due(clock, slots);
                prop_assert!(ranges.iter().map(ExactSizeIterator::len).sum::<usize>() <= slots as usize);
                for slot in ranges.into_iter().flatten() {
                    last_seen[slot as usize] = clock;
                }
                prop_assert!(last_seen.iter().all(|seen| clock - seen <= 2000));
            }
        }
    }
}
