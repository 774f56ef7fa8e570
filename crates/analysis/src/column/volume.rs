//! The columns of volume and timing measures, which every flow has.

use super::part::Part;
use super::value::{AnalysisValue, number, seconds};
use super::visitor::{ColumnSelection, ColumnVisitor, metadata};
use crate::Analysis;
use crate::volume::FIRST_PACKETS;
use wire::{FlowKey, Outline, Tunnel};

#[inline]
pub(super) fn visit<T: ColumnVisitor>(visitor: &mut T, selection: ColumnSelection) {
    visitor.visit_part(Part::Flow, identity);
    if selection.vlan {
        visitor.visit_part(Part::Vlan, vlan_tags);
    }
    visitor.visit_part(Part::Tunnel, tunnel);
    visitor.visit_part(Part::Flow, packets_and_bytes);
    visitor.visit_part(Part::EcnAndFragments, ecn_and_fragments);
    visitor.visit_part(Part::Flow, payload_times);
    visitor.visit_part(Part::Gaps, gaps);
    visitor.visit_part(Part::Flow, first_packets);
    visitor.visit_part(Part::Responses, responses);
}

#[inline]
fn identity(visitor: &mut impl ColumnVisitor) {
    visitor.flow_column(metadata!("flowId", Some(148), Number, "", "", "Flow ID, the same in all records of a flow that its active timeout has cut: a digest of the key and the time of the first packet."), |it, _| number(it.flow_id));
    visitor.flow_column(
        metadata!(
            "flowRecord",
            None,
            Number16,
            "",
            "",
            "Number of earlier records of the flow."
        ),
        |it, _| number(it.volume.record),
    );
}

#[inline]
fn vlan_tags(visitor: &mut impl ColumnVisitor) {
    visitor.flow_column(metadata!("dot1qVlanId", Some(243), Number16, "", "", "VLAN ID of the first packet's outer tag (IEEE 802.1Q section 9.6). If VLAN tags are part of the key, the key's column replaces this one."), |it, _| vlan_id(it.volume.vlan[0]));
    visitor.flow_column(
        metadata!(
            "dot1qCustomerVlanId",
            Some(245),
            Number16,
            "",
            "",
            "VLAN ID of the first packet's inner tag, likewise."
        ),
        |it, _| vlan_id(it.volume.vlan[1]),
    );
}

#[inline]
fn tunnel(visitor: &mut impl ColumnVisitor) {
    visitor.flow_column(metadata!("mplsLabel", None, Number, "", "", "First label of the first packet's innermost MPLS stack (RFC 3032), 20 bits. Requires `--decapsulate`."), |it, _| match it.volume.mpls_label {
        label if label & Outline::MPLS_PRESENT == 0 => AnalysisValue::None,
        label => number(label & !Outline::MPLS_PRESENT),
    });
    visitor.flow_column(metadata!("tunnel", None, Word, "", "", "Innermost tunnel of the first packet: mpls, pppoe, ip-in-ip, gre, vxlan, geneve, gtp-u or teredo; only one that holds an IP packet. Requires `--decapsulate`."), |it, _| match it.volume.tunnel {
        Tunnel::None => AnalysisValue::None,
        tunnel => AnalysisValue::Word(tunnel.name()),
    });
}

#[inline]
fn packets_and_bytes(visitor: &mut impl ColumnVisitor) {
    visitor.side_columns(metadata!("transportOctetDeltaCount", Some(401), Number, "bytes", "bytes_all", "Bytes of payload on the wire, retransmissions included: everything after the TCP or UDP header, or after the IP header for other protocols."), |it, side| number(it.volume.sides[side].payload_bytes));
    visitor.side_columns(
        metadata!(
            "transportPacketDeltaCount",
            Some(402),
            Number,
            "packets",
            "pkts_data",
            "Packets with payload."
        ),
        |it, side| number(it.volume.sides[side].data_packets),
    );
    visitor.side_columns(
        metadata!(
            "frameSizeMinimumBytes",
            None,
            Number16,
            "bytes",
            "",
            "Length of the shortest frame on the wire."
        ),
        |it, side| if_sent(it, side, it.volume.sides[side].size_min().into()),
    );
    visitor.side_columns(
        metadata!(
            "frameSizeMaximumBytes",
            None,
            Number16,
            "bytes",
            "",
            "Length of the longest frame on the wire, at most 65,535."
        ),
        |it, side| if_sent(it, side, it.volume.sides[side].size_max.into()),
    );
    visitor.side_columns(
        metadata!(
            "minimumTTL",
            Some(52),
            Number8,
            "hops",
            "ttl_min",
            "Lowest TTL (IPv4) or hop limit (IPv6)."
        ),
        |it, side| if_sent(it, side, it.volume.sides[side].ttl_min.into()),
    );
    visitor.side_columns(
        metadata!(
            "maximumTTL",
            Some(53),
            Number8,
            "hops",
            "ttl_max",
            "Highest TTL or hop limit."
        ),
        |it, side| if_sent(it, side, it.volume.sides[side].ttl_max.into()),
    );
    visitor.side_columns(
        metadata!(
            "ipDiffServCodePoint",
            Some(195),
            Number8,
            "",
            "",
            "DSCP of the first packet (RFC 2474)."
        ),
        |it, side| if_sent(it, side, it.volume.sides[side].dscp().into()),
    );
    visitor.side_columns(
        metadata!(
            "dscpChanged",
            None,
            Number8,
            "",
            "",
            "1 if a later packet had another DSCP."
        ),
        |it, side| if_sent(it, side, it.volume.sides[side].dscp_changed().into()),
    );
}

#[inline]
fn ecn_and_fragments(visitor: &mut impl ColumnVisitor) {
    visitor.side_columns(
        metadata!(
            "congestionMarkedPackets",
            None,
            Number,
            "packets",
            "",
            "Packets that a congested router marked (ECN codepoint CE, RFC 3168)."
        ),
        |it, side| number(it.volume.sides[side].congestion_marks),
    );
    visitor.side_columns(metadata!("fragmentPackets", None, Number, "packets", "", "IP fragments that belong to the flow. Fragments after the first one of a packet have no ports and form a flow of their own."), |it, side| number(it.volume.sides[side].fragments));
}

#[inline]
fn payload_times(visitor: &mut impl ColumnVisitor) {
    visitor.side_columns(metadata!("firstPayloadNanoseconds", None, Time, "", "first", "Time of the first packet with payload. (Tstat: milliseconds after the flow's first packet.)"), |it, side| payload_time(it, side, it.volume.sides[side].first_payload_ns));
    visitor.side_columns(
        metadata!(
            "lastPayloadNanoseconds",
            None,
            Time,
            "",
            "last",
            "Time of the last packet with payload."
        ),
        |it, side| payload_time(it, side, it.volume.sides[side].last_payload_ns),
    );
}

#[inline]
fn gaps(visitor: &mut impl ColumnVisitor) {
    visitor.side_columns(metadata!("packetGapMinimumSeconds", None, Real, "seconds", "", "Shortest time between two consecutive packets of this side. If the clock goes back, the gap is 0 until the latest time so far is passed, so that all gaps add up to the time from the first packet to the latest."), |it, side| seconds(it.volume.sides[side].gap_min_ns()));
    visitor.side_columns(
        metadata!(
            "packetGapMeanSeconds",
            None,
            Real,
            "seconds",
            "",
            "Mean of these times."
        ),
        |it, side| AnalysisValue::Real(it.volume.sides[side].gap_mean_ns() / 1e9),
    );
    visitor.side_columns(
        metadata!(
            "packetGapStandardDeviationSeconds",
            None,
            Real,
            "seconds",
            "",
            "Standard deviation of these times (of the population)."
        ),
        |it, side| AnalysisValue::Real(it.volume.sides[side].gap_standard_deviation_ns() / 1e9),
    );
    visitor.side_columns(
        metadata!(
            "packetGapMaximumSeconds",
            None,
            Real,
            "seconds",
            "",
            "Longest of these times."
        ),
        |it, side| {
            let side = &it.volume.sides[side];
            seconds((side.gaps() > 0).then_some(side.gap_max_ns))
        },
    );
}

#[inline]
fn first_packets(visitor: &mut impl ColumnVisitor) {
    const _: () = assert!(FIRST_PACKETS == 10);
    visitor.flow_column(metadata!("firstPacketSizes", None, List, "bytes", "", "Length on the wire of each of the flow's first ten packets, at most 65,535, separated by `|`."), |it, _| AnalysisValue::Sizes(&it.volume.first_packets, it.volume.first_count));
    visitor.flow_column(
        metadata!(
            "firstPacketDirections",
            None,
            List,
            "",
            "",
            "Sender of each of these packets, without separators: 0 is the initiator, 1 the responder."
        ),
        |it, _| AnalysisValue::Directions(&it.volume.first_packets, it.volume.first_count),
    );
    visitor.flow_column(
        metadata!(
            "firstPacketGaps",
            None,
            List,
            "microseconds",
            "",
            "Time from the latest earlier packet to each of these packets, at most 4,294,967,295, separated by `|`; 0 for the first packet, and if the clock went back."
        ),
        |it, _| AnalysisValue::Gaps(&it.volume.first_packets, it.volume.first_count),
    );
}

#[inline]
fn responses(visitor: &mut impl ColumnVisitor) {
    visitor.flow_column(
        metadata!(
            "responses",
            None,
            Number,
            "",
            "",
            "Number of times that payload of the responder followed payload of the initiator."
        ),
        |it, _| number(it.volume.responses),
    );
    visitor.flow_column(metadata!("responseTimeFirstSeconds", None, Real, "seconds", "", "First response time: from the initiator's last payload to the responder's first payload after it."), |it, _| response_time(it, it.volume.response_first_ns));
    visitor.flow_column(
        metadata!(
            "responseTimeMeanSeconds",
            None,
            Real,
            "seconds",
            "",
            "Mean response time."
        ),
        |it, _| {
            let sum_ns = it.volume.response_sum_ns as f64;
            // Without a response NaN.
            AnalysisValue::Real(sum_ns / f64::from(it.volume.responses) / 1e9)
        },
    );
    visitor.flow_column(
        metadata!(
            "responseTimeMaximumSeconds",
            None,
            Real,
            "seconds",
            "",
            "Longest response time."
        ),
        |it, _| response_time(it, it.volume.response_max_ns),
    );
}

/// Returns a number of a side. No value if the side has sent nothing.
#[inline]
fn if_sent(analysis: &Analysis, side: usize, value: u64) -> AnalysisValue<'static> {
    match analysis.volume.sides[side].packets {
        0 => AnalysisValue::None,
        _ => AnalysisValue::Number(value),
    }
}

#[inline]
fn payload_time(analysis: &Analysis, side: usize, time_ns: i64) -> AnalysisValue<'static> {
    match analysis.volume.sides[side].data_packets {
        0 => AnalysisValue::None,
        _ => AnalysisValue::Time(time_ns),
    }
}

/// Returns a response time. No value if there was no response.
#[inline]
fn response_time(analysis: &Analysis, nanoseconds: u64) -> AnalysisValue<'static> {
    seconds((analysis.volume.responses > 0).then_some(nanoseconds))
}

#[inline]
fn vlan_id(tag: u16) -> AnalysisValue<'static> {
    if tag & FlowKey::VLAN_PRESENT == 0 {
        AnalysisValue::None
    } else {
        number(tag & (FlowKey::VLAN_PRESENT - 1))
    }
}
