//! The columns of TCP's flags.

use super::{of, rare};
use crate::Analysis;
use crate::column::{AnalysisValue, Table, about, number};
use wire::tcp::flag::{CWR, ECE, FIN, RST, URG};

#[inline(always)]
pub(super) fn flags(table: &mut impl Table) {
    table.sides(
        about!(
            "tcpSynTotalCount",
            Some(218),
            Number16,
            "packets",
            "syn_cnt",
            "Packets with SYN, at most 65,535 counted (as for the rarer flags below)."
        ),
        |it, side| of(it, side, |it| number(it.syns)),
    );
    table.sides(
        about!(
            "tcpFinTotalCount",
            Some(219),
            Number16,
            "packets",
            "fin_cnt",
            "Packets with FIN."
        ),
        |it, side| flags_of(it, side, FIN),
    );
    table.sides(
        about!(
            "tcpRstTotalCount",
            Some(220),
            Number16,
            "packets",
            "rst_cnt",
            "Packets with RST."
        ),
        |it, side| flags_of(it, side, RST),
    );
    table.sides(
        about!(
            "tcpPshTotalCount",
            Some(221),
            Number,
            "packets",
            "",
            "Packets with PSH."
        ),
        |it, side| of(it, side, |it| number(it.pushes)),
    );
    table.sides(
        about!(
            "tcpAckTotalCount",
            Some(222),
            Number,
            "packets",
            "ack_cnt",
            "Packets with ACK."
        ),
        |it, side| of(it, side, |it| number(it.acks)),
    );
}

#[inline(always)]
pub(super) fn rare_flags(table: &mut impl Table) {
    table.sides(
        about!(
            "tcpUrgTotalCount",
            Some(223),
            Number16,
            "packets",
            "",
            "Packets with URG."
        ),
        |it, side| flags_of(it, side, URG),
    );
    table.sides(
        about!(
            "tcpEceTotalCount",
            None,
            Number16,
            "packets",
            "",
            "Packets with ECE (RFC 3168)."
        ),
        |it, side| flags_of(it, side, ECE),
    );
    table.sides(
        about!(
            "tcpCwrTotalCount",
            None,
            Number16,
            "packets",
            "",
            "Packets with CWR (RFC 3168)."
        ),
        |it, side| flags_of(it, side, CWR),
    );
}

#[inline(always)]
fn flags_of(analysis: &Analysis, side: usize, flag: u8) -> AnalysisValue<'static> {
    rare(analysis, side, |it, rare| it.flag_count(flag, rare).into())
}
