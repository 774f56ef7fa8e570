//! The columns of an [`Analysis`]: names, units, definitions, and how to get their values. A measure of
//! each side has two columns; the name of the responder's column begins with `reverse` (RFC 5103).

use super::tcp::{Anomalies, TcpSide, limit};
use super::volume::FirstPackets;
use super::{Analysis, Tcp, TcpCold};
use std::fmt;
use std::sync::LazyLock;
use wire::Tunnel;
use wire::tcp::flag::{CWR, ECE, URG};

mod tcp;
mod volume;

/// A value of a column.
#[derive(Clone, Copy, Debug)]
pub enum AnalysisValue<'a> {
    /// The column does not apply to this flow.
    None,
    /// An integer.
    Number(u64),
    /// A real number; NaN if the measure has no value.
    Real(f64),
    /// A duration in nanoseconds, written in seconds; `None` if the measure has no value.
    Seconds(Option<u64>),
    /// Nanoseconds since the Unix epoch.
    Time(i64),
    /// A word.
    Word(&'static str),
    /// Sizes of the first packets, of which there are this many.
    Sizes(&'a FirstPackets, u8),
    /// Directions of the first packets, of which there are this many.
    Directions(&'a FirstPackets, u8),
    /// Gaps before the first packets, of which there are this many.
    Gaps(&'a FirstPackets, u8),
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnalysisKind {
    /// [`AnalysisValue::Number`] below 256.
    Number8,
    /// [`AnalysisValue::Number`] below 65,536.
    Number16,
    /// [`AnalysisValue::Number`].
    Number,
    /// [`AnalysisValue::Real`] or [`AnalysisValue::Seconds`].
    Real,
    /// [`AnalysisValue::Time`].
    Time,
    /// [`AnalysisValue::Word`].
    Word,
    /// A list, as text.
    List,
}

/// A group of columns that are empty, default or present together, so that one check decides for all of
/// them (see [`Analysis::part_state`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// Measures that every flow has.
    #[default]
    Flow,
    /// VLAN tags. Left out if they are part of the key, which has columns of its own for them.
    Vlan,
    /// Tunnels.
    Tunnel,
    /// CE marks and fragments.
    EcnAndFragments,
    /// Inter-arrival times of each side.
    Gaps,
    /// Response times.
    Responses,
    /// Measures that every TCP flow has.
    Tcp,
    /// The TCP flags that few packets have: URG, ECE, CWR.
    RareFlags,
    /// Selective acknowledgements.
    Sacks,
    /// TCP round trips measured by acknowledgements.
    RoundTrips,
    /// TCP round trips measured by timestamps.
    TimestampRoundTrips,
    /// TCP segments out of sequence.
    Anomalies,
}

impl Part {
    /// Returns whether only TCP flows have values in this part.
    #[must_use]
    pub const fn is_tcp(self) -> bool {
        !matches!(
            self,
            Self::Flow
                | Self::Vlan
                | Self::Tunnel
                | Self::EcnAndFragments
                | Self::Gaps
                | Self::Responses
        )
    }
}

/// The state of a [`Part`] of a flow's columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartState {
    /// The columns have no values.
    Empty,
    /// All values are those of a TCP flow without such events: the values of [`Analysis::empty_tcp`].
    /// Formats write a constant for all columns of the part.
    Default,
    /// The flow has values of its own.
    Present,
}

impl Analysis {
    /// Returns the state of a part of the columns.
    #[inline(always)]
    #[must_use]
    pub fn part_state(&self, part: Part) -> PartState {
        let sides = &self.volume.sides;
        let tcp_part = |is_default: fn(&TcpSide) -> bool| {
            let tcp = self.tcp.as_ref()?;
            Some(tcp.sides.iter().all(is_default))
        };
        let cold_part = |is_default: fn(&TcpSide, &TcpCold) -> bool| {
            let sides = &self.tcp.as_ref()?.sides;
            let is_known = |side: &TcpSide| side.limits & limit::COLD == 0;
            let mut all = sides.iter().zip(&self.cold);
            // A side without cold state has no values, which are not the defaults.
            sides
                .iter()
                .any(is_known)
                .then(|| all.all(|(side, cold)| is_known(side) && is_default(side, cold)))
        };
        let is_default = match part {
            Part::Flow => Some(false),
            Part::Vlan => (self.volume.vlan != [0; 2]).then_some(false),
            Part::Tunnel => {
                let has_tunnel = self.volume.mpls_label != 0 || self.volume.tunnel != Tunnel::None;
                has_tunnel.then_some(false)
            }
            Part::EcnAndFragments => Some(
                sides
                    .iter()
                    .all(|side| side.congestion_marks | side.fragments == 0),
            ),
            Part::Gaps => Some(sides.iter().all(|side| side.gaps() == 0)),
            Part::Responses => Some(self.volume.responses == 0),
            Part::Tcp => tcp_part(|_| false),
            Part::RareFlags => cold_part(|side, _| side.has_none_of(URG | ECE | CWR)),
            Part::Sacks => {
                cold_part(|_, cold| cold.sack_blocks == 0 && cold.duplicates_reported == 0)
            }
            Part::RoundTrips => tcp_part(|side| side.rtt.count() == 0),
            Part::TimestampRoundTrips => tcp_part(|side| side.timestamp_rtt.count() == 0),
            Part::Anomalies => cold_part(|_, cold| cold.anomalies == Anomalies::default()),
        };
        match is_default {
            None => PartState::Empty,
            Some(true) => PartState::Default,
            Some(false) => PartState::Present,
        }
    }

    /// Returns the analysis of a TCP flow without any events. [`PartState::Default`] refers to its
    /// values.
    #[must_use]
    pub fn empty_tcp() -> Self {
        Self {
            tcp: Some(Tcp::default()),
            ..Self::default()
        }
    }
}

/// A column of an analysis.
#[derive(Clone, Debug)]
pub struct AnalysisColumn {
    /// Stable name.
    pub name: String,
    /// ID of the IPFIX Information Element, if there is one.
    pub ipfix: Option<u16>,
    /// Type of the values.
    pub kind: AnalysisKind,
    /// Unit, or empty.
    pub unit: &'static str,
    /// Tstat's column, or empty.
    pub tstat: String,
    /// The part that it belongs to.
    pub part: Part,
    /// Definition, and its source.
    pub definition: &'static str,
    /// 0 for a measure of the initiator or of the flow, 1 for one of the responder.
    pub side: usize,
    value: ValueFn,
}

impl AnalysisColumn {
    /// Returns the column's value for a flow. A [`ColumnVisitor`] gets all values of many flows faster.
    #[must_use]
    pub fn value<'a>(&self, analysis: &'a Analysis) -> AnalysisValue<'a> {
        (self.value.0)(analysis)
    }
}

/// The function that returns a column's values.
#[derive(Clone, Copy)]
struct ValueFn(&'static (dyn for<'a> Fn(&'a Analysis) -> AnalysisValue<'a> + Sync));

impl fmt::Debug for ValueFn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ValueFn")
    }
}

/// Visits the columns of an analysis in their order, part by part. See [`visit_columns`].
///
/// The columns are compiled anew for each implementation. A value is then a load. A call that returns a
/// value of any type, and a match on the type, take many times as long.
pub trait ColumnVisitor: Sized {
    /// Visits a run of columns of one part: `columns` visits each of them.
    fn visit_part(&mut self, part: Part, columns: impl FnOnce(&mut Self));

    /// Visits a column of one side, or of the flow if `side` is `None`.
    fn visit_column(
        &mut self,
        metadata: &ColumnMetadata,
        side: Option<usize>,
        value: impl for<'a> Fn(&'a Analysis) -> AnalysisValue<'a> + Sync + 'static,
    );

    /// Visits a column of the flow.
    #[doc(hidden)]
    #[inline(always)]
    fn flow_column(
        &mut self,
        metadata: ColumnMetadata,
        value: impl for<'a> Fn(&'a Analysis, usize) -> AnalysisValue<'a> + Sync + 'static,
    ) {
        self.visit_column(&metadata, None, move |it| value(it, 0));
    }

    /// Visits a column of each side.
    #[doc(hidden)]
    #[inline(always)]
    fn side_columns(
        &mut self,
        metadata: ColumnMetadata,
        value: impl for<'a> Fn(&'a Analysis, usize) -> AnalysisValue<'a> + Copy + Sync + 'static,
    ) {
        // Two closures, so that the side is a constant in each.
        self.visit_column(&metadata, Some(0), move |it| value(it, 0));
        self.visit_column(&metadata, Some(1), move |it| value(it, 1));
    }
}

/// Which columns records have.
#[derive(Clone, Copy, Debug)]
pub struct ColumnSelection {
    /// Whether to include the columns of VLAN tags.
    pub vlan: bool,
    /// Whether to include the columns of TCP.
    pub tcp: bool,
}

impl ColumnSelection {
    /// All columns.
    pub const ALL: Self = Self {
        vlan: true,
        tcp: true,
    };

    /// Returns whether the columns of `part` are included.
    #[must_use]
    pub const fn includes(self, part: Part) -> bool {
        match part {
            Part::Vlan => self.vlan,
            part => self.tcp || !part.is_tcp(),
        }
    }
}

/// Visits the selected columns.
#[inline(always)]
pub fn visit_columns(visitor: &mut impl ColumnVisitor, selection: ColumnSelection) {
    volume::visit(visitor, selection);
    if selection.tcp {
        tcp::visit(visitor);
    }
}

/// All columns, in the order in which formats write them.
pub static COLUMNS: LazyLock<Vec<AnalysisColumn>> = LazyLock::new(|| {
    let mut list = ColumnList::default();
    visit_columns(&mut list, ColumnSelection::ALL);
    list.columns
});

/// The properties of a column, except its values.
#[derive(Debug)]
pub struct ColumnMetadata {
    /// Name, without the `reverse` of the responder's column.
    name: &'static str,
    ipfix: Option<u16>,
    /// Type of the values.
    pub kind: AnalysisKind,
    unit: &'static str,
    /// Tstat's column, without the `c_` or `s_` of a measure of one side.
    tstat: &'static str,
    definition: &'static str,
}

/// Collects all columns.
#[derive(Default)]
struct ColumnList {
    columns: Vec<AnalysisColumn>,
    part: Part,
}

impl ColumnVisitor for ColumnList {
    fn visit_part(&mut self, part: Part, columns: impl FnOnce(&mut Self)) {
        self.part = part;
        columns(self);
    }

    fn visit_column(
        &mut self,
        metadata: &ColumnMetadata,
        side: Option<usize>,
        value: impl for<'a> Fn(&'a Analysis) -> AnalysisValue<'a> + Sync + 'static,
    ) {
        let name = match (side, metadata.name.split_at(1)) {
            (Some(1), (first, rest)) => format!("reverse{}{rest}", first.to_uppercase()),
            _ => metadata.name.to_owned(),
        };
        let tstat = match (metadata.tstat, side) {
            ("", _) => String::new(),
            (whole, None) => whole.to_owned(),
            (stem, Some(side)) => format!("{}_{stem}", ["c", "s"][side]),
        };
        self.columns.push(AnalysisColumn {
            name,
            ipfix: metadata.ipfix,
            kind: metadata.kind,
            unit: metadata.unit,
            tstat,
            part: self.part,
            definition: metadata.definition,
            side: side.unwrap_or(0),
            // This leaks nothing: the closure captures nothing and has no size.
            value: ValueFn(Box::leak(Box::new(value))),
        });
    }
}

#[inline(always)]
const fn seconds(nanoseconds: Option<u64>) -> AnalysisValue<'static> {
    AnalysisValue::Seconds(nanoseconds)
}

#[inline(always)]
fn number(value: impl Into<u64>) -> AnalysisValue<'static> {
    AnalysisValue::Number(value.into())
}

/// Builds a [`ColumnMetadata`] from name, IPFIX ID, kind, unit, Tstat column and definition.
macro_rules! metadata {
    ($name:expr, $ipfix:expr, $kind:ident, $unit:literal, $tstat:expr, $definition:expr) => {
        crate::column::ColumnMetadata {
            name: $name,
            ipfix: $ipfix,
            kind: crate::column::AnalysisKind::$kind,
            unit: $unit,
            tstat: $tstat,
            definition: $definition,
        }
    };
}
use metadata;
