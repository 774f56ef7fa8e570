//! What the summaries of a run are made of.

use crate::collector::CollectorReport;
use crate::plan::Plan;
use crate::run_end::RunEnd;
use engine::Report;
use sandbox::Status;
use std::time::Duration;

/// A run that has ended.
#[derive(Clone, Copy)]
pub(crate) struct FinishedRun<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) report: &'a Report,
    pub(crate) collected: &'a CollectorReport,
    pub(crate) end: &'a RunEnd,
    /// Records that no output got.
    pub(crate) records_lost: u64,
    /// CPU time of the process.
    pub(crate) cpu: Duration,
    pub(crate) sandboxed: &'a Status,
    /// Two inputs that carry the same conversations and are not joined.
    pub(crate) shared_inputs: Option<&'a [String; 2]>,
}
