//! TCP measures of each side of a flow: sequence numbers, round trips, windows, anomalies.
//!
//! The measures are those that a probe between the two hosts can take. Sequence arithmetic wraps
//! (RFC 9293 section 3.4) and counts payload only. All lists have hard limits; a measure that a limit
//! affects is marked (see [`limit`]).

mod anomaly;
mod cold;
pub mod flag;
mod holes;
pub mod limit;
mod out_of_sequence;
mod reset;
mod rtt;
mod sent;
mod side;
mod span;
#[cfg(test)]
mod tests;
mod update;

pub use anomaly::{Anomalies, CLASSES, Class};
pub use cold::TcpCold;
pub use cold::TcpColdPool;
pub use rtt::RttStats;
pub use side::TcpSide;

use hw::pool::FreeListNode;
use out_of_sequence::count_out_of_sequence;
use side::CACHE_LINE;
use wire::PacketInfo;
use wire::packet_info::present;
use wire::tcp::flag::{ACK, FIN, PSH, RST, SYN};

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
    // Out of line, it and `Volume::count` cost full analysis 2 % more instructions.
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

    /// Returns the bytes of a side that the probe missed: acknowledged but never seen. `cold` is the cold
    /// state of the side.
    #[must_use]
    pub fn missed_bytes(&self, side: usize, cold: &TcpCold) -> u64 {
        let (this, peer) = (&self.sides[side & 1], &self.sides[side & 1 ^ 1]);
        this.missed_bytes(peer, cold)
    }

    /// Returns whether a SYN was seen, and thus the beginning of the flow.
    #[must_use]
    pub fn has_syn(&self) -> bool {
        self.sides.iter().any(|side| side.flags & flag::SYN != 0)
    }

    /// Returns whether a side sent a reset that the other accepts. Others do not end the connection.
    #[must_use]
    pub fn was_reset(&self) -> bool {
        self.sides
            .iter()
            .any(|side| side.limits & limit::RESET != 0)
    }

    /// Returns whether both sides sent a FIN, or one a reset that the other accepts.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        let [first, second] = &self.sides;
        first.flags & second.flags & flag::FIN != 0 || self.was_reset()
    }

    /// Returns whether the SYN of `side` with this sequence number is that of the known connection:
    /// retransmitted, copied by the network, or late.
    #[must_use]
    pub fn is_known_syn(&self, side: usize, sequence: u32) -> bool {
        let side = &self.sides[side & 1];
        side.has_start() && side.start == sequence.wrapping_add(1)
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
        if this.is_reset_accepted(peer, segment) {
            this.limits |= limit::RESET;
        }
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
        // A reset ended the connection before, or refused an earlier SYN of this one.
        for side in [&mut *this, &mut *peer] {
            side.limits &= !limit::RESET;
        }
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
