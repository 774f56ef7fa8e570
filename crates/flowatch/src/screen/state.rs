//! What the screen is told: the figures of a moment, all queues together.

use engine::Progress;
use flow::view::BINS;
use flow::{LiveView, Record};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs;
use std::time::Duration;

/// The figures of a moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScreenState {
    /// Time since the run began.
    pub(crate) elapsed: Duration,
    /// Packets processed.
    pub(crate) packets: u64,
    /// Their bytes on the wire.
    pub(crate) bytes: u64,
    /// Packets lost.
    pub(crate) lost: u64,
    /// Of them, where it is known, how many for which reason.
    pub(crate) lost_by: Vec<(&'static str, u64)>,
    /// Flows in the tables.
    pub(crate) flows: u64,
    /// Records written, where somebody counts them.
    pub(crate) records: Option<u64>,
    /// Records that the outputs were too slow for.
    pub(crate) records_lost: u64,
    /// Memory of the process in RAM, in bytes; 0 where unknown.
    pub(crate) memory_bytes: u64,
    /// The flows as the tables last saw them.
    pub(crate) view: Option<LiveView>,
}

impl ScreenState {
    /// What `progress` shows now; records are for the caller to add.
    pub(crate) fn read(progress: &Progress, elapsed: Duration) -> Self {
        Self {
            elapsed,
            packets: progress.sum(|queue| &queue.packets),
            bytes: progress.sum(|queue| &queue.bytes),
            lost: progress.sum(|queue| &queue.lost),
            flows: progress.sum(|queue| &queue.flows),
            memory_bytes: resident_bytes(),
            view: merge(progress.queues.iter().filter_map(|queue| queue.view())),
            ..Self::default()
        }
    }
}

/// The views of several tables as one of all their flows: the largest of all, as many as the
/// longest list has; `None` where there is no view.
///
/// A key that several tables hold (a source address, say, whose flows the device spread over its
/// queues) is one flow here.
pub(crate) fn merge(views: impl IntoIterator<Item = LiveView>) -> Option<LiveView> {
    let mut views = views.into_iter();
    let first = views.next()?;
    let mut merged = LiveView {
        flows: 0,
        top: Vec::new(),
        distribution: [0; BINS],
    };
    let mut size = 0;
    let mut places = HashMap::new();
    for view in std::iter::once(first).chain(views) {
        merged.flows += view.flows;
        size = size.max(view.top.len());
        for (sum, count) in merged.distribution.iter_mut().zip(&view.distribution) {
            *sum += count;
        }
        for record in view.top {
            match places.get(&record.key) {
                Some(&place) => join(&mut merged.top[place], &record),
                None => {
                    places.insert(record.key, merged.top.len());
                    merged.top.push(record);
                }
            }
        }
    }
    merged
        .top
        .sort_by_key(|record| (Reverse(both(record.bytes)), record.key));
    merged.top.truncate(size);
    Some(merged)
}

/// Both directions together.
pub(crate) fn both([there, back]: [u64; 2]) -> u64 {
    there.saturating_add(back)
}

fn join(sum: &mut Record, other: &Record) {
    sum.start_ns = sum.start_ns.min(other.start_ns);
    sum.end_ns = sum.end_ns.max(other.end_ns);
    for side in 0..2 {
        sum.packets[side] = sum.packets[side].saturating_add(other.packets[side]);
        sum.bytes[side] = sum.bytes[side].saturating_add(other.bytes[side]);
        sum.tcp_flags[side] |= other.tcp_flags[side];
    }
}

/// What of this process is in RAM (`VmRSS` of proc_pid_status(5), in KiB).
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0).saturating_mul(1024)
}
