//! The visitor of columns, and what it learns of each.

use super::part::Part;
use super::value::{AnalysisKind, AnalysisValue};
use crate::Analysis;

/// Visits the columns of an analysis in their order, part by part. See [`visit_columns`](super::visit_columns).
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
    #[inline]
    fn flow_column(
        &mut self,
        metadata: ColumnMetadata,
        value: impl for<'a> Fn(&'a Analysis, usize) -> AnalysisValue<'a> + Sync + 'static,
    ) {
        self.visit_column(&metadata, None, move |it| value(it, 0));
    }

    /// Visits a column of each side.
    #[doc(hidden)]
    #[inline]
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

/// The properties of a column, except its values.
#[derive(Debug)]
pub struct ColumnMetadata {
    /// Name, without the `reverse` of the responder's column.
    pub(super) name: &'static str,
    pub(super) ipfix: Option<u16>,
    /// Type of the values.
    pub kind: AnalysisKind,
    pub(super) unit: &'static str,
    /// Tstat's column, without the `c_` or `s_` of a measure of one side.
    pub(super) tstat: &'static str,
    pub(super) definition: &'static str,
}

/// Builds a [`ColumnMetadata`] from name, IPFIX ID, kind, unit, Tstat column and definition.
macro_rules! metadata {
    ($name:expr, $ipfix:expr, $kind:ident, $unit:literal, $tstat:expr, $definition:expr) => {
        crate::column::visitor::ColumnMetadata {
            name: $name,
            ipfix: $ipfix,
            kind: crate::column::value::AnalysisKind::$kind,
            unit: $unit,
            tstat: $tstat,
            definition: $definition,
        }
    };
}
pub(super) use metadata;
