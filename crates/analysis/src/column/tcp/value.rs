//! Values of TCP measures: none if the flow is not TCP, or if what the measure needs is missing.

use crate::Analysis;
use crate::column::value::{AnalysisValue, number};
use crate::tcp::{Class, Tcp, TcpCold, TcpSide, flag, limit};

/// Returns a value of one side, if the flow is TCP.
#[inline]
pub(super) fn side_value<'v>(
    analysis: &Analysis,
    side: usize,
    value: impl FnOnce(&TcpSide) -> AnalysisValue<'v>,
) -> AnalysisValue<'v> {
    match &analysis.tcp {
        Some(tcp) => value(&tcp.sides[side]),
        None => AnalysisValue::None,
    }
}

/// Returns a value of both sides, if the flow is TCP.
#[inline]
pub(super) fn flow_value<'v>(
    analysis: &Analysis,
    value: impl FnOnce(&Tcp) -> AnalysisValue<'v>,
) -> AnalysisValue<'v> {
    match &analysis.tcp {
        Some(tcp) => value(tcp),
        None => AnalysisValue::None,
    }
}

/// Returns a number that depends on the cold state. No value if the side got no cold state.
#[inline]
pub(super) fn cold_value(
    analysis: &Analysis,
    side: usize,
    value: impl FnOnce(&TcpSide, &TcpCold) -> u64,
) -> AnalysisValue<'static> {
    match &analysis.tcp {
        Some(tcp) if tcp.sides[side].limits & limit::COLD == 0 => {
            number(value(&tcp.sides[side], &analysis.cold[side]))
        }
        _ => AnalysisValue::None,
    }
}

#[inline]
pub(super) fn missed_bytes(analysis: &Analysis, side: usize) -> AnalysisValue<'_> {
    match &analysis.tcp {
        Some(tcp) => cold_value(analysis, side, |_, cold| tcp.missed_bytes(side, cold)),
        None => AnalysisValue::None,
    }
}

#[inline]
pub(super) fn class_count(
    analysis: &Analysis,
    side: usize,
    class: Class,
) -> AnalysisValue<'static> {
    cold_value(analysis, side, |_, cold| {
        cold.anomalies.classes[class as usize].into()
    })
}

/// Returns the value of a SYN option, 0 if the SYN does not have it. No value if the SYN was not seen or
/// the option may be cut off.
#[inline]
pub(super) fn syn_option(analysis: &Analysis, side: usize, value: u16) -> AnalysisValue<'static> {
    side_value(analysis, side, |it| {
        let may_be_cut = value == 0 && it.flags & flag::OPTIONS_CUT != 0;
        if it.flags & flag::SYN == 0 || may_be_cut {
            AnalysisValue::None
        } else {
            number(value)
        }
    })
}

/// Returns 1 if an option was seen, otherwise 0. No value if the option may be cut off.
#[inline]
pub(super) fn has_option(analysis: &Analysis, side: usize, flag: u16) -> AnalysisValue<'static> {
    side_value(analysis, side, |it| match it.flags & flag != 0 {
        false if it.flags & flag::OPTIONS_CUT != 0 => AnalysisValue::None,
        seen => number(u8::from(seen)),
    })
}

/// Returns a window. No value if the window scale option may be cut off.
#[inline]
pub(super) fn window(
    analysis: &Analysis,
    side: usize,
    window: impl FnOnce(&TcpSide) -> Option<u32>,
) -> AnalysisValue<'static> {
    let Some(tcp) = &analysis.tcp else {
        return AnalysisValue::None;
    };
    let flags = [tcp.sides[side].flags, tcp.sides[side ^ 1].flags];
    let may_lack_scale = |flags: u16| {
        let cut_syn = flag::SYN | flag::OPTIONS_CUT;
        flags & (cut_syn | flag::WINDOW_SCALE) == cut_syn
    };
    optional(window(&tcp.sides[side]).filter(|_| !flags.into_iter().any(may_lack_scale)))
}

#[inline]
pub(super) fn optional(value: Option<impl Into<u64>>) -> AnalysisValue<'static> {
    value.map_or(AnalysisValue::None, number)
}
