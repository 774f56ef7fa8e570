//! Segments out of sequence, which do not begin where the one before ended: they leave a hole, fill one,
//! or repeat bytes that were seen before.
//!
//! Three steps:
//!
//! 1. [`Position::of`]: where the segment is among the sequence numbers of its side.
//! 2. A segment with data below the next sequence number fills holes. [`Observed::new`] then collects
//!    the evidence, and [`Evidence::classify`] infers its class. Its table is in the module of [`Class`].
//! 3. [`count_out_of_sequence`] and [`apply`] change the rest of the side.
//!
//! ```text
//!        start           acknowledged             next
//!   before |   holes or seen   |   holes or seen    |   not seen yet
//! ---------+-------------------+--------------------+----------------> sequence numbers
//! ```
//!
//! The first row that fits decides:
//!
//! | Begins at | Other conditions | Position | Effect |
//! |---|---|---|---|
//! | `next` + 1 | no data, after a FIN | `AfterFin` | none: the FIN has taken a sequence number |
//! | more than [`JUMP_MAX`] from `next` | | `Jump` | sequence numbers start anew |
//! | after `next` | | `Ahead` | a hole up to the segment, then data in sequence |
//! | before `next` | no data; at `next` - 1, no SYN or FIN, all acknowledged | `KeepAlive` | counted as flow control |
//! | before `next` | no data otherwise | `NoData` | none, except for a late FIN |
//! | before an uncertain `start` | ends at or before it | `BeforeStart` | new bytes: `start` moves down, with a hole if they are not adjacent |
//! | before an uncertain `start` | ends after it | `AcrossStart` | `start` moves down, then as `Below` |
//! | before `next` | | `Below` | classified; fills holes; bytes after `next` are data in sequence |
//!
//! `start` is uncertain if the capture began within the connection, or after a jump.

use super::anomaly::{Class, Evidence};
use super::cold::TcpColdPool;
use super::sent::after;
use super::side::TcpSide;
use super::update::{DUPLICATE_ACK_THRESHOLD, JUMP_MAX};
use super::{flag, limit};
use wire::PacketInfo;
use wire::tcp::flag::{FIN, SYN};

/// Where a segment out of sequence is: see the table of the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    AfterFin,
    Jump,
    Ahead,
    KeepAlive,
    NoData,
    BeforeStart,
    AcrossStart,
    Below,
}

impl Position {
    /// Returns the position of a segment of `side` that begins at `start`.
    fn of(side: &TcpSide, start: u32, segment: &PacketInfo) -> Self {
        let length = segment.payload_length;
        let ahead = start.wrapping_sub(side.next).cast_signed();
        if ahead == 1 && length == 0 && side.flags & flag::FIN != 0 {
            return Self::AfterFin;
        }
        if !(-JUMP_MAX..=JUMP_MAX).contains(&ahead) {
            return Self::Jump;
        }
        if ahead > 0 {
            return Self::Ahead;
        }
        if length == 0 {
            // RFC 9293 section 3.8.4: a keep-alive without data begins one byte before the next one.
            let is_keep_alive = ahead == -1
                && segment.tcp_flags & (SYN | FIN) == 0
                && side.acknowledged == side.next;
            return if is_keep_alive {
                Self::KeepAlive
            } else {
                Self::NoData
            };
        }
        let is_start_exact = side.flags & flag::SYN != 0 && side.limits & limit::JUMP == 0;
        if is_start_exact || !after(side.start, start) {
            Self::Below
        } else if after(start.wrapping_add(length), side.start) {
            Self::AcrossStart
        } else {
            Self::BeforeStart
        }
    }

    /// Returns whether the segment begins before the next sequence number.
    const fn is_before_next(self) -> bool {
        !matches!(self, Self::AfterFin | Self::Jump | Self::Ahead)
    }
}

/// Counts a segment of `this` that begins at `start`, out of sequence.
#[inline(never)]
pub(super) fn count_out_of_sequence(
    this: &mut TcpSide,
    peer: &TcpSide,
    start: u32,
    time_ns: i64,
    segment: &PacketInfo,
    pool: &mut TcpColdPool,
) {
    let length = segment.payload_length;
    let end = start.wrapping_add(length);
    let position = Position::of(this, start, segment);
    if position.is_before_next() && segment.tcp_flags & FIN != 0 {
        this.handle_late_fin(end, pool);
    }
    match position {
        Position::AfterFin | Position::NoData => {}
        Position::Jump => {
            this.jump_to(start, pool);
            if length > 0 {
                this.add_data(start, length, time_ns, segment);
            }
        }
        Position::Ahead => {
            let from = std::mem::replace(&mut this.next, start);
            this.add_hole(from, start, pool);
            if length > 0 {
                this.add_data(start, length, time_ns, segment);
            }
        }
        Position::KeepAlive => {
            this.update_cold(pool, |cold| cold.anomalies.count(Class::FlowControl));
        }
        Position::BeforeStart => {
            let first = this.move_start_down(start);
            if end != first {
                this.add_hole(end, first, pool);
            }
            this.update_cold(pool, |cold| {
                cold.anomalies.out_of_order += 1;
                cold.anomalies.count(Class::Unknown);
            });
        }
        Position::AcrossStart => {
            // The part before the old start is a hole, which the segment then fills.
            let first = this.move_start_down(start);
            this.add_hole(start, first, pool);
            count_below(this, peer, start, time_ns, segment, pool);
        }
        Position::Below => count_below(this, peer, start, time_ns, segment, pool),
    }
}

/// Counts a segment with data that begins between the start and the next sequence number.
fn count_below(
    this: &mut TcpSide,
    peer: &TcpSide,
    start: u32,
    time_ns: i64,
    segment: &PacketInfo,
    pool: &mut TcpColdPool,
) {
    let end = start.wrapping_add(segment.payload_length);
    let filled_bytes = this.fill_holes(start, end, pool);
    let observed = Observed::new(this, peer, start, time_ns, segment, filled_bytes);
    let class = observed.evidence.classify();
    apply(this, class, &observed, start, time_ns, segment, pool);
}

/// What the side's state says of a segment with data below the next sequence number. The bytes that are
/// neither new nor repeated filled holes.
#[derive(Clone, Copy, Debug)]
struct Observed {
    /// Bytes from the next sequence number on.
    new_bytes: u32,
    /// Bytes that were seen before.
    repeated_bytes: u32,
    evidence: Evidence,
}

impl Observed {
    fn new(
        this: &TcpSide,
        peer: &TcpSide,
        start: u32,
        time_ns: i64,
        segment: &PacketInfo,
        filled_bytes: u32,
    ) -> Self {
        let length = segment.payload_length;
        let end = start.wrapping_add(length);
        let beyond_next = end.wrapping_sub(this.next).cast_signed();
        let new_bytes = beyond_next.max(0).cast_unsigned();
        let repeated_bytes = length.saturating_sub(filled_bytes + new_bytes);
        let is_last_byte_again = length == 1 && end == this.next && repeated_bytes == 1;
        let is_acknowledged = this.flags & flag::ACKNOWLEDGED != 0;
        let is_recovering = this.flags & flag::IN_RECOVERY != 0;
        let has_duplicate_acks = this.duplicate_acks >= DUPLICATE_ACK_THRESHOLD;
        let evidence = Evidence {
            is_probe: is_last_byte_again
                && (peer.has_zero_window() || this.acknowledged == this.next),
            was_seen: repeated_bytes > 0,
            was_acknowledged: is_acknowledged && !after(end, this.acknowledged),
            identification: segment.identification,
            sent_info: this.sent.find(start, time_ns),
            rtt_ns: this.srtt.path_rtt_ns(&peer.srtt),
            rto_ns: this.srtt.rto_ns(&peer.srtt),
            has_duplicate_acks: is_recovering || has_duplicate_acks,
            is_requested: has_duplicate_acks && start == this.acknowledged,
        };
        Self {
            new_bytes,
            repeated_bytes,
            evidence,
        }
    }
}

/// Changes `this` by a segment of `class` that begins at `start`.
fn apply(
    this: &mut TcpSide,
    class: Class,
    observed: &Observed,
    start: u32,
    time_ns: i64,
    segment: &PacketInfo,
    pool: &mut TcpColdPool,
) {
    let end = start.wrapping_add(segment.payload_length);
    let &Observed {
        new_bytes,
        repeated_bytes,
        evidence,
    } = observed;
    // The repeated bytes may belong to a hole that was given up: then they are new.
    if repeated_bytes > 0 && this.limits & limit::MISSED != 0 && after(this.acknowledged, start) {
        this.limits |= limit::HOLES;
    }
    // The sender has not sent a duplicate or a probe as one of its segments.
    let is_sent = !matches!(class, Class::Duplicate | Class::FlowControl);
    if is_sent {
        let identification = segment.identification;
        let is_inserted = repeated_bytes == 0
            && this.sent.insert(
                end,
                time_ns,
                identification,
                class != Class::Reordering,
                evidence.was_acknowledged,
            );
        if !is_inserted {
            this.sent.retransmit(start, end, time_ns, identification);
        }
    }
    if new_bytes > 0 {
        this.add_data(this.next, new_bytes, time_ns, segment);
    }
    this.update_cold(pool, |cold| {
        let anomalies = &mut cold.anomalies;
        anomalies.count(class);
        anomalies.repeated_bytes += u64::from(repeated_bytes);
        if repeated_bytes == 0 {
            anomalies.out_of_order += 1;
        } else if is_sent {
            anomalies.retransmitted += 1;
            anomalies.retransmitted_bytes += u64::from(repeated_bytes);
        }
    });
}

impl TcpSide {
    /// Starts the sequence numbers anew at `start`, which is too far away to follow the known ones.
    fn jump_to(&mut self, start: u32, pool: &mut TcpColdPool) {
        self.limits |= limit::JUMP;
        // A reset was one of the other sequence numbers, which someone may have forged with it.
        self.limits &= !limit::RESET;
        let from_syn = self.flags & flag::FROM_SYN;
        self.restart(pool);
        self.begin(start);
        self.flags |= from_syn;
    }

    /// Moves the start of the sequence numbers down to `start`. Returns the old one.
    const fn move_start_down(&mut self, start: u32) -> u32 {
        if self.flags & flag::ACKNOWLEDGED == 0 {
            self.acknowledged = start;
        }
        std::mem::replace(&mut self.start, start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::tcp::flag::ACK;

    const START: u32 = u32::MAX - 99;

    /// A side with 200 bytes, of which the first 150 are acknowledged.
    fn side(flags: u16) -> TcpSide {
        TcpSide {
            start: START,
            next: START.wrapping_add(200),
            acknowledged: START.wrapping_add(150),
            flags: flag::STARTED | flag::ACKNOWLEDGED | flags,
            ..TcpSide::default()
        }
    }

    /// The position of a segment of `length` bytes that begins `offset` bytes after the start.
    fn position(side: &TcpSide, offset: i32, length: u32, tcp_flags: u8) -> Position {
        let segment = PacketInfo {
            payload_length: length,
            tcp_flags,
            ..PacketInfo::default()
        };
        Position::of(side, START.wrapping_add_signed(offset), &segment)
    }

    #[test]
    fn positions_follow_the_table() {
        use Position::{AcrossStart, AfterFin, Ahead, BeforeStart, Below, Jump, NoData};
        let late = side(0);
        for (offset, length, expected) in [
            (201, 0, Ahead),
            (201, 10, Ahead),
            (200 + JUMP_MAX, 10, Ahead),
            (201 + JUMP_MAX, 10, Jump),
            (200 - JUMP_MAX, 10, BeforeStart),
            (199 - JUMP_MAX, 0, Jump),
            (199, 0, NoData),
            (199, 1, Below),
            (0, 10, Below),
            (-1, 0, NoData),
            (-10, 5, BeforeStart),
            (-10, 10, BeforeStart),
            (-10, 11, AcrossStart),
        ] {
            assert_eq!(position(&late, offset, length, ACK), expected, "{offset}");
        }
        // A SYN makes the start exact, unless there was a jump since.
        let mut exact = side(flag::SYN);
        assert_eq!(position(&exact, -10, 5, ACK), Below);
        exact.limits = limit::JUMP;
        assert_eq!(position(&exact, -10, 5, ACK), BeforeStart);
        let ended = side(flag::FIN);
        assert_eq!(position(&ended, 201, 0, ACK), AfterFin);
        assert_eq!(position(&ended, 201, 1, ACK), Ahead);
        assert_eq!(position(&ended, 202, 0, ACK), Ahead);
    }

    #[test]
    fn a_keep_alive_repeats_the_last_sequence_number_of_acknowledged_data() {
        let mut idle = side(0);
        idle.acknowledged = idle.next;
        assert_eq!(position(&idle, 199, 0, ACK), Position::KeepAlive);
        assert_eq!(position(&idle, 199, 0, ACK | FIN), Position::NoData);
        assert_eq!(position(&idle, 198, 0, ACK), Position::NoData);
    }

    #[test]
    fn observed_bytes_are_new_repeated_or_missing() {
        let peer = TcpSide::default();
        for (offset, length, new_bytes, repeated_bytes) in [
            (0, 50, 0, 50),
            (40, 20, 0, 10),
            (50, 30, 0, 0),
            (40, 60, 0, 30),
            (190, 30, 20, 10),
            (0, 300, 100, 170),
        ] {
            let segment = PacketInfo {
                payload_length: length,
                ..PacketInfo::default()
            };
            let start = START.wrapping_add(offset);
            let (mut this, mut pool) = (side(0), TcpColdPool::new(1).unwrap());
            this.add_hole(START.wrapping_add(50), START.wrapping_add(80), &mut pool);
            let filled = this.fill_holes(start, start.wrapping_add(length), &mut pool);
            let observed = Observed::new(&this, &peer, start, 0, &segment, filled);
            let bytes = (observed.new_bytes, observed.repeated_bytes);
            assert_eq!(bytes, (new_bytes, repeated_bytes), "{offset} {length}");
            assert_eq!(observed.evidence.was_seen, repeated_bytes > 0);
        }
    }
}
