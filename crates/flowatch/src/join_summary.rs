//! The joined inputs in the summaries.

use crate::plan::Plan;
use engine::{Loss, Report};
use serde::Serialize;

/// The totals of all joined inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JoinTotals {
    /// Packets later than the window.
    pub(crate) late: u64,
    /// Packets out of order within their input.
    pub(crate) out_of_order: u64,
    /// Packets in time order that were not used, because the run was stopped.
    pub(crate) unused: u64,
    /// Whether each input, and all of them together, account for every packet.
    pub(crate) is_balanced: bool,
}

impl JoinTotals {
    pub(crate) fn new(plan: &Plan, report: &Report) -> Self {
        let mut totals = Self {
            is_balanced: true,
            ..Self::default()
        };
        let (mut delivered, mut dropped) = (0, 0);
        for input in report.queues.iter().flat_map(|queue| &queue.inputs) {
            totals.late += input.late;
            totals.out_of_order += input.out_of_order;
            totals.is_balanced &= input.delivered <= input.received;
            delivered += input.delivered;
            dropped += input.dropped;
        }
        if plan.join.is_none() {
            return totals;
        }
        let books = &report.books;
        let dropped_in_front = [Loss::Kernel, Loss::Missed, Loss::NoBuffer, Loss::Error]
            .map(|reason| books.dropped[reason as usize].packets)
            .iter()
            .sum::<u64>();
        let passed_on = books.received.packets - dropped_in_front + books.filtered.packets;
        totals.unused = delivered.saturating_sub(passed_on);
        // Links are read to the end, unless -c ends the run within a burst. Reading files can be
        // stopped anywhere.
        let uses_all = plan.is_live() && plan.input.count.is_none();
        totals.is_balanced &= dropped == dropped_in_front
            && passed_on <= delivered
            && (totals.unused == 0 || !uses_all);
        totals
    }
}

/// The joined inputs, for programs.
#[derive(Debug, Serialize)]
pub(crate) struct SummaryJoin {
    /// How long packets of links wait for each other; `null` for files, which wait for as long as it
    /// takes.
    window_seconds: Option<f64>,
    late: u64,
    out_of_order: u64,
    /// Packets in time order that were not used, because the run was stopped.
    unused: u64,
    balanced: bool,
    inputs: Vec<SummaryInput>,
}

/// One joined input.
#[derive(Debug, Serialize)]
struct SummaryInput {
    name: String,
    /// Packets of the input, dropped ones included.
    received: u64,
    dropped: u64,
    /// Packets passed on in time order. The difference to those received and not dropped was not used,
    /// because the run ended.
    joined: u64,
    bytes: u64,
    late: u64,
    out_of_order: u64,
    unreadable: u64,
}

impl SummaryJoin {
    pub(crate) fn new(plan: &Plan, report: &Report) -> Option<Self> {
        let window = plan.join?;
        let totals = JoinTotals::new(plan, report);
        let inputs = report.queues.iter().flat_map(|queue| &queue.inputs);
        Some(Self {
            window_seconds: plan.is_live().then_some(window.as_secs_f64()),
            late: totals.late,
            out_of_order: totals.out_of_order,
            unused: totals.unused,
            balanced: totals.is_balanced,
            inputs: inputs
                .map(|input| SummaryInput {
                    name: input.name.clone(),
                    received: input.received + input.dropped,
                    dropped: input.dropped,
                    joined: input.delivered,
                    bytes: input.bytes,
                    late: input.late,
                    out_of_order: input.out_of_order,
                    unreadable: input.faults,
                })
                .collect(),
        })
    }
}
