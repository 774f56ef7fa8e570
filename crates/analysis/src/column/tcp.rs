//! The columns of TCP measures.

mod flags;
mod value;

use self::flags::{flags, rare_flags};
use self::value::{
    class_count, cold_value, flow_value, has_option, missed_bytes, optional, side_value,
    syn_option, window,
};
use super::part::Part;
use super::value::{AnalysisValue, number, seconds};
use super::visitor::{ColumnVisitor, metadata};
use crate::tcp::{Class, TcpSide, flag};

#[inline]
pub(super) fn visit<T: ColumnVisitor>(visitor: &mut T) {
    visitor.visit_part(Part::Tcp, connection);
    visitor.visit_part(Part::RareFlags, rare_flags);
    visitor.visit_part(Part::Tcp, options);
    visitor.visit_part(Part::Sacks, sacks);
    visitor.visit_part(Part::Tcp, windows);
    visitor.visit_part(Part::RoundTrips, round_trips);
    visitor.visit_part(Part::TimestampRoundTrips, timestamp_round_trips);
    visitor.visit_part(Part::Tcp, data);
    visitor.visit_part(Part::Anomalies, anomalies);
}

#[inline]
fn connection(visitor: &mut impl ColumnVisitor) {
    visitor.flow_column(metadata!("tcpSynSeen", None, Number8, "", "", "1 if a SYN of the flow was seen, so that its beginning is known; 0 if the capture started later. (Tstat leaves such flows out.)"), |it, _| flow_value(it, |tcp| number(u8::from(tcp.has_syn()))));
    visitor.flow_column(metadata!("tcpConnections", None, Number16, "", "", "Connections opened on the flow's ports, by SYNs with different initial sequence numbers, since its first record. (A simultaneous open counts as one.)"), |it, _| flow_value(it, |tcp| number(tcp.connections(&it.cold))));
    visitor.flow_column(metadata!("tcpHandshakeServerSeconds", None, Real, "seconds", "", "Time from the SYN to the SYN-ACK: the round trip from the probe to the server and back. If the SYN was retransmitted, the time from the last one."), |it, _| flow_value(it, |tcp| seconds(tcp.server_handshake_ns())));
    visitor.flow_column(
        metadata!(
            "tcpHandshakeClientSeconds",
            None,
            Real,
            "seconds",
            "",
            "Time from the SYN-ACK to its ACK: the round trip from the probe to the client and back."
        ),
        |it, _| flow_value(it, |tcp| seconds(tcp.client_handshake_ns())),
    );
    visitor.flow_column(metadata!("tcpLimits", None, Number8, "", "", "Limits that affected the measures, in this record of the flow or an earlier one, as bits. 1: more segments were in flight than are kept (some round trips were not measured, and classes may be wrong; in later records, only while such segments are still kept). 2: a hole in the sequence numbers was given up (late bytes count as retransmitted, and perhaps as missed). 4: no memory was free for rare events (anomalies, holes, SACK blocks, closed windows, repeated rare flags). 8: a sequence number was too far away to belong to the connection (counting started anew). 16: the snaplen cut off TCP options (their columns are empty, and so are windows whose scale is unknown)."), |it, _| flow_value(it, |tcp| number(tcp.limits())));
    flags(visitor);
}

#[inline]
fn options(visitor: &mut impl ColumnVisitor) {
    visitor.side_columns(
        metadata!(
            "tcpPureAckCount",
            None,
            Number,
            "packets",
            "ack_cnt_p",
            "Packets with ACK and without payload, SYN, FIN and RST."
        ),
        |it, side| side_value(it, side, |it| number(it.pure_acks)),
    );
    visitor.side_columns(
        metadata!(
            "tcpMaximumSegmentSize",
            None,
            Number16,
            "bytes",
            "mss",
            "Maximum segment size option of the SYN (RFC 9293 section 3.7.1), 0 if it has none."
        ),
        |it, side| side_value(it, side, |tcp| syn_option(it, side, tcp.mss)),
    );
    visitor.side_columns(
        metadata!(
            "tcpWindowScale",
            Some(238),
            Number8,
            "",
            "win_scl",
            "Window scale option of the SYN (RFC 7323), 0 if it has none."
        ),
        |it, side| {
            side_value(it, side, |tcp| {
                syn_option(it, side, tcp.window_scale().into())
            })
        },
    );
    visitor.side_columns(
        metadata!(
            "tcpWindowScaleSeen",
            None,
            Number8,
            "",
            "f1323_opt",
            "1 if the SYN has a window scale option."
        ),
        |it, side| has_option(it, side, flag::WINDOW_SCALE),
    );
    visitor.side_columns(
        metadata!(
            "tcpSackPermitted",
            None,
            Number8,
            "",
            "sack_opt",
            "1 if the SYN permits selective acknowledgement (RFC 2018)."
        ),
        |it, side| has_option(it, side, flag::SACK_PERMITTED),
    );
    visitor.side_columns(
        metadata!(
            "tcpTimestampsSeen",
            None,
            Number8,
            "",
            "tm_opt",
            "1 if packets have timestamps (RFC 7323)."
        ),
        |it, side| has_option(it, side, flag::TIMESTAMPS),
    );
}

#[inline]
fn sacks(visitor: &mut impl ColumnVisitor) {
    visitor.side_columns(
        metadata!(
            "tcpSackBlocks",
            None,
            Number,
            "",
            "sack_cnt",
            "SACK blocks sent. (Tstat counts packets that have some.)"
        ),
        |it, side| cold_value(it, side, |_, cold| cold.sack_blocks.into()),
    );
    visitor.side_columns(
        metadata!(
            "tcpDuplicatesReported",
            None,
            Number16,
            "",
            "",
            "SACK blocks that report duplicate data (RFC 2883)."
        ),
        |it, side| cold_value(it, side, |_, cold| cold.duplicates_reported.into()),
    );
}

#[inline]
fn windows(visitor: &mut impl ColumnVisitor) {
    visitor.side_columns(
        metadata!(
            "tcpWindowMinimumBytes",
            None,
            Number,
            "bytes",
            "win_min",
            "Smallest window advertised outside a SYN, scaled if both SYNs were seen with a window scale option."
        ),
        |it, side| window(it, side, TcpSide::window_min),
    );
    visitor.side_columns(
        metadata!(
            "tcpWindowMaximumBytes",
            None,
            Number,
            "bytes",
            "win_max",
            "Largest window advertised, likewise."
        ),
        |it, side| window(it, side, TcpSide::window_max),
    );
    visitor.side_columns(
        metadata!(
            "tcpZeroWindowPackets",
            None,
            Number16,
            "packets",
            "win_0",
            "Packets that advertise a window of zero."
        ),
        |it, side| cold_value(it, side, |_, cold| cold.zero_windows.into()),
    );
}

/// The columns of round trips: number of samples, minimum, mean, standard deviation and maximum.
macro_rules! round_trips {
    ($visitor:ident, $measured:ident, $name:literal, $tstat:expr, $samples:literal) => {
        let [count, minimum, mean, deviation, maximum] = $tstat;
        $visitor.side_columns(
            metadata!(concat!($name, "Samples"), None, Number, "", count, $samples),
            |it, side| side_value(it, side, |it| number(it.$measured.count())),
        );
        $visitor.side_columns(
            metadata!(
                concat!($name, "MinimumSeconds"),
                None,
                Real,
                "seconds",
                minimum,
                "Shortest of these round trips."
            ),
            |it, side| side_value(it, side, |it| seconds(it.$measured.min_ns())),
        );
        $visitor.side_columns(
            metadata!(
                concat!($name, "MeanSeconds"),
                None,
                Real,
                "seconds",
                mean,
                "Mean of these round trips."
            ),
            |it, side| {
                side_value(it, side, |it| {
                    AnalysisValue::Real(it.$measured.mean_ns() / 1e9)
                })
            },
        );
        $visitor.side_columns(
            metadata!(
                concat!($name, "StandardDeviationSeconds"),
                None,
                Real,
                "seconds",
                deviation,
                "Standard deviation of these round trips (of the population)."
            ),
            |it, side| {
                side_value(it, side, |it| {
                    AnalysisValue::Real(it.$measured.standard_deviation_ns() / 1e9)
                })
            },
        );
        $visitor.side_columns(
            metadata!(
                concat!($name, "MaximumSeconds"),
                None,
                Real,
                "seconds",
                maximum,
                "Longest of these round trips."
            ),
            |it, side| side_value(it, side, |it| seconds(it.$measured.max_ns())),
        );
    };
}

#[inline]
fn round_trips(visitor: &mut impl ColumnVisitor) {
    let tstat = ["rtt_cnt", "rtt_min", "rtt_avg", "rtt_std", "rtt_max"];
    round_trips!(
        visitor,
        rtt,
        "tcpRtt",
        tstat,
        "Number of round trips measured, from the probe to the other host and back: from a segment of this side to the acknowledgement of its last byte, if none of the segments acknowledged with it was retransmitted (Karn's algorithm) and it is the latest of them."
    );
}

#[inline]
fn timestamp_round_trips(visitor: &mut impl ColumnVisitor) {
    round_trips!(
        visitor,
        timestamp_rtt,
        "tcpTimestampRtt",
        [""; 5],
        "Number of round trips measured by timestamps: from the first packet with data and a new timestamp to the first packet that echoes it, one at a time; none if a later timestamp is echoed first."
    );
}

#[inline]
fn data(visitor: &mut impl ColumnVisitor) {
    visitor.side_columns(
        metadata!(
            "tcpUniqueBytes",
            None,
            Number,
            "bytes",
            "bytes_uniq",
            "Bytes of payload seen for the first time."
        ),
        |it, side| {
            let payload_bytes = it.volume.sides[side].payload_bytes;
            cold_value(it, side, |_, cold| {
                payload_bytes.saturating_sub(cold.anomalies.repeated_bytes)
            })
        },
    );
    visitor.side_columns(metadata!("tcpMissedBytes", None, Number, "bytes", "", "Bytes that the other side acknowledged but that were never seen: they were lost in the capture or before it. Bytes before the side's first packet seen do not count, and neither does a FIN."), missed_bytes);
    visitor.side_columns(
        metadata!(
            "tcpSegmentMinimumBytes",
            None,
            Number16,
            "bytes",
            "mss_min",
            "Payload of the smallest segment in sequence that has payload."
        ),
        |it, side| side_value(it, side, |it| optional(it.segment_min())),
    );
    visitor.side_columns(
        metadata!(
            "tcpSegmentMaximumBytes",
            None,
            Number16,
            "bytes",
            "mss_max",
            "Payload of the largest segment in sequence, at most 65,535."
        ),
        |it, side| {
            side_value(it, side, |it| match it.segment_max {
                0 => AnalysisValue::None,
                most => number(most),
            })
        },
    );
    visitor.side_columns(metadata!("tcpInFlightMaximumBytes", None, Number, "bytes", "cwin_max", "Maximum number of bytes sent but not acknowledged yet, as seen by the probe: a lower bound of the congestion window. Empty if nothing was acknowledged."), |it, side| side_value(it, side, |it| optional(it.in_flight_max())));
    visitor.side_columns(
        metadata!(
            "tcpInFlightInitialBytes",
            None,
            Number,
            "bytes",
            "cwin_ini",
            "Bytes sent before the first of them was acknowledged: a lower bound of the initial window. Empty if nothing was acknowledged."
        ),
        |it, side| side_value(it, side, |it| optional(it.in_flight_initial())),
    );
}

#[inline]
fn anomalies(visitor: &mut impl ColumnVisitor) {
    visitor.side_columns(metadata!("tcpRetransmittedPackets", None, Number, "packets", "pkts_retx", "Packets with payload that contain bytes seen before. Packets duplicated by the network and probes do not count."), |it, side| cold_value(it, side, |_, cold| cold.anomalies.retransmitted.into()));
    visitor.side_columns(
        metadata!(
            "tcpRetransmittedBytes",
            None,
            Number,
            "bytes",
            "bytes_retx",
            "Bytes seen before in these packets."
        ),
        |it, side| cold_value(it, side, |_, cold| cold.anomalies.retransmitted_bytes),
    );
    visitor.side_columns(
        metadata!(
            "tcpOutOfOrderPackets",
            None,
            Number,
            "packets",
            "pkts_ooo",
            "Packets with payload below the highest sequence number that contain no bytes seen before."
        ),
        |it, side| cold_value(it, side, |_, cold| cold.anomalies.out_of_order.into()),
    );
    anomaly_classes(visitor);
}

/// The columns of packets out of sequence by class.
#[inline]
fn anomaly_classes(visitor: &mut impl ColumnVisitor) {
    visitor.side_columns(
        metadata!(
            "tcpTimeoutPackets",
            None,
            Number,
            "packets",
            "pkts_rto",
            "Packets out of sequence by class: retransmitted when the sender's timer expired."
        ),
        |it, side| class_count(it, side, Class::Timeout),
    );
    visitor.side_columns(
        metadata!(
            "tcpFastRetransmitPackets",
            None,
            Number,
            "packets",
            "pkts_fs",
            "Retransmitted after three duplicate acknowledgements."
        ),
        |it, side| class_count(it, side, Class::FastRetransmit),
    );
    visitor.side_columns(
        metadata!(
            "tcpReorderedPackets",
            None,
            Number,
            "packets",
            "pkts_reor",
            "Overtaken in the network by a packet sent later."
        ),
        |it, side| class_count(it, side, Class::Reordering),
    );
    visitor.side_columns(
        metadata!(
            "tcpDuplicatePackets",
            None,
            Number,
            "packets",
            "pkts_dup",
            "Duplicated by the network, or captured twice."
        ),
        |it, side| class_count(it, side, Class::Duplicate),
    );
    visitor.side_columns(
        metadata!(
            "tcpFlowControlPackets",
            None,
            Number,
            "packets",
            "pkts_fc",
            "Probes of a closed window, and keep-alives."
        ),
        |it, side| class_count(it, side, Class::FlowControl),
    );
    visitor.side_columns(
        metadata!(
            "tcpUnnecessaryTimeoutPackets",
            None,
            Number,
            "packets",
            "pkts_unrto",
            "Retransmitted when the timer expired, although already acknowledged."
        ),
        |it, side| class_count(it, side, Class::UnnecessaryTimeout),
    );
    visitor.side_columns(
        metadata!(
            "tcpUnnecessaryFastRetransmitPackets",
            None,
            Number,
            "packets",
            "pkts_unfs",
            "Retransmitted after duplicate acknowledgements, although already acknowledged."
        ),
        |it, side| class_count(it, side, Class::UnnecessaryFastRetransmit),
    );
    visitor.side_columns(
        metadata!(
            "tcpUnknownAnomalyPackets",
            None,
            Number,
            "packets",
            "pkts_unk",
            "Out of sequence for another reason, or for an unknown one."
        ),
        |it, side| class_count(it, side, Class::Unknown),
    );
}
