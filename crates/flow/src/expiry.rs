//! When a flow ends: idle and active time-outs, and the end of TCP connections.

use crate::batch::{BURST, Packet};
use crate::clock::PacketClock;
use crate::entry::{Entry, FlowEntry};
use crate::record::EndReason;
use std::time::Duration;
use wire::tcp::flag::{ACK, FIN, RST, SYN};

/// The time-outs as a user gives them; `None` for never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// A flow ends when no packet of it came for longer than this.
    pub idle: Option<Duration>,
    /// A flow ends when it has lasted this long; its next packet begins a new record.
    pub active: Option<Duration>,
    /// A TCP flow that both sides closed, or one reset, ends after this long without a packet, or
    /// when a SYN begins a new connection on its ports. `None`: it lasts as any other flow does, and
    /// its end reason tells that it was closed.
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
    /// No time-out is longer: the meter's clock counts a jump as at most a little more than this.
    pub const MAX: Duration = Duration::from_secs(2 * 3600);

    /// Flows last until the input ends.
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

/// Decides, from a flow's entry and the clock alone, whether the flow has ended.
///
/// The same question is asked when a packet arrives for a flow and when the sweep passes it, and
/// the answer, once yes, stays the same; so records do not depend on when the sweep passes.
#[derive(Clone, Debug)]
pub struct Expiry {
    idle_ms: u32,
    active_ms: u32,
    close_ms: u32,
    /// No flow ends before this silence, but by its active time-out.
    silence_ms_min: u32,
    /// The active time-out is told by ticks of 2^this ms, so that 16 bits hold it.
    tick_shift: u32,
    active: bool,
    /// A flow is (a direction of) one TCP connection.
    connections: bool,
    /// A SYN on the ports of a closed connection begins a new flow.
    reopens: bool,
    /// Both directions are in one flow: it takes two FINs to close.
    both_directions: bool,
}

impl Expiry {
    /// `connections`: a flow is (a direction of) one TCP connection, so its FIN and RST end it.
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
            silence_ms_min: close_ms.min(idle_ms).min(active_ms),
            tick_shift,
            active,
            connections,
            reopens,
            both_directions,
        }
    }

    /// The tick at which a flow that begins at `clock_ms` has lasted its active time-out.
    #[inline]
    #[must_use]
    pub fn active_tick(&self, clock_ms: u32) -> u16 {
        let deadline = clock_ms.wrapping_add(self.active_ms);
        // Rounded up: a flow is never cut short, and lasts at most 1/4096 too long.
        (deadline.wrapping_add((1 << self.tick_shift) - 1) >> self.tick_shift) as u16
    }

    /// What tells of packets from `earliest_ms` to `latest_ms` that their flows have not ended.
    #[inline]
    #[must_use]
    pub fn watch(&self, earliest_ms: u32, latest_ms: u32) -> Watch {
        // Ticks have 16 bits: where a clock leaps by a good part of their range, each packet is looked
        // at closely.
        const LEAP: u32 = 1 << 12;
        let leaps = latest_ms.wrapping_sub(earliest_ms) >> self.tick_shift >= LEAP;
        let (looked_at, opening) = match (leaps, self.reopens) {
            (true, _) => (0, 0),
            (false, true) => (SYN | ACK, SYN),
            // None of no flags is one.
            (false, false) => (0, SYN),
        };
        Watch {
            silence_ms_min: self.silence_ms_min,
            tick: (latest_ms >> self.tick_shift) as u16,
            sign: if self.active { 1 << 15 } else { 0 },
            looked_at,
            opening,
            looks: leaps || self.reopens,
        }
    }

    /// Whether `packet` must not be counted in `entry`, because the flow has ended before it.
    #[inline(always)]
    #[must_use]
    pub fn ended_before(&self, entry: &Entry, packet: &Packet) -> Option<EndReason> {
        self.ended_before_by(self.watch(packet.clock_ms, packet.clock_ms), entry, packet)
    }

    /// The same with a [`Expiry::watch`] at hand.
    #[inline(always)]
    #[must_use]
    pub fn ended_before_by(
        &self,
        watch: Watch,
        entry: &Entry,
        packet: &Packet,
    ) -> Option<EndReason> {
        if watch.may_have_ended(entry, packet) {
            return self.ended_before_rarely(entry, packet);
        }
        None
    }

    #[inline(never)]
    fn ended_before_rarely(&self, entry: &Entry, packet: &Packet) -> Option<EndReason> {
        let opens = packet.tcp_flags & (SYN | ACK) == SYN && self.reopens;
        self.ended(entry, packet.clock_ms)
            .or_else(|| self.closed(entry).filter(|_| opens))
    }

    /// Whether the flow has ended at `clock_ms`, and why.
    #[inline]
    #[must_use]
    pub fn ended(&self, entry: &Entry, clock_ms: u32) -> Option<EndReason> {
        let silence_ms = clock_ms.wrapping_sub(entry.last_clock_ms());
        if silence_ms <= self.silence_ms_min && !self.is_past_active(entry, clock_ms) {
            return None;
        }
        let (limit_ms, reason) = match self.closed(entry) {
            Some(reason) => (self.close_ms, reason),
            None => (self.idle_ms, EndReason::IdleTimeout),
        };
        // Two ways to end: the one that came first is the reason, whenever it is asked.
        let active_after_ms = self.active_after_ms(entry);
        if active_after_ms <= limit_ms {
            (silence_ms >= active_after_ms).then_some(EndReason::ActiveTimeout)
        } else {
            (silence_ms > limit_ms).then_some(reason)
        }
    }

    /// Why the flow ends with the input, at `clock_ms`.
    #[must_use]
    pub fn ended_at_end(&self, entry: &Entry, clock_ms: u32) -> EndReason {
        self.ended(entry, clock_ms)
            .or_else(|| self.closed(entry))
            .unwrap_or(EndReason::EndOfInput)
    }

    #[inline(always)]
    fn is_past_active(&self, entry: &Entry, clock_ms: u32) -> bool {
        let tick = (clock_ms >> self.tick_shift) as u16;
        self.active && tick.wrapping_sub(entry.active_tick()).cast_signed() >= 0
    }

    /// How long after the last packet the active time-out comes.
    fn active_after_ms(&self, entry: &Entry) -> u32 {
        if !self.active {
            return u32::MAX;
        }
        let last = entry.last_clock_ms();
        let ticks = entry
            .active_tick()
            .wrapping_sub((last >> self.tick_shift) as u16);
        (u32::from(ticks) << self.tick_shift).wrapping_sub(last & ((1 << self.tick_shift) - 1))
    }

    fn closed(&self, entry: &Entry) -> Option<EndReason> {
        let [first, second] = entry.tcp_flags();
        let finished = if self.both_directions {
            first & second
        } else {
            first | second
        };
        if !self.connections {
            None
        } else if (first | second) & RST != 0 {
            Some(EndReason::TcpReset)
        } else if finished & FIN != 0 {
            Some(EndReason::TcpFin)
        } else {
            None
        }
    }
}

/// Tells cheaply that a flow has not ended before a packet, as is nearly always so.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    silence_ms_min: u32,
    /// The tick of the latest packet.
    tick: u16,
    /// The bit that says whether a tick is past; none where there is no active time-out.
    sign: u16,
    /// TCP control bits that are looked at, and what they are where a connection is opened.
    looked_at: u8,
    opening: u8,
    looks: bool,
}

impl Watch {
    /// Whether that has to be looked at closely.
    #[inline(always)]
    pub(crate) fn may_have_ended(self, entry: &Entry, packet: &Packet) -> bool {
        let silence_ms = packet.clock_ms.wrapping_sub(entry.last_clock_ms());
        let before_active = self.tick.wrapping_sub(entry.active_tick());
        silence_ms > self.silence_ms_min
            || !before_active & self.sign != 0
            || self.looks && is_looked_at(packet.tcp_flags, self.looked_at, self.opening)
    }
}

/// Whether control bits open a connection, or are to be looked at in any case. (A call where that is
/// asked; otherwise the question would be part of every packet's instructions.)
#[inline(never)]
fn is_looked_at(tcp_flags: u8, looked_at: u8, opening: u8) -> bool {
    tcp_flags & looked_at == opening
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
    fn silence_longer_than_the_idle_time_out_ends_a_flow() {
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
    fn an_active_time_out_below_eight_seconds_is_exact() {
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
    fn fins_of_both_sides_close_and_the_next_syn_opens_anew() {
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
    fn without_time_outs_nothing_ends_before_the_input() {
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
        /// What makes records independent of the sweep: once ended, always ended, for one reason.
        #[test]
        fn an_answer_stays(
            idle in durations(), active in durations(), tcp_close in durations(), start: u32,
            steps in prop::collection::vec((0u32..50_000, prop::sample::select(vec![0, SYN, FIN, RST, ACK]), 0u8..2), 1..6),
            later in prop::collection::vec(0u32..200_000, 1..10),
            before in 0u32..100_000,
            behind in prop_oneof![0u32..100_000, 0..u32::MAX / 2],
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
                let answer = expiry.ended(&flow, clock);
                prop_assert!(reason.is_none() || answer == reason);
                let packet = at(clock, ACK, 0);
                prop_assert_eq!(answer, expiry.ended_before(&flow, &packet));
                let watch = expiry.watch(clock.wrapping_sub(before), clock.wrapping_add(behind));
                prop_assert_eq!(answer, expiry.ended_before_by(watch, &flow, &packet));
                reason = answer;
            }
        }
    }
}
