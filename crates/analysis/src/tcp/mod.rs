//! TCP of a flow, each measure for each side: sequence numbers, round trips, windows, anomalies.
//!
//! All of it is what a probe between the two hosts can see. Sequence arithmetic wraps (RFC 9293
//! section 3.4) and counts payload alone; lists have hard limits, and what a limit cut is marked.

mod anomaly;
pub mod conversation;
mod holes;
mod out_of_sequence;
mod rare;
mod rtt;
mod sent;
mod side;
mod span;
#[cfg(test)]
mod tests;

pub use anomaly::{Anomalies, CLASSES, Class};
pub use rare::Rare;
pub use rare::RarePool;
pub use rtt::RoundTrips;

use hw::pool::Linked;
use out_of_sequence::out_of_sequence;
use rtt::Smoothed;
use sent::{SentList, after};
use span::Nanoseconds;
use wire::Segment;
use wire::segment::seen;
use wire::tcp::flag::{ACK, FIN, PSH, RST, SYN};

/// What is marked of one side: bits of [`TcpSide::marks`].
pub mod mark {
    /// A packet of it was seen, and so a sequence number.
    pub const STARTED: u16 = 0x01;
    /// A SYN was seen.
    pub const SYN: u16 = 0x02;
    /// A FIN was seen.
    pub const FIN: u16 = 0x04;
    /// Its SYN had a window scale.
    pub const WINDOW_SCALE: u16 = 0x08;
    /// Its SYN permitted selective acknowledgement.
    pub const SACK_PERMITTED: u16 = 0x10;
    /// It sent time stamps.
    pub const TIMESTAMPS: u16 = 0x20;
    /// Its data were acknowledged, so that it is known up to where.
    pub const ACKNOWLEDGED: u16 = 0x40;
    /// It repairs a loss that duplicate acknowledgements have shown.
    pub(super) const RECOVERS: u16 = 0x80;
    /// It told a window.
    pub const WINDOW: u16 = 0x100;
    /// Its SYN was answered, and the answer is yet to be acknowledged.
    pub(super) const ANSWERED: u16 = 0x200;
    /// It sent the SYN that opens the connection.
    pub(super) const CLIENT: u16 = 0x400;
    /// How long the answer to its SYN took is known.
    pub(super) const HANDSHAKE: u16 = 0x800;
    /// A value of its time stamps is yet to be echoed.
    pub(super) const STAMPED: u16 = 0x1000;
    /// It opened a connection on the ports of the flow.
    pub(super) const OPENED: u16 = 0x2000;
    /// A FIN came without data.
    pub(super) const FIN_ALONE: u16 = 0x4000;
    /// The snap length cut options off: what was not seen may have been there.
    pub const OPTIONS_CUT: u16 = 0x8000;
    /// What holds of a side whatever its sequence numbers are.
    pub(super) const LASTING: u16 =
        TIMESTAMPS | WINDOW | ANSWERED | CLIENT | HANDSHAKE | OPENED | OPTIONS_CUT;
    /// What the SYN told of its connection.
    pub(super) const TOLD_BY_SYN: u16 = SYN | WINDOW_SCALE | SACK_PERMITTED;
}

/// What a limit cut: bits of [`TcpSide::limits`].
pub mod limit {
    /// More segments were under way than the list of one side holds: not all round trips were
    /// measured, and a retransmission may be in the wrong class.
    pub const SEGMENTS: u8 = 0x01;
    /// A gap was given up that had not been acknowledged, or bytes came that may fill one that had:
    /// should they have been new, they count as retransmitted.
    pub const GAPS: u8 = 0x02;
    /// There was no place for what is rare: anomalies, gaps and what else [`Rare`](super::Rare) has
    /// are not known.
    pub const RARE: u8 = 0x04;
    /// A sequence number was so far away that counting began anew.
    pub const JUMP: u8 = 0x08;
    /// The snap length cut TCP options off.
    pub const OPTIONS: u8 = 0x10;
    /// Not told: a gap was given up that had been acknowledged, and so counts as missed, which is true
    /// unless its bytes still come.
    pub(super) const MISSED: u8 = 0x80;
    /// Not told, and no limit: where the side is in its sequence numbers is known by its peer alone.
    pub(super) const KNOWN_BY_PEER: u8 = 0x40;
    /// What is not told.
    pub(super) const HIDDEN: u8 = MISSED | KNOWN_BY_PEER;
}

/// Further than this from what is expected, a sequence number is of something else: no window is
/// larger (RFC 7323 section 2.3).
const JUMP: i32 = 1 << 30;

/// Duplicate acknowledgements that make a sender repeat a segment (RFC 5681 section 3.2).
const DUPLICATES: u8 = 3;

/// What is kept of a TCP flow beside its [`Volume`](super::Volume). Side 0 is the initiator.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Tcp {
    /// Each side.
    pub sides: [TcpSide; 2],
}

impl Linked for Tcp {
    fn link(&mut self) -> &mut u32 {
        &mut self.sides[0].next
    }
}

/// What is kept of one side: four cache lines, in the order of how often a packet touches them. The
/// first is every packet's; then the segments under way, time stamps, and round trips.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub struct TcpSide {
    /// The sequence number behind the highest byte seen.
    next: u32,
    /// Up to where its data are acknowledged.
    acknowledged: u32,
    /// The sequence number of its first byte of data.
    start: u32,
    /// Bits of [`mark`].
    pub marks: u16,
    duplicates: u8,
    /// Window scale of its SYN, and the one by which its windows are scaled.
    scales: u8,
    /// The smallest window that it told, subtracted from the largest number there is.
    window_min: u32,
    window_max: u32,
    /// The most bytes under way, sent and not acknowledged, that the probe saw.
    in_flight_max: u32,
    /// Bytes that were sent before the first of them was acknowledged.
    in_flight_initial: u32,
    /// Packets with ACK.
    pub acks: u32,
    /// Packets with ACK that carry neither data nor SYN, FIN or RST.
    pub pure_acks: u32,
    /// Packets with PSH.
    pub pushes: u32,
    /// The most payload of a packet, 65,535 if it was more.
    pub segment_max: u16,
    /// The least payload of a packet that has any, subtracted from 65,535.
    segment_min: u16,
    /// Its last window, not scaled.
    window: u16,
    /// Maximum segment size of its SYN, 0 if it told none.
    pub segment_size: u16,
    /// Handle of what is rare.
    pub rare: u32,
    sent: SentList,
    stamp: u32,
    last_stamp: u32,
    /// When `stamp` was sent.
    stamped: Nanoseconds,
    /// Time of its last SYN, then, with [`mark::HANDSHAKE`], how long the answer took.
    handshake: Nanoseconds,
    /// What a limit cut: see [`limit`].
    pub limits: u8,
    /// Flags that it sent at least once.
    flags_seen: u8,
    /// Packets with SYN.
    pub syns: u16,
    smoothed: Smoothed,
    /// Round trips of its data: from the probe to the other host and back.
    pub rtt: RoundTrips,
    /// The same by time stamps.
    pub timestamp_rtt: RoundTrips,
}

/// Bytes of a cache line.
const LINE: usize = 64;

// What `Tcp::LINES` says of them.
const _: () = {
    assert!(size_of::<TcpSide>() == 4 * LINE);
    assert!(std::mem::offset_of!(TcpSide, rtt) == 3 * LINE);
};

impl Tcp {
    /// Where the cache lines begin that packets touch: all but those of round trips, which few change.
    /// Which of them a packet will touch costs more to find out than it spares.
    pub const LINES: [usize; 6] = [0, LINE, 2 * LINE, 4 * LINE, 5 * LINE, 6 * LINE];

    /// Takes a packet of `side` in.
    #[inline(always)]
    pub fn count(&mut self, side: usize, time_ns: i64, segment: &Segment, pool: &mut RarePool) {
        // By their places: no processor can learn which way a packet goes.
        let side = side & 1;
        let Ok([this, peer]) = self.sides.get_disjoint_mut([side, side ^ 1]) else {
            return;
        };
        if this.is_steady(segment) {
            go_on(this, peer, time_ns, segment, pool);
        } else {
            count_any(this, peer, time_ns, segment, pool);
        }
    }

    /// From the SYN to the SYN-ACK: the way from the probe to the server and back. Of a SYN that was
    /// sent again the last one counts.
    #[must_use]
    pub fn server_handshake_ns(&self) -> Option<u64> {
        let [client, _] = self.client_and_server()?;
        client.handshake_ns()
    }

    /// From the SYN-ACK to the ACK that answers it: the way from the probe to the client and back.
    #[must_use]
    pub fn client_handshake_ns(&self) -> Option<u64> {
        let [_, server] = self.client_and_server()?;
        server.handshake_ns()
    }

    fn client_and_server(&self) -> Option<[&TcpSide; 2]> {
        let [first, second] = &self.sides;
        if first.marks & mark::CLIENT != 0 {
            Some([first, second])
        } else if second.marks & mark::CLIENT != 0 {
            Some([second, first])
        } else {
            None
        }
    }

    /// Connections that were opened on the ports of the flow.
    #[must_use]
    pub fn connections(&self, rare: &[Rare; 2]) -> u16 {
        let sides = self.sides.iter().zip(rare);
        sides.fold(0, |sum: u16, (side, rare)| {
            sum.saturating_add(side.connections(rare))
        })
    }

    /// What a limit cut of either side: see [`limit`].
    #[must_use]
    pub const fn limits(&self) -> u8 {
        let [first, second] = &self.sides;
        let cut = (first.marks | second.marks) & mark::OPTIONS_CUT != 0;
        let limits = (first.limits | second.limits) & !limit::HIDDEN;
        limits | if cut { limit::OPTIONS } else { 0 }
    }

    /// Whether the flow was seen from its beginning: with the SYN of a side.
    #[must_use]
    pub fn has_syn(&self) -> bool {
        self.sides.iter().any(|side| side.marks & mark::SYN != 0)
    }

    /// Tells what is rare, of each side that has any.
    pub fn tell_rare(&self, pool: &RarePool, told: &mut [Rare; 2]) {
        for (side, told) in self.sides.iter().zip(told) {
            if let Some(rare) = pool.get(side.rare) {
                *told = *rare;
            }
        }
    }

    /// Gives the places of what is rare back.
    pub fn release(&self, pool: &mut RarePool) {
        for side in &self.sides {
            pool.release(side.rare);
        }
    }

    /// Begins another record of the same flow: what was counted goes, what is known of the
    /// connection stays.
    pub fn next_record(&mut self, pool: &mut RarePool) {
        for side in &mut self.sides {
            side.next_rare(pool);
            // What was not kept is missing still, but segments that shared a place once they are gone; a
            // place for what is rare may be free again.
            let over = match side.sent.has_shared() {
                true => limit::RARE,
                false => limit::RARE | limit::SEGMENTS,
            };
            *side = TcpSide {
                next: side.next,
                acknowledged: side.acknowledged,
                start: side.start,
                rare: side.rare,
                sent: side.sent,
                marks: side.marks,
                duplicates: side.duplicates,
                scales: side.scales,
                window: side.window,
                handshake: side.handshake,
                smoothed: side.smoothed,
                stamped: side.stamped,
                stamp: side.stamp,
                last_stamp: side.last_stamp,
                segment_size: side.segment_size,
                limits: side.limits & !over,
                ..TcpSide::default()
            };
        }
    }
}

/// A packet of `this` as most are: see [`TcpSide::is_steady`].
#[inline(always)]
fn go_on(
    this: &mut TcpSide,
    peer: &mut TcpSide,
    time_ns: i64,
    segment: &Segment,
    pool: &mut RarePool,
) {
    this.acks += 1;
    this.pushes += u32::from(segment.tcp_flags & PSH != 0);
    let same_window = this.window == segment.window;
    this.tell_window(segment.window);
    let length = segment.payload_length;
    let pure = length == 0;
    if pure {
        this.pure_acks += 1;
    } else {
        this.add(segment.sequence, length, time_ns, segment);
    }
    let number = segment.acknowledgement;
    peer.acknowledge(number, time_ns, pure && same_window, pool);
    if segment.has(seen::TIMESTAMPS) {
        this.stamp(peer, time_ns, segment);
    } else if segment.has(seen::OPTIONS_CUT) {
        this.marks |= mark::OPTIONS_CUT;
    }
}

/// Any packet of `this`.
#[inline(never)]
fn count_any(
    this: &mut TcpSide,
    peer: &mut TcpSide,
    time_ns: i64,
    segment: &Segment,
    pool: &mut RarePool,
) {
    if segment.tcp_flags & (SYN | RST) != 0 {
        open_or_reset(this, peer, time_ns, segment, pool);
    } else {
        steady(this, peer, time_ns, segment, pool);
    }
}

/// A packet of `this` with neither SYN nor RST, or what goes with a SYN.
#[inline(never)]
fn steady(
    this: &mut TcpSide,
    peer: &mut TcpSide,
    time_ns: i64,
    segment: &Segment,
    pool: &mut RarePool,
) {
    let flags = segment.tcp_flags;
    if this.marks & mark::ANSWERED != 0 && flags & ACK != 0 {
        this.end_handshake(peer, time_ns, segment);
    }
    this.acks += u32::from(flags & ACK != 0);
    this.pushes += u32::from(flags & PSH != 0);
    if flags & !(ACK | PSH) != 0 {
        this.count_flags(flags, pool);
        if flags & FIN != 0 && segment.payload_length == 0 {
            this.marks |= mark::FIN_ALONE;
        }
    }
    let same_window = this.window == segment.window;
    if flags & SYN == 0 {
        this.marks |= mark::WINDOW;
        this.tell_window(segment.window);
        if segment.window == 0 {
            this.count_zero_window(pool);
        }
    }
    let start = segment.sequence.wrapping_add(u32::from(flags & SYN != 0));
    let length = segment.payload_length;
    if this.marks & mark::STARTED == 0 {
        this.begin_seen(start, pool);
    }
    let in_sequence = start == this.next;
    if in_sequence && length > 0 {
        this.add(start, length, time_ns, segment);
    }
    let pure = length == 0 && flags & (SYN | FIN) == 0;
    this.pure_acks += u32::from(pure && flags & ACK != 0);
    if flags & ACK != 0 {
        let number = segment.acknowledgement;
        peer.acknowledge(number, time_ns, pure && same_window, pool);
    }
    if segment.has(seen::TIMESTAMPS) {
        this.stamp(peer, time_ns, segment);
    } else if segment.has(seen::OPTIONS_CUT) {
        this.marks |= mark::OPTIONS_CUT;
    }
    if segment.sack_blocks > 0 {
        this.count_sack(segment, pool);
    }
    if !in_sequence {
        out_of_sequence(this, peer, start, time_ns, segment, pool);
    }
}

#[inline(never)]
fn open_or_reset(
    this: &mut TcpSide,
    peer: &mut TcpSide,
    time_ns: i64,
    segment: &Segment,
    pool: &mut RarePool,
) {
    let flags = segment.tcp_flags;
    if flags & RST != 0 {
        this.acks += u32::from(flags & ACK != 0);
        this.pushes += u32::from(flags & PSH != 0);
        return this.count_flags(flags, pool);
    }
    let start = segment.sequence.wrapping_add(1);
    // Sent again, or late: what it begins is known.
    let again = this.is_known() && this.start == start;
    let crosses = flags & ACK == 0 && this.opens_at_once(peer);
    if again {
        if flags & ACK == 0 {
            this.ask_again(pool);
        }
        let late = this.marks & mark::SYN == 0 && flags & ACK == 0;
        if late {
            this.count_connection(pool);
        }
    } else {
        if flags & ACK == 0 && !crosses {
            // A new connection: of both sides nothing that was known holds.
            for side in [&mut *this, &mut *peer] {
                side.restart(pool);
                side.marks &= !(mark::ANSWERED | mark::CLIENT | mark::HANDSHAKE);
            }
            this.count_connection(pool);
        } else if this.is_known() {
            this.restart(pool);
        }
        this.begin(start);
    }
    if flags & ACK != 0 {
        this.answer(peer, time_ns);
    } else if !crosses {
        this.ask(peer, time_ns);
    }
    this.take_options(segment);
    this.agree_on_scales(peer);
    steady(this, peer, time_ns, segment, pool);
}

const _: () = assert!(size_of::<Tcp>() == 512);
