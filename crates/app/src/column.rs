//! A column of an [`AppRecord`]: name, unit, definition, and the function that returns the value. Each
//! protocol defines its own; here are those of all flows.

use crate::record::{AppGroup, AppRecord, AppText};

/// A value of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AppValue<'a> {
    /// No value.
    None,
    /// A text.
    Text(&'a str),
    /// A whole number.
    Number(u64),
    /// A number with a fraction.
    Real(f64),
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppType {
    /// [`AppValue::Text`].
    Text,
    /// [`AppValue::Number`].
    Number,
    /// [`AppValue::Real`].
    Real,
}

/// An application-layer column.
#[derive(Clone, Copy, Debug)]
pub struct AppColumn {
    /// Stable name in camelCase. The unit comes last.
    pub name: &'static str,
    /// Type of its values.
    pub kind: AppType,
    /// Unit; empty if there is none.
    pub unit: &'static str,
    /// Number of the IPFIX Information Element, if there is one.
    pub ipfix: Option<u16>,
    /// Name of the same column in Tstat's logs; empty if there is none.
    pub tstat: &'static str,
    /// Definition with its source.
    pub definition: &'static str,
    /// The group of the column.
    pub group: AppGroup,
    /// Returns the value from a record.
    pub value: for<'a> fn(&'a AppRecord) -> AppValue<'a>,
}

/// The value of a text column.
pub(crate) fn text<'a>(value: Option<&'a Option<AppText>>) -> AppValue<'a> {
    match value {
        Some(Some(text)) => AppValue::Text(text),
        _ => AppValue::None,
    }
}

/// The value of a column of whole numbers.
pub(crate) fn number<N: Into<u64>>(value: Option<N>) -> AppValue<'static> {
    value.map_or(AppValue::None, |value| AppValue::Number(value.into()))
}

/// The value of a column of seconds, from nanoseconds.
pub(crate) fn seconds(nanoseconds: Option<u64>) -> AppValue<'static> {
    nanoseconds.map_or(AppValue::None, |ns| AppValue::Real(ns as f64 / 1e9))
}

/// The value of a text column whose empty text stands for no value.
pub(crate) fn filled(value: &str) -> AppValue<'_> {
    if value.is_empty() {
        AppValue::None
    } else {
        AppValue::Text(value)
    }
}

/// Defines a list of columns, group by group. A group with both directions is written once: its
/// columns become those of the initiator, followed by those of the responder.
macro_rules! columns {
    (
        $vis:vis $list:ident
        $($part:ident { $($name:literal $kind:ident $unit:literal [$($ipfix:literal)?] $tstat:literal $definition:literal = |$record:ident| $value:expr;)* })*
        $([$initiator:ident, $responder:ident] { $($forth:literal, $back:literal $side_kind:ident $side_unit:literal $side_definition:literal = |$side_record:ident, $side:ident| $side_value:expr;)* })?
    ) => {
        /// The columns of this file, in their order.
        $vis const $list: &[$crate::column::AppColumn] = &[
            $($($crate::column::columns!(@column $part, $name, $kind, $unit, [$($ipfix)?], $tstat, $definition, |$record| $value),)*)*
            $($($crate::column::columns!(@column $initiator, $forth, $side_kind, $side_unit, [], "", $side_definition, |$side_record| { let $side = 0; $side_value }),)*)?
            $($($crate::column::columns!(@column $responder, $back, $side_kind, $side_unit, [], "", concat!("As ", $forth, ", of the responder."), |$side_record| { let $side = 1; $side_value }),)*)?
        ];
    };
    (@column $part:ident, $name:literal, $kind:ident, $unit:literal, [$($ipfix:literal)?], $tstat:literal, $definition:expr, |$record:ident| $value:expr) => {
        $crate::column::AppColumn {
            name: $name,
            kind: $crate::column::AppType::$kind,
            unit: $unit,
            ipfix: $crate::column::columns!(@ipfix $($ipfix)?),
            tstat: $tstat,
            definition: $definition,
            group: $crate::record::AppGroup::$part,
            value: |$record| $value,
        }
    };
    (@ipfix $number:literal) => { Some($number) };
    (@ipfix) => { None };
}
pub(crate) use columns;

columns! {
    pub(crate) GENERAL_COLUMNS
    Any {
        "applicationName" Text "" [96] "" "Application class, by the table of names, first bytes and ports. Empty if no entry matches. Who said the name that matched is in the next column."
            = |r| r.application.as_ref().map_or(AppValue::None, |a| AppValue::Text(&a.name));
        "applicationFoundBy" Text "" [] "" "How the class was found, the most certain way that matched: `sni` (TLS or QUIC), `host` (HTTP), `bytes` (first bytes of the payload, or a parsed protocol), `dns` (resolved name), `port`, `dns-response` (resolved name whose query was not seen). The flow itself said the first three."
            = |r| r.application.as_ref().map_or(AppValue::None, |a| AppValue::Text(a.found_by.name()));
    }
    Resolved {
        "resolvedName" Text "" [] "fqdn" "Name that the initiator had most recently resolved to the responder's address when it opened the flow, from DNS responses in the same traffic: not said by the flow itself. A response to a query that was seen stays before others."
            = |r| r.resolved.as_ref().map_or(AppValue::None, |n| AppValue::Text(&n.name));
        "resolvedNameSource" Text "" [] "" "Who said resolvedName. It is never the flow itself, which says all other names of its record (tlsServerName, httpHost, dnsQueryName and so on): `query` is a DNS response to a query of the initiator that was seen (same addresses, ports, ID and question, at most 30 s before), `response` one whose query was not seen. Anyone may have sent the latter, or the capture lacks the queries."
            = |r| r.resolved.as_ref().map_or(AppValue::None, |n| AppValue::Text(n.source()));
        "resolvedNameAgeSeconds" Real "seconds" [] "dns_rslv" "Time from that DNS response to the flow's first packet (the first of all its records, if the active timeout splits it), in whole microseconds. 0 if the clock went back; at most 4294.967295."
            = |r| seconds(r.resolved.as_ref().map(|n| n.age_ns));
    }
}

columns! {
    pub(crate) INCOMPLETE_COLUMNS
    Any {
        "namesCut" Number "" [] "" "Why names may be missing or truncated in this record of the flow, or were in an earlier one. The sum of: 1 reassembly (no buffer, or one too small), 2 text too long or no memory for it, 4 snaplen, 8 no free state, 16 bytes missing in the capture, 32 a limit of work or of sources reached (QUIC packets not decrypted, DTLS fragments not read, RTP sources not counted, DNS names or records not read, ClientHellos with too many suites or extensions for JA4)."
            = |r| AppValue::Number(u64::from(r.incomplete.bits()));
    }
}
