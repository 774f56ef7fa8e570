//! RTP sessions: sequence, loss and jitter as RFC 3550 computes them, once several consecutive
//! packets of one source have shown that it is RTP.

use super::Segment;
use super::record::RtpRecord;
use super::state::{Nanoseconds, RtpSide, RtpState};
use crate::message::rtp::{Rtp, clock_rate, is_rtcp};

/// Consecutive packets of one source that make it RTP. RFC 3550 appendix A.1 asks for two of a
/// session that is expected; of strangers more is asked.
const RUN: u8 = 5;

/// The longest jump of the sequence number, to either side: a packet beyond is none of the source, or
/// it begins to count anew (RFC 3550 appendix A.1).
const DROPOUT_MAX: u16 = 3000;

/// Datagrams of a flow within which a source that loses packets may show a run: a source that goes
/// on, if with gaps, is hardly a stranger's chance.
const TRIES_WITH_GAPS: u8 = RUN * super::UDP_TRIES;

/// The longest difference of transit times that is told apart, nine years: 16 times that is the most
/// that a jitter times 16 comes to, and fits into 63 bits.
const DIFFERENCE_MAX_NS: i64 = 1 << 58;

/// Reads a datagram of a flow that may be RTP, the `packets`-th with payload; false where it is not.
pub(super) fn read(state: &mut RtpState, packets: u8, segment: &Segment<'_>) -> bool {
    let direction = usize::from(segment.direction & 1);
    let confirmed = state.sides.iter().any(|side| side.run >= RUN);
    // STUN, DTLS, TURN channels and ZRTP share RTP's ports (RFC 7983).
    if segment.payload.first().is_some_and(|first| first >> 6 != 2) {
        let goes_on = state.sides.iter().any(|side| side.packets > 1);
        return confirmed || packets < tries(goes_on);
    }
    let side = &mut state.sides[direction];
    if is_rtcp(segment.payload, segment.payload_length as usize) {
        side.rtcp = side.rtcp.saturating_add(1);
        return true;
    }
    let Some(rtp) = Rtp::plausible(segment.payload, segment.payload_length as usize) else {
        return confirmed;
    };
    if side.run < RUN {
        let ahead = rtp.sequence.wrapping_sub(side.highest as u16);
        let is_late = is_late(ahead);
        // What is lost before a run is complete counts as well.
        let goes_on = side.run > 0 && side.ssrc == rtp.ssrc && (is_late || ahead <= DROPOUT_MAX);
        let is_next = goes_on && ahead == 1 && side.payload_type == rtp.payload_type;
        if side.run > 0 && !is_next && packets >= tries(goes_on) && !confirmed {
            return false;
        }
        if !goes_on {
            begin(side, &rtp, segment.time_ns);
            return true;
        }
        if is_next {
            side.run += 1;
        } else if !is_late {
            side.run = 1;
            if clock_rate(side.payload_type) != clock_rate(rtp.payload_type) {
                side.jitter_16 = Nanoseconds::default();
                side.is_timed = false;
            }
            side.payload_type = rtp.payload_type;
        }
        count(side, &rtp, segment.time_ns);
    } else if side.ssrc == rtp.ssrc {
        count(side, &rtp, segment.time_ns);
    }
    true
}

/// The records of both directions.
pub(super) fn records(state: &RtpState) -> [Option<Box<RtpRecord>>; 2] {
    state.sides.each_ref().map(|side| {
        (side.run >= RUN).then(|| {
            let lost = expected(side).saturating_sub(u64::from(side.packets));
            Box::new(RtpRecord {
                ssrc: side.ssrc,
                payload_type: side.payload_type,
                packets: side.packets,
                lost: u32::try_from(lost).unwrap_or(u32::MAX),
                out_of_order: u32::from(side.out_of_order),
                jitter_ns: clock_rate(side.payload_type)
                    .map(|_| side.jitter_16.span() as f64 / 16.0),
                rtcp_packets: u32::from(side.rtcp),
            })
        })
    })
}

/// Datagrams of a flow in which RTP is looked for, by whether a source goes on.
const fn tries(goes_on: bool) -> u8 {
    if goes_on {
        TRIES_WITH_GAPS
    } else {
        super::UDP_TRIES
    }
}

/// Whether a sequence number so far ahead of the highest is that of a copy or a packet out of order.
const fn is_late(ahead: u16) -> bool {
    ahead == 0 || ahead > u16::MAX - DROPOUT_MAX
}

/// Packets that the sequence numbers say were sent.
fn expected(side: &RtpSide) -> u64 {
    u64::from(side.before) + u64::from(side.highest) - u64::from(side.first) + 1
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
        is_timed: true,
        rtcp: side.rtcp,
        run: 1,
        ..RtpSide::default()
    };
}

/// Counts a packet of the source (RFC 3550 appendices A.1, A.3 and A.8).
fn count(side: &mut RtpSide, rtp: &Rtp, time_ns: i64) {
    let ahead = rtp.sequence.wrapping_sub(side.highest as u16);
    if (1..=DROPOUT_MAX).contains(&ahead) {
        side.highest = side.highest.saturating_add(u32::from(ahead));
    } else if is_late(ahead) {
        side.out_of_order = side.out_of_order.saturating_add(u16::from(ahead != 0));
        let behind = u32::from(ahead.wrapping_neg());
        if behind > side.highest - u32::from(side.first) {
            // Overtaken by the first that was seen: none that is expected from there on, in whose place
            // one could be lost.
            side.before = side.before.saturating_add(1);
        }
    } else if !begins_anew(side, rtp.sequence) {
        return;
    }
    side.packets = side.packets.saturating_add(1);
    // Time stamps of another clock say nothing of this one's.
    let rate = clock_rate(side.payload_type);
    let is_timed = rtp.payload_type == side.payload_type || clock_rate(rtp.payload_type) == rate;
    let was_timed = std::mem::replace(&mut side.is_timed, is_timed);
    if let Some(rate) = rate
        && is_timed
        && was_timed
    {
        // Difference of transit times, in nanoseconds; what the time stamps say is kept in 64 bits.
        let arrived = time_ns.saturating_sub(side.arrival.get());
        let ticks = i64::from(rtp.timestamp.wrapping_sub(side.timestamp).cast_signed());
        let sent = ticks.saturating_mul(1_000_000_000) / i64::from(rate);
        let difference = arrived.saturating_sub(sent).saturating_abs();
        let difference = difference.min(DIFFERENCE_MAX_NS);
        // J += (|D| - J) / 16, with J kept times 16 as in RFC 3550 appendix A.8.
        let jitter = side.jitter_16.get();
        side.jitter_16 = Nanoseconds::new(jitter + difference - ((jitter + 8) >> 4));
    }
    side.timestamp = rtp.timestamp;
    side.arrival = Nanoseconds::new(time_ns);
}

/// Whether the source counts anew from a number far off: the second of two in a row. What is expected
/// and was lost up to there stays.
fn begins_anew(side: &mut RtpSide, sequence: u16) -> bool {
    if side.awaited != Some(sequence) {
        side.awaited = Some(sequence.wrapping_add(1));
        return false;
    }
    side.before = u32::try_from(expected(side)).unwrap_or(u32::MAX);
    side.first = sequence.wrapping_sub(1);
    side.highest = u32::from(side.first) + 1;
    // The first of the two.
    side.packets = side.packets.saturating_add(1);
    side.awaited = None;
    side.is_timed = false;
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Stands for a request of STUN in a list of packets.
    const STUN: u32 = u32::MAX;

    /// What is told of PCMU, by arrival and number of 20 ms.
    fn told(packets: &[(i64, u32)]) -> Option<Box<RtpRecord>> {
        let packets: Vec<_> = packets
            .iter()
            .map(|&(time_ns, number)| (time_ns, number, 0, number.wrapping_mul(160)))
            .collect();
        told_of(&packets)
    }

    /// The same by arrival, number, payload type and time stamp.
    fn told_of(packets: &[(i64, u32, u8, u32)]) -> Option<Box<RtpRecord>> {
        let mut state = RtpState::default();
        for (at, &(time_ns, number, payload_type, timestamp)) in packets.iter().enumerate() {
            let mut payload = if number == STUN {
                vec![0, 1]
            } else {
                vec![0x80, payload_type]
            };
            payload.extend((number as u16).to_be_bytes());
            payload.extend(timestamp.to_be_bytes());
            payload.extend([1, 2, 3, 4]);
            let segment = Segment {
                time_ns,
                direction: 0,
                protocol: 17,
                tcp_flags: 0,
                sequence: 0,
                source_port: 30_000,
                destination_port: 30_000,
                payload: &payload,
                payload_length: 12,
            };
            if !read(&mut state, (at + 1).min(255) as u8, &segment) {
                return None;
            }
        }
        let [side, _] = records(&state);
        side
    }

    /// Its jitter in nanoseconds.
    fn jitter(packets: &[(i64, u32)]) -> f64 {
        told(packets).unwrap().jitter_ns.unwrap()
    }

    /// Packets, lost, and out of order of a stream whose first numbers are these, and which then goes
    /// on for 50.
    fn counts(first: &[u32]) -> Option<[u32; 3]> {
        let next = first.iter().max().unwrap() + 1;
        let numbers = first.iter().copied().chain(next..next + 50);
        let packets: Vec<_> = numbers.zip(0..).map(|(number, at)| (at, number)).collect();
        told(&packets).map(|it| [it.packets, it.lost, it.out_of_order])
    }

    #[test]
    fn what_is_lost_before_a_source_is_known_counts() {
        assert_eq!(counts(&[7]), Some([51, 0, 0]));
        assert_eq!(counts(&[7, 9]), Some([52, 1, 0]));
        assert_eq!(
            counts(&[0xffff, 0x1_0001, 0x1_0002, 0x1_0005]),
            Some([54, 3, 0])
        );
        // Every third one, for longer than a stranger is looked at.
        let two_of_three: Vec<u32> = (0..30).filter(|number| number % 3 != 2).collect();
        assert_eq!(counts(&two_of_three), Some([70, 9, 0]));
        assert_eq!(counts(&[7, 9, 8, 12]), Some([54, 2, 1]));
        // Each twice: copies hide what is lost (RFC 3550 appendix A.3).
        assert_eq!(counts(&[7, 7, 8, 8, 10, 10, 11, 11]), Some([58, 0, 0]));
        // What the first one overtook stands for none that is lost.
        assert_eq!(counts(&[8, 7, 9, 11]), Some([54, 1, 1]));
        assert_eq!(counts(&[10, 7, 9, 11, 13]), Some([55, 1, 2]));
        assert_eq!(counts(&[0x1_0001, 0xffff, 0x1_0003]), Some([53, 1, 1]));
        // Another stream goes before.
        assert_eq!(counts(&[20_000, 20_001, 7, 8]), Some([50, 0, 0]));
    }

    /// Of 200 bytes as many as a snap length leaves; an extension of 10 words begins behind 12.
    #[test]
    fn a_header_that_the_snap_length_cut_is_read() {
        for captured in [12, 13, 16, 18, 56, 200] {
            let mut state = RtpState::default();
            for number in 0..20_u16 {
                let mut payload = vec![0x90, 0];
                payload.extend(number.to_be_bytes());
                payload.extend((u32::from(number) * 160).to_be_bytes());
                payload.extend([1, 2, 3, 4, 0xbe, 0xde, 0, 10]);
                payload.resize(200, 0);
                let segment = Segment {
                    protocol: 17,
                    time_ns: i64::from(number) * 20_000_000,
                    payload: &payload[..captured],
                    payload_length: 200,
                    ..super::super::tcp_stream::nothing(0)
                };
                assert!(read(&mut state, 1 + number as u8, &segment), "{captured}");
            }
            let [side, _] = records(&state);
            let told = side.map(|it| (it.packets, it.lost));
            assert_eq!(told, Some((20, 0)), "{captured}");
        }
    }

    /// A receiver's report and the source's description, of which as much is there.
    #[test]
    fn reports_that_the_snap_length_cut_are_counted() {
        let mut report = vec![0x81, 201, 0, 7];
        report.resize(32, 0xee);
        report.extend([0x81, 202, 0, 2, 1, 2, 3, 4, 1, 0, 0, 0]);
        for (captured, length, expected) in [(44, 44, 1), (34, 44, 1), (33, 44, 0), (12, 32, 1)] {
            let mut state = RtpState::default();
            for number in 0..20_u8 {
                let mut payload = vec![0x80, 0, 0, number, 0, 0, 0, number, 1, 2, 3, 4];
                let mut payload_length = 12;
                if number == 10 {
                    payload = report[..captured].to_vec();
                    payload_length = length;
                }
                let segment = Segment {
                    protocol: 17,
                    payload: &payload,
                    payload_length,
                    ..super::super::tcp_stream::nothing(0)
                };
                assert!(read(&mut state, number + 1, &segment), "{captured}");
            }
            let [side, _] = records(&state);
            let told = side.map(|it| it.rtcp_packets);
            assert_eq!(told, Some(expected), "{captured} of {length}");
        }
    }

    #[test]
    fn a_request_between_is_no_reason_to_give_up_what_goes_on_with_gaps() {
        let two_of_three = (0..30).filter(|number| number % 3 != 2);
        let mut packets: Vec<_> = two_of_three.chain(30..80).map(|at| (0, at)).collect();
        packets.insert(11, (0, STUN));
        let told = told(&packets).map(|it| (it.packets, it.lost));
        assert_eq!(told, Some((70, 10)));
    }

    #[test]
    fn a_stranger_is_given_up() {
        // All alike, or far apart.
        for step in [0, 5000] {
            let packets: Vec<_> = (0..50).map(|at| (0, at * step)).collect();
            assert_eq!(told(&packets), None, "{step}");
        }
    }

    /// What is told of a stream of such numbers, each 20 ms later: packets, lost, out of order, jitter.
    fn restarted(numbers: &[std::ops::Range<u32>]) -> (u32, u32, u32, f64) {
        let packets: Vec<_> = (0..)
            .step_by(20_000_000)
            .zip(numbers.iter().cloned().flatten())
            .collect();
        let told = told(&packets).unwrap();
        let jitter = told.jitter_ns.unwrap();
        (told.packets, told.lost, told.out_of_order, jitter)
    }

    #[test]
    fn a_source_that_counts_anew_has_lost_nothing() {
        for (one, other) in [
            (1000, 10_000),
            (1000, 40_000),
            (1000, 62_000),
            (30_000, 65_535),
        ] {
            let told = restarted(&[one..one + 100, other..other + 100]);
            assert_eq!(told, (200, 0, 0, 0.0), "{one} to {other}");
            let told = restarted(&[other..other + 100, one..one + 100]);
            assert_eq!(told, (200, 0, 0, 0.0), "{other} to {one}");
        }
        // What was lost on either side stays lost.
        let gaps = [1000..1100, 1102..1150, 40_000..40_050, 40_051..40_100];
        assert_eq!(restarted(&gaps).1, 3);
        let thrice = [1000..1100, 1101..1110, 20_000..20_100, 5..10, 12..20];
        assert_eq!(restarted(&thrice).1, 3);
        // One of the old numbers comes between.
        let told = restarted(&[1000..1100, 40_000..40_001, 1100..1101, 40_001..40_100]);
        assert_eq!((told.0, told.1), (201, 0));
        // What was overtaken where it begins anew, and one that is lost.
        let anew = [1000..1100, 40_000..40_010, 39_998..40_000, 40_011..40_020];
        assert_eq!(restarted(&anew).1, 1);
    }

    #[test]
    fn a_packet_far_off_is_none_of_the_source() {
        let stray = [
            1000..1100,
            40_000..40_001,
            1100..1200,
            20_000..20_001,
            1200..1210,
        ];
        let told = restarted(&stray);
        assert_eq!((told.0, told.1, told.2), (210, 0, 0));
        // As far as it may be lost.
        let told = restarted(&[1000..1100, 4099..4110]);
        assert_eq!((told.0, told.1), (111, 2999));
    }

    #[test]
    fn time_stamps_of_another_clock_are_left_out_of_the_jitter() {
        // PCMU, ten of another type with as many ticks each, and PCMU again.
        for (other, ticks) in [(111, 960), (101, 160), (34, 1800), (13, 160)] {
            let mut timestamp = 0;
            let packets: Vec<_> = (0..60_u32)
                .map(|at| {
                    let is_other = (20..30).contains(&at);
                    timestamp += if is_other { ticks } else { 160 };
                    let payload_type = if is_other { other } else { 0 };
                    (i64::from(at) * 20_000_000, at, payload_type, timestamp)
                })
                .collect();
            let told = told_of(&packets).unwrap();
            assert_eq!((told.packets, told.payload_type), (60, 0));
            assert_eq!(told.jitter_ns, Some(0.0), "{other}");
        }
        // A type before it is known to be RTP.
        let packets: Vec<_> = (0..60_u32)
            .map(|at| match at {
                0..3 => (i64::from(at) * 20_000_000, at, 34, at * 900),
                _ => (i64::from(at) * 20_000_000, at, 8, at * 160),
            })
            .collect();
        assert_eq!(told_of(&packets).unwrap().jitter_ns, Some(0.0));
    }

    /// The same by RFC 3550 section 6.4.1, without rounding.
    fn expected(packets: &[(i64, u32)]) -> f64 {
        let transit = |&(time_ns, number): &(i64, u32)| time_ns as f64 - f64::from(number) * 2e7;
        packets.windows(2).fold(0.0, |jitter, pair| {
            let difference = (transit(&pair[1]) - transit(&pair[0])).abs();
            jitter + (difference - jitter) / 16.0
        })
    }

    fn check(packets: &[(i64, u32)]) {
        let (jitter, expected) = (jitter(packets), expected(packets));
        assert!((jitter - expected).abs() < 2.0, "{jitter}, not {expected}");
    }

    fn on_time(count: u32) -> Vec<(i64, u32)> {
        (0..count)
            .map(|at| (i64::from(at) * 20_000_000, at))
            .collect()
    }

    #[test]
    fn packets_that_were_held_back_for_long_count_in_full() {
        for held_back_ns in [100_000_000, 1_000_000_000, 30_000_000_000] {
            let mut packets = on_time(530);
            let released = packets[500].0 + held_back_ns;
            for (packet, behind) in packets[500..].iter_mut().zip(0..) {
                packet.0 = packet.0.max(released + behind * 100_000);
            }
            check(&packets);
        }
    }

    #[test]
    fn duplicates_that_come_late_count_in_full() {
        let mut packets = on_time(203);
        for (at, packet) in packets.iter_mut().enumerate() {
            packet.1 = match at {
                0..100 => at,
                100..103 => at - 50,
                _ => at - 3,
            } as u32;
        }
        check(&packets);
    }

    #[test]
    fn the_longest_differences_do_not_overflow() {
        let ends = [i64::MIN, i64::MAX].into_iter().cycle();
        let mut packets = on_time(400);
        for (packet, end) in packets[10..].iter_mut().zip(ends) {
            packet.0 = end;
        }
        let jitter = jitter(&packets);
        assert!(jitter > 0.9 * DIFFERENCE_MAX_NS as f64 && jitter < DIFFERENCE_MAX_NS as f64 + 1.0);
    }

    proptest! {
        #[test]
        fn jitter_is_as_rfc_3550_computes_it(
            delays in prop::collection::vec(0i64..20_000_000_000, 10..300),
        ) {
            let mut packets = on_time(delays.len() as u32);
            for (packet, delay) in packets.iter_mut().zip(delays) {
                packet.0 += delay;
            }
            check(&packets);
        }
    }
}
