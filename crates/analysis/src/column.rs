//! The columns of an [`Analysis`]: names, units, definitions, and how to get their values. A measure of
//! each side has two columns; the name of the responder's column begins with `reverse` (RFC 5103).

mod part;
mod tcp;
mod value;
mod visitor;
mod volume;

pub use part::{Part, PartState};
pub use value::{AnalysisKind, AnalysisValue};
pub use visitor::{ColumnMetadata, ColumnSelection, ColumnVisitor};

use crate::Analysis;
use std::fmt;
use std::sync::LazyLock;

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

/// Visits the selected columns.
#[inline]
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
