//! What one side of a TCP flow does.

use super::rtt::RoundTrips;
use super::sent::{SentList, after};
use super::{DUPLICATES, TcpSide, interval, limit, mark};
use wire::Segment;
use wire::segment::seen;
use wire::tcp::flag::{CWR, ECE, FIN, RST, SYN, URG};

/// The largest window scale (RFC 7323 section 2.3).
const WINDOW_SCALE_MAX: u8 = 14;

impl TcpSide {
    #[inline(never)]
    pub(super) fn count_rare(&mut self, flags: u8) {
        for (flag, count) in [
            (SYN, &mut self.syns),
            (FIN, &mut self.fins),
            (RST, &mut self.resets),
            (URG, &mut self.urgent),
            (ECE, &mut self.ecn_echoes),
            (CWR, &mut self.windows_reduced),
        ] {
            *count = count.saturating_add(u16::from(flags & flag != 0));
        }
        if flags & FIN != 0 {
            self.marks |= mark::FIN;
        }
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
        self.recovery = start;
        self.sent = SentList::beginning(start);
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
        self.zero_windows = self.zero_windows.saturating_add(u16::from(window == 0));
    }

    /// Whether its window is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.marks & mark::WINDOW != 0 && self.window == 0
    }

    /// Adds data that were expected.
    #[inline(always)]
    pub(super) fn add(
        &mut self,
        start: u32,
        length: u32,
        time_ns: i64,
        segment: &Segment,
        limits: &mut u8,
    ) {
        let end = start.wrapping_add(length);
        self.next = end;
        if !self.sent.push(end, time_ns, segment.identification) {
            *limits |= limit::SEGMENTS;
        }
        let in_flight = end.wrapping_sub(self.acknowledged);
        self.in_flight_max = self.in_flight_max.max(in_flight);
        let payload = segment.payload_length.min(0xffff) as u16;
        self.segment_max = self.segment_max.max(payload);
        self.segment_min = self.segment_min.max(u16::MAX - payload);
    }

    /// Takes an acknowledgement of its data in. The result is the number of bytes that were
    /// acknowledged and never seen. `repeats`: the packet says nothing else.
    #[inline(always)]
    pub(super) fn acknowledge(&mut self, number: u32, time_ns: i64, repeats: bool) -> u32 {
        if self.marks & mark::STARTED == 0 {
            self.begin(number);
            self.marks |= mark::ACKNOWLEDGED;
            return 0;
        }
        let mut number = number;
        if self.marks & mark::FIN != 0 && number == self.next.wrapping_add(1) {
            number = self.next;
        }
        if number == self.acknowledged {
            self.marks |= mark::ACKNOWLEDGED;
            if repeats && self.next != self.acknowledged {
                self.repeat();
            }
            return 0;
        }
        let step = number.wrapping_sub(self.acknowledged).cast_signed();
        if !(0..super::JUMP).contains(&step) {
            return 0;
        }
        if self.in_flight_initial == 0 && self.acknowledged == self.start {
            self.in_flight_initial = self.next.wrapping_sub(self.start);
        }
        let mut unseen = 0;
        if after(number, self.next) {
            unseen = number.wrapping_sub(self.next);
            self.next = number;
        }
        self.marks |= mark::ACKNOWLEDGED;
        self.acknowledged = number;
        self.duplicates = 0;
        if self.marks & mark::RECOVERS != 0 && !after(self.recovery, number) {
            self.marks &= !mark::RECOVERS;
        }
        if let Some(rtt_ns) = self.sent.acknowledge(number, time_ns) {
            self.rtt.add(rtt_ns);
            self.smoothed.add(rtt_ns);
        }
        unseen
    }

    #[inline(never)]
    fn repeat(&mut self) {
        self.duplicates = self.duplicates.saturating_add(1);
        if self.duplicates == DUPLICATES {
            self.recovery = self.next;
            self.marks |= mark::RECOVERS;
        }
    }

    /// Takes the time stamps of one of its packets in: the echo of a value of `peer` ends a round
    /// trip, a value that comes for the first time, with data, begins one.
    #[inline(always)]
    pub(super) fn stamp(&mut self, peer: &mut Self, time_ns: i64, segment: &Segment) {
        let [value, echo] = segment.timestamps;
        if peer.stamped_ns != 0 && echo == peer.stamp {
            peer.timestamp_rtt.add(interval(peer.stamped_ns, time_ns));
            peer.stamped_ns = 0;
        }
        let first = self.marks & mark::TIMESTAMPS == 0;
        if first || after(value, self.last_stamp) {
            self.marks |= mark::TIMESTAMPS;
            self.last_stamp = value;
            if self.stamped_ns == 0 && segment.payload_length > 0 {
                self.stamp = value;
                self.stamped_ns = time_ns;
            }
        }
    }

    /// Counts the SACK blocks that it sends. (A duplicate is reported in the first one, below what
    /// is acknowledged.)
    #[inline(never)]
    pub(super) fn count_sack(&mut self, segment: &Segment) {
        self.sack_blocks = self.sack_blocks.saturating_add(segment.sack_blocks.into());
        let [_, right] = segment.sack;
        let duplicate = segment.tcp_flags & SYN == 0 && !after(right, segment.acknowledgement);
        self.duplicates_reported = self.duplicates_reported.saturating_add(duplicate.into());
    }

    /// Bytes that were acknowledged, lie in a gap, and so were missed by the probe.
    pub(super) fn missed_in_gaps(&self) -> u64 {
        if self.marks & mark::ACKNOWLEDGED == 0 || self.holes.is_empty() {
            return 0;
        }
        self.holes.before(self.acknowledged)
    }

    /// Bytes missed by the probe: acknowledged and never seen.
    #[must_use]
    pub fn missed_bytes(&self, anomalies: &super::Anomalies) -> u64 {
        self.missed_in_gaps() + anomalies.given_up_bytes
    }

    /// The smallest window that it told, in bytes, if it told any.
    #[must_use]
    pub fn window_min(&self) -> Option<u32> {
        (self.marks & mark::WINDOW != 0).then_some(self.window_min)
    }

    /// The largest window that it told.
    #[must_use]
    pub fn window_max(&self) -> Option<u32> {
        (self.marks & mark::WINDOW != 0).then_some(self.window_max)
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
