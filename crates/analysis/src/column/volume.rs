//! The columns of volume and timing, which every flow has.

use super::{AnalysisValue, Chosen, Part, Table, about, number, seconds};
use crate::Analysis;
use crate::volume::FIRST_PACKETS;
use wire::{FlowKey, Outline, Tunnel};

#[inline(always)]
pub(super) fn volume<T: Table>(table: &mut T, chosen: Chosen) {
    table.run(Part::Flow, identity);
    if chosen.vlan {
        table.run(Part::Vlan, vlan_tags);
    }
    table.run(Part::Tunnel, tunnel);
    table.run(Part::Flow, sent_by_side);
    table.run(Part::Marks, marks);
    table.run(Part::Flow, payload_times);
    table.run(Part::Gaps, gaps);
    table.run(Part::Flow, first_packets);
    table.run(Part::Responses, responses);
}

#[inline(always)]
fn identity(table: &mut impl Table) {
    table.flow(about!("flowId", Some(148), Number, "", "", "The same in all records of one flow, which its active time-out has cut: a digest of its key and the time of its first packet."), |it, _| number(it.flow_id));
    table.flow(
        about!(
            "flowRecord",
            None,
            Number16,
            "",
            "",
            "How many records of the flow came before this one."
        ),
        |it, _| number(it.volume.record),
    );
}

#[inline(always)]
fn vlan_tags(table: &mut impl Table) {
    table.flow(about!("dot1qVlanId", Some(243), Number16, "", "", "VLAN of the first packet's outer tag (IEEE 802.1Q section 9.6); where VLAN tags are part of the key, the column of the key stands for it."), |it, _| vlan(it.volume.vlan[0]));
    table.flow(
        about!(
            "dot1qCustomerVlanId",
            Some(245),
            Number16,
            "",
            "",
            "VLAN of the first packet's inner tag; as the outer one."
        ),
        |it, _| vlan(it.volume.vlan[1]),
    );
}

#[inline(always)]
fn tunnel(table: &mut impl Table) {
    table.flow(about!("mplsLabel", None, Number, "", "", "First label of the first packet's innermost MPLS stack (RFC 3032), 20 bits; with `--decapsulate`."), |it, _| match it.volume.mpls_label {
        label if label & Outline::MPLS_PRESENT == 0 => AnalysisValue::None,
        label => number(label & !Outline::MPLS_PRESENT),
    });
    table.flow(about!("tunnel", None, Word, "", "", "What the first packet was wrapped in, the innermost of it: mpls, pppoe, ip-in-ip, gre, vxlan, geneve, gtp-u or teredo; with `--decapsulate`."), |it, _| match it.volume.tunnel {
        Tunnel::None => AnalysisValue::None,
        tunnel => AnalysisValue::Word(tunnel.name()),
    });
}

#[inline(always)]
fn sent_by_side(table: &mut impl Table) {
    table.sides(about!("transportOctetDeltaCount", Some(401), Number, "bytes", "bytes_all", "Bytes of payload on the wire: what follows the TCP or UDP header, or else the IP header; sent again or not."), |it, side| number(it.volume.sides[side].payload_bytes));
    table.sides(
        about!(
            "transportPacketDeltaCount",
            Some(402),
            Number,
            "packets",
            "pkts_data",
            "Packets with payload."
        ),
        |it, side| number(it.volume.sides[side].data_packets),
    );
    table.sides(
        about!(
            "frameSizeMinimumBytes",
            None,
            Number16,
            "bytes",
            "",
            "The shortest frame on the wire."
        ),
        |it, side| sent(it, side, it.volume.sides[side].size_min().into()),
    );
    table.sides(
        about!(
            "frameSizeMaximumBytes",
            None,
            Number16,
            "bytes",
            "",
            "The longest frame on the wire; 65,535 for one that is longer."
        ),
        |it, side| sent(it, side, it.volume.sides[side].size_max.into()),
    );
    table.sides(
        about!(
            "minimumTTL",
            Some(52),
            Number8,
            "hops",
            "ttl_min",
            "The least time to live (IPv4) or hop limit (IPv6)."
        ),
        |it, side| sent(it, side, it.volume.sides[side].ttl_min.into()),
    );
    table.sides(
        about!(
            "maximumTTL",
            Some(53),
            Number8,
            "hops",
            "ttl_max",
            "The greatest time to live or hop limit."
        ),
        |it, side| sent(it, side, it.volume.sides[side].ttl_max.into()),
    );
    table.sides(
        about!(
            "ipDiffServCodePoint",
            Some(195),
            Number8,
            "",
            "",
            "DSCP of the first packet (RFC 2474)."
        ),
        |it, side| sent(it, side, it.volume.sides[side].dscp().into()),
    );
    table.sides(
        about!(
            "dscpChanged",
            None,
            Number8,
            "",
            "",
            "1 if another packet had another DSCP."
        ),
        |it, side| sent(it, side, it.volume.sides[side].dscp_changed().into()),
    );
}

#[inline(always)]
fn marks(table: &mut impl Table) {
    table.sides(
        about!(
            "congestionMarkedPackets",
            None,
            Number,
            "packets",
            "",
            "Packets that a congested router has marked (ECN 3, RFC 3168)."
        ),
        |it, side| number(it.volume.sides[side].congestion_marks),
    );
    table.sides(about!("fragmentPackets", None, Number, "packets", "", "Fragments of IP packets that belong to the flow; those after the first of a packet have no ports and are in a flow of their own."), |it, side| number(it.volume.sides[side].fragments));
}

#[inline(always)]
fn payload_times(table: &mut impl Table) {
    table.sides(about!("firstPayloadNanoseconds", None, Time, "", "first", "Time of the first packet with payload. (Tstat: milliseconds after the flow's first packet.)"), |it, side| payload_time(it, side, it.volume.sides[side].first_payload_ns));
    table.sides(
        about!(
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

#[inline(always)]
fn gaps(table: &mut impl Table) {
    table.sides(about!("packetGapMinimumSeconds", None, Real, "seconds", "", "The shortest time between two consecutive packets of this side. Where the clock went back, a gap is 0 until the latest time so far is passed: all of them add up to the time from the first packet to the latest."), |it, side| seconds(it.volume.sides[side].gap_min_ns()));
    table.sides(
        about!(
            "packetGapMeanSeconds",
            None,
            Real,
            "seconds",
            "",
            "The mean of these times."
        ),
        |it, side| AnalysisValue::Real(it.volume.sides[side].gap_mean_ns() / 1e9),
    );
    table.sides(
        about!(
            "packetGapStandardDeviationSeconds",
            None,
            Real,
            "seconds",
            "",
            "Their standard deviation (of the population)."
        ),
        |it, side| AnalysisValue::Real(it.volume.sides[side].gap_deviation_ns() / 1e9),
    );
    table.sides(
        about!(
            "packetGapMaximumSeconds",
            None,
            Real,
            "seconds",
            "",
            "The longest of them."
        ),
        |it, side| {
            let side = &it.volume.sides[side];
            seconds((side.gaps() > 0).then_some(side.gap_max_ns))
        },
    );
}

#[inline(always)]
fn first_packets(table: &mut impl Table) {
    const _: () = assert!(FIRST_PACKETS == 10);
    table.flow(about!("firstPacketSizes", None, List, "bytes", "", "Bytes on the wire of the first ten packets of the flow, at most 65,535 each; a `|` between two."), |it, _| AnalysisValue::Sizes(&it.volume.first, it.volume.first_count));
    table.flow(
        about!(
            "firstPacketDirections",
            None,
            List,
            "",
            "",
            "Who sent each of them: 0 the initiator, 1 the responder; nothing between two."
        ),
        |it, _| AnalysisValue::Directions(&it.volume.first, it.volume.first_count),
    );
    table.flow(
        about!(
            "firstPacketGaps",
            None,
            List,
            "microseconds",
            "",
            "Time since the latest packet before each of them, at most 4,294,967,295; 0 of the first one, and of one that is earlier. A `|` between two."
        ),
        |it, _| AnalysisValue::Gaps(&it.volume.first, it.volume.first_count),
    );
}

#[inline(always)]
fn responses(table: &mut impl Table) {
    table.flow(
        about!(
            "responses",
            None,
            Number,
            "",
            "",
            "How often payload of the responder followed payload of the initiator."
        ),
        |it, _| number(it.volume.responses),
    );
    table.flow(about!("responseTimeFirstSeconds", None, Real, "seconds", "", "From the last payload of the initiator to the first payload of the responder behind it, the first time."), |it, _| answered(it, it.volume.response_first_ns));
    table.flow(
        about!(
            "responseTimeMeanSeconds",
            None,
            Real,
            "seconds",
            "",
            "The mean of all these times."
        ),
        |it, _| {
            let sum_ns = it.volume.response_sum_ns as f64;
            // Without a response NaN.
            AnalysisValue::Real(sum_ns / f64::from(it.volume.responses) / 1e9)
        },
    );
    table.flow(
        about!(
            "responseTimeMaximumSeconds",
            None,
            Real,
            "seconds",
            "",
            "The longest of them."
        ),
        |it, _| answered(it, it.volume.response_max_ns),
    );
}

/// A number of a side that has sent something.
#[inline(always)]
fn sent(analysis: &Analysis, side: usize, value: u64) -> AnalysisValue<'static> {
    match analysis.volume.sides[side].packets {
        0 => AnalysisValue::None,
        _ => AnalysisValue::Number(value),
    }
}

#[inline(always)]
fn payload_time(analysis: &Analysis, side: usize, time_ns: i64) -> AnalysisValue<'static> {
    match analysis.volume.sides[side].data_packets {
        0 => AnalysisValue::None,
        _ => AnalysisValue::Time(time_ns),
    }
}

/// A time until the responder answered, if it ever did.
#[inline(always)]
fn answered(analysis: &Analysis, nanoseconds: u64) -> AnalysisValue<'static> {
    seconds((analysis.volume.responses > 0).then_some(nanoseconds))
}

#[inline(always)]
fn vlan(tag: u16) -> AnalysisValue<'static> {
    if tag & FlowKey::VLAN_PRESENT == 0 {
        AnalysisValue::None
    } else {
        number(tag & (FlowKey::VLAN_PRESENT - 1))
    }
}
