//! The columns of TCP flags.

use super::value::{cold_value, side_value};
use crate::Analysis;
use crate::column::value::{AnalysisValue, number};
use crate::column::visitor::{ColumnVisitor, metadata};
use wire::tcp::flag::{CWR, ECE, FIN, RST, URG};

#[inline]
pub(super) fn flags(visitor: &mut impl ColumnVisitor) {
    visitor.side_columns(
        metadata!(
            "tcpSynTotalCount",
            Some(218),
            Number16,
            "packets",
            "syn_cnt",
            "Packets with SYN; at most 65,535, as for all flags except PSH and ACK."
        ),
        |it, side| side_value(it, side, |it| number(it.syns)),
    );
    visitor.side_columns(
        metadata!(
            "tcpFinTotalCount",
            Some(219),
            Number16,
            "packets",
            "fin_cnt",
            "Packets with FIN."
        ),
        |it, side| flag_count(it, side, FIN),
    );
    visitor.side_columns(
        metadata!(
            "tcpRstTotalCount",
            Some(220),
            Number16,
            "packets",
            "rst_cnt",
            "Packets with RST."
        ),
        |it, side| flag_count(it, side, RST),
    );
    visitor.side_columns(
        metadata!(
            "tcpPshTotalCount",
            Some(221),
            Number,
            "packets",
            "",
            "Packets with PSH."
        ),
        |it, side| side_value(it, side, |it| number(it.pushes)),
    );
    visitor.side_columns(
        metadata!(
            "tcpAckTotalCount",
            Some(222),
            Number,
            "packets",
            "ack_cnt",
            "Packets with ACK."
        ),
        |it, side| side_value(it, side, |it| number(it.acks)),
    );
}

#[inline]
pub(super) fn rare_flags(visitor: &mut impl ColumnVisitor) {
    visitor.side_columns(
        metadata!(
            "tcpUrgTotalCount",
            Some(223),
            Number16,
            "packets",
            "",
            "Packets with URG."
        ),
        |it, side| flag_count(it, side, URG),
    );
    visitor.side_columns(
        metadata!(
            "tcpEceTotalCount",
            None,
            Number16,
            "packets",
            "",
            "Packets with ECE (RFC 3168)."
        ),
        |it, side| flag_count(it, side, ECE),
    );
    visitor.side_columns(
        metadata!(
            "tcpCwrTotalCount",
            None,
            Number16,
            "packets",
            "",
            "Packets with CWR (RFC 3168)."
        ),
        |it, side| flag_count(it, side, CWR),
    );
}

#[inline]
fn flag_count(analysis: &Analysis, side: usize, flag: u8) -> AnalysisValue<'static> {
    cold_value(analysis, side, |it, cold| it.flag_count(flag, cold).into())
}
