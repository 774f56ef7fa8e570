//! Fills the analysis columns from the records of a batch.

use super::column::Column;
use super::row_selection::RowSelection;
use crate::column::measure::{self, ColumnGroup};
use crate::time_text::TimeFormatter;
use analysis::Analysis;
use analysis::{AnalysisValue, ColumnMetadata, ColumnVisitor, Part, PartState};
use flow::RecordBatch;
use std::ops::Range;
use std::slice::IterMut;

/// Fills the analysis columns from the records of a batch.
pub(super) struct ColumnBuilder<'a> {
    pub(super) batch: &'a RecordBatch,
    /// The rows of the batch to append.
    pub(super) rows: Range<usize>,
    pub(super) groups: IterMut<'a, ColumnGroup<Column>>,
    /// Remaining columns of the current group.
    pub(super) columns: IterMut<'a, Column>,
    /// The analyses of the selected records.
    pub(super) analyses: Vec<&'a Analysis>,
    /// The records that have values in the current group.
    pub(super) selection: &'a mut RowSelection,
    pub(super) times: &'a mut TimeFormatter,
}

impl ColumnBuilder<'_> {
    /// Selects the records that have values.
    #[inline]
    pub(super) fn select_rows(&mut self, part_state: impl Fn(&Analysis) -> PartState) {
        self.analyses.clear();
        let analyses = self.batch.analyses.get(self.rows.clone());
        let analyses = analyses.unwrap_or_default();
        self.selection.select(self.rows.len(), |at| {
            let analysis = measure::analysis(analyses, at);
            let found = match part_state(analysis) {
                PartState::Empty => return false,
                PartState::Default => measure::unseen(),
                PartState::Present => analysis,
            };
            self.analyses.push(found);
            true
        });
    }
}

impl ColumnVisitor for ColumnBuilder<'_> {
    #[inline]
    fn visit_part(&mut self, part: Part, columns: impl FnOnce(&mut Self)) {
        let Some(group) = self.groups.next() else {
            debug_assert!(false, "no group for {part:?}");
            return;
        };
        self.select_rows(|analysis| analysis.part_state(part));
        if self.selection.is_empty() {
            let records = self.rows.len();
            group
                .columns
                .iter_mut()
                .for_each(|it| it.push_nulls(records));
        } else {
            self.columns = group.columns.iter_mut();
            columns(self);
        }
    }

    // As `append_record` in `json.rs`, so that columns are no calls.
    #[inline(always)]
    fn visit_column(
        &mut self,
        about: &ColumnMetadata,
        _: Option<usize>,
        value: impl for<'v> Fn(&'v Analysis) -> AnalysisValue<'v>,
    ) {
        if let Some(column) = self.columns.next() {
            column.push_analysis(
                about.kind,
                &self.analyses,
                self.selection,
                self.times,
                value,
            );
        }
    }
}
