//! What one side of a TCP flow does.

use super::rare::RarePool;
use super::rtt::{RoundTrips, Smoothed};
use super::sent::after;
use super::span::Nanoseconds;
use super::{DUPLICATES, TcpSide, limit, mark};
use wire::Segment;
use wire::segment::seen;
use wire::tcp::flag::SYN;

/// The largest window scale (RFC 7323 section 2.3).
const WINDOW_SCALE_MAX: u8 = 14;

impl TcpSide {
    /// Sends the SYN that opens a connection. One that was answered counts no more.
    pub(super) fn ask(&mut self, peer: &mut Self, time_ns: i64) {
        if (self.marks | peer.marks) & mark::HANDSHAKE == 0 {
            self.handshake = Nanoseconds::at(time_ns);
            self.marks |= mark::CLIENT;
            peer.marks &= !mark::CLIENT;
        }
    }

    /// Whether a SYN of this side, its first, crosses one that asks: both open the same connection
    /// (RFC 9293 section 3.5, figure 8).
    pub(super) fn opens_at_once(&self, peer: &Self) -> bool {
        let asks = peer.marks & (mark::CLIENT | mark::HANDSHAKE) == mark::CLIENT;
        asks && self.marks & mark::STARTED == 0 && peer.acks == 0
    }

    /// Answers the SYN of the other side with its own.
    pub(super) fn answer(&mut self, peer: &mut Self, time_ns: i64) {
        if peer.marks & mark::CLIENT == 0 || self.marks & mark::HANDSHAKE != 0 {
            return;
        }
        if peer.marks & mark::HANDSHAKE == 0 {
            peer.answered(time_ns);
            peer.marks |= mark::ANSWERED;
        }
        self.handshake = Nanoseconds::at(time_ns);
    }

    /// Ends the handshake, if it acknowledges the SYN that answered its own.
    #[inline(never)]
    pub(super) fn end_handshake(&mut self, peer: &mut Self, time_ns: i64, segment: &Segment) {
        if segment.acknowledgement == peer.start {
            peer.answered(time_ns);
            self.marks &= !mark::ANSWERED;
        }
    }

    /// Its SYN was answered.
    fn answered(&mut self, time_ns: i64) {
        let took_ns = self.handshake.until(time_ns);
        self.smoothed.add(took_ns);
        self.handshake = Nanoseconds::of(took_ns);
        self.marks |= mark::HANDSHAKE;
    }

    /// How long the answer to its SYN took.
    pub(super) fn handshake_ns(&self) -> Option<u64> {
        (self.marks & mark::HANDSHAKE != 0).then(|| self.handshake.span_ns())
    }

    /// Forgets the sequence numbers; what was measured stays.
    pub(super) fn restart(&mut self, pool: &mut RarePool) {
        self.forget_gaps(pool);
        self.marks &= mark::LASTING;
        self.duplicates = 0;
        self.smoothed = Smoothed::default();
    }

    /// Takes the options of its SYN.
    pub(super) fn take_options(&mut self, segment: &Segment) {
        self.marks |= mark::SYN;
        if segment.has(seen::SEGMENT_SIZE) {
            self.segment_size = segment.segment_size;
        }
        if segment.has(seen::WINDOW_SCALE) {
            self.window_scale = segment.window_scale.min(WINDOW_SCALE_MAX);
            self.marks |= mark::WINDOW_SCALE;
        }
        if segment.has(seen::SACK_PERMITTED) {
            self.marks |= mark::SACK_PERMITTED;
        }
    }

    /// Its sequence numbers begin.
    pub(super) fn begin(&mut self, start: u32) {
        self.start = start;
        self.next = start;
        self.acknowledged = start;
        self.sent.begin(start);
        self.marks |= mark::STARTED;
    }

    /// Takes the window that it tells; scaled, if both sides do that.
    #[inline(always)]
    pub(super) fn tell_window(&mut self, window: u16, peer_marks: u16) {
        self.window = window;
        let scales = self.marks & peer_marks & mark::WINDOW_SCALE != 0;
        let scaled = u32::from(window) << if scales { self.window_scale } else { 0 };
        if self.marks & mark::WINDOW == 0 {
            self.marks |= mark::WINDOW;
            self.window_min = scaled;
        }
        self.window_min = self.window_min.min(scaled);
        self.window_max = self.window_max.max(scaled);
    }

    /// Whether it told a window in this record.
    const fn has_told_window(&self) -> bool {
        self.marks & mark::WINDOW != 0 && self.window_min <= self.window_max
    }

    /// Whether its window is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.marks & mark::WINDOW != 0 && self.window == 0
    }

    /// Adds data that were expected.
    #[inline(always)]
    pub(super) fn add(&mut self, start: u32, length: u32, time_ns: i64, segment: &Segment) {
        let end = start.wrapping_add(length);
        self.next = end;
        if !self.sent.push(end, time_ns, segment.identification) {
            self.limits |= limit::SEGMENTS;
        }
        let in_flight = end.wrapping_sub(self.acknowledged);
        self.in_flight_max = self.in_flight_max.max(in_flight);
        let payload = segment.payload_length.min(0xffff) as u16;
        self.segment_max = self.segment_max.max(payload);
        self.segment_min = self.segment_min.max(u16::MAX - payload);
    }

    /// Takes an acknowledgement of its data in. `repeats`: the packet says nothing else.
    #[inline(always)]
    pub(super) fn acknowledge(
        &mut self,
        mut number: u32,
        time_ns: i64,
        repeats: bool,
        pool: &mut RarePool,
    ) {
        if self.marks & mark::STARTED == 0 {
            self.begin(number);
            self.marks |= mark::ACKNOWLEDGED;
            return;
        }
        let mut answers_fin_alone = false;
        if self.marks & mark::FIN != 0 && number == self.next.wrapping_add(1) {
            number = self.next;
            answers_fin_alone = self.marks & mark::FIN_ALONE != 0;
        }
        if number == self.acknowledged {
            self.marks |= mark::ACKNOWLEDGED;
            if repeats && self.next != self.acknowledged {
                self.repeat(pool);
            }
            return;
        }
        let step = number.wrapping_sub(self.acknowledged).cast_signed();
        if !(0..super::JUMP).contains(&step) {
            return;
        }
        if self.in_flight_initial == 0 && self.acknowledged == self.start {
            self.in_flight_initial = self.next.wrapping_sub(self.start);
        }
        self.marks |= mark::ACKNOWLEDGED;
        self.acknowledged = number;
        self.duplicates = 0;
        if let Some(rtt_ns) = self.sent.acknowledge(number, time_ns)
            && !answers_fin_alone
        {
            self.rtt.add(rtt_ns);
            self.smoothed.add(rtt_ns);
        }
        if after(number, self.next) {
            // Never seen, and delivered: a gap that stays.
            let from = std::mem::replace(&mut self.next, number);
            self.add_gap(from, number, pool);
        }
        if self.marks & mark::RECOVERS != 0 {
            self.recover(pool);
        }
    }

    #[inline(never)]
    fn repeat(&mut self, pool: &mut RarePool) {
        self.duplicates = self.duplicates.saturating_add(1);
        if self.duplicates == DUPLICATES {
            let recovery = self.next;
            let mut noted = false;
            self.note(pool, |rare| {
                rare.recovery = recovery;
                noted = true;
            });
            // Without a place it would not be known when the repair ends.
            if noted {
                self.marks |= mark::RECOVERS;
            }
        }
    }

    /// Ends the repair of a loss once what it waits for is acknowledged.
    #[inline(never)]
    fn recover(&mut self, pool: &RarePool) {
        let until = pool.get(self.rare).map(|rare| rare.recovery);
        if until.is_none_or(|until| !after(until, self.acknowledged)) {
            self.marks &= !mark::RECOVERS;
        }
    }

    /// Takes the time stamps of one of its packets in: the echo of a value of `peer` ends a round
    /// trip, a value that comes for the first time, with data, begins one. An acknowledgement of
    /// several segments echoes the first of them (RFC 7323 section 4.3): of one whose value was passed
    /// over, no echo will come.
    #[inline(always)]
    pub(super) fn stamp(&mut self, peer: &mut Self, time_ns: i64, segment: &Segment) {
        let [value, echo] = segment.timestamps;
        if peer.marks & mark::STAMPED != 0 && !after(peer.stamp, echo) {
            if echo == peer.stamp {
                peer.timestamp_rtt.add(peer.stamped.until(time_ns));
            }
            peer.marks &= !mark::STAMPED;
        }
        let first = self.marks & mark::TIMESTAMPS == 0;
        if first || after(value, self.last_stamp) {
            self.marks |= mark::TIMESTAMPS;
            self.last_stamp = value;
            if self.marks & mark::STAMPED == 0 && segment.payload_length > 0 {
                self.marks |= mark::STAMPED;
                self.stamp = value;
                self.stamped = Nanoseconds::at(time_ns);
            }
        }
    }

    /// Counts the SACK blocks that it sends. (A duplicate is reported in the first one, below what
    /// is acknowledged.)
    #[inline(never)]
    pub(super) fn count_sack(&mut self, segment: &Segment, pool: &mut RarePool) {
        let [_, right] = segment.sack;
        let duplicate = segment.tcp_flags & SYN == 0 && !after(right, segment.acknowledgement);
        self.note(pool, |rare| {
            rare.sack_blocks = rare.sack_blocks.saturating_add(segment.sack_blocks.into());
            rare.duplicates_reported = rare.duplicates_reported.saturating_add(duplicate.into());
        });
    }

    /// The smallest window that it told, in bytes, if it told any.
    #[must_use]
    pub fn window_min(&self) -> Option<u32> {
        self.has_told_window().then_some(self.window_min)
    }

    /// The largest window that it told.
    #[must_use]
    pub fn window_max(&self) -> Option<u32> {
        self.has_told_window().then_some(self.window_max)
    }

    /// The least payload of a packet that has any, if there is one.
    #[must_use]
    pub fn segment_min(&self) -> Option<u16> {
        (self.segment_max > 0).then(|| u16::MAX - self.segment_min)
    }

    /// Round trips of its data.
    #[must_use]
    pub const fn round_trips(&self) -> &RoundTrips {
        &self.rtt
    }
}
