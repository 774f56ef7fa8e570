//! When the next packet is due, in fixed point.

use crate::rate::Rate;

/// Binary places of a time: it is kept in units of 2^-64 ticks.
const PLACES: u32 = 64;

/// Times of packets at a rate, in ticks after the start.
///
/// The time of a packet is a sum of intervals that are right to 2^-64 ticks each (to 2^-46, where
/// bytes count), so that after a month at 100 Mpps it is off by less than a thousandth of a tick.
#[derive(Clone, Debug)]
pub struct Schedule {
    per_packet: u128,
    per_byte: u128,
    next: u128,
    /// Packets in a tick, by the mean length: for counting how many are due, not for their times.
    packets_per_tick: f64,
}

impl Schedule {
    /// Packets at `rate`, the first at once, on a clock of so many ticks a second. `mean_length` (of
    /// frames, without the check sequence) says how many are due where bits set the pace.
    #[must_use]
    pub fn new(rate: Rate, ticks_per_second: u64, mean_length: f64) -> Self {
        let (per_packet, per_byte) = rate.intervals(ticks_per_second);
        Self {
            per_packet,
            per_byte,
            next: 0,
            packets_per_tick: rate.packets_per_second(mean_length) / ticks_per_second as f64,
        }
    }

    /// When the next packet is due, rounded up: not before.
    #[inline]
    #[must_use]
    pub fn next_ticks(&self) -> u64 {
        let whole = (self.next >> PLACES) as u64;
        whole.saturating_add(u64::from(self.next as u64 != 0))
    }

    /// Packets that are due `elapsed` ticks after the start: exactly, where packets set the pace.
    #[inline]
    #[must_use]
    pub fn due(&self, elapsed: u64) -> u64 {
        let next = self.next_ticks();
        if elapsed < next {
            return 0;
        }
        ((elapsed - next) as f64 * self.packets_per_tick) as u64 + 1
    }

    /// How late the packet after so many others is, in ticks.
    #[inline]
    #[must_use]
    pub fn lateness(&self, elapsed: u64, others: u64) -> u64 {
        let behind = elapsed.saturating_sub(self.next_ticks());
        let before = (others as f64 / self.packets_per_tick) as u64;
        behind.saturating_sub(before)
    }

    /// So many packets of so many bytes have had their turn.
    #[inline]
    pub fn advance(&mut self, packets: u64, bytes: u64) {
        let step = self
            .per_packet
            .saturating_mul(u128::from(packets))
            .saturating_add(self.per_byte.saturating_mul(u128::from(bytes)));
        self.next = self.next.saturating_add(step);
    }

    /// Packets in so many ticks.
    #[must_use]
    pub fn packets_in(&self, ticks: u64) -> f64 {
        ticks as f64 * self.packets_per_tick
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::{Layer, RateSpec};
    use proptest::prelude::*;

    fn rate(text: &str) -> Rate {
        text.parse::<RateSpec>().unwrap().resolve(None).unwrap()
    }

    #[test]
    fn times_are_exact_over_days() {
        // 14.88 Mpps on a clock of 2.595123457 GHz for ten days: packet n is due at n * f / r.
        let (ticks, packets) = (2_595_123_457u64, 14_880_000u64);
        let mut schedule = Schedule::new(rate("14.88Mpps"), ticks, 60.0);
        let mut sent = 0u64;
        for step in [1u64, 255, 1_000_003, packets * 3600, packets * 864_000] {
            schedule.advance(step, step * 60);
            sent += step;
            let exact = (u128::from(sent) * u128::from(ticks)).div_ceil(u128::from(packets));
            assert_eq!(u128::from(schedule.next_ticks()), exact, "after {sent}");
        }
    }

    #[test]
    fn bits_set_the_pace_by_what_was_sent() {
        // 10 Gbit/s at layer 1, in nanoseconds: 0.8 a byte.
        let mut schedule = Schedule::new(rate("10Gbps"), 1_000_000_000, 500.0);
        for _ in 0..1000 {
            schedule.advance(2, 60 + 1514);
        }
        assert_eq!(schedule.next_ticks(), (84 + 1538) * 8 * 100);
        assert_eq!(Rate::Bits(1, Layer::One).intervals(1).1 >> 64, 8_000_000);
    }

    proptest! {
        #[test]
        fn what_is_due_is_never_early(
            pps in 1u64..200_000_000, ticks in 1_000_000_000u64..5_000_000_000, elapsed in 0u64..1 << 40,
            sent in 0u64..1 << 20,
        ) {
            let mut schedule = Schedule::new(Rate::Packets(u128::from(pps) * 1_000_000), ticks, 60.0);
            schedule.advance(sent, 0);
            let due = schedule.due(elapsed);
            if due > 0 {
                // The last of them is due by now, but for what a double rounds.
                let last = u128::from(sent + due - 1) * u128::from(ticks) / u128::from(pps);
                prop_assert!(last <= u128::from(elapsed) + u128::from(ticks / pps / 1000 + 1));
            } else {
                let next = u128::from(sent) * u128::from(ticks) / u128::from(pps);
                prop_assert!(next + 1 >= u128::from(elapsed));
            }
        }
    }
}
