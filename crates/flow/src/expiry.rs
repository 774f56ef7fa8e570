//! When flows end: idle timeout, active timeout, and the end of TCP connections.

use crate::batch::{BURST, Packet};
use crate::clock::PacketClock;
use crate::end_reason::EndReason;
use crate::ended::initiator_direction;
use crate::entry::{Entry, FlowEntry};
use std::time::Duration;
use wire::tcp::flag::{ACK, FIN, RST, SYN};

/// The timeouts, as configured. `None` means no timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// A flow ends after more than this time without a packet.
    pub idle: Option<Duration>,
    /// A flow ends when it has lasted this long. Its next packet starts a new record.
    pub active: Option<Duration>,
    /// A TCP flow that both sides closed, or that was reset, ends after this time without a packet, or
    /// when a SYN opens a new connection on the same ports. `None`: closed flows time out like any
    /// other, but their end reason says that they were closed.
    pub tcp_close: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            idle: Some(Duration::from_secs(15)),
            active: Some(Duration::from_secs(30 * 60)),
            tcp_close: None,
        }
    }
}

impl Timeouts {
    /// The maximum for any timeout. The meter's clock counts a jump as only slightly more than this.
    pub const MAX: Duration = Duration::from_secs(2 * 3600);

    /// No timeouts: flows last until the input ends.
    pub const NONE: Self = Self {
        idle: None,
        active: None,
        tcp_close: None,
    };
}

const _: () = {
    assert!(Timeouts::MAX.as_millis() < PacketClock::STEP_MS_MAX as u128);
    assert!((PacketClock::STEP_MS_MAX as u64) * (BURST as u64) < u32::MAX as u64 / 2);
};

/// Decides from a flow's entry and the clock alone whether the flow has ended. If TCP is analysed,
/// [`Evidence`] decides whether a flow that its flags show as closed is.
///
/// The check runs when a packet of the flow arrives and when the sweep reaches the flow. Once a flow
/// has ended, the result never changes, so records do not depend on the time of the sweep.
#[derive(Clone, Debug)]
pub struct Expiry {
    idle_ms: u32,
    active_ms: u32,
    close_ms: u32,
    /// Without a longer silence, only the active timeout ends a flow.
    min_silence_ms: u32,
    /// Active timeouts are stored in ticks of 2^`tick_shift` ms, so that they fit 16 bits.
    tick_shift: u32,
    active: bool,
    /// A flow is (a direction of) one TCP connection.
    connections: bool,
    /// A SYN on the ports of a closed connection starts a new flow.
    reopens: bool,
    /// Both directions are in one flow, so two FINs are needed to close it.
    both_directions: bool,
}

impl Expiry {
    /// Creates the rules for `timeouts`.
    ///
    /// `connections`: a flow is (a direction of) one TCP connection, so FIN and RST end it.
    #[must_use]
    pub fn new(timeouts: &Timeouts, connections: bool, both_directions: bool) -> Self {
        let ms = |duration: Option<Duration>| {
            duration.map_or(u32::MAX, |duration| {
                duration.min(Timeouts::MAX).as_millis() as u32
            })
        };
        let (idle_ms, active_ms) = (ms(timeouts.idle), ms(timeouts.active));
        let reopens = connections && timeouts.tcp_close.is_some();
        let close_ms = if reopens {
            ms(timeouts.tcp_close).min(idle_ms)
        } else {
            idle_ms
        };
        let active = timeouts.active.is_some();
        let tick_shift = if active {
            (u32::BITS - (active_ms >> 13).leading_zeros()).min(31)
        } else {
            0
        };
        Self {
            idle_ms,
            active_ms,
            close_ms,
            min_silence_ms: close_ms.min(idle_ms).min(active_ms),
            tick_shift,
            active,
            connections,
            reopens,
            both_directions,
        }
    }

    /// Returns rules by which no flow ends.
    #[must_use]
    pub fn never() -> Self {
        Self::new(&Timeouts::NONE, false, false)
    }

    /// Returns the direction of the initiator of a flow that begins with `packet`.
    #[inline]
    #[must_use]
    pub fn initiator(&self, packet: &Packet) -> u8 {
        initiator_direction(packet, self.both_directions)
    }

    /// Returns the tick at which the active timeout of a flow that starts at `clock_ms` expires.
    #[inline]
    #[must_use]
    pub fn active_tick(&self, clock_ms: u32) -> u16 {
        let deadline = clock_ms.wrapping_add(self.active_ms);
        // Rounded up: a flow is never cut too early, and lasts at most 1/4096 too long.
        (deadline.wrapping_add((1 << self.tick_shift) - 1) >> self.tick_shift) as u16
    }

    /// Returns the quick check for packets with clock readings from `earliest_ms` to `latest_ms`.
    #[inline]
    #[must_use]
    pub fn quick_check(&self, earliest_ms: u32, latest_ms: u32) -> QuickCheck {
        // Ticks have 16 bits. If the clock leaps by a good part of their range, every packet needs the
        // full check.
        const LEAP_TICKS: u32 = 1 << 12;
        let leaps = latest_ms.wrapping_sub(earliest_ms) >> self.tick_shift >= LEAP_TICKS;
        let (flags_mask, flags_value) = match (leaps, self.reopens) {
            // Matches every packet.
            (true, _) => (0, 0),
            (false, true) => (SYN | ACK, SYN),
            // Matches no packet.
            (false, false) => (0, SYN),
        };
        QuickCheck {
            min_silence_ms: self.min_silence_ms,
            tick: (latest_ms >> self.tick_shift) as u16,
            sign_bit: if self.active { 1 << 15 } else { 0 },
            flags_mask,
            flags_value,
            checks_flags: leaps || self.reopens,
        }
    }

    /// Returns why the flow of `entry` has ended before `packet`, if it has. The packet then belongs to
    /// a new flow.
    #[inline]
    #[must_use]
    pub fn ended_before(&self, entry: &Entry, packet: &Packet) -> Option<EndReason> {
        self.ended_before_with(
            self.quick_check(packet.clock_ms, packet.clock_ms),
            entry,
            packet,
        )
    }

    /// Does the same as [`Expiry::ended_before`] with a prepared [`Expiry::quick_check`].
    #[inline]
    #[must_use]
    pub fn ended_before_with(
        &self,
        quick_check: QuickCheck,
        entry: &Entry,
        packet: &Packet,
    ) -> Option<EndReason> {
        if quick_check.may_have_ended(entry, packet) {
            return self.ended_before_slow(entry, packet);
        }
        None
    }

    #[inline(never)]
    fn ended_before_slow(&self, entry: &Entry, packet: &Packet) -> Option<EndReason> {
        self.ended_before_knowing(entry, packet, Evidence::default())
    }

    /// Does the same as [`Expiry::ended_before`] with what an analysis knows of the connection.
    #[must_use]
    pub fn ended_before_knowing(
        &self,
        entry: &Entry,
        packet: &Packet,
        evidence: Evidence,
    ) -> Option<EndReason> {
        let opens = packet.tcp_flags & (SYN | ACK) == SYN && self.reopens && !evidence.is_known_syn;
        self.ended_knowing(entry, packet.clock_ms, evidence)
            .or_else(|| self.closed(entry, evidence).filter(|_| opens))
    }

    /// Returns why the flow has ended by `clock_ms`, if it has.
    #[inline]
    #[must_use]
    pub fn ended(&self, entry: &Entry, clock_ms: u32) -> Option<EndReason> {
        self.ended_knowing(entry, clock_ms, Evidence::default())
    }

    /// Does the same as [`Expiry::ended`] with what an analysis knows of the connection.
    #[inline]
    #[must_use]
    pub fn ended_knowing(
        &self,
        entry: &Entry,
        clock_ms: u32,
        evidence: Evidence,
    ) -> Option<EndReason> {
        let silence_ms = clock_ms.wrapping_sub(entry.last_clock_ms());
        if silence_ms <= self.min_silence_ms && !self.is_past_active(entry, clock_ms) {
            return None;
        }
        let (limit_ms, reason) = match self.closed(entry, evidence) {
            Some(reason) => (self.close_ms, reason),
            None => (self.idle_ms, EndReason::IdleTimeout),
        };
        // Both timeouts may have passed: the reason is the one that expired first, so it does not
        // depend on the time of the check.
        let active_after_ms = self.active_timeout_after_ms(entry);
        if active_after_ms <= limit_ms {
            (silence_ms >= active_after_ms).then_some(EndReason::ActiveTimeout)
        } else {
            (silence_ms > limit_ms).then_some(reason)
        }
    }

    /// Returns the end reason of a flow that is still in the table when the input ends at `clock_ms`.
    #[must_use]
    pub fn ended_at_end(&self, entry: &Entry, clock_ms: u32) -> EndReason {
        self.ended_at_end_knowing(entry, clock_ms, Evidence::default())
    }

    /// Does the same as [`Expiry::ended_at_end`] with what an analysis knows of the connection.
    #[must_use]
    pub fn ended_at_end_knowing(
        &self,
        entry: &Entry,
        clock_ms: u32,
        evidence: Evidence,
    ) -> EndReason {
        self.ended_knowing(entry, clock_ms, evidence)
            .or_else(|| self.closed(entry, evidence))
            .unwrap_or(EndReason::EndOfInput)
    }

    #[inline]
    fn is_past_active(&self, entry: &Entry, clock_ms: u32) -> bool {
        let tick = (clock_ms >> self.tick_shift) as u16;
        self.active && tick.wrapping_sub(entry.active_tick()).cast_signed() >= 0
    }

    /// Returns the time from the last packet to the active timeout.
    fn active_timeout_after_ms(&self, entry: &Entry) -> u32 {
        if !self.active {
            return u32::MAX;
        }
        let last = entry.last_clock_ms();
        let ticks = entry
            .active_tick()
            .wrapping_sub((last >> self.tick_shift) as u16);
        (u32::from(ticks) << self.tick_shift).wrapping_sub(last & ((1 << self.tick_shift) - 1))
    }

    fn closed(&self, entry: &Entry, evidence: Evidence) -> Option<EndReason> {
        let [first, second] = entry.tcp_flags();
        let finished = if self.both_directions {
            first & second
        } else {
            first | second
        };
        if !self.connections {
            None
        } else if (first | second) & RST != 0 && !evidence.refuses_resets {
            Some(EndReason::TcpReset)
        } else if finished & FIN != 0 {
            Some(EndReason::TcpFin)
        } else {
            None
        }
    }
}

/// What an analysis of TCP knows of a connection, and an entry with its flags does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// No reset was accepted by the side that it was sent to.
    pub refuses_resets: bool,
    /// The packet is a SYN of the connection itself: retransmitted, copied or late.
    pub is_known_syn: bool,
}

/// A cheap check that rules out, for nearly all packets, that their flow has ended.
#[derive(Clone, Copy, Debug)]
pub struct QuickCheck {
    min_silence_ms: u32,
    /// The tick of the latest packet.
    tick: u16,
    /// The sign bit of a tick difference; 0 without an active timeout.
    sign_bit: u16,
    /// A packet whose TCP flags, masked by `flags_mask`, equal `flags_value` needs the full check.
    flags_mask: u8,
    flags_value: u8,
    checks_flags: bool,
}

impl QuickCheck {
    /// Returns whether the flow may have ended before `packet`, so that the full check is needed.
    #[inline]
    pub(crate) fn may_have_ended(self, entry: &Entry, packet: &Packet) -> bool {
        let silence_ms = packet.clock_ms.wrapping_sub(entry.last_clock_ms());
        let before_active = self.tick.wrapping_sub(entry.active_tick());
        silence_ms > self.min_silence_ms
            || !before_active & self.sign_bit != 0
            || self.checks_flags && flags_match(packet.tcp_flags, self.flags_mask, self.flags_value)
    }
}

/// Returns whether the TCP flags call for the full check.
///
/// Not inlined: most configurations do not check flags, and inlined it would add instructions for every
/// packet.
#[inline(never)]
fn flags_match(tcp_flags: u8, mask: u8, value: u8) -> bool {
    tcp_flags & mask == value
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(expiry: &Expiry, packets: &[Packet]) -> Entry {
        let mut entry = Entry::default();
        for (index, packet) in packets.iter().enumerate() {
            if index == 0 {
                entry.open(1, packet, expiry.active_tick(packet.clock_ms));
            } else {
                entry.count::<true>(packet);
            }
        }
        entry
    }

    fn at(clock_ms: u32, tcp_flags: u8, direction: u8) -> Packet {
        Packet {
            clock_ms,
            tcp_flags,
            direction,
            ..Packet::default()
        }
    }

    #[test]
    fn silence_longer_than_the_idle_timeout_ends_a_flow() {
        let expiry = Expiry::new(&Timeouts::default(), true, true);
        let entry = entry(&expiry, &[at(5, 0, 0), at(100, 0, 1)]);
        assert_eq!(expiry.ended_before(&entry, &at(15_100, 0, 0)), None);
        assert_eq!(
            expiry.ended_before(&entry, &at(15_101, 0, 0)),
            Some(EndReason::IdleTimeout)
        );
        assert_eq!(expiry.ended_at_end(&entry, 15_100), EndReason::EndOfInput);
    }

    #[test]
    fn an_active_timeout_below_eight_seconds_is_exact() {
        let timeouts = Timeouts {
            active: Some(Duration::from_millis(8000)),
            ..Timeouts::default()
        };
        let expiry = Expiry::new(&timeouts, true, true);
        let entry = entry(&expiry, &[at(77, 0, 0), at(3000, 0, 1)]);
        assert_eq!(expiry.ended(&entry, 8076), None);
        assert_eq!(expiry.ended(&entry, 8077), Some(EndReason::ActiveTimeout));
    }

    #[test]
    fn fins_of_both_sides_close_a_flow_and_the_next_syn_starts_a_new_one() {
        let timeouts = Timeouts {
            tcp_close: Some(Duration::from_secs(15)),
            ..Timeouts::default()
        };
        let expiry = Expiry::new(&timeouts, true, true);
        let one_side = entry(&expiry, &[at(1, SYN, 0), at(2, FIN | ACK, 1)]);
        assert_eq!(expiry.ended_before(&one_side, &at(3, SYN, 0)), None);
        let closed = entry(
            &expiry,
            &[at(1, SYN, 0), at(2, FIN | ACK, 1), at(3, FIN | ACK, 0)],
        );
        assert_eq!(expiry.ended_before(&closed, &at(4, ACK, 1)), None);
        assert_eq!(
            expiry.ended_before(&closed, &at(4, SYN, 0)),
            Some(EndReason::TcpFin)
        );
        assert_eq!(expiry.ended(&closed, 3 + 15_001), Some(EndReason::TcpFin));
        assert_eq!(expiry.ended_at_end(&closed, 5), EndReason::TcpFin);
        let reset = entry(&expiry, &[at(1, SYN, 0), at(2, RST, 1)]);
        assert_eq!(
            expiry.ended_before(&reset, &at(4, SYN, 0)),
            Some(EndReason::TcpReset)
        );
    }

    #[test]
    fn without_timeouts_flows_last_until_the_input_ends() {
        let expiry = Expiry::new(&Timeouts::NONE, true, true);
        let entry = entry(&expiry, &[at(1, FIN, 0), at(2, FIN | RST, 1)]);
        assert_eq!(expiry.ended_before(&entry, &at(u32::MAX, SYN, 0)), None);
        assert_eq!(expiry.ended_at_end(&entry, u32::MAX), EndReason::TcpReset);
    }

    fn durations() -> impl Strategy<Value = Option<Duration>> {
        prop_oneof![
            Just(None),
            (1u64..100_000).prop_map(|ms| Some(Duration::from_millis(ms)))
        ]
    }

    proptest! {
        /// Once a flow has ended, it stays ended with the same reason. This makes records independent
        /// of the time of the sweep.
        #[test]
        fn an_ended_flow_stays_ended_for_the_same_reason(
            idle in durations(), active in durations(), tcp_close in durations(), start: u32,
            steps in prop::collection::vec((0u32..50_000, prop::sample::select(vec![0, SYN, FIN, RST, ACK]), 0u8..2), 1..6),
            later in prop::collection::vec(0u32..200_000, 1..10),
            before in 0u32..100_000,
            after in prop_oneof![0u32..100_000, 0..u32::MAX / 2],
        ) {
            let expiry = Expiry::new(&Timeouts { idle, active, tcp_close }, true, true);
            let mut clock = start;
            let mut flow = Entry::default();
            for (index, (step, flags, direction)) in steps.into_iter().enumerate() {
                clock = clock.wrapping_add(step);
                let packet = at(clock, flags, direction);
                if index == 0 || expiry.ended_before(&flow, &packet).is_some() {
                    flow.open(1, &packet, expiry.active_tick(clock));
                } else {
                    flow.count::<true>(&packet);
                }
            }
            let mut reason = None;
            for step in later {
                clock = clock.wrapping_add(step);
                let ended = expiry.ended(&flow, clock);
                prop_assert!(reason.is_none() || ended == reason);
                let packet = at(clock, ACK, 0);
                prop_assert_eq!(ended, expiry.ended_before(&flow, &packet));
                let quick_check = expiry.quick_check(clock.wrapping_sub(before), clock.wrapping_add(after));
                prop_assert_eq!(ended, expiry.ended_before_with(quick_check, &flow, &packet));
                reason = ended;
            }
        }
    }
}
