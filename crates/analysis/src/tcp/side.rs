//! What one side of a TCP flow does.

use super::rare::RarePool;
use super::rtt::{RoundTrips, Smoothed};
use super::sent::after;
use super::span::Nanoseconds;
use super::{Class, DUPLICATES, TcpSide, limit, mark};
use wire::Segment;
use wire::segment::seen;
use wire::tcp::flag::{ACK, PSH, SYN};

/// The largest window scale (RFC 7323 section 2.3).
const WINDOW_SCALE_MAX: u8 = 14;

/// Bits of a window scale.
const SCALE_BITS: u32 = 4;

/// Where of the two window scales of a side the one is by which its windows are scaled.
const SCALE_IN_USE: u8 = (1 << SCALE_BITS) - 1;

impl TcpSide {
    /// Whether such a packet of it goes on where the one before has ended, and tells nothing that a
    /// packet seldom tells.
    #[inline(always)]
    pub(super) fn is_steady(&self, segment: &Segment) -> bool {
        const KNOWN: u16 = mark::STARTED | mark::WINDOW;
        segment.tcp_flags & !PSH == ACK
            && self.marks & (KNOWN | mark::ANSWERED) == KNOWN
            && segment.sequence == self.next
            && segment.window != 0
            && segment.sack_blocks == 0
    }

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
        asks && !self.is_known() && peer.acks == 0
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
        self.limits &= !limit::KNOWN_BY_PEER;
        self.duplicates = 0;
        self.smoothed = Smoothed::default();
    }

    /// Its SYN comes again. Where the peer has acknowledged what was never sent, it spoke of a connection
    /// before (RFC 9293 section 3.5.1): what that seemed to show is forgotten.
    pub(super) fn ask_again(&mut self, pool: &mut RarePool) {
        let answered = self.marks & mark::HANDSHAKE != 0 || self.acknowledged == self.start;
        if !answered && self.sent.is_empty() {
            self.fill_gaps(self.start, self.next, pool);
            self.begin(self.start);
            self.marks &= !mark::ACKNOWLEDGED;
        }
    }

    /// Takes the options of its SYN.
    pub(super) fn take_options(&mut self, segment: &Segment) {
        self.marks |= mark::SYN;
        if segment.has(seen::SEGMENT_SIZE) {
            self.segment_size = segment.segment_size;
        }
        if segment.has(seen::WINDOW_SCALE) {
            self.scales = segment.window_scale.min(WINDOW_SCALE_MAX) << SCALE_BITS;
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
        self.limits &= !limit::KNOWN_BY_PEER;
    }

    /// Whether it is known where its sequence numbers begin, by its own packets or its peer's.
    pub(super) const fn is_known(&self) -> bool {
        self.marks & mark::STARTED != 0 || self.limits & limit::KNOWN_BY_PEER != 0
    }

    /// Takes an acknowledgement in of a side of which no packet was seen yet.
    #[inline(never)]
    fn acknowledge_unseen(&mut self, number: u32, pool: &mut RarePool) {
        if self.limits & limit::KNOWN_BY_PEER == 0 {
            (self.start, self.next, self.acknowledged) = (number, number, number);
            self.sent.begin(number);
            self.marks |= mark::ACKNOWLEDGED;
            self.limits |= limit::KNOWN_BY_PEER;
        } else if (1..super::JUMP).contains(&number.wrapping_sub(self.next).cast_signed()) {
            let from = std::mem::replace(&mut self.next, number);
            self.acknowledged = number;
            self.add_gap(from, number, pool);
        }
    }

    /// Its first packet that is seen, at `start`. What its peer has acknowledged before that, or is yet
    /// to, was under way when the capture began.
    #[inline(never)]
    pub(super) fn begin_seen(&mut self, start: u32, pool: &mut RarePool) {
        let known = self.limits & limit::KNOWN_BY_PEER != 0;
        if known && after(self.next, start) {
            self.marks |= mark::STARTED;
            self.limits &= !limit::KNOWN_BY_PEER;
            return;
        }
        if known {
            self.fill_gaps(self.start, self.next, pool);
            self.marks &= !mark::ACKNOWLEDGED;
        }
        self.begin(start);
    }

    /// A FIN behind `end` that was overtaken: the sequence number that it takes is no data.
    #[inline(never)]
    pub(super) fn take_late_fin(&mut self, end: u32, pool: &mut RarePool) {
        let behind = end.wrapping_add(1);
        if self.fill_gaps(end, behind, pool) == 1 && self.next == behind {
            self.next = end;
            if self.acknowledged == behind {
                self.acknowledged = end;
            }
        }
    }

    /// Takes the window that it tells.
    #[inline(always)]
    pub(super) fn tell_window(&mut self, window: u16) {
        self.window = window;
        let scaled = u32::from(window) << (self.scales & SCALE_IN_USE);
        self.window_min = self.window_min.max(u32::MAX - scaled);
        self.window_max = self.window_max.max(scaled);
    }

    /// Both sides scale their windows, or none does.
    pub(super) const fn agree_on_scales(&mut self, peer: &mut Self) {
        let both = self.marks & peer.marks & mark::WINDOW_SCALE != 0;
        self.use_scale(both);
        peer.use_scale(both);
    }

    const fn use_scale(&mut self, both: bool) {
        let told = self.window_scale();
        self.scales = told << SCALE_BITS | if both { told } else { 0 };
    }

    /// Window scale of its SYN.
    #[must_use]
    pub const fn window_scale(&self) -> u8 {
        self.scales >> SCALE_BITS
    }

    /// Whether it told a window in this record.
    const fn has_told_window(&self) -> bool {
        self.marks & mark::WINDOW != 0 && u32::MAX - self.window_min <= self.window_max
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
        let mut answers_fin_alone = false;
        if self.marks & (mark::STARTED | mark::FIN) != mark::STARTED {
            if self.marks & mark::STARTED == 0 {
                return self.acknowledge_unseen(number, pool);
            }
            if number == self.next.wrapping_add(1) {
                number = self.next;
                answers_fin_alone = self.marks & mark::FIN_ALONE != 0;
            }
        }
        if number == self.acknowledged {
            self.marks |= mark::ACKNOWLEDGED;
            if repeats && self.next != self.acknowledged {
                self.repeat(pool);
            }
            return;
        }
        let step = number.wrapping_sub(self.acknowledged).cast_signed();
        if (0..super::JUMP).contains(&step) {
            self.acknowledge_more(number, time_ns, answers_fin_alone, pool);
        }
    }

    /// Takes an acknowledgement of data in that were not acknowledged before.
    #[inline(never)]
    fn acknowledge_more(
        &mut self,
        number: u32,
        time_ns: i64,
        answers_fin_alone: bool,
        pool: &mut RarePool,
    ) {
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
            self.miss(number, pool);
        }
        if self.marks & mark::RECOVERS != 0 {
            self.recover(pool);
        }
    }

    /// What is acknowledged up to `number` was never seen.
    #[inline(never)]
    fn miss(&mut self, number: u32, pool: &mut RarePool) {
        let from = std::mem::replace(&mut self.next, number);
        let has_no_data = self.start == from && self.marks & mark::SYN == 0;
        if has_no_data && number == from.wrapping_add(1) {
            // Its packets so far had no data, and were sent from before what the peer has: they asked
            // whether it is alive.
            self.begin(number);
            self.note(pool, |rare| rare.anomalies.count(Class::FlowControl));
            return;
        }
        // Delivered: a gap that stays.
        self.add_gap(from, number, pool);
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
    /// is acknowledged or within the second: RFC 2883 section 4.)
    #[inline(never)]
    pub(super) fn count_sack(&mut self, segment: &Segment, pool: &mut RarePool) {
        let [_, right] = segment.sack;
        let below = !after(right, segment.acknowledgement);
        let duplicate =
            segment.tcp_flags & SYN == 0 && (below || segment.has(seen::SACK_WITHIN_SECOND));
        self.note(pool, |rare| {
            rare.sack_blocks = rare.sack_blocks.saturating_add(segment.sack_blocks.into());
            rare.duplicates_reported = rare.duplicates_reported.saturating_add(duplicate.into());
        });
    }

    /// The smallest window that it told, in bytes, if it told any.
    #[must_use]
    pub fn window_min(&self) -> Option<u32> {
        self.has_told_window().then_some(u32::MAX - self.window_min)
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

    /// The most bytes under way, if anything was acknowledged: what nobody answers where the probe
    /// sees it is not under way for that.
    #[must_use]
    pub fn in_flight_max(&self) -> Option<u32> {
        (self.marks & mark::ACKNOWLEDGED != 0).then_some(self.in_flight_max)
    }

    /// Bytes that were sent before the first of them was acknowledged, likewise.
    #[must_use]
    pub fn in_flight_initial(&self) -> Option<u32> {
        (self.marks & mark::ACKNOWLEDGED != 0).then_some(self.in_flight_initial)
    }

    /// Round trips of its data.
    #[must_use]
    pub const fn round_trips(&self) -> &RoundTrips {
        &self.rtt
    }
}
