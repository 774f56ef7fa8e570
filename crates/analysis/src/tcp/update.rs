//! State updates of one side of a TCP flow.

use super::anomaly::Class;
use super::cold::TcpColdPool;
use super::rtt::SmoothedRtt;
use super::sent::after;
use super::side::{SCALE_BITS, SCALE_IN_USE, TcpSide};
use super::span::Nanos48;
use super::{flag, limit};
use wire::PacketInfo;
use wire::packet_info::present;
use wire::tcp::flag::{ACK, PSH, SYN};

/// The maximum distance of a sequence number from the expected one: no window is larger (RFC 7323
/// section 2.3), so a segment beyond it does not belong to the connection.
pub(super) const JUMP_MAX: i32 = 1 << 30;

/// The number of duplicate ACKs that trigger a fast retransmit (RFC 5681 section 3.2).
pub(super) const DUPLICATE_ACK_THRESHOLD: u8 = 3;

/// The largest window scale (RFC 7323 section 2.3).
const WINDOW_SCALE_MAX: u8 = 14;

impl TcpSide {
    /// Returns whether the fast path can count this packet of the side: it begins where the packet
    /// before ended, has only ACK and perhaps PSH, a window other than zero, and no SACK blocks.
    // Inlined into the loop over packets with the fast path, see `count_segment`.
    #[inline(always)]
    pub(super) fn is_in_order(&self, segment: &PacketInfo) -> bool {
        const EXPECTED: u16 = flag::STARTED | flag::WINDOW_SEEN;
        segment.tcp_flags & !PSH == ACK
            && self.flags & (EXPECTED | flag::HANDSHAKE_ACK_PENDING) == EXPECTED
            && segment.sequence == self.next
            && segment.window != 0
            && segment.sack_blocks == 0
    }

    /// Handles the side's SYN that opens a connection. Does nothing if a SYN was already answered.
    pub(super) fn handle_syn(&mut self, peer: &mut Self, time_ns: i64) {
        if (self.flags | peer.flags) & flag::HANDSHAKE_TIMED == 0 {
            self.handshake = Nanos48::from_time(time_ns);
            self.flags |= flag::CLIENT;
            peer.flags &= !flag::CLIENT;
        }
    }

    /// Returns whether this side's first SYN crosses the peer's, so that both open the same connection
    /// (simultaneous open, RFC 9293 section 3.5, figure 8).
    pub(super) fn is_simultaneous_open(&self, peer: &Self) -> bool {
        let has_sent_syn = peer.flags & (flag::CLIENT | flag::HANDSHAKE_TIMED) == flag::CLIENT;
        has_sent_syn && !self.has_start() && peer.acks == 0
    }

    /// Handles the side's SYN-ACK.
    pub(super) fn handle_syn_ack(&mut self, peer: &mut Self, time_ns: i64) {
        if peer.flags & flag::CLIENT == 0 || self.flags & flag::HANDSHAKE_TIMED != 0 {
            return;
        }
        if peer.flags & flag::HANDSHAKE_TIMED == 0 {
            peer.time_handshake(time_ns);
            peer.flags |= flag::HANDSHAKE_ACK_PENDING;
        }
        self.handshake = Nanos48::from_time(time_ns);
    }

    /// Ends the handshake if the segment acknowledges the peer's SYN-ACK.
    #[inline(never)]
    pub(super) fn end_handshake(&mut self, peer: &mut Self, time_ns: i64, segment: &PacketInfo) {
        if segment.acknowledgement == peer.start {
            peer.time_handshake(time_ns);
            self.flags &= !flag::HANDSHAKE_ACK_PENDING;
        }
    }

    /// Records the time until the side's SYN or SYN-ACK was answered.
    fn time_handshake(&mut self, time_ns: i64) {
        let took_ns = self.handshake.until(time_ns);
        self.srtt.add(took_ns);
        self.handshake = Nanos48::from_span(took_ns);
        self.flags |= flag::HANDSHAKE_TIMED;
    }

    /// Returns the time until the side's SYN or SYN-ACK was answered.
    pub(super) fn handshake_ns(&self) -> Option<u64> {
        (self.flags & flag::HANDSHAKE_TIMED != 0).then(|| self.handshake.span_ns())
    }

    /// Forgets the sequence numbers. Measures stay.
    pub(super) fn restart(&mut self, pool: &mut TcpColdPool) {
        self.forget_holes(pool);
        self.flags &= flag::KEPT_ON_RESTART;
        self.limits &= !limit::KNOWN_BY_PEER;
        self.duplicate_acks = 0;
        self.srtt = SmoothedRtt::default();
    }

    /// Handles a retransmission of the side's SYN. If the peer has acknowledged data that the side never
    /// sent, the acknowledgement belonged to an earlier connection (RFC 9293 section 3.5.1), and the
    /// hole that it left is removed.
    pub(super) fn handle_retransmitted_syn(&mut self, pool: &mut TcpColdPool) {
        let is_answered =
            self.flags & flag::HANDSHAKE_TIMED != 0 || self.acknowledged == self.start;
        if !is_answered && self.sent.is_empty() {
            self.fill_holes(self.start, self.next, pool);
            self.begin(self.start);
            self.flags &= !flag::ACKNOWLEDGED;
        }
    }

    /// Reads the options of the side's SYN.
    pub(super) fn read_options(&mut self, segment: &PacketInfo) {
        self.flags |= flag::SYN;
        if segment.has(present::SEGMENT_SIZE) {
            self.mss = segment.segment_size;
        }
        if segment.has(present::WINDOW_SCALE) {
            self.window_scales = segment.window_scale.min(WINDOW_SCALE_MAX) << SCALE_BITS;
            self.flags |= flag::WINDOW_SCALE;
        }
        if segment.has(present::SACK_PERMITTED) {
            self.flags |= flag::SACK_PERMITTED;
        }
    }

    /// Starts the side's sequence numbers at `start`.
    pub(super) fn begin(&mut self, start: u32) {
        self.start = start;
        self.next = start;
        self.acknowledged = start;
        self.sent.begin(start);
        self.flags |= flag::STARTED;
        self.limits &= !limit::KNOWN_BY_PEER;
    }

    /// Returns whether the start of the side's sequence numbers is known, from its own packets or from
    /// its peer's.
    pub(super) const fn has_start(&self) -> bool {
        self.flags & flag::STARTED != 0 || self.limits & limit::KNOWN_BY_PEER != 0
    }

    /// Handles an acknowledgement to a side of which no packet was seen yet.
    #[inline(never)]
    fn acknowledge_unseen(&mut self, acknowledgement: u32, pool: &mut TcpColdPool) {
        if self.limits & limit::KNOWN_BY_PEER == 0 {
            (self.start, self.next, self.acknowledged) =
                (acknowledgement, acknowledgement, acknowledgement);
            self.sent.begin(acknowledgement);
            self.flags |= flag::ACKNOWLEDGED;
            self.limits |= limit::KNOWN_BY_PEER;
        } else if (1..JUMP_MAX).contains(&acknowledgement.wrapping_sub(self.next).cast_signed()) {
            let from = std::mem::replace(&mut self.next, acknowledgement);
            self.acknowledged = acknowledgement;
            self.add_hole(from, acknowledgement, pool);
        }
    }

    /// Starts at the side's first packet seen. Data before it that the peer has acknowledged, or will
    /// acknowledge, was in flight when the capture began and does not count as missed.
    #[inline(never)]
    pub(super) fn begin_at_first_packet(&mut self, start: u32, pool: &mut TcpColdPool) {
        let is_known_by_peer = self.limits & limit::KNOWN_BY_PEER != 0;
        if is_known_by_peer && after(self.next, start) {
            self.flags |= flag::STARTED;
            self.limits &= !limit::KNOWN_BY_PEER;
            return;
        }
        if is_known_by_peer {
            self.fill_holes(self.start, self.next, pool);
            self.flags &= !flag::ACKNOWLEDGED;
        }
        self.begin(start);
    }

    /// Handles a FIN at `end` that arrives out of order: its sequence number is not a missing byte.
    #[inline(never)]
    pub(super) fn handle_late_fin(&mut self, end: u32, pool: &mut TcpColdPool) {
        let after_fin = end.wrapping_add(1);
        if self.fill_holes(end, after_fin, pool) == 1 && self.next == after_fin {
            self.next = end;
            if self.acknowledged == after_fin {
                self.acknowledged = end;
            }
        }
    }

    /// Updates the side's window.
    #[inline]
    pub(super) fn update_window(&mut self, window: u16) {
        self.window = window;
        let scaled = u32::from(window) << (self.window_scales & SCALE_IN_USE);
        self.window_min_complement = self.window_min_complement.max(u32::MAX - scaled);
        self.window_max = self.window_max.max(scaled);
    }

    /// Enables window scaling if both SYNs have the option (RFC 7323 section 2.2).
    pub(super) const fn negotiate_window_scales(&mut self, peer: &mut Self) {
        let both = self.flags & peer.flags & flag::WINDOW_SCALE != 0;
        self.use_scale(both);
        peer.use_scale(both);
    }

    const fn use_scale(&mut self, both: bool) {
        let announced = self.window_scale();
        self.window_scales = announced << SCALE_BITS | if both { announced } else { 0 };
    }

    /// Adds data in sequence.
    #[inline]
    pub(super) fn add_data(&mut self, start: u32, length: u32, time_ns: i64, segment: &PacketInfo) {
        let end = start.wrapping_add(length);
        self.next = end;
        if !self.sent.push(end, time_ns, segment.identification) {
            self.limits |= limit::SEGMENTS;
        }
        let in_flight = end.wrapping_sub(self.acknowledged);
        self.in_flight_max = self.in_flight_max.max(in_flight);
        let payload = segment.payload_length.min(0xffff) as u16;
        self.segment_max = self.segment_max.max(payload);
        self.segment_min_complement = self.segment_min_complement.max(u16::MAX - payload);
    }

    /// Handles the peer's acknowledgement. `may_be_duplicate` means that the packet carries no other
    /// news (RFC 5681 section 2): no data, and the same window as before.
    #[inline]
    pub(super) fn acknowledge(
        &mut self,
        mut acknowledgement: u32,
        time_ns: i64,
        may_be_duplicate: bool,
        pool: &mut TcpColdPool,
    ) {
        let mut acknowledges_bare_fin = false;
        if self.flags & (flag::STARTED | flag::FIN) != flag::STARTED {
            if self.flags & flag::STARTED == 0 {
                return self.acknowledge_unseen(acknowledgement, pool);
            }
            if acknowledgement == self.next.wrapping_add(1) {
                acknowledgement = self.next;
                acknowledges_bare_fin = self.flags & flag::FIN_WITHOUT_DATA != 0;
            }
        }
        if acknowledgement == self.acknowledged {
            self.flags |= flag::ACKNOWLEDGED;
            if may_be_duplicate && self.next != self.acknowledged {
                self.count_duplicate_ack(pool);
            }
            return;
        }
        let step = acknowledgement
            .wrapping_sub(self.acknowledged)
            .cast_signed();
        if (0..JUMP_MAX).contains(&step) {
            self.advance_acknowledged(acknowledgement, time_ns, acknowledges_bare_fin, pool);
        }
    }

    /// Handles an acknowledgement of new data.
    #[inline(never)]
    fn advance_acknowledged(
        &mut self,
        acknowledgement: u32,
        time_ns: i64,
        acknowledges_bare_fin: bool,
        pool: &mut TcpColdPool,
    ) {
        if self.in_flight_initial == 0 && self.acknowledged == self.start {
            self.in_flight_initial = self.next.wrapping_sub(self.start);
        }
        self.flags |= flag::ACKNOWLEDGED;
        self.acknowledged = acknowledgement;
        self.duplicate_acks = 0;
        if let Some(rtt_ns) = self.sent.acknowledge(acknowledgement, time_ns)
            && !acknowledges_bare_fin
        {
            self.rtt.add(rtt_ns);
            self.srtt.add(rtt_ns);
        }
        if after(acknowledgement, self.next) {
            self.acknowledge_missed(acknowledgement, pool);
        }
        if self.flags & flag::IN_RECOVERY != 0 {
            self.end_recovery(pool);
        }
    }

    /// Handles an acknowledgement beyond the highest byte seen: the bytes up to `acknowledgement` were
    /// delivered, but the probe missed them.
    #[inline(never)]
    fn acknowledge_missed(&mut self, acknowledgement: u32, pool: &mut TcpColdPool) {
        let from = std::mem::replace(&mut self.next, acknowledgement);
        let has_no_data = self.start == from && self.flags & flag::SYN == 0;
        if has_no_data && acknowledgement == from.wrapping_add(1) {
            // The side's packets had no data and began one byte before the acknowledged one: they were
            // keep-alives.
            self.begin(acknowledgement);
            self.update_cold(pool, |cold| cold.anomalies.count(Class::FlowControl));
            return;
        }
        // The bytes stay a hole unless the probe sees them later.
        self.add_hole(from, acknowledgement, pool);
    }

    #[inline(never)]
    fn count_duplicate_ack(&mut self, pool: &mut TcpColdPool) {
        self.duplicate_acks = self.duplicate_acks.saturating_add(1);
        if self.duplicate_acks == DUPLICATE_ACK_THRESHOLD {
            let recovery = self.next;
            let mut has_cold = false;
            self.update_cold(pool, |cold| {
                cold.recovery = recovery;
                has_cold = true;
            });
            // Without a cold state, the end of the recovery could not be recognised.
            if has_cold {
                self.flags |= flag::IN_RECOVERY;
            }
        }
    }

    /// Ends fast recovery once all data that was in flight at its start is acknowledged (RFC 6582).
    #[inline(never)]
    fn end_recovery(&mut self, pool: &TcpColdPool) {
        let recovery = pool.get(self.cold).map(|cold| cold.recovery);
        if recovery.is_none_or(|recovery| !after(recovery, self.acknowledged)) {
            self.flags &= !flag::IN_RECOVERY;
        }
    }

    /// Processes the timestamps of a packet of the side.
    ///
    /// An echo of the peer's timestamp ends a round trip. A new timestamp on a packet with data starts
    /// one. If a later value is echoed first, the pending one is given up: an acknowledgement of several
    /// segments echoes only the first of them (RFC 7323 section 4.3).
    #[inline]
    pub(super) fn process_timestamps(
        &mut self,
        peer: &mut Self,
        time_ns: i64,
        segment: &PacketInfo,
    ) {
        let [value, echo] = segment.timestamps;
        if peer.flags & flag::TIMESTAMP_PENDING != 0 && !after(peer.pending_timestamp, echo) {
            if echo == peer.pending_timestamp {
                peer.timestamp_rtt
                    .add(peer.pending_timestamp_time.until(time_ns));
            }
            peer.flags &= !flag::TIMESTAMP_PENDING;
        }
        let is_first = self.flags & flag::TIMESTAMPS == 0;
        if is_first || after(value, self.last_timestamp) {
            self.flags |= flag::TIMESTAMPS;
            self.last_timestamp = value;
            if self.flags & flag::TIMESTAMP_PENDING == 0 && segment.payload_length > 0 {
                self.flags |= flag::TIMESTAMP_PENDING;
                self.pending_timestamp = value;
                self.pending_timestamp_time = Nanos48::from_time(time_ns);
            }
        }
    }

    /// Counts the SACK blocks that the side sends. The first block reports duplicate data if it is below
    /// the acknowledgement number or within the second block (RFC 2883 section 4).
    #[inline(never)]
    pub(super) fn count_sack_blocks(&mut self, segment: &PacketInfo, pool: &mut TcpColdPool) {
        let [_, right] = segment.sack;
        let is_below = !after(right, segment.acknowledgement);
        let is_duplicate =
            segment.tcp_flags & SYN == 0 && (is_below || segment.has(present::SACK_WITHIN_SECOND));
        self.update_cold(pool, |cold| {
            cold.sack_blocks = cold.sack_blocks.saturating_add(segment.sack_blocks.into());
            cold.duplicates_reported = cold.duplicates_reported.saturating_add(is_duplicate.into());
        });
    }
}
