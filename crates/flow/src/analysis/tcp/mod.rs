//! TCP of a flow, each measure for each side: sequence numbers, round trips, windows, anomalies.
//!
//! All of it is what a probe between the two hosts can see. Sequence arithmetic wraps (RFC 9293
//! section 3.4) and counts payload alone; lists have hard limits, and what a limit cut is marked.

mod anomaly;
#[cfg(test)]
mod conversation;
#[cfg(test)]
mod faulty_path;
mod holes;
mod rtt;
mod sent;
#[cfg(test)]
mod tests;

pub use anomaly::{Anomalies, CLASSES, Class};
pub use rtt::RoundTrips;

use crate::pool::Pool;
use anomaly::Evidence;
use holes::Holes;
use rtt::Smoothed;
use sent::{SentList, after};
use wire::Segment;
use wire::segment::seen;
use wire::tcp::flag::{ACK, FIN, PSH, RST, SYN};

/// What is marked of one side: bits of [`TcpSide::marks`].
pub mod mark {
    /// A sequence number is known.
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
}

/// What a limit cut: bits of [`Tcp::limits`].
pub mod limit {
    /// More segments were under way than the list of one side holds: not all round trips were
    /// measured, and a retransmission may be in the wrong class.
    pub const SEGMENTS: u8 = 0x01;
    /// A gap was given up that had not been acknowledged: its bytes, should they have come, count as
    /// retransmitted.
    pub const GAPS: u8 = 0x02;
    /// There was no place to count anomalies: none are known.
    pub const ANOMALIES: u8 = 0x04;
    /// A sequence number was so far away that counting began anew.
    pub const JUMP: u8 = 0x08;
}

/// In place of a place for anomalies: none yet.
const NO_PLACE: u32 = u32::MAX;

/// Further than this from what is expected, a sequence number is of something else: no window is
/// larger (RFC 7323 section 2.3).
const JUMP: i32 = 1 << 30;

/// Duplicate acknowledgements that make a sender repeat a segment (RFC 5681 section 3.2).
const DUPLICATES: u8 = 3;

/// What is kept of a TCP flow beside its [`Volume`](super::Volume). Side 0 is the initiator.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Tcp {
    /// Each side.
    pub sides: [TcpSide; 2],
    /// Time of the last SYN, then of the last SYN-ACK.
    waiting_ns: i64,
    /// From the SYN to the SYN-ACK, as far as `steps` says that it is known.
    server_ns: u64,
    /// From the SYN-ACK to the ACK that ends the handshake.
    client_ns: u64,
    /// Place of the anomalies.
    pub(crate) anomalies: u32,
    /// Connections that were opened on the ports of the flow.
    pub connections: u16,
    /// What a limit cut: see [`limit`].
    pub limits: u8,
    /// How far the handshake came: 1 SYN, 2 SYN-ACK, 3 ACK.
    steps: u8,
    /// The side that sent the SYN.
    client: u8,
}

/// What is kept of one side: five cache lines, in the order of how often a packet touches them. The
/// first is every packet's; then the segments under way, time stamps and round trips; the last one
/// has what is rare.
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
    /// Window scale of its SYN.
    pub window_scale: u8,
    window_min: u32,
    window_max: u32,
    /// Its last window, not scaled.
    window: u16,
    /// Packets that told a window of zero.
    pub zero_windows: u16,
    /// The most bytes under way, sent and not acknowledged, that the probe saw.
    pub in_flight_max: u32,
    /// Bytes that were sent before the first of them was acknowledged.
    pub in_flight_initial: u32,
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
    /// A loss is repaired when this is acknowledged.
    recovery: u32,
    sent: SentList,
    stamped_ns: i64,
    stamp: u32,
    last_stamp: u32,
    smoothed: Smoothed,
    /// Round trips of its data: from the probe to the other host and back.
    pub rtt: RoundTrips,
    /// The same by time stamps.
    pub timestamp_rtt: RoundTrips,
    holes: Holes,
    /// SACK blocks.
    pub sack_blocks: u32,
    /// Packets with SYN.
    pub syns: u16,
    /// Packets with FIN.
    pub fins: u16,
    /// Packets with RST.
    pub resets: u16,
    /// Packets with URG.
    pub urgent: u16,
    /// Packets with ECE.
    pub ecn_echoes: u16,
    /// Packets with CWR.
    pub windows_reduced: u16,
    /// Maximum segment size of its SYN, 0 if it told none.
    pub segment_size: u16,
    /// SACK blocks that report a duplicate (RFC 2883).
    pub duplicates_reported: u16,
}

/// Cache lines of a side.
const SIDE_LINES: usize = size_of::<TcpSide>() / 64;

// What `Tcp::lines` says of them.
const _: () = {
    assert!(std::mem::offset_of!(TcpSide, sent) == 56 && SIDE_LINES == 5);
    assert!(std::mem::offset_of!(TcpSide, stamped_ns) / 64 == 2);
    assert!(std::mem::offset_of!(TcpSide, last_stamp) / 64 == 2);
};

impl Default for Tcp {
    fn default() -> Self {
        Self {
            sides: [TcpSide::default(); 2],
            waiting_ns: 0,
            server_ns: 0,
            client_ns: 0,
            anomalies: NO_PLACE,
            connections: 0,
            limits: 0,
            steps: 0,
            client: 0,
        }
    }
}

/// The places for anomalies of both sides.
pub(crate) type AnomalyPool = Pool<[Anomalies; 2]>;

impl Tcp {
    /// The cache lines of a state that such a packet of `side` will most likely touch.
    #[inline(always)]
    pub(crate) fn lines(side: usize, segment: &Segment) -> [usize; 6] {
        let (this, peer) = (SIDE_LINES * (side & 1), SIDE_LINES * (side & 1 ^ 1));
        // Data are added to what is under way; an acknowledgement ends round trips.
        let last = if segment.payload_length > 0 {
            [this + 1, this + 2]
        } else {
            [peer + 1, peer + 3]
        };
        [this, peer, this + 2, peer + 2, last[0], last[1]]
    }

    /// Takes a packet of `side` in.
    #[inline(always)]
    pub(crate) fn count(
        &mut self,
        side: usize,
        time_ns: i64,
        segment: &Segment,
        pool: &mut AnomalyPool,
    ) {
        let flags = segment.tcp_flags;
        if flags & (SYN | RST) != 0 {
            return self.open_or_reset(side, time_ns, segment, pool);
        }
        self.steady(side, time_ns, segment, pool);
    }

    /// A packet with neither SYN nor RST, or what goes with a SYN.
    #[inline(always)]
    fn steady(&mut self, side: usize, time_ns: i64, segment: &Segment, pool: &mut AnomalyPool) {
        let flags = segment.tcp_flags;
        if self.sides[side].marks & mark::ANSWERED != 0 && flags & ACK != 0 {
            self.end_handshake(side, time_ns, segment);
        }
        let (this, peer) = both(&mut self.sides, side);
        this.acks += u32::from(flags & ACK != 0);
        this.pushes += u32::from(flags & PSH != 0);
        if flags & !(ACK | PSH) != 0 {
            this.count_rare(flags);
        }
        let same_window = this.window == segment.window;
        if flags & SYN == 0 {
            this.tell_window(segment.window, peer.marks);
        }
        let start = segment.sequence.wrapping_add(u32::from(flags & SYN != 0));
        let length = segment.payload_length;
        if this.marks & mark::STARTED == 0 {
            this.begin(start);
        }
        let mut in_sequence = true;
        if start == this.next {
            if length > 0 {
                this.add(start, length, time_ns, segment, &mut self.limits);
            }
        } else {
            in_sequence = false;
        }
        let pure = length == 0 && flags & (SYN | FIN) == 0;
        this.pure_acks += u32::from(pure && flags & ACK != 0);
        if flags & ACK != 0 {
            let news = peer.acknowledge(segment.acknowledgement, time_ns, pure && same_window);
            if news != 0 {
                self.limit_gap(side ^ 1, news, pool);
            }
        }
        if segment.has(seen::TIMESTAMPS) {
            let (this, peer) = both(&mut self.sides, side);
            this.stamp(peer, time_ns, segment);
        }
        if segment.sack_blocks > 0 {
            self.sides[side].count_sack(segment);
        }
        if !in_sequence {
            self.out_of_sequence(side, start, time_ns, segment, pool);
        }
    }

    #[inline(never)]
    fn end_handshake(&mut self, side: usize, time_ns: i64, segment: &Segment) {
        if segment.acknowledgement == self.sides[side ^ 1].start {
            self.client_ns = interval(self.waiting_ns, time_ns);
            self.sides[side ^ 1].smoothed.add(self.client_ns);
            self.sides[side].marks &= !mark::ANSWERED;
            self.steps = 3;
        }
    }

    #[inline(never)]
    fn open_or_reset(
        &mut self,
        side: usize,
        time_ns: i64,
        segment: &Segment,
        pool: &mut AnomalyPool,
    ) {
        let flags = segment.tcp_flags;
        if flags & RST != 0 {
            let this = &mut self.sides[side];
            this.acks += u32::from(flags & ACK != 0);
            this.pushes += u32::from(flags & PSH != 0);
            this.count_rare(flags);
            return;
        }
        let start = segment.sequence.wrapping_add(1);
        let known = self.sides[side].marks;
        // Sent again, or late, where what it begins is known.
        let again = known & mark::STARTED != 0 && self.sides[side].start == start;
        if again {
            let late = known & mark::SYN == 0 && flags & ACK == 0;
            self.connections = self.connections.saturating_add(u16::from(late));
        } else {
            if flags & ACK == 0 {
                // A new connection: of both sides nothing that was known holds.
                self.restart(side, pool);
                self.restart(side ^ 1, pool);
                self.connections = self.connections.saturating_add(1);
                self.sides
                    .iter_mut()
                    .for_each(|it| it.marks &= !mark::ANSWERED);
                self.steps = 0;
            } else if known & mark::STARTED != 0 {
                self.restart(side, pool);
            }
            self.sides[side].begin(start);
        }
        if flags & ACK == 0 {
            if self.steps <= 1 {
                (self.waiting_ns, self.steps, self.client) = (time_ns, 1, side as u8);
            }
        } else if self.steps == 1 && side != usize::from(self.client) {
            self.server_ns = interval(self.waiting_ns, time_ns);
            let client = &mut self.sides[usize::from(self.client)];
            client.smoothed.add(self.server_ns);
            client.marks |= mark::ANSWERED;
            (self.waiting_ns, self.steps) = (time_ns, 2);
        } else if self.steps == 2 {
            self.waiting_ns = time_ns;
        }
        self.sides[side].take_options(segment);
        self.steady(side, time_ns, segment, pool);
    }

    /// Forgets the sequence numbers of a side; its measures stay.
    fn restart(&mut self, side: usize, pool: &mut AnomalyPool) {
        let missed = self.sides[side].missed_in_gaps();
        if missed > 0 {
            self.anomalies(pool, side, |it| it.given_up_bytes += missed);
        }
        let this = &mut self.sides[side];
        this.holes = Holes::default();
        this.marks &= mark::TIMESTAMPS | mark::WINDOW | mark::ANSWERED;
        this.duplicates = 0;
        this.smoothed = Smoothed::default();
        this.stamped_ns = 0;
    }

    /// A segment that does not begin where the one before has ended.
    #[inline(never)]
    fn out_of_sequence(
        &mut self,
        side: usize,
        start: u32,
        time_ns: i64,
        segment: &Segment,
        pool: &mut AnomalyPool,
    ) {
        let length = segment.payload_length;
        let flags = segment.tcp_flags;
        let (this, peer) = both(&mut self.sides, side);
        let ahead = start.wrapping_sub(this.next).cast_signed();
        // A FIN takes a sequence number and is no data.
        if ahead == 1 && length == 0 && this.marks & mark::FIN != 0 {
            return;
        }
        if !(-JUMP..=JUMP).contains(&ahead) {
            self.limits |= limit::JUMP;
            self.restart(side, pool);
            let this = &mut self.sides[side];
            this.begin(start);
            if length > 0 {
                this.add(start, length, time_ns, segment, &mut self.limits);
            }
            return;
        }
        if ahead > 0 {
            let given_up = this.holes.add(this.next, start);
            this.next = start;
            if length > 0 {
                this.add(start, length, time_ns, segment, &mut self.limits);
            }
            return self.give_up(side, given_up, pool);
        }
        if length == 0 {
            // The byte before the next one, without it: is the other host alive? (RFC 9293 3.8.4.)
            if ahead == -1 && flags & (SYN | FIN) == 0 && this.acknowledged == this.next {
                self.anomalies(pool, side, |it| {
                    it.classes[Class::FlowControl as usize] += 1;
                });
            }
            return;
        }
        let end = start.wrapping_add(length);
        if after(this.start, start) && this.marks & mark::SYN == 0 {
            // Before the first that was seen, and so not a byte that was.
            let gap = if after(this.start, end) {
                Some([end, this.start])
            } else {
                None
            };
            let overlap = end
                .wrapping_sub(this.start)
                .cast_signed()
                .max(0)
                .cast_unsigned();
            this.start = start;
            let given_up = gap.and_then(|[from, to]| this.holes.add(from, to));
            self.give_up(side, given_up, pool);
            self.anomalies(pool, side, |it| {
                it.out_of_order += 1;
                it.repeated_bytes += u64::from(overlap);
                it.classes[Class::Unknown as usize] += 1;
            });
            return;
        }
        let (filled, given_up) = this.holes.fill(start, end);
        let beyond = end
            .wrapping_sub(this.next)
            .cast_signed()
            .max(0)
            .cast_unsigned();
        let repeated = length.saturating_sub(filled + beyond);
        let probe = length == 1
            && end == this.next
            && repeated == 1
            && (peer.is_closed() || this.acknowledged == this.next);
        let evidence = Evidence {
            seen: repeated > 0,
            acknowledged: this.marks & mark::ACKNOWLEDGED != 0 && !after(end, this.acknowledged),
            identification: segment.identification,
            known: this.sent.find(start, time_ns),
            rtt_ns: this.smoothed.together_ns(&peer.smoothed),
            timeout_ns: this.smoothed.timeout_ns(&peer.smoothed),
            asked_for: this.duplicates >= DUPLICATES || this.marks & mark::RECOVERS != 0,
        };
        let class = if probe {
            Class::FlowControl
        } else {
            evidence.judge()
        };
        match class {
            Class::Duplicate | Class::FlowControl => {}
            _ if repeated > 0 => {
                this.sent
                    .send_again(start, end, time_ns, segment.identification);
            }
            _ => {
                let again = class != Class::Reordering;
                let identification = segment.identification;
                let acknowledged = evidence.acknowledged;
                if !this
                    .sent
                    .insert(end, time_ns, identification, again, acknowledged)
                {
                    this.sent
                        .send_again(start, end, time_ns, segment.identification);
                }
            }
        }
        if beyond > 0 {
            let from = this.next;
            this.add(from, beyond, time_ns, segment, &mut self.limits);
        }
        self.give_up(side, given_up, pool);
        self.anomalies(pool, side, |it| {
            it.classes[class as usize] += 1;
            it.repeated_bytes += u64::from(repeated);
            if repeated == 0 {
                it.out_of_order += 1;
            } else if !matches!(class, Class::Duplicate | Class::FlowControl) {
                it.retransmitted += 1;
                it.retransmitted_bytes += u64::from(repeated);
            }
        });
    }

    /// Counts what was missed of `side` and cannot be kept as a gap.
    #[inline(never)]
    fn limit_gap(&mut self, side: usize, from: u32, pool: &mut AnomalyPool) {
        let this = &mut self.sides[side];
        let to = this.next;
        let given_up = this.holes.add(to.wrapping_sub(from), to);
        self.give_up(side, given_up, pool);
    }

    fn give_up(&mut self, side: usize, gap: Option<[u32; 2]>, pool: &mut AnomalyPool) {
        let Some([from, to]) = gap else {
            return;
        };
        let this = &self.sides[side];
        if this.marks & mark::ACKNOWLEDGED == 0 || after(to, this.acknowledged) {
            self.limits |= limit::GAPS;
        }
        let bytes = u64::from(to.wrapping_sub(from));
        self.anomalies(pool, side, |it| it.given_up_bytes += bytes);
    }

    fn anomalies(
        &mut self,
        pool: &mut AnomalyPool,
        side: usize,
        note: impl FnOnce(&mut Anomalies),
    ) {
        if self.anomalies == NO_PLACE {
            self.anomalies = pool.take().unwrap_or(NO_PLACE);
        }
        match pool.get_mut(self.anomalies) {
            Some(sides) => note(&mut sides[side]),
            None => self.limits |= limit::ANOMALIES,
        }
    }

    /// From the SYN to the SYN-ACK: the way from the probe to the server and back. Of a SYN that was
    /// sent again the last one counts.
    #[must_use]
    pub fn server_handshake_ns(&self) -> Option<u64> {
        (self.steps >= 2).then_some(self.server_ns)
    }

    /// From the SYN-ACK to the ACK that answers it: the way from the probe to the client and back.
    #[must_use]
    pub fn client_handshake_ns(&self) -> Option<u64> {
        (self.steps >= 3).then_some(self.client_ns)
    }

    /// Whether the flow was seen from its beginning: with the SYN of a side.
    #[must_use]
    pub fn has_syn(&self) -> bool {
        self.sides.iter().any(|side| side.marks & mark::SYN != 0)
    }

    /// Begins another record of the same flow: what was counted goes, what is known of the
    /// connection stays.
    pub(crate) fn next_record(&mut self) {
        for side in &mut self.sides {
            if side.missed_in_gaps() > 0 {
                side.holes = Holes::default();
            }
        }
        for side in &mut self.sides {
            *side = TcpSide {
                next: side.next,
                acknowledged: side.acknowledged,
                start: side.start,
                recovery: side.recovery,
                holes: side.holes,
                sent: side.sent,
                marks: side.marks & !mark::WINDOW,
                duplicates: side.duplicates,
                window_scale: side.window_scale,
                window: side.window,
                smoothed: side.smoothed,
                stamped_ns: side.stamped_ns,
                stamp: side.stamp,
                last_stamp: side.last_stamp,
                segment_size: side.segment_size,
                ..TcpSide::default()
            };
        }
        self.limits = 0;
        self.anomalies = NO_PLACE;
    }
}

/// The side at hand and the other one.
#[inline(always)]
fn both(sides: &mut [TcpSide; 2], side: usize) -> (&mut TcpSide, &mut TcpSide) {
    let [first, second] = sides;
    if side == 0 {
        (first, second)
    } else {
        (second, first)
    }
}

/// From `from` to `to`, 0 if the clock went back.
fn interval(from: i64, to: i64) -> u64 {
    to.saturating_sub(from).max(0).cast_unsigned()
}

mod side;

const _: () = assert!(size_of::<Tcp>() <= 704);
