//! The columns of TCP.

mod flags;

use self::flags::{flags, rare_flags};
use super::{AnalysisValue, Part, Table, about, number, seconds};
use crate::Analysis;
use crate::tcp::{Class, Rare, Tcp, TcpSide, limit, mark};

/// The side's measures, if the flow is TCP.
#[inline(always)]
fn of<'v>(
    analysis: &Analysis,
    side: usize,
    value: impl FnOnce(&TcpSide) -> AnalysisValue<'v>,
) -> AnalysisValue<'v> {
    match &analysis.tcp {
        Some(tcp) => value(&tcp.sides[side]),
        None => AnalysisValue::None,
    }
}

#[inline(always)]
fn flow<'v>(
    analysis: &Analysis,
    value: impl FnOnce(&Tcp) -> AnalysisValue<'v>,
) -> AnalysisValue<'v> {
    match &analysis.tcp {
        Some(tcp) => value(tcp),
        None => AnalysisValue::None,
    }
}

/// A number by what is rare; none where a limit has cut that.
#[inline(always)]
fn rare(
    analysis: &Analysis,
    side: usize,
    value: impl FnOnce(&TcpSide, &Rare) -> u64,
) -> AnalysisValue<'static> {
    match &analysis.tcp {
        Some(tcp) if tcp.sides[side].limits & limit::RARE == 0 => {
            number(value(&tcp.sides[side], &analysis.rare[side]))
        }
        _ => AnalysisValue::None,
    }
}

#[inline(always)]
fn class(analysis: &Analysis, side: usize, class: Class) -> AnalysisValue<'static> {
    rare(analysis, side, |_, rare| {
        rare.anomalies.classes[class as usize].into()
    })
}

/// What was told in the SYN, if it was seen, and no options were cut off.
#[inline(always)]
fn in_syn(analysis: &Analysis, side: usize, value: u16) -> AnalysisValue<'static> {
    of(analysis, side, |it| {
        let may_be_cut = value == 0 && it.marks & mark::OPTIONS_CUT != 0;
        if it.marks & mark::SYN == 0 || may_be_cut {
            AnalysisValue::None
        } else {
            number(value)
        }
    })
}

/// Whether an option was seen, if none were cut off.
#[inline(always)]
fn option(analysis: &Analysis, side: usize, mark: u16) -> AnalysisValue<'static> {
    of(analysis, side, |it| match it.marks & mark != 0 {
        false if it.marks & mark::OPTIONS_CUT != 0 => AnalysisValue::None,
        seen => number(u8::from(seen)),
    })
}

/// A window, if it is known whether it is scaled.
#[inline(always)]
fn window(
    analysis: &Analysis,
    side: usize,
    window: impl FnOnce(&TcpSide) -> Option<u32>,
) -> AnalysisValue<'static> {
    let Some(tcp) = &analysis.tcp else {
        return AnalysisValue::None;
    };
    let marks = [tcp.sides[side].marks, tcp.sides[side ^ 1].marks];
    let scale_cut = |marks: u16| {
        let cut_syn = mark::SYN | mark::OPTIONS_CUT;
        marks & (cut_syn | mark::WINDOW_SCALE) == cut_syn
    };
    optional(window(&tcp.sides[side]).filter(|_| !marks.into_iter().any(scale_cut)))
}

#[inline(always)]
fn optional(value: Option<impl Into<u64>>) -> AnalysisValue<'static> {
    value.map_or(AnalysisValue::None, number)
}

#[inline(always)]
pub(super) fn tcp<T: Table>(table: &mut T) {
    table.run(Part::Tcp, connection);
    table.run(Part::RareFlags, rare_flags);
    table.run(Part::Tcp, options);
    table.run(Part::Sacks, sacks);
    table.run(Part::Tcp, windows);
    table.run(Part::RoundTrips, round_trips);
    table.run(Part::TimestampRoundTrips, timestamp_round_trips);
    table.run(Part::Tcp, data);
    table.run(Part::Anomalies, anomalies);
}

#[inline(always)]
fn connection(table: &mut impl Table) {
    table.flow(about!("tcpSynSeen", None, Number8, "", "", "1 if a SYN of the flow was seen, so that it is known from its beginning; 0 if the capture began later (Tstat leaves such flows out)."), |it, _| flow(it, |tcp| number(u8::from(tcp.has_syn()))));
    table.flow(about!("tcpConnections", None, Number16, "", "", "Connections that were opened on the flow's ports, by a SYN with another initial sequence number, since its first record. (Two SYNs that cross open one.)"), |it, _| flow(it, |tcp| number(tcp.connections(&it.rare))));
    table.flow(about!("tcpHandshakeServerSeconds", None, Real, "seconds", "", "From the SYN to the SYN-ACK: from the probe to the server and back. Of a SYN that was sent again, the last one."), |it, _| flow(it, |tcp| seconds(tcp.server_handshake_ns())));
    table.flow(
        about!(
            "tcpHandshakeClientSeconds",
            None,
            Real,
            "seconds",
            "",
            "From the SYN-ACK to the ACK that answers it: from the probe to the client and back."
        ),
        |it, _| flow(it, |tcp| seconds(tcp.client_handshake_ns())),
    );
    table.flow(about!("tcpLimits", None, Number8, "", "", "What a limit cut, in this record of the flow or one before, bits: 1 more segments under way than are kept (not all round trips measured, classes may be wrong; after a record in which it was so while they are among those that are kept), 2 a gap given up (late bytes count as retransmitted, and perhaps as missed), 4 no place for what is rare (anomalies, gaps, SACK blocks, closed windows, rare flags that come again), 8 a sequence number too far away to be of the connection (counting began anew there), 16 TCP options cut off by the snap length (what they would have told is empty, and so are windows where it is not known whether they are scaled)."), |it, _| flow(it, |tcp| number(tcp.limits())));
    flags(table);
}

#[inline(always)]
fn options(table: &mut impl Table) {
    table.sides(
        about!(
            "tcpPureAckCount",
            None,
            Number,
            "packets",
            "ack_cnt_p",
            "Packets with ACK that carry neither payload nor SYN, FIN or RST."
        ),
        |it, side| of(it, side, |it| number(it.pure_acks)),
    );
    table.sides(
        about!(
            "tcpMaximumSegmentSize",
            None,
            Number16,
            "bytes",
            "mss",
            "Maximum segment size in the SYN (RFC 9293 section 3.7.1), 0 if it has none."
        ),
        |it, side| of(it, side, |tcp| in_syn(it, side, tcp.segment_size)),
    );
    table.sides(
        about!(
            "tcpWindowScale",
            Some(238),
            Number8,
            "",
            "win_scl",
            "Window scale in the SYN (RFC 7323), 0 if it has none."
        ),
        |it, side| of(it, side, |tcp| in_syn(it, side, tcp.window_scale().into())),
    );
    table.sides(
        about!(
            "tcpWindowScaleSeen",
            None,
            Number8,
            "",
            "f1323_opt",
            "1 if the SYN has a window scale."
        ),
        |it, side| option(it, side, mark::WINDOW_SCALE),
    );
    table.sides(
        about!(
            "tcpSackPermitted",
            None,
            Number8,
            "",
            "sack_opt",
            "1 if the SYN permits selective acknowledgement (RFC 2018)."
        ),
        |it, side| option(it, side, mark::SACK_PERMITTED),
    );
    table.sides(
        about!(
            "tcpTimestampsSeen",
            None,
            Number8,
            "",
            "tm_opt",
            "1 if packets have time stamps (RFC 7323)."
        ),
        |it, side| option(it, side, mark::TIMESTAMPS),
    );
}

#[inline(always)]
fn sacks(table: &mut impl Table) {
    table.sides(
        about!(
            "tcpSackBlocks",
            None,
            Number,
            "",
            "sack_cnt",
            "SACK blocks sent (Tstat counts packets that have some)."
        ),
        |it, side| rare(it, side, |_, rare| rare.sack_blocks.into()),
    );
    table.sides(
        about!(
            "tcpDuplicatesReported",
            None,
            Number16,
            "",
            "",
            "SACK blocks that report data received twice (RFC 2883)."
        ),
        |it, side| rare(it, side, |_, rare| rare.duplicates_reported.into()),
    );
}

#[inline(always)]
fn windows(table: &mut impl Table) {
    table.sides(
        about!(
            "tcpWindowMinimumBytes",
            None,
            Number,
            "bytes",
            "win_min",
            "The smallest window told outside a SYN, scaled if both SYNs were seen to agree on it."
        ),
        |it, side| window(it, side, TcpSide::window_min),
    );
    table.sides(
        about!(
            "tcpWindowMaximumBytes",
            None,
            Number,
            "bytes",
            "win_max",
            "The largest window told, likewise."
        ),
        |it, side| window(it, side, TcpSide::window_max),
    );
    table.sides(
        about!(
            "tcpZeroWindowPackets",
            None,
            Number16,
            "packets",
            "win_0",
            "Packets that told a window of zero."
        ),
        |it, side| rare(it, side, |_, rare| rare.zero_windows.into()),
    );
}

/// The columns of round trips that were measured in one way: how many, and what they were like.
macro_rules! round_trips {
    ($table:ident, $measured:ident, $name:literal, $tstat:expr, $samples:literal) => {
        let [count, minimum, mean, deviation, maximum] = $tstat;
        $table.sides(
            about!(concat!($name, "Samples"), None, Number, "", count, $samples),
            |it, side| of(it, side, |it| number(it.$measured.count())),
        );
        $table.sides(
            about!(
                concat!($name, "MinimumSeconds"),
                None,
                Real,
                "seconds",
                minimum,
                "The shortest of these round trips."
            ),
            |it, side| of(it, side, |it| seconds(it.$measured.min_ns())),
        );
        $table.sides(
            about!(
                concat!($name, "MeanSeconds"),
                None,
                Real,
                "seconds",
                mean,
                "Their mean."
            ),
            |it, side| {
                of(it, side, |it| {
                    AnalysisValue::Real(it.$measured.mean_ns() / 1e9)
                })
            },
        );
        $table.sides(
            about!(
                concat!($name, "StandardDeviationSeconds"),
                None,
                Real,
                "seconds",
                deviation,
                "Their standard deviation (of the population)."
            ),
            |it, side| {
                of(it, side, |it| {
                    AnalysisValue::Real(it.$measured.deviation_ns() / 1e9)
                })
            },
        );
        $table.sides(
            about!(
                concat!($name, "MaximumSeconds"),
                None,
                Real,
                "seconds",
                maximum,
                "The longest of them."
            ),
            |it, side| of(it, side, |it| seconds(it.$measured.max_ns())),
        );
    };
}

#[inline(always)]
fn round_trips(table: &mut impl Table) {
    let tstat = ["rtt_cnt", "rtt_min", "rtt_avg", "rtt_std", "rtt_max"];
    round_trips!(
        table,
        rtt,
        "tcpRtt",
        tstat,
        "Round trips measured, from the probe to the other host and back: from a segment of this side to the acknowledgement that ends where it ends, if it was sent once (Karn's rule) and is the latest of those acknowledged with it."
    );
}

#[inline(always)]
fn timestamp_round_trips(table: &mut impl Table) {
    round_trips!(
        table,
        timestamp_rtt,
        "tcpTimestampRtt",
        [""; 5],
        "Round trips measured by time stamps: from the first packet with data and a new value to the first that echoes it, one at a time; none where a later value is echoed first."
    );
}

#[inline(always)]
fn data(table: &mut impl Table) {
    table.sides(
        about!(
            "tcpUniqueBytes",
            None,
            Number,
            "bytes",
            "bytes_uniq",
            "Bytes of payload seen for the first time."
        ),
        |it, side| {
            let payload_bytes = it.volume.sides[side].payload_bytes;
            rare(it, side, |_, rare| {
                payload_bytes.saturating_sub(rare.anomalies.repeated_bytes)
            })
        },
    );
    table.sides(about!("tcpMissedBytes", None, Number, "bytes", "", "Bytes that the other side acknowledged and that were never seen: the capture or what lies before it lost them. What lies before the first packet seen of a side does not count."), |it, side| rare(it, side, |tcp, rare| tcp.missed_bytes(rare)));
    table.sides(
        about!(
            "tcpSegmentMinimumBytes",
            None,
            Number16,
            "bytes",
            "mss_min",
            "The least payload of a packet in sequence."
        ),
        |it, side| of(it, side, |it| optional(it.segment_min())),
    );
    table.sides(
        about!(
            "tcpSegmentMaximumBytes",
            None,
            Number16,
            "bytes",
            "mss_max",
            "The most payload of a packet in sequence; 65,535 if it was more."
        ),
        |it, side| {
            of(it, side, |it| match it.segment_max {
                0 => AnalysisValue::None,
                most => number(most),
            })
        },
    );
    table.sides(about!("tcpInFlightMaximumBytes", None, Number, "bytes", "cwin_max", "The most bytes sent and not yet acknowledged, as the probe saw them: the congestion window, from below. Empty where nothing was acknowledged."), |it, side| of(it, side, |it| optional(it.in_flight_max())));
    table.sides(
        about!(
            "tcpInFlightInitialBytes",
            None,
            Number,
            "bytes",
            "cwin_ini",
            "Bytes sent before the first of them was acknowledged: the initial window, from below. Empty where none was."
        ),
        |it, side| of(it, side, |it| optional(it.in_flight_initial())),
    );
}

#[inline(always)]
fn anomalies(table: &mut impl Table) {
    table.sides(about!("tcpRetransmittedPackets", None, Number, "packets", "pkts_retx", "Packets with payload some of which was seen before; not those that the network copied, and not probes."), |it, side| rare(it, side, |_, rare| rare.anomalies.retransmitted.into()));
    table.sides(
        about!(
            "tcpRetransmittedBytes",
            None,
            Number,
            "bytes",
            "bytes_retx",
            "Bytes seen before in them."
        ),
        |it, side| rare(it, side, |_, rare| rare.anomalies.retransmitted_bytes),
    );
    table.sides(
        about!(
            "tcpOutOfOrderPackets",
            None,
            Number,
            "packets",
            "pkts_ooo",
            "Packets with payload below the highest sequence number, none of which was seen before."
        ),
        |it, side| rare(it, side, |_, rare| rare.anomalies.out_of_order.into()),
    );
    table.sides(
        about!(
            "tcpTimeoutPackets",
            None,
            Number,
            "packets",
            "pkts_rto",
            "Packets out of sequence by class: sent again since the sender's timer ran out."
        ),
        |it, side| class(it, side, Class::Timeout),
    );
    table.sides(
        about!(
            "tcpFastRetransmitPackets",
            None,
            Number,
            "packets",
            "pkts_fs",
            "Sent again since three duplicate acknowledgements asked for it."
        ),
        |it, side| class(it, side, Class::FastRetransmit),
    );
    table.sides(
        about!(
            "tcpReorderedPackets",
            None,
            Number,
            "packets",
            "pkts_reor",
            "Overtaken in the network by a packet that was sent later."
        ),
        |it, side| class(it, side, Class::Reordering),
    );
    table.sides(
        about!(
            "tcpDuplicatePackets",
            None,
            Number,
            "packets",
            "pkts_dup",
            "Copied by the network (or seen twice by the capture)."
        ),
        |it, side| class(it, side, Class::Duplicate),
    );
    table.sides(
        about!(
            "tcpFlowControlPackets",
            None,
            Number,
            "packets",
            "pkts_fc",
            "Probes of a closed window, and keep-alives."
        ),
        |it, side| class(it, side, Class::FlowControl),
    );
    table.sides(
        about!(
            "tcpUnnecessaryTimeoutPackets",
            None,
            Number,
            "packets",
            "pkts_unrto",
            "Sent again by the timer, although acknowledged."
        ),
        |it, side| class(it, side, Class::UnnecessaryTimeout),
    );
    table.sides(
        about!(
            "tcpUnnecessaryFastRetransmitPackets",
            None,
            Number,
            "packets",
            "pkts_unfs",
            "Sent again by duplicate acknowledgements, although acknowledged."
        ),
        |it, side| class(it, side, Class::UnnecessaryFastRetransmit),
    );
    table.sides(
        about!(
            "tcpUnknownAnomalyPackets",
            None,
            Number,
            "packets",
            "pkts_unk",
            "Out of sequence for none of these reasons."
        ),
        |it, side| class(it, side, Class::Unknown),
    );
}
