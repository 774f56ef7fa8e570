//! Segments out of sequence, which do not begin where the one before ended: they leave a hole, fill one,
//! or repeat bytes that were seen before.

use super::anomaly::Evidence;
use super::cold::TcpColdPool;
use super::sent::after;
use super::{Class, DUPLICATE_ACK_THRESHOLD, JUMP_MAX, TcpSide, flag, limit};
use wire::PacketInfo;
use wire::tcp::flag::{FIN, SYN};

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
    let tcp_flags = segment.tcp_flags;
    let ahead = start.wrapping_sub(this.next).cast_signed();
    // A packet after the FIN, which takes a sequence number without being data.
    if ahead == 1 && length == 0 && this.flags & flag::FIN != 0 {
        return;
    }
    if !(-JUMP_MAX..=JUMP_MAX).contains(&ahead) {
        this.limits |= limit::JUMP;
        let from_syn = this.flags & flag::FROM_SYN;
        this.restart(pool);
        this.begin(start);
        this.flags |= from_syn;
        if length > 0 {
            this.add_data(start, length, time_ns, segment);
        }
        return;
    }
    if ahead > 0 {
        let from = std::mem::replace(&mut this.next, start);
        this.add_hole(from, start, pool);
        if length > 0 {
            this.add_data(start, length, time_ns, segment);
        }
        return;
    }
    let end = start.wrapping_add(length);
    if tcp_flags & FIN != 0 {
        this.handle_late_fin(end, pool);
    }
    if length == 0 {
        // A keep-alive without data: it begins one byte before the next one (RFC 9293 section 3.8.4).
        if ahead == -1 && tcp_flags & (SYN | FIN) == 0 && this.acknowledged == this.next {
            this.update_cold(pool, |cold| cold.anomalies.count(Class::FlowControl));
        }
        return;
    }
    let is_start_exact = this.flags & flag::SYN != 0 && this.limits & limit::JUMP == 0;
    if after(this.start, start) && !is_start_exact {
        let first = std::mem::replace(&mut this.start, start);
        if this.flags & flag::ACKNOWLEDGED == 0 {
            this.acknowledged = start;
        }
        if !after(end, first) {
            // It ends before the first segment seen, so its bytes are new.
            if end != first {
                this.add_hole(end, first, pool);
            }
            this.update_cold(pool, |cold| {
                cold.anomalies.out_of_order += 1;
                cold.anomalies.count(Class::Unknown);
            });
            return;
        }
        this.add_hole(start, first, pool);
    }
    let filled = this.fill_holes(start, end, pool);
    let new_bytes = end
        .wrapping_sub(this.next)
        .cast_signed()
        .max(0)
        .cast_unsigned();
    let repeated_bytes = length.saturating_sub(filled + new_bytes);
    if repeated_bytes > 0 && this.limits & limit::MISSED != 0 && after(this.acknowledged, start) {
        this.limits |= limit::HOLES;
    }
    let is_window_probe = length == 1
        && end == this.next
        && repeated_bytes == 1
        && (peer.has_zero_window() || this.acknowledged == this.next);
    let evidence = Evidence {
        was_seen: repeated_bytes > 0,
        was_acknowledged: this.flags & flag::ACKNOWLEDGED != 0 && !after(end, this.acknowledged),
        identification: segment.identification,
        sent_info: this.sent.find(start, time_ns),
        rtt_ns: this.srtt.path_rtt_ns(&peer.srtt),
        rto_ns: this.srtt.rto_ns(&peer.srtt),
        has_duplicate_acks: this.duplicate_acks >= DUPLICATE_ACK_THRESHOLD
            || this.flags & flag::IN_RECOVERY != 0,
    };
    let class = if is_window_probe {
        Class::FlowControl
    } else {
        evidence.classify()
    };
    match class {
        Class::Duplicate | Class::FlowControl => {}
        _ if repeated_bytes > 0 => {
            this.sent
                .retransmit(start, end, time_ns, segment.identification);
        }
        _ => {
            let is_retransmission = class != Class::Reordering;
            if !this.sent.insert(
                end,
                time_ns,
                segment.identification,
                is_retransmission,
                evidence.was_acknowledged,
            ) {
                this.sent
                    .retransmit(start, end, time_ns, segment.identification);
            }
        }
    }
    if new_bytes > 0 {
        let from = this.next;
        this.add_data(from, new_bytes, time_ns, segment);
    }
    this.update_cold(pool, |cold| {
        cold.anomalies.count(class);
        cold.anomalies.repeated_bytes += u64::from(repeated_bytes);
        if repeated_bytes == 0 {
            cold.anomalies.out_of_order += 1;
        } else if !matches!(class, Class::Duplicate | Class::FlowControl) {
            cold.anomalies.retransmitted += 1;
            cold.anomalies.retransmitted_bytes += u64::from(repeated_bytes);
        }
    });
}
