//! The columns of an analysis, filled from the records of a batch.

use super::among::Among;
use super::column::Column;
use crate::column::measure::{self, Run};
use crate::time_text::TimeText;
use analysis::Analysis;
use analysis::{About, AnalysisValue, Filling, Part, Table};
use flow::RecordBatch;
use std::ops::Range;
use std::slice::IterMut;

/// Takes columns, and the values of a batch into them.
pub(super) struct Taker<'a> {
    pub(super) batch: &'a RecordBatch,
    /// Which of its records.
    pub(super) rows: Range<usize>,
    pub(super) runs: IterMut<'a, Run<Column>>,
    /// Those of the run at hand that come next.
    pub(super) columns: IterMut<'a, Column>,
    /// What was found of the records that have values in the run.
    pub(super) analyses: Vec<&'a Analysis>,
    /// Which records these are.
    pub(super) among: &'a mut Among,
    pub(super) times: &'a mut TimeText,
}

impl Taker<'_> {
    /// Looks for the records that have values.
    #[inline(always)]
    pub(super) fn gather(&mut self, filling: impl Fn(&Analysis) -> Filling) {
        self.analyses.clear();
        let analyses = self.batch.analyses.get(self.rows.clone());
        let analyses = analyses.unwrap_or_default();
        self.among.choose(self.rows.len(), |at| {
            let analysis = measure::analysis(analyses, at);
            let found = match filling(analysis) {
                Filling::Nothing => return false,
                Filling::Unseen => measure::unseen(),
                Filling::Own => analysis,
            };
            self.analyses.push(found);
            true
        });
    }
}

impl Table for Taker<'_> {
    #[inline(always)]
    fn run(&mut self, part: Part, columns: impl FnOnce(&mut Self)) {
        let Some(run) = self.runs.next() else {
            debug_assert!(false, "{part:?} was not described");
            return;
        };
        self.gather(|analysis| analysis.filling(part));
        if self.among.is_empty() {
            let records = self.rows.len();
            run.cells.iter_mut().for_each(|it| it.push_none(records));
        } else {
            self.columns = run.cells.iter_mut();
            columns(self);
        }
    }

    #[inline(always)]
    fn column(
        &mut self,
        about: &About,
        _: Option<usize>,
        value: impl for<'v> Fn(&'v Analysis) -> AnalysisValue<'v>,
    ) {
        if let Some(column) = self.columns.next() {
            column.push_analysed(about.kind, &self.analyses, self.among, self.times, value);
        }
    }
}
