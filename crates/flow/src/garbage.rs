//! Garbage collection, split: every T/M a share F/M of the table is looked at, never the whole at
//! once (DPDKStat, section on the split garbage collector).

use std::ops::Range;
use std::time::Duration;

/// How the table is looked through for flows that have ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GarbageSchedule {
    /// T: the time in which a share `fraction` of the table is looked at; T/F is at most
    /// [`GarbageSchedule::ROUND_MAX`].
    pub period: Duration,
    /// M: into how many parts a period is split.
    pub parts: u32,
    /// F: the share of the table that a period covers, above 0 and at most 1.
    pub fraction: f64,
}

impl GarbageSchedule {
    /// The longest that a round over the whole table may take.
    pub const ROUND_MAX: Duration = Duration::from_secs(24 * 3600);

    /// How long a round over the whole table takes.
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

/// Hands out the next slots to look at as the meter's clock moves.
#[derive(Clone, Debug)]
pub struct Garbage {
    part_ns: u64,
    /// Share of the table in a part.
    share: f64,
    cursor: u32,
    last_ms: u32,
    elapsed_ns: u64,
    /// Slots that are due and have not been looked at; at most the whole table once.
    owed: u32,
    /// How far the clock has moved since slots have been owed.
    owed_for_ms: u32,
}

/// How far the clock may move while slots are owed: then they are looked at, all of them. Ages are
/// differences of two readings of a clock that wraps; one burst may move it by 2048 million
/// milliseconds and a round take 86 million, so that little is left of the half of its range.
const OWED_MS_MAX: u32 = 1 << 23;

/// Slots that are looked at in one go where more than a part is due, if a part is less: what a jump of
/// the clock leaves is caught up on a little at a time, so that no burst waits for it. (Were all of
/// them flows that have ended, their records would take some 100 µs, and a receive ring of
/// 4096 lasts 275 µs at 14.88 Mpps.)
pub const CATCH_UP: u32 = 1024;

impl Garbage {
    /// By `schedule`.
    #[must_use]
    pub fn new(schedule: &GarbageSchedule) -> Self {
        let parts = schedule.parts.max(1);
        Self {
            part_ns: (schedule.period.as_nanos() as u64 / u64::from(parts)).max(1),
            share: schedule.fraction.clamp(0.0, 1.0) / f64::from(parts),
            cursor: 0,
            last_ms: 0,
            elapsed_ns: 0,
            owed: 0,
            owed_for_ms: 0,
        }
    }

    /// The slots to look at now, of the `slots` that there are: up to two ranges, together at most
    /// a part or [`CATCH_UP`], whichever is more, however far the clock has jumped; what is left is
    /// for the next time.
    #[inline]
    pub fn due(&mut self, clock_ms: u32, slots: u32) -> [Range<u32>; 2] {
        let passed_ms = clock_ms.wrapping_sub(self.last_ms);
        if passed_ms == 0 && self.owed == 0 {
            return [0..0, 0..0];
        }
        self.last_ms = clock_ms;
        self.elapsed_ns += u64::from(passed_ms) * 1_000_000;
        let parts = self.elapsed_ns / self.part_ns;
        self.elapsed_ns %= self.part_ns;
        let part_slots = (f64::from(slots) * self.share).ceil().max(1.0) as u64;
        let due = parts
            .saturating_mul(part_slots)
            .saturating_add(u64::from(self.owed))
            .min(u64::from(slots));
        let most = if self.owed_for_ms.saturating_add(passed_ms) > OWED_MS_MAX {
            due
        } else {
            part_slots.max(u64::from(CATCH_UP))
        };
        let count = due.min(most) as u32;
        self.owed = due as u32 - count;
        self.owed_for_ms = match self.owed {
            0 => 0,
            _ => self.owed_for_ms.saturating_add(passed_ms),
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

    /// Whether slots are due that have not been looked at.
    #[must_use]
    pub fn owes(&self) -> bool {
        self.owed > 0
    }

    /// Whether these ranges reach the end of the table, behind which a new round begins.
    #[must_use]
    pub fn ends_round(ranges: &[Range<u32>; 2], slots: u32) -> bool {
        ranges[0].end == slots && !ranges[0].is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_part_at_a_time_and_a_jump_is_one_sweep() {
        let schedule = GarbageSchedule {
            period: Duration::from_secs(5),
            parts: 100,
            fraction: 1.0,
        };
        let mut garbage = Garbage::new(&schedule);
        assert_eq!(garbage.due(49, 1000), [0..0, 0..0]);
        assert_eq!(garbage.due(50, 1000), [0..10, 0..0]);
        assert_eq!(garbage.due(5049, 1000), [10..1000, 0..0]);
        assert_eq!(garbage.due(1 << 31, 1000), [0..1000, 0..0]);
    }

    #[test]
    fn a_jump_is_caught_up_on_a_little_at_a_time_and_once() {
        const SLOTS: u32 = 1_000_000;
        let mut garbage = Garbage::new(&GarbageSchedule::default());
        let mut looked_at = 0;
        for call in 0..SLOTS / CATCH_UP + 1 {
            // The clock jumps as far as it ever counts, and then stands still.
            let ranges = garbage.due(crate::PacketClock::STEP_MS_MAX, SLOTS);
            let count: usize = ranges.iter().map(ExactSizeIterator::len).sum();
            assert!(count <= CATCH_UP as usize, "call {call}");
            looked_at += count;
        }
        assert_eq!(looked_at, SLOTS as usize);
        assert!(!garbage.owes());
        assert_eq!(
            garbage.due(crate::PacketClock::STEP_MS_MAX, SLOTS),
            [0..0, 0..0]
        );
        // A second jump while slots are owed: all of them, before ages can wrap.
        let twice = 2 * crate::PacketClock::STEP_MS_MAX;
        let first: usize = garbage
            .due(twice, SLOTS)
            .iter()
            .map(ExactSizeIterator::len)
            .sum();
        assert_eq!(first, CATCH_UP as usize);
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
        fn every_slot_is_looked_at_within_two_periods(
            slots in 1u32..5000, parts in 1u32..200, steps in prop::collection::vec(1u32..40, 200..300)
        ) {
            let schedule = GarbageSchedule { period: Duration::from_secs(1), parts, fraction: 1.0 };
            let mut garbage = Garbage::new(&schedule);
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
