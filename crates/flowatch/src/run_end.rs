//! What ended a run, and how much of its input it had read by then.

use crate::memory_plan::MemoryPlan;
use crate::plan::Plan;
use engine::{Progress, Report, StopReason};
use serde::Serialize;

/// The end of a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RunEnd {
    /// `end-of-input`, `packet-limit`, `error`, or the name of the reason why it was stopped.
    by: &'static str,
    /// Share of the bytes of all input files that were read; `None` if their size is unknown.
    input_share: Option<f64>,
    #[serde(skip)]
    pub(crate) memory: MemoryPlan,
}

impl RunEnd {
    /// Determines what ended the run. `limit_reached` says whether all packets of `-c` were delivered.
    pub(crate) fn new(
        report: &Report,
        plan: &Plan,
        progress: &Progress,
        limit_reached: bool,
        memory: MemoryPlan,
    ) -> Self {
        let by = if report.stopped {
            plan.engine
                .stop
                .reason()
                .map_or("request", StopReason::name)
        } else if limit_reached {
            "packet-limit"
        } else if report.failed {
            "error"
        } else {
            "end-of-input"
        };
        // If several threads read a file, only the first reports a position.
        let sum = |position: bool| {
            progress.sum(|queue| {
                if position {
                    &queue.position
                } else {
                    &queue.size
                }
            })
        };
        let (position, size) = (sum(true), sum(false));
        Self {
            by,
            memory,
            input_share: match by {
                "end-of-input" if size > 0 => Some(1.0),
                _ => (size > 0).then(|| (position as f64 / size as f64).min(1.0)),
            },
        }
    }

    /// Returns the line of the text summary; empty if the input ended by itself.
    pub(crate) fn text(&self) -> String {
        let share = self.input_share.map_or_else(String::new, |share| {
            format!(" after {:.1} % of the input", 100.0 * share)
        });
        match self.by {
            "end-of-input" => String::new(),
            "SIGHUP" => format!("Ended by SIGHUP (the terminal has closed){share}\n"),
            "packet-limit" => format!("Ended by the packet limit (-c){share}\n"),
            "duration" => format!("Ended by --duration{share}\n"),
            "key" => format!("Ended by a key{share}\n"),
            "reader-gone" => format!("Ended because the reader of the records has gone{share}\n"),
            by => format!("Ended by {by}{share}\n"),
        }
    }
}
