//! When packets are due, in fixed-point arithmetic.

use crate::rate::Rate;

/// Fraction bits of a time: its unit is 2^-64 ticks.
const FRACTION_BITS: u32 = 64;

/// The times of packets at a constant rate, in ticks after the start.
///
/// The time of a packet is a sum of intervals, each with an error below 2^-64 ticks (2^-46 for rates
/// in bits), so that after a month at 100 Mpps the error is less than a thousandth of a tick.
#[derive(Clone, Debug)]
pub struct Schedule {
    per_packet: u128,
    per_byte: u128,
    next: u128,
    /// Packets per tick at the mean length. Only used to count the packets that are due, not for their
    /// times.
    packets_per_tick: f64,
}

impl Schedule {
    /// Creates a schedule at `rate` on a clock of `ticks_per_second`. The first packet is due at 0.
    /// `mean_length` is the mean frame length in bytes without the frame check sequence; it is used to
    /// estimate the number of packets due at a rate in bits per second.
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

    /// When the next packet is due, rounded up to whole ticks.
    #[inline]
    #[must_use]
    pub fn next_ticks(&self) -> u64 {
        let whole = (self.next >> FRACTION_BITS) as u64;
        whole.saturating_add(u64::from(self.next as u64 != 0))
    }

    /// The number of packets due `elapsed` ticks after the start: exact at a rate in packets per second,
    /// an estimate at a rate in bits per second.
    #[inline]
    #[must_use]
    pub fn due(&self, elapsed: u64) -> u64 {
        let next = self.next_ticks();
        if elapsed < next {
            return 0;
        }
        ((elapsed - next) as f64 * self.packets_per_tick) as u64 + 1
    }

    /// The lateness in ticks of the packet that follows the next `others` packets.
    #[inline]
    #[must_use]
    pub fn lateness(&self, elapsed: u64, others: u64) -> u64 {
        let late = elapsed.saturating_sub(self.next_ticks());
        let due_later = (others as f64 / self.packets_per_tick) as u64;
        late.saturating_sub(due_later)
    }

    /// Advances the schedule by `packets` packets with `bytes` bytes in total.
    #[inline]
    pub fn advance(&mut self, packets: u64, bytes: u64) {
        let step = self
            .per_packet
            .saturating_mul(u128::from(packets))
            .saturating_add(self.per_byte.saturating_mul(u128::from(bytes)));
        self.next = self.next.saturating_add(step);
    }

    /// The number of packets in `ticks` ticks.
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
    fn bit_rate_depends_on_frame_lengths() {
        // 10 Gbit/s at layer 1: 0.8 ns per byte.
        let mut schedule = Schedule::new(rate("10Gbps"), 1_000_000_000, 500.0);
        for _ in 0..1000 {
            schedule.advance(2, 60 + 1514);
        }
        assert_eq!(schedule.next_ticks(), (84 + 1538) * 8 * 100);
        assert_eq!(Rate::Bits(1, Layer::One).intervals(1).1 >> 64, 8_000_000);
    }

    proptest! {
        #[test]
        fn due_packets_are_never_early(
            pps in 1u64..200_000_000, ticks in 1_000_000_000u64..5_000_000_000, elapsed in 0u64..1 << 40,
            sent in 0u64..1 << 20,
        ) {
            let mut schedule = Schedule::new(Rate::Packets(u128::from(pps) * 1_000_000), ticks, 60.0);
            schedule.advance(sent, 0);
            let due = schedule.due(elapsed);
            if due > 0 {
                // The last packet is due by now, except for the rounding error of f64.
                let last = u128::from(sent + due - 1) * u128::from(ticks) / u128::from(pps);
                prop_assert!(last <= u128::from(elapsed) + u128::from(ticks / pps / 1000 + 1));
            } else {
                let next = u128::from(sent) * u128::from(ticks) / u128::from(pps);
                prop_assert!(next + 1 >= u128::from(elapsed));
            }
        }
    }
}
