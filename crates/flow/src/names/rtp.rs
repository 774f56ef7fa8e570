//! RTP sessions: sequence, loss and jitter as RFC 3550 computes them, once several consecutive
//! packets of one source have shown that it is RTP.

use super::Segment;
use super::record::RtpRecord;
use super::state::{Nanoseconds, RtpSide, RtpState};
use wire::app::rtp::{Rtp, clock_rate, is_rtcp};

/// Consecutive packets of one source that make it RTP. RFC 3550 appendix A.1 asks for two of a
/// session that is expected; of strangers more is asked.
const RUN: u8 = 5;

/// Jump of the sequence number after which a packet counts as out of order, not as wrapped
/// (RFC 3550 appendix A.1).
const DROPOUT_MAX: u16 = 3000;

/// Reads a datagram of a flow that may be RTP, the `packets`-th with payload; false where it is not.
pub(super) fn read(state: &mut RtpState, packets: u8, segment: &Segment<'_>) -> bool {
    let direction = usize::from(segment.direction & 1);
    let confirmed = state.sides.iter().any(|side| side.run >= RUN);
    let side = &mut state.sides[direction];
    // STUN, DTLS, TURN channels and ZRTP share RTP's ports (RFC 7983).
    if segment.payload.first().is_some_and(|first| first >> 6 != 2) {
        return confirmed || packets < super::UDP_TRIES;
    }
    if is_rtcp(segment.payload) {
        side.rtcp = side.rtcp.saturating_add(1);
        return true;
    }
    let Some(rtp) = Rtp::plausible(segment.payload) else {
        return confirmed;
    };
    if side.run < RUN {
        let next = side.run > 0
            && side.ssrc == rtp.ssrc
            && side.payload_type == rtp.payload_type
            && (side.highest as u16).wrapping_add(1) == rtp.sequence;
        if next {
            count(side, &rtp, segment.time_ns);
            side.run += 1;
        } else {
            if side.run > 0 && packets >= super::UDP_TRIES && !confirmed {
                return false;
            }
            begin(side, &rtp, segment.time_ns);
        }
    } else if side.ssrc == rtp.ssrc {
        count(side, &rtp, segment.time_ns);
    }
    true
}

/// The records of both directions.
pub(super) fn records(state: &RtpState) -> [Option<Box<RtpRecord>>; 2] {
    state.sides.each_ref().map(|side| {
        (side.run >= RUN).then(|| {
            let expected = u64::from(side.highest) - u64::from(side.first) + 1;
            let lost = expected.saturating_sub(u64::from(side.packets));
            Box::new(RtpRecord {
                ssrc: side.ssrc,
                payload_type: side.payload_type,
                packets: side.packets,
                lost: u32::try_from(lost).unwrap_or(u32::MAX),
                out_of_order: u32::from(side.out_of_order),
                jitter_ns: clock_rate(side.payload_type)
                    .map(|_| f64::from(side.jitter_16_ns) / 16.0),
                rtcp_packets: u32::from(side.rtcp),
            })
        })
    })
}

/// Begins the count with a packet.
fn begin(side: &mut RtpSide, rtp: &Rtp, time_ns: i64) {
    *side = RtpSide {
        ssrc: rtp.ssrc,
        packets: 1,
        highest: u32::from(rtp.sequence),
        first: rtp.sequence,
        timestamp: rtp.timestamp,
        arrival: Nanoseconds::new(time_ns),
        payload_type: rtp.payload_type,
        rtcp: side.rtcp,
        run: 1,
        ..RtpSide::default()
    };
}

/// Counts a packet of the source (RFC 3550 appendices A.1, A.3 and A.8).
fn count(side: &mut RtpSide, rtp: &Rtp, time_ns: i64) {
    side.packets = side.packets.saturating_add(1);
    let ahead = rtp.sequence.wrapping_sub(side.highest as u16);
    if ahead == 0 || ahead > u16::MAX - DROPOUT_MAX {
        side.out_of_order = side.out_of_order.saturating_add(u16::from(ahead != 0));
    } else {
        side.highest = side.highest.saturating_add(u32::from(ahead));
    }
    if let Some(rate) = clock_rate(side.payload_type) {
        // Difference of transit times, in nanoseconds; what the time stamps say is kept in 64 bits.
        let arrived = time_ns.saturating_sub(side.arrival.get());
        let ticks = i64::from(rtp.timestamp.wrapping_sub(side.timestamp).cast_signed());
        let sent = ticks.saturating_mul(1_000_000_000) / i64::from(rate);
        let difference = arrived.saturating_sub(sent).unsigned_abs();
        let difference = difference.min(u64::from(u32::MAX) / 16) as u32;
        // J += (|D| - J) / 16, with J kept times 16 as in RFC 3550 appendix A.8.
        let jitter = side.jitter_16_ns;
        side.jitter_16_ns = jitter
            .saturating_add(difference)
            .saturating_sub((jitter + 8) >> 4);
    }
    side.timestamp = rtp.timestamp;
    side.arrival = Nanoseconds::new(time_ns);
}
