//! A segment that does not begin where the one before has ended: a gap, a part of one, or bytes that
//! were seen before.

use super::anomaly::Evidence;
use super::rare::RarePool;
use super::sent::after;
use super::{Class, DUPLICATES, JUMP, TcpSide, limit, mark};
use wire::Segment;
use wire::tcp::flag::{FIN, SYN};

/// Takes such a segment of `this` in, which begins at `start`.
#[inline(never)]
pub(super) fn out_of_sequence(
    this: &mut TcpSide,
    peer: &TcpSide,
    start: u32,
    time_ns: i64,
    segment: &Segment,
    pool: &mut RarePool,
) {
    let length = segment.payload_length;
    let flags = segment.tcp_flags;
    let ahead = start.wrapping_sub(this.next).cast_signed();
    // A FIN takes a sequence number and is no data.
    if ahead == 1 && length == 0 && this.marks & mark::FIN != 0 {
        return;
    }
    if !(-JUMP..=JUMP).contains(&ahead) {
        this.limits |= limit::JUMP;
        let told_by_syn = this.marks & mark::TOLD_BY_SYN;
        this.restart(pool);
        this.begin(start);
        this.marks |= told_by_syn;
        if length > 0 {
            this.add(start, length, time_ns, segment);
        }
        return;
    }
    if ahead > 0 {
        let from = std::mem::replace(&mut this.next, start);
        this.add_gap(from, start, pool);
        if length > 0 {
            this.add(start, length, time_ns, segment);
        }
        return;
    }
    let end = start.wrapping_add(length);
    if flags & FIN != 0 {
        this.take_late_fin(end, pool);
    }
    if length == 0 {
        // The byte before the next one, without it: is the other host alive? (RFC 9293 3.8.4.)
        if ahead == -1 && flags & (SYN | FIN) == 0 && this.acknowledged == this.next {
            this.note(pool, |rare| rare.anomalies.count(Class::FlowControl));
        }
        return;
    }
    let from_its_syn = this.marks & mark::SYN != 0 && this.limits & limit::JUMP == 0;
    if after(this.start, start) && !from_its_syn {
        let first = std::mem::replace(&mut this.start, start);
        if this.marks & mark::ACKNOWLEDGED == 0 {
            this.acknowledged = start;
        }
        if !after(end, first) {
            // Before the first that was seen, and so not a byte that was.
            if end != first {
                this.add_gap(end, first, pool);
            }
            this.note(pool, |rare| {
                rare.anomalies.out_of_order += 1;
                rare.anomalies.count(Class::Unknown);
            });
            return;
        }
        this.add_gap(start, first, pool);
    }
    let filled = this.fill_gaps(start, end, pool);
    let beyond = end
        .wrapping_sub(this.next)
        .cast_signed()
        .max(0)
        .cast_unsigned();
    let repeated = length.saturating_sub(filled + beyond);
    if repeated > 0 && this.limits & limit::MISSED != 0 && after(this.acknowledged, start) {
        this.limits |= limit::GAPS;
    }
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
        this.add(from, beyond, time_ns, segment);
    }
    this.note(pool, |rare| {
        rare.anomalies.count(class);
        rare.anomalies.repeated_bytes += u64::from(repeated);
        if repeated == 0 {
            rare.anomalies.out_of_order += 1;
        } else if !matches!(class, Class::Duplicate | Class::FlowControl) {
            rare.anomalies.retransmitted += 1;
            rare.anomalies.retransmitted_bytes += u64::from(repeated);
        }
    });
}
