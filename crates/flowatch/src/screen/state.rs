//! The figures that the screen shows, summed over all queues.

use engine::Progress;
use flow::view::BINS;
use flow::{LiveView, Record};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs;
use std::time::Duration;

/// The figures at a point in time.
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
    /// Packets lost by reason, if known.
    pub(crate) lost_by: Vec<(&'static str, u64)>,
    /// Flows in the tables.
    pub(crate) flows: u64,
    /// Flow records so far, if known.
    pub(crate) records: Option<u64>,
    /// Records that outputs could not write or were too slow for.
    pub(crate) records_lost: u64,
    /// Resident memory of the process in bytes; 0 if unknown.
    pub(crate) memory_bytes: u64,
    /// The flows in the tables at the last sweep.
    pub(crate) view: Option<LiveView>,
}

impl ScreenState {
    /// Reads the current figures from `progress`. The caller adds the records.
    pub(crate) fn read(progress: &Progress, elapsed: Duration) -> Self {
        Self {
            elapsed,
            packets: progress.sum(|queue| &queue.packets),
            bytes: progress.sum(|queue| &queue.bytes),
            lost: progress.sum(|queue| &queue.lost),
            flows: progress.sum(|queue| &queue.flows),
            memory_bytes: resident_bytes(),
            view: merge_views(progress.queues.iter().filter_map(|queue| queue.view())),
            ..Self::default()
        }
    }
}

/// Merges the views of several tables. The list of the largest flows is as long as the longest of the
/// lists. Returns `None` if there is no view.
///
/// A key in several tables is one flow: the device may spread the flows of a source address over its
/// queues.
pub(crate) fn merge_views(views: impl IntoIterator<Item = LiveView>) -> Option<LiveView> {
    let mut views = views.into_iter();
    let first = views.next()?;
    let mut merged = LiveView {
        flows: 0,
        top: Vec::new(),
        distribution: [0; BINS],
    };
    let mut size = 0;
    let mut index = HashMap::new();
    for view in std::iter::once(first).chain(views) {
        merged.flows += view.flows;
        size = size.max(view.top.len());
        for (sum, count) in merged.distribution.iter_mut().zip(&view.distribution) {
            *sum += count;
        }
        for record in view.top {
            match index.get(&record.key) {
                Some(&place) => add_record(&mut merged.top[place], &record),
                None => {
                    index.insert(record.key, merged.top.len());
                    merged.top.push(record);
                }
            }
        }
    }
    merged
        .top
        .sort_by_key(|record| (Reverse(sum_directions(record.bytes)), record.key));
    merged.top.truncate(size);
    Some(merged)
}

/// Returns the sum of both directions.
pub(crate) fn sum_directions([there, back]: [u64; 2]) -> u64 {
    there.saturating_add(back)
}

fn add_record(sum: &mut Record, other: &Record) {
    sum.start_ns = sum.start_ns.min(other.start_ns);
    sum.end_ns = sum.end_ns.max(other.end_ns);
    for side in 0..2 {
        sum.packets[side] = sum.packets[side].saturating_add(other.packets[side]);
        sum.bytes[side] = sum.bytes[side].saturating_add(other.bytes[side]);
        sum.tcp_flags[side] |= other.tcp_flags[side];
    }
}

/// Returns the resident memory of this process in bytes (`VmRSS` of proc_pid_status(5)).
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0).saturating_mul(1024)
}
