//! RTP sessions: loss, order and jitter as RFC 3550 computes them. A flow counts as RTP after several
//! consecutive packets of one source.

use crate::column::{AppValue, columns, number};
use crate::message::rtp::{Rtp, clock_rate, is_rtcp};
use crate::nanoseconds::Nanoseconds;
use crate::parser::{Context, Parser, Probe, UDP_PROBE_PACKETS, Verdict};
use crate::payload::L4Payload;
use crate::record::{AppRecord, RtpRecord};
use crate::services::Services;

/// One direction of RTP.
#[derive(Debug, Default)]
struct RtpSide {
    ssrc: u32,
    packets: u32,
    /// Highest sequence number. The upper 16 bits count the wraparounds.
    highest_sequence: u32,
    timestamp: u32,
    /// Interarrival jitter in nanoseconds, times 16.
    jitter_16: Nanoseconds,
    arrival: Nanoseconds,
    /// Number of packets that were expected before the source restarted its sequence numbers, plus
    /// the packets that arrived after the first one although they were sent before it.
    expected_before: u32,
    /// The sequence number after one that was far off. If it arrives next, the source has restarted
    /// (RFC 3550 appendix A.1).
    resync_sequence: Option<u16>,
    /// First sequence number since the last restart.
    base_sequence: u16,
    out_of_order: u16,
    rtcp: u16,
    payload_type: u8,
    /// Number of consecutive packets so far, up to the number that identifies RTP.
    consecutive: u8,
    /// Whether the next timestamp can be compared with that of the previous packet.
    has_timestamp: bool,
}

/// RTP in both directions.
#[derive(Debug, Default)]
pub(crate) struct RtpState {
    sides: [RtpSide; 2],
}

impl Parser for RtpState {
    fn probe(packet: &L4Payload<'_>, bytes: &[u8], _is_start: bool) -> Probe {
        let length = packet.payload_length as usize;
        match Rtp::plausible(bytes, length).is_some() || is_rtcp(bytes, length) {
            true => Probe::Yes,
            false => Probe::No,
        }
    }

    fn start(_: &mut Services) -> Self {
        Self::default()
    }

    fn segment(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Verdict {
        match read(self, cx.common.packets, cx.packet) {
            true => Verdict::Consumed(bytes.len()),
            false => Verdict::Forget,
        }
    }

    fn finish(&mut self, _: &mut Context<'_>, record: &mut AppRecord) {
        record.rtp = records(self);
    }
}

/// Number of consecutive packets of one source that identify RTP. RFC 3550 appendix A.1 requires two
/// for a known session; for an unknown flow that is too few.
const CONSECUTIVE_MIN: u8 = 5;

/// The largest jump of the sequence number, forward or backward. A packet beyond it does not belong
/// to the source, or the source restarts its sequence numbers (RFC 3550 appendix A.1).
const DROPOUT_MAX: u16 = 3000;

/// Number of datagrams that are probed if a source continues with gaps. It is higher than otherwise,
/// because payload of another protocol rarely looks like a source that continues.
const PROBE_PACKETS_WITH_GAPS: u8 = CONSECUTIVE_MIN * UDP_PROBE_PACKETS;

/// The largest difference of transit times that is used, nine years. It bounds the jitter, so that 16
/// times the jitter fits into 63 bits.
const DIFFERENCE_MAX_NS: i64 = 1 << 58;

/// Reads a datagram of a flow that may be RTP; it is the `packets`-th with payload. Returns false if
/// the flow is not RTP.
fn read(state: &mut RtpState, packets: u8, datagram: &L4Payload<'_>) -> bool {
    let direction = usize::from(datagram.direction & 1);
    let is_confirmed = state
        .sides
        .iter()
        .any(|side| side.consecutive >= CONSECUTIVE_MIN);
    // STUN, DTLS, TURN channels and ZRTP share RTP's ports (RFC 7983).
    if datagram
        .payload
        .first()
        .is_some_and(|first| first >> 6 != 2)
    {
        let continues = state.sides.iter().any(|side| side.packets > 1);
        return is_confirmed || packets < probe_packets(continues);
    }
    let side = &mut state.sides[direction];
    if is_rtcp(datagram.payload, datagram.payload_length as usize) {
        side.rtcp = side.rtcp.saturating_add(1);
        return true;
    }
    let Some(rtp) = Rtp::plausible(datagram.payload, datagram.payload_length as usize) else {
        return is_confirmed;
    };
    if side.consecutive < CONSECUTIVE_MIN {
        let ahead = rtp.sequence.wrapping_sub(side.highest_sequence as u16);
        let is_late = is_late(ahead);
        // Losses before the source is identified count too.
        let continues =
            side.consecutive > 0 && side.ssrc == rtp.ssrc && (is_late || ahead <= DROPOUT_MAX);
        let is_next = continues && ahead == 1 && side.payload_type == rtp.payload_type;
        if side.consecutive > 0 && !is_next && packets >= probe_packets(continues) && !is_confirmed
        {
            return false;
        }
        if !continues {
            start(side, &rtp, datagram.time_ns);
            return true;
        }
        if is_next {
            side.consecutive += 1;
        } else if !is_late {
            side.consecutive = 1;
            if clock_rate(side.payload_type) != clock_rate(rtp.payload_type) {
                side.jitter_16 = Nanoseconds::default();
                side.has_timestamp = false;
            }
            side.payload_type = rtp.payload_type;
        }
        count(side, &rtp, datagram.time_ns);
    } else if side.ssrc == rtp.ssrc {
        count(side, &rtp, datagram.time_ns);
    }
    true
}

/// Returns the records of both directions.
fn records(state: &RtpState) -> [Option<Box<RtpRecord>>; 2] {
    state.sides.each_ref().map(|side| {
        (side.consecutive >= CONSECUTIVE_MIN).then(|| {
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

/// Number of datagrams of a flow that are probed, depending on whether a source continues.
const fn probe_packets(continues: bool) -> u8 {
    if continues {
        PROBE_PACKETS_WITH_GAPS
    } else {
        UDP_PROBE_PACKETS
    }
}

/// Whether a packet is a duplicate or out of order. `ahead` is its sequence number minus the highest
/// one.
const fn is_late(ahead: u16) -> bool {
    ahead == 0 || ahead > u16::MAX - DROPOUT_MAX
}

/// Number of packets sent, by the sequence numbers.
fn expected(side: &RtpSide) -> u64 {
    u64::from(side.expected_before) + u64::from(side.highest_sequence)
        - u64::from(side.base_sequence)
        + 1
}

/// Starts counting with a packet.
fn start(side: &mut RtpSide, rtp: &Rtp, time_ns: i64) {
    *side = RtpSide {
        ssrc: rtp.ssrc,
        packets: 1,
        highest_sequence: u32::from(rtp.sequence),
        base_sequence: rtp.sequence,
        timestamp: rtp.timestamp,
        arrival: Nanoseconds::new(time_ns),
        payload_type: rtp.payload_type,
        has_timestamp: true,
        rtcp: side.rtcp,
        consecutive: 1,
        ..RtpSide::default()
    };
}

/// Counts a packet of the source (RFC 3550 appendices A.1, A.3 and A.8).
fn count(side: &mut RtpSide, rtp: &Rtp, time_ns: i64) {
    let ahead = rtp.sequence.wrapping_sub(side.highest_sequence as u16);
    if (1..=DROPOUT_MAX).contains(&ahead) {
        side.highest_sequence = side.highest_sequence.saturating_add(u32::from(ahead));
    } else if is_late(ahead) {
        side.out_of_order = side.out_of_order.saturating_add(u16::from(ahead != 0));
        let behind = u32::from(ahead.wrapping_neg());
        if behind > side.highest_sequence - u32::from(side.base_sequence) {
            // Sent before the first packet seen, which overtook it. Count it as expected, so that it
            // does not hide a lost packet.
            side.expected_before = side.expected_before.saturating_add(1);
        }
    } else if !try_restart(side, rtp.sequence) {
        return;
    }
    side.packets = side.packets.saturating_add(1);
    // Timestamps of different clocks cannot be compared.
    let rate = clock_rate(side.payload_type);
    let is_timed = rtp.payload_type == side.payload_type || clock_rate(rtp.payload_type) == rate;
    let was_timed = std::mem::replace(&mut side.has_timestamp, is_timed);
    if let Some(rate) = rate
        && is_timed
        && was_timed
    {
        // Difference of transit times, in nanoseconds.
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

/// Restarts the sequence numbers if this packet is the second of two consecutive ones far off the
/// others. Returns whether it did. Packets expected and lost before the restart still count.
fn try_restart(side: &mut RtpSide, sequence: u16) -> bool {
    if side.resync_sequence != Some(sequence) {
        side.resync_sequence = Some(sequence.wrapping_add(1));
        return false;
    }
    side.expected_before = u32::try_from(expected(side)).unwrap_or(u32::MAX);
    side.base_sequence = sequence.wrapping_sub(1);
    side.highest_sequence = u32::from(side.base_sequence) + 1;
    // Count the first of the two.
    side.packets = side.packets.saturating_add(1);
    side.resync_sequence = None;
    side.has_timestamp = false;
    true
}

fn rtp(record: &AppRecord, side: usize) -> Option<&RtpRecord> {
    record.rtp[side].as_deref()
}

fn jitter(record: &AppRecord, side: usize) -> AppValue<'static> {
    rtp(record, side)
        .and_then(|rtp| rtp.jitter_ns)
        .map_or(AppValue::None, |ns| AppValue::Real(ns / 1e9))
}

columns! {
    pub(crate) COLUMNS
    [Rtp, ReverseRtp] {
        "rtpSsrc", "reverseRtpSsrc" Number "" "Synchronization source of the initiator's RTP packets (RFC 3550 section 5.1)."
            = |r, side| number(rtp(r, side).map(|p| p.ssrc));
        "rtpPayloadType", "reverseRtpPayloadType" Number "" "Payload type of these packets (RFC 3550 section 5.1)."
            = |r, side| number(rtp(r, side).map(|p| p.payload_type));
        "rtpCodec", "reverseRtpCodec" Text "" "Codec of this payload type (RFC 3551 section 6); `dynamic` for 96 to 127."
            = |r, side| rtp(r, side).map_or(AppValue::None, |p| AppValue::Text(p.codec()));
        "rtpPacketCount", "reverseRtpPacketCount" Number "packets" "Number of RTP packets of this source, including those before it was identified as RTP."
            = |r, side| number(rtp(r, side).map(|p| p.packets));
        "rtpLostCount", "reverseRtpLostCount" Number "packets" "Number of lost packets (RFC 3550 section 6.4.1 and appendix A.3): the packets expected from the first one counted to the highest sequence number, minus the packets received; at least 0. Duplicates count as received; packets that the first one overtook do not. When a source restarts its sequence numbers, the jump is no loss."
            = |r, side| number(rtp(r, side).map(|p| p.lost));
        "rtpOutOfOrderCount", "reverseRtpOutOfOrderCount" Number "packets" "Number of packets that arrived after one with a later sequence number, up to 65535."
            = |r, side| number(rtp(r, side).map(|p| p.out_of_order));
        "rtpJitterSeconds", "reverseRtpJitterSeconds" Real "seconds" "Interarrival jitter (RFC 3550 section 6.4.1) at the end of the flow, from the packets with the clock rate of rtpPayloadType. Empty if that rate is not known."
            = |r, side| jitter(r, side);
        "rtcpPacketCount", "reverseRtcpPacketCount" Number "packets" "Number of RTCP packets from the initiator on the same ports (RFC 5761), up to 65535."
            = |r, side| number(rtp(r, side).map(|p| p.rtcp_packets));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Stands for a STUN request in a list of packets.
    const STUN: u32 = u32::MAX;

    /// The record of a PCMU stream. A packet is its arrival time and its number; packets are 20 ms
    /// apart.
    fn record_of(packets: &[(i64, u32)]) -> Option<Box<RtpRecord>> {
        let packets: Vec<_> = packets
            .iter()
            .map(|&(time_ns, number)| (time_ns, number, 0, number.wrapping_mul(160)))
            .collect();
        record_of_any(&packets)
    }

    /// The same for packets of arrival time, number, payload type and timestamp.
    fn record_of_any(packets: &[(i64, u32, u8, u32)]) -> Option<Box<RtpRecord>> {
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
            let datagram = L4Payload {
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
            if !read(&mut state, (at + 1).min(255) as u8, &datagram) {
                return None;
            }
        }
        let [side, _] = records(&state);
        side
    }

    /// The jitter of a PCMU stream in nanoseconds.
    fn jitter(packets: &[(i64, u32)]) -> f64 {
        record_of(packets).unwrap().jitter_ns.unwrap()
    }

    /// Received, lost and out-of-order packets of a stream with these first sequence numbers, followed
    /// by 50 in order.
    fn counts(first: &[u32]) -> Option<[u32; 3]> {
        let next = first.iter().max().unwrap() + 1;
        let numbers = first.iter().copied().chain(next..next + 50);
        let packets: Vec<_> = numbers.zip(0..).map(|(number, at)| (at, number)).collect();
        record_of(&packets).map(|it| [it.packets, it.lost, it.out_of_order])
    }

    #[test]
    fn counts_losses_before_the_source_is_identified() {
        assert_eq!(counts(&[7]), Some([51, 0, 0]));
        assert_eq!(counts(&[7, 9]), Some([52, 1, 0]));
        assert_eq!(
            counts(&[0xffff, 0x1_0001, 0x1_0002, 0x1_0005]),
            Some([54, 3, 0])
        );
        // Every third one is lost, for longer than other flows are probed.
        let two_of_three: Vec<u32> = (0..30).filter(|number| number % 3 != 2).collect();
        assert_eq!(counts(&two_of_three), Some([70, 9, 0]));
        assert_eq!(counts(&[7, 9, 8, 12]), Some([54, 2, 1]));
        // Each twice: duplicates hide losses (RFC 3550 appendix A.3).
        assert_eq!(counts(&[7, 7, 8, 8, 10, 10, 11, 11]), Some([58, 0, 0]));
        // Packets that the first one overtook do not hide losses.
        assert_eq!(counts(&[8, 7, 9, 11]), Some([54, 1, 1]));
        assert_eq!(counts(&[10, 7, 9, 11, 13]), Some([55, 1, 2]));
        assert_eq!(counts(&[0x1_0001, 0xffff, 0x1_0003]), Some([53, 1, 1]));
        // Another stream comes first.
        assert_eq!(counts(&[20_000, 20_001, 7, 8]), Some([50, 0, 0]));
    }

    /// Datagrams of 200 bytes, truncated by the snaplen. An extension of 10 words starts after byte 12.
    #[test]
    fn reads_header_truncated_by_snaplen() {
        for captured in [12, 13, 16, 18, 56, 200] {
            let mut state = RtpState::default();
            for number in 0..20_u16 {
                let mut payload = vec![0x90, 0];
                payload.extend(number.to_be_bytes());
                payload.extend((u32::from(number) * 160).to_be_bytes());
                payload.extend([1, 2, 3, 4, 0xbe, 0xde, 0, 10]);
                payload.resize(200, 0);
                let datagram = L4Payload {
                    protocol: 17,
                    time_ns: i64::from(number) * 20_000_000,
                    payload: &payload[..captured],
                    payload_length: 200,
                    ..L4Payload::empty(0, 17)
                };
                assert!(read(&mut state, 1 + number as u8, &datagram), "{captured}");
            }
            let [side, _] = records(&state);
            let counts = side.map(|it| (it.packets, it.lost));
            assert_eq!(counts, Some((20, 0)), "{captured}");
        }
    }

    /// A receiver report and a source description, truncated by the snaplen.
    #[test]
    fn counts_reports_truncated_by_snaplen() {
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
                let datagram = L4Payload {
                    protocol: 17,
                    payload: &payload,
                    payload_length,
                    ..L4Payload::empty(0, 17)
                };
                assert!(read(&mut state, number + 1, &datagram), "{captured}");
            }
            let [side, _] = records(&state);
            let count = side.map(|it| it.rtcp_packets);
            assert_eq!(count, Some(expected), "{captured} of {length}");
        }
    }

    #[test]
    fn stun_request_does_not_end_probing_of_a_source_with_gaps() {
        let two_of_three = (0..30).filter(|number| number % 3 != 2);
        let mut packets: Vec<_> = two_of_three.chain(30..80).map(|at| (0, at)).collect();
        packets.insert(11, (0, STUN));
        let counts = record_of(&packets).map(|it| (it.packets, it.lost));
        assert_eq!(counts, Some((70, 10)));
    }

    #[test]
    fn gives_up_other_protocols() {
        // All sequence numbers equal, or far apart.
        for step in [0, 5000] {
            let packets: Vec<_> = (0..50).map(|at| (0, at * step)).collect();
            assert_eq!(record_of(&packets), None, "{step}");
        }
    }

    /// Received, lost and out-of-order packets and jitter of a stream with these sequence numbers,
    /// 20 ms apart.
    fn counts_and_jitter(numbers: &[std::ops::Range<u32>]) -> (u32, u32, u32, f64) {
        let packets: Vec<_> = (0..)
            .step_by(20_000_000)
            .zip(numbers.iter().cloned().flatten())
            .collect();
        let record = record_of(&packets).unwrap();
        let jitter = record.jitter_ns.unwrap();
        (record.packets, record.lost, record.out_of_order, jitter)
    }

    #[test]
    fn restart_of_sequence_numbers_is_no_loss() {
        for (one, other) in [
            (1000, 10_000),
            (1000, 40_000),
            (1000, 62_000),
            (30_000, 65_535),
        ] {
            let counts = counts_and_jitter(&[one..one + 100, other..other + 100]);
            assert_eq!(counts, (200, 0, 0, 0.0), "{one} to {other}");
            let counts = counts_and_jitter(&[other..other + 100, one..one + 100]);
            assert_eq!(counts, (200, 0, 0, 0.0), "{other} to {one}");
        }
        // Losses before and after the restart count.
        let gaps = [1000..1100, 1102..1150, 40_000..40_050, 40_051..40_100];
        assert_eq!(counts_and_jitter(&gaps).1, 3);
        let thrice = [1000..1100, 1101..1110, 20_000..20_100, 5..10, 12..20];
        assert_eq!(counts_and_jitter(&thrice).1, 3);
        // One of the old numbers arrives in between.
        let counts = counts_and_jitter(&[1000..1100, 40_000..40_001, 1100..1101, 40_001..40_100]);
        assert_eq!((counts.0, counts.1), (201, 0));
        // Packets that were overtaken at the restart, and one that is lost.
        let overtaken = [1000..1100, 40_000..40_010, 39_998..40_000, 40_011..40_020];
        assert_eq!(counts_and_jitter(&overtaken).1, 1);
    }

    #[test]
    fn ignores_a_packet_far_off() {
        let stray = [
            1000..1100,
            40_000..40_001,
            1100..1200,
            20_000..20_001,
            1200..1210,
        ];
        let counts = counts_and_jitter(&stray);
        assert_eq!((counts.0, counts.1, counts.2), (210, 0, 0));
        // The largest loss.
        let counts = counts_and_jitter(&[1000..1100, 4099..4110]);
        assert_eq!((counts.0, counts.1), (111, 2999));
    }

    #[test]
    fn jitter_ignores_timestamps_of_another_clock() {
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
            let record = record_of_any(&packets).unwrap();
            assert_eq!((record.packets, record.payload_type), (60, 0));
            assert_eq!(record.jitter_ns, Some(0.0), "{other}");
        }
        // Another payload type before the source is identified.
        let packets: Vec<_> = (0..60_u32)
            .map(|at| match at {
                0..3 => (i64::from(at) * 20_000_000, at, 34, at * 900),
                _ => (i64::from(at) * 20_000_000, at, 8, at * 160),
            })
            .collect();
        assert_eq!(record_of_any(&packets).unwrap().jitter_ns, Some(0.0));
    }

    /// The jitter by RFC 3550 section 6.4.1, without rounding.
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
    fn jitter_counts_long_delays_in_full() {
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
    fn jitter_counts_late_duplicates_in_full() {
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
    fn largest_differences_do_not_overflow() {
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
        fn jitter_matches_rfc_3550(
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
