//! RTP sessions of one or several sources. A flow counts as RTP after several consecutive packets of one
//! source.

pub(crate) mod source;

use crate::column::{AppValue, columns, number};
use crate::message::rtp::{Rtp, is_rtcp};
use crate::parser::UDP_PROBE_PACKETS;
use crate::payload::L4Payload;
use crate::record::{AppRecord, RtpRecord};
use source::{CONSECUTIVE_MIN, Continuation, RtpSource};
use wire::work;

/// RTP in both directions. Flows of several sources, such as the bundle of WebRTC, have the others in
/// [`MediaExtra`](super::media::extra::MediaExtra).
#[derive(Debug, Default)]
pub(crate) struct RtpState {
    /// The first source of each direction.
    pub(crate) first: [RtpSource; 2],
    /// Number of RTCP packets of each direction.
    rtcp: [u16; 2],
    /// Whether one source was identified, so that the flow is RTP.
    is_confirmed: bool,
}

/// Number of datagrams that are probed if a source continues with gaps. It is higher than otherwise,
/// because payload of another protocol rarely looks like a source that continues.
const PROBE_PACKETS_WITH_GAPS: u8 = CONSECUTIVE_MIN * UDP_PROBE_PACKETS;

/// What reading a datagram needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RtpVerdict {
    /// Nothing.
    Read,
    /// Nothing, but the packet was of a source for which there is no room.
    Full,
    /// Room for further sources, after which the datagram must be read again.
    NeedsExtra,
    /// The flow is not RTP.
    NotRtp,
}

/// Whether a datagram may be RTP or RTCP.
pub(crate) fn may_be_rtp(datagram: &[u8], length: usize) -> bool {
    Rtp::plausible(datagram, length).is_some() || is_rtcp(datagram, length)
}

impl RtpState {
    pub(crate) const fn is_confirmed(&self) -> bool {
        self.is_confirmed
    }

    /// Reads a datagram of a flow that may be RTP; it is the `packets`-th with payload. `extra` has
    /// the sources beside the first ones, if there are any. `may_have_extra` says whether there can be
    /// more, or whether packets of further sources must be ignored.
    pub(crate) fn read(
        &mut self,
        extra: &mut [RtpSource],
        may_have_extra: bool,
        packets: u8,
        datagram: &L4Payload<'_>,
    ) -> RtpVerdict {
        work::count(work::CALL * (1 + extra.len()));
        let verdict = |is_rtp| match is_rtp {
            true => RtpVerdict::Read,
            false => RtpVerdict::NotRtp,
        };
        let direction = datagram.direction & 1;
        let length = datagram.payload_length as usize;
        let Some(rtp) = Rtp::plausible(datagram.payload, length) else {
            if is_rtcp(datagram.payload, length) {
                let count = &mut self.rtcp[usize::from(direction)];
                *count = count.saturating_add(1);
                return RtpVerdict::Read;
            }
            // STUN, DTLS, TURN channels and ZRTP share RTP's ports (RFC 7983), and so does secure RTCP
            // (RFC 5761 section 4).
            let may_share = match *datagram.payload {
                [first, kind, ..] => first >> 6 != 2 || (192..=223).contains(&kind),
                _ => true,
            };
            return verdict(self.is_confirmed || may_share && self.may_probe(extra, packets));
        };
        let first = &mut self.first[usize::from(direction)];
        // The packets of an identified source are most of all.
        if first.is_confirmed() && first.ssrc == rtp.ssrc {
            first.count(&rtp, datagram.time_ns);
            return RtpVerdict::Read;
        }
        self.read_other(extra, may_have_extra, packets, datagram, &rtp)
    }

    /// Reads a packet of a source that is not identified, or not the first one.
    #[inline(never)]
    fn read_other(
        &mut self,
        extra: &mut [RtpSource],
        may_have_extra: bool,
        packets: u8,
        datagram: &L4Payload<'_>,
        rtp: &Rtp,
    ) -> RtpVerdict {
        let direction = datagram.direction & 1;
        let may_probe = self.is_confirmed || self.may_probe(extra, packets);
        let first = &mut self.first[usize::from(direction)];
        let source = if first.is_empty() {
            None
        } else if first.is_of(rtp.ssrc, direction) {
            Some(&mut *first)
        } else {
            extra.iter_mut().find(|it| it.is_of(rtp.ssrc, direction))
        };
        if let Some(source) = source {
            if source.is_confirmed() {
                source.count(rtp, datagram.time_ns);
                return RtpVerdict::Read;
            }
            let continuation = source.continuation(rtp);
            if continuation != Continuation::Next && !may_probe {
                return RtpVerdict::NotRtp;
            }
            if continuation == Continuation::No {
                source.start(rtp, direction, datagram.time_ns);
            } else {
                source.count_unconfirmed(rtp, datagram.time_ns);
                self.is_confirmed |= source.is_confirmed();
            }
            return RtpVerdict::Read;
        }
        if first.is_empty() {
            first.start(rtp, direction, datagram.time_ns);
            return RtpVerdict::Read;
        }
        if !may_probe {
            return RtpVerdict::NotRtp;
        }
        if extra.is_empty() && may_have_extra {
            return RtpVerdict::NeedsExtra;
        }
        // Of the sources that are not identified, the one that was silent longest is replaced.
        let slot = extra
            .iter_mut()
            .filter(|it| !it.is_confirmed())
            .min_by_key(|it| (!it.is_empty(), it.arrival.get()));
        let slot = match slot {
            Some(slot) => slot,
            None if !first.is_confirmed() => first,
            None => return RtpVerdict::Full,
        };
        slot.start(rtp, direction, datagram.time_ns);
        RtpVerdict::Read
    }

    /// Whether more datagrams may be probed for RTP after `packets` of them.
    fn may_probe(&self, extra: &[RtpSource], packets: u8) -> bool {
        let continues = self.first.iter().chain(extra).any(|it| it.packets > 1);
        packets
            < match continues {
                true => PROBE_PACKETS_WITH_GAPS,
                false => UDP_PROBE_PACKETS,
            }
    }

    /// The record of a direction, which describes its source with the most packets.
    pub(crate) fn record(&self, extra: &[RtpSource], direction: u8) -> Option<Box<RtpRecord>> {
        let of_direction = |it: &&RtpSource| it.is_confirmed() && it.direction == direction;
        let all = || self.first.iter().chain(extra).filter(of_direction);
        // The last maximum of a reversed iterator is the first one.
        let source = all().rev().max_by_key(|it| it.packets)?;
        Some(Box::new(RtpRecord {
            ssrc: source.ssrc,
            payload_type: source.payload_type,
            packets: source.packets,
            lost: source.lost(),
            out_of_order: u32::from(source.out_of_order),
            jitter_ns: source.jitter_ns(),
            rtcp_packets: u32::from(self.rtcp[usize::from(direction)]),
            sources: all().count() as u32,
        }))
    }
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
        "rtpSsrc", "reverseRtpSsrc" Number "" "Synchronization source of the initiator's RTP packets (RFC 3550 section 5.1). If there are several (rtpSourceCount), the one with the most packets."
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
        "rtpSourceCount", "reverseRtpSourceCount" Number "sources" "Number of synchronization sources that were identified by consecutive packets. The other columns are of one of them. Both directions together have up to 8; namesCut has a bit set if there were more."
            = |r, side| number(rtp(r, side).map(|p| p.sources));
        "rtcpPacketCount", "reverseRtcpPacketCount" Number "packets" "Number of RTCP packets from the initiator on the same ports (RFC 5761), up to 65535."
            = |r, side| number(rtp(r, side).map(|p| p.rtcp_packets));
    }
}

#[cfg(test)]
mod tests {
    use super::source::DIFFERENCE_MAX_NS;
    use super::*;
    use proptest::prelude::*;

    /// Reads a datagram without room for further sources. Returns false if the flow is not RTP.
    fn read(state: &mut RtpState, packets: u8, datagram: &L4Payload<'_>) -> bool {
        state.read(&mut [], false, packets, datagram) != RtpVerdict::NotRtp
    }

    fn records(state: &RtpState) -> [Option<Box<RtpRecord>>; 2] {
        [0, 1].map(|direction| state.record(&[], direction))
    }

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
                acknowledgement: 0,
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
