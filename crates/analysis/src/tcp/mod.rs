//! TCP measures of each side of a flow: sequence numbers, round trips, windows, anomalies.
//!
//! The measures are those that a probe between the two hosts can take. Sequence arithmetic wraps
//! (RFC 9293 section 3.4) and counts payload only. All lists have hard limits; a measure that a limit
//! affects is marked (see [`limit`]).

mod anomaly;
mod cold;
pub mod conversation;
mod holes;
mod out_of_sequence;
mod rtt;
mod sent;
mod side;
mod span;
#[cfg(test)]
mod tests;

pub use anomaly::{Anomalies, CLASSES, Class};
pub use cold::TcpCold;
pub use cold::TcpColdPool;
pub use rtt::RttStats;

use hw::pool::FreeListNode;
use out_of_sequence::count_out_of_sequence;
use rtt::SmoothedRtt;
use sent::{SentList, after};
use span::Nanos48;
use wire::PacketInfo;
use wire::packet_info::present;
use wire::tcp::flag::{ACK, FIN, PSH, RST, SYN};

/// State flags of one side: bits of [`TcpSide::flags`].
pub mod flag {
    /// A packet of the side, and thus a sequence number, was seen.
    pub const STARTED: u16 = 0x01;
    /// A SYN was seen.
    pub const SYN: u16 = 0x02;
    /// A FIN was seen.
    pub const FIN: u16 = 0x04;
    /// The side's SYN has a window scale option.
    pub const WINDOW_SCALE: u16 = 0x08;
    /// The side's SYN permits selective acknowledgement.
    pub const SACK_PERMITTED: u16 = 0x10;
    /// The side sent timestamps.
    pub const TIMESTAMPS: u16 = 0x20;
    /// The peer acknowledged data of the side.
    pub const ACKNOWLEDGED: u16 = 0x40;
    /// The side is in fast recovery: duplicate ACKs reported a loss that is not repaired yet.
    pub(super) const IN_RECOVERY: u16 = 0x80;
    /// The side advertised a window outside a SYN.
    pub const WINDOW_SEEN: u16 = 0x100;
    /// The side's SYN was answered by a SYN-ACK, which it has not acknowledged yet.
    pub(super) const HANDSHAKE_ACK_PENDING: u16 = 0x200;
    /// The side sent the SYN that opened the connection.
    pub(super) const CLIENT: u16 = 0x400;
    /// The time until the side's SYN or SYN-ACK was answered is known.
    pub(super) const HANDSHAKE_TIMED: u16 = 0x800;
    /// A timestamp of the side waits for its echo.
    pub(super) const TIMESTAMP_PENDING: u16 = 0x1000;
    /// The side opened a connection on the flow's ports.
    pub(super) const OPENED_CONNECTION: u16 = 0x2000;
    /// The side sent a FIN without data.
    pub(super) const FIN_WITHOUT_DATA: u16 = 0x4000;
    /// The snaplen cut off TCP options: options that were not seen may have been sent.
    pub const OPTIONS_CUT: u16 = 0x8000;
    /// Flags that do not depend on the side's sequence numbers.
    pub(super) const KEPT_ON_RESTART: u16 = TIMESTAMPS
        | WINDOW_SEEN
        | HANDSHAKE_ACK_PENDING
        | CLIENT
        | HANDSHAKE_TIMED
        | OPENED_CONNECTION
        | OPTIONS_CUT;
    /// Flags set by the SYN's options.
    pub(super) const FROM_SYN: u16 = SYN | WINDOW_SCALE | SACK_PERMITTED;
}

/// Limits that affected the measures of one side: bits of [`TcpSide::limits`].
pub mod limit {
    /// More segments were in flight than the list holds. Some round trips were not measured, and a
    /// retransmission may be in the wrong class.
    pub const SEGMENTS: u8 = 0x01;
    /// A hole in the sequence numbers was given up before it was acknowledged, or bytes arrived that
    /// may belong to an acknowledged hole that was given up. If they were new, they count as
    /// retransmitted.
    pub const HOLES: u8 = 0x02;
    /// No cold state was free. All measures in [`TcpCold`](super::TcpCold) are unknown.
    pub const COLD: u8 = 0x04;
    /// A sequence number was so far from the expected one that the side was restarted.
    pub const JUMP: u8 = 0x08;
    /// The snaplen cut off TCP options.
    pub const OPTIONS: u8 = 0x10;
    /// Hidden: an acknowledged hole was given up. Its bytes count as missed, which is wrong only if
    /// they arrive later.
    pub(super) const MISSED: u8 = 0x80;
    /// Hidden, and not a limit: the side's sequence numbers are known only from its peer's
    /// acknowledgements.
    pub(super) const KNOWN_BY_PEER: u8 = 0x40;
    /// Bits that records do not show.
    pub(super) const HIDDEN: u8 = MISSED | KNOWN_BY_PEER;
}

/// The maximum distance of a sequence number from the expected one: no window is larger (RFC 7323
/// section 2.3), so a segment beyond it does not belong to the connection.
const JUMP_MAX: i32 = 1 << 30;

/// The number of duplicate ACKs that trigger a fast retransmit (RFC 5681 section 3.2).
const DUPLICATE_ACK_THRESHOLD: u8 = 3;

/// State of a TCP flow, in addition to its [`Volume`](super::Volume). Side 0 is the initiator.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Tcp {
    /// State of each side.
    pub sides: [TcpSide; 2],
}

impl FreeListNode for Tcp {
    fn next_free(&mut self) -> &mut u32 {
        &mut self.sides[0].next
    }
}

/// State of one side of a TCP flow.
///
/// It takes four cache lines, the most used first: the counters of every packet, the segments in
/// flight, the end of that list with timestamps, and round trips. Minima are stored as complements (the
/// type's maximum minus the value), so that zero means that there is none yet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(64))]
pub struct TcpSide {
    /// The sequence number after the highest byte seen.
    next: u32,
    /// The highest acknowledgement number of the peer.
    acknowledged: u32,
    /// The sequence number of the first data byte.
    start: u32,
    /// Bits of [`flag`].
    pub flags: u16,
    /// Duplicate ACKs that the peer has sent since it last acknowledged new data.
    duplicate_acks: u8,
    /// Window scale of the SYN in the upper four bits, the one in use in the lower four.
    window_scales: u8,
    window_min_complement: u32,
    window_max: u32,
    /// Maximum number of bytes in flight: seen by the probe, not acknowledged yet.
    in_flight_max: u32,
    /// Bytes sent before the first of them was acknowledged.
    in_flight_initial: u32,
    /// Packets with ACK.
    pub acks: u32,
    /// Packets with ACK and without payload, SYN, FIN and RST.
    pub pure_acks: u32,
    /// Packets with PSH.
    pub pushes: u32,
    /// Payload bytes of the largest segment in sequence, at most 65,535.
    pub segment_max: u16,
    /// Payload bytes of the smallest segment in sequence that has payload.
    segment_min_complement: u16,
    /// The last window, not scaled.
    window: u16,
    /// Maximum segment size option of the SYN, 0 if it has none.
    pub mss: u16,
    /// Handle of the cold state.
    pub cold: u32,
    sent: SentList,
    /// The timestamp that waits for its echo, with [`flag::TIMESTAMP_PENDING`].
    pending_timestamp: u32,
    last_timestamp: u32,
    pending_timestamp_time: Nanos48,
    /// Time of the last SYN or SYN-ACK or, with [`flag::HANDSHAKE_TIMED`], the time until it was answered.
    handshake: Nanos48,
    /// Bits of [`limit`].
    pub limits: u8,
    /// TCP flags that the side has sent at least once.
    tcp_flags_seen: u8,
    /// Packets with SYN.
    pub syns: u16,
    srtt: SmoothedRtt,
    /// Round trips from the probe to the peer and back, measured by acknowledgements.
    pub rtt: RttStats,
    /// Round trips from the probe to the peer and back, measured by timestamps.
    pub timestamp_rtt: RttStats,
}

/// Bytes of a cache line.
const CACHE_LINE: usize = 64;

// `Tcp::LINE_OFFSETS` relies on this layout.
const _: () = {
    assert!(size_of::<TcpSide>() == 4 * CACHE_LINE);
    assert!(std::mem::offset_of!(TcpSide, rtt) == 3 * CACHE_LINE);
};

impl Tcp {
    /// Byte offsets of the cache lines to prefetch for a packet: all except those of round trips, which
    /// few packets change. Finding out which lines a packet will touch would cost more than it saves.
    pub const LINE_OFFSETS: [usize; 6] = [
        0,
        CACHE_LINE,
        2 * CACHE_LINE,
        4 * CACHE_LINE,
        5 * CACHE_LINE,
        6 * CACHE_LINE,
    ];

    /// Counts a packet of `side`.
    #[inline(always)]
    pub fn count(
        &mut self,
        side: usize,
        time_ns: i64,
        segment: &PacketInfo,
        pool: &mut TcpColdPool,
    ) {
        // Indexed, because the CPU cannot predict a branch on the direction of a packet.
        let side = side & 1;
        let Ok([this, peer]) = self.sides.get_disjoint_mut([side, side ^ 1]) else {
            return;
        };
        if this.is_in_order(segment) {
            count_segment::<true>(this, peer, time_ns, segment, pool);
        } else {
            count_general(this, peer, time_ns, segment, pool);
        }
    }

    /// Returns the time from the SYN to the SYN-ACK: the round trip from the probe to the server and
    /// back. If the SYN was retransmitted, the time from the last one.
    #[must_use]
    pub fn server_handshake_ns(&self) -> Option<u64> {
        let [client, _] = self.client_and_server()?;
        client.handshake_ns()
    }

    /// Returns the time from the SYN-ACK to its ACK: the round trip from the probe to the client and
    /// back.
    #[must_use]
    pub fn client_handshake_ns(&self) -> Option<u64> {
        let [_, server] = self.client_and_server()?;
        server.handshake_ns()
    }

    fn client_and_server(&self) -> Option<[&TcpSide; 2]> {
        let [first, second] = &self.sides;
        if first.flags & flag::CLIENT != 0 {
            Some([first, second])
        } else if second.flags & flag::CLIENT != 0 {
            Some([second, first])
        } else {
            None
        }
    }

    /// Returns the number of connections opened on the flow's ports.
    #[must_use]
    pub fn connections(&self, cold: &[TcpCold; 2]) -> u16 {
        let sides = self.sides.iter().zip(cold);
        sides.fold(0, |sum: u16, (side, cold)| {
            sum.saturating_add(side.connections(cold))
        })
    }

    /// Returns the limits that affected either side, as bits of [`limit`].
    #[must_use]
    pub const fn limits(&self) -> u8 {
        let [first, second] = &self.sides;
        let is_cut = (first.flags | second.flags) & flag::OPTIONS_CUT != 0;
        let limits = (first.limits | second.limits) & !limit::HIDDEN;
        limits | if is_cut { limit::OPTIONS } else { 0 }
    }

    /// Returns whether a SYN was seen, and thus the beginning of the flow.
    #[must_use]
    pub fn has_syn(&self) -> bool {
        self.sides.iter().any(|side| side.flags & flag::SYN != 0)
    }

    /// Copies the cold state of each side that has one to `target`.
    pub fn copy_cold(&self, pool: &TcpColdPool, target: &mut [TcpCold; 2]) {
        for (side, target) in self.sides.iter().zip(target) {
            if let Some(cold) = pool.get(side.cold) {
                *target = *cold;
            }
        }
    }

    /// Frees the cold states.
    pub fn release(&self, pool: &mut TcpColdPool) {
        for side in &self.sides {
            pool.free(side.cold);
        }
    }

    /// Starts the next record of the same flow: resets the counters and keeps the state of the
    /// connection.
    pub fn next_record(&mut self, pool: &mut TcpColdPool) {
        for side in &mut self.sides {
            side.reset_cold(pool);
            // Limits stay, because what they cut is still missing, with two exceptions: a cold state may
            // be free again, and merged segments may have left the list.
            let cleared = match side.sent.has_merged() {
                true => limit::COLD,
                false => limit::COLD | limit::SEGMENTS,
            };
            *side = TcpSide {
                next: side.next,
                acknowledged: side.acknowledged,
                start: side.start,
                cold: side.cold,
                sent: side.sent,
                flags: side.flags,
                duplicate_acks: side.duplicate_acks,
                window_scales: side.window_scales,
                window: side.window,
                handshake: side.handshake,
                srtt: side.srtt,
                pending_timestamp_time: side.pending_timestamp_time,
                pending_timestamp: side.pending_timestamp,
                last_timestamp: side.last_timestamp,
                mss: side.mss,
                limits: side.limits & !cleared,
                ..TcpSide::default()
            };
        }
    }
}

/// Counts any packet of `this`.
#[inline(never)]
fn count_general(
    this: &mut TcpSide,
    peer: &mut TcpSide,
    time_ns: i64,
    segment: &PacketInfo,
    pool: &mut TcpColdPool,
) {
    let tcp_flags = segment.tcp_flags;
    if tcp_flags & RST != 0 {
        // A reset takes its sequence number from the segment that it answers (RFC 9293 section 3.5.2), so
        // it says nothing about the side's own.
        this.acks += u32::from(tcp_flags & ACK != 0);
        this.pushes += u32::from(tcp_flags & PSH != 0);
        return this.count_tcp_flags(tcp_flags, pool);
    }
    if tcp_flags & SYN != 0 {
        handle_any_syn(this, peer, time_ns, segment, pool);
    }
    count_segment::<false>(this, peer, time_ns, segment, pool);
}

/// Counts a packet of `this` that is not a reset. [`handle_any_syn`] has handled its SYN, if it has one.
///
/// The only path of a segment. The fast path is this function with `IN_ORDER`, which the caller sets if
/// [`TcpSide::is_in_order`] holds: the steps that such a segment does not need are then not compiled.
// Inlined, so that what `is_in_order` has loaded stays in registers: most packets come through here.
#[inline(always)]
fn count_segment<const IN_ORDER: bool>(
    this: &mut TcpSide,
    peer: &mut TcpSide,
    time_ns: i64,
    segment: &PacketInfo,
    pool: &mut TcpColdPool,
) {
    let tcp_flags = segment.tcp_flags;
    let has_ack = IN_ORDER || tcp_flags & ACK != 0;
    let has_syn = !IN_ORDER && tcp_flags & SYN != 0;
    let has_fin = !IN_ORDER && tcp_flags & FIN != 0;
    let length = segment.payload_length;

    if !IN_ORDER && has_ack && this.flags & flag::HANDSHAKE_ACK_PENDING != 0 {
        this.end_handshake(peer, time_ns, segment);
    }
    this.acks += u32::from(has_ack);
    this.pushes += u32::from(tcp_flags & PSH != 0);
    if !IN_ORDER && tcp_flags & !(ACK | PSH) != 0 {
        this.count_tcp_flags(tcp_flags, pool);
        if has_fin && length == 0 {
            this.flags |= flag::FIN_WITHOUT_DATA;
        }
    }

    let is_same_window = this.window == segment.window;
    if !has_syn {
        this.update_window(segment.window);
        if !IN_ORDER {
            this.flags |= flag::WINDOW_SEEN;
            if segment.window == 0 {
                this.count_zero_window(pool);
            }
        }
    }

    let start = segment.sequence.wrapping_add(u32::from(has_syn));
    if !IN_ORDER && this.flags & flag::STARTED == 0 {
        this.begin_at_first_packet(start, pool);
    }
    let is_in_sequence = IN_ORDER || start == this.next;
    if is_in_sequence && length > 0 {
        this.add_data(start, length, time_ns, segment);
    }

    let is_pure_ack = has_ack && length == 0 && !has_syn && !has_fin;
    this.pure_acks += u32::from(is_pure_ack);
    if has_ack {
        let may_be_duplicate = is_pure_ack && is_same_window;
        peer.acknowledge(segment.acknowledgement, time_ns, may_be_duplicate, pool);
    }
    if segment.has(present::TIMESTAMPS) {
        this.process_timestamps(peer, time_ns, segment);
    } else if segment.has(present::OPTIONS_CUT) {
        this.flags |= flag::OPTIONS_CUT;
    }
    if !IN_ORDER && segment.sack_blocks > 0 {
        this.count_sack_blocks(segment, pool);
    }
    // Last, because the class depends on the round-trip time, which the acknowledgement may update.
    if !is_in_sequence {
        count_out_of_sequence(this, peer, start, time_ns, segment, pool);
    }
}

/// Handles the SYN or SYN-ACK of `this`, before its segment is counted.
#[inline(never)]
fn handle_any_syn(
    this: &mut TcpSide,
    peer: &mut TcpSide,
    time_ns: i64,
    segment: &PacketInfo,
    pool: &mut TcpColdPool,
) {
    let has_ack = segment.tcp_flags & ACK != 0;
    let start = segment.sequence.wrapping_add(1);
    // Retransmitted or delayed: the connection is already known.
    let is_known = this.has_start() && this.start == start;
    let is_simultaneous = !has_ack && this.is_simultaneous_open(peer);
    if is_known {
        if !has_ack {
            this.handle_retransmitted_syn(pool);
        }
        let is_late = this.flags & flag::SYN == 0 && !has_ack;
        if is_late {
            this.count_connection(pool);
        }
    } else {
        if !has_ack && !is_simultaneous {
            // A new connection: what is known of the old one does not hold for either side.
            for side in [&mut *this, &mut *peer] {
                side.restart(pool);
                side.flags &= !(flag::HANDSHAKE_ACK_PENDING | flag::CLIENT | flag::HANDSHAKE_TIMED);
            }
            this.count_connection(pool);
        } else if this.has_start() {
            this.restart(pool);
        }
        this.begin(start);
    }
    if has_ack {
        this.handle_syn_ack(peer, time_ns);
    } else if !is_simultaneous {
        this.handle_syn(peer, time_ns);
    }
    this.read_options(segment);
    this.negotiate_window_scales(peer);
}

const _: () = assert!(size_of::<Tcp>() == 512);
