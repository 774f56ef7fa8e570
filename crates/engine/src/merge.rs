//! Merges the records of a flow whose packets arrived on several queues of a link. The device distributes
//! packets by its own hash, which ignores the ports of fragments, looks into some tunnels and does not
//! match flow keys of addresses only. Records are held as long as another part of their flow may arrive,
//! and are then joined.

use flow::{Record, RecordBatch};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use wire::FlowKey;

/// The options of a [`Merger`].
#[derive(Clone, Debug)]
pub struct MergeOptions {
    /// Longest interval between two records of the same flow; `None` for no limit.
    pub idle: Option<Duration>,
    /// How long a record is held; `None` for until the end.
    pub hold: Option<Duration>,
    /// Maximum number of held records. Beyond it, the record held longest is released.
    pub held_max: usize,
    /// Statistics per record. They cannot be computed for a joined record, and are NaN.
    pub width: usize,
    /// Whether a key and its reverse belong to the same flow.
    pub both_directions: bool,
    /// The link of each worker: only records of the same link are joined.
    pub links: Vec<usize>,
}

/// A held record.
#[derive(Debug)]
struct Held {
    number: u64,
    record: Record,
    values: Vec<f64>,
    /// The workers whose records were joined in it.
    workers: Vec<usize>,
    link: usize,
    since: Duration,
}

/// Merges records.
#[derive(Debug)]
pub struct Merger {
    options: MergeOptions,
    held: HashMap<FlowKey, Vec<Held>>,
    /// Held records by the time since which they are held. A record that was joined since is still queued
    /// with its earlier time.
    queue: VecDeque<(Duration, FlowKey, u64)>,
    next_number: u64,
    held_count: usize,
    merged: u64,
    released_early: u64,
}

impl Merger {
    /// Creates a merger without held records.
    #[must_use]
    pub fn new(options: MergeOptions) -> Self {
        Self {
            options,
            held: HashMap::new(),
            queue: VecDeque::new(),
            next_number: 0,
            held_count: 0,
            merged: 0,
            released_early: 0,
        }
    }

    /// Adds the records of a worker at `now`, a reading of any monotonic clock, and appends the records
    /// that are due to `ready`.
    pub fn add_batch(
        &mut self,
        worker: usize,
        batch: &RecordBatch,
        now: Duration,
        ready: &mut RecordBatch,
    ) {
        let width = self.options.width;
        for (row, record) in batch.records.iter().enumerate() {
            let values = &batch.values[row * width..(row + 1) * width];
            self.add_record(worker, record, values, now);
        }
        self.release_due(now, ready);
    }

    /// Appends the records that are due at `now` to `ready`.
    pub fn release_due(&mut self, now: Duration, ready: &mut RecordBatch) {
        while let Some(&(since, key, number)) = self.queue.front() {
            let due = self.options.hold.is_some_and(|hold| now >= since + hold);
            let over_limit = self.held_count > self.options.held_max;
            if !due && !over_limit {
                return;
            }
            self.queue.pop_front();
            let Some(held) = self.held.get_mut(&key) else {
                continue;
            };
            let Some(at) = held.iter().position(|held| held.number == number) else {
                continue;
            };
            if held[at].since > since && !over_limit {
                // Joined since: held again for the full time, for another part.
                self.queue.push_back((held[at].since, key, number));
                continue;
            }
            let released = held.swap_remove(at);
            if held.is_empty() {
                self.held.remove(&key);
            }
            self.held_count -= 1;
            self.released_early += u64::from(!due);
            ready.records.push(released.record);
            ready.values.extend(released.values);
        }
    }

    /// Appends all held records to `ready`, at the end of the input.
    pub fn finish(&mut self, ready: &mut RecordBatch) {
        self.options.hold = Some(Duration::ZERO);
        self.release_due(Duration::MAX, ready);
    }

    /// Returns the number of records that were joined to another.
    #[must_use]
    pub fn merged(&self) -> u64 {
        self.merged
    }

    /// Returns the number of records released early because too many were held.
    #[must_use]
    pub fn released_early(&self) -> u64 {
        self.released_early
    }

    fn add_record(&mut self, worker: usize, record: &Record, values: &[f64], now: Duration) {
        let key = if self.options.both_directions {
            record.key.min(record.key.reversed())
        } else {
            record.key
        };
        let link = self.options.links.get(worker).copied().unwrap_or(0);
        let idle_ns = self.options.idle.map_or(i64::MAX, |idle| {
            i64::try_from(idle.as_nanos()).unwrap_or(i64::MAX)
        });
        let held = self.held.entry(key).or_default();
        let other_part = held.iter_mut().find(|held| {
            held.link == link
                && !held.workers.contains(&worker)
                && record.start_ns.saturating_sub(held.record.end_ns) <= idle_ns
                && held.record.start_ns.saturating_sub(record.end_ns) <= idle_ns
        });
        if let Some(counterpart) = other_part {
            counterpart.record = join(&counterpart.record, record);
            counterpart.values.fill(f64::NAN);
            counterpart.workers.push(worker);
            counterpart.since = now;
            self.merged += 1;
            return;
        }
        let number = self.next_number;
        self.next_number += 1;
        held.push(Held {
            number,
            record: *record,
            values: values.to_vec(),
            workers: vec![worker],
            link,
            since: now,
        });
        self.held_count += 1;
        self.queue.push_back((now, key, number));
    }
}

/// Joins two records. The initiator and the ICMP type are those of the part that started first; the end
/// and its reason are those of the part that ended last.
fn join(a: &Record, b: &Record) -> Record {
    let (first, second) = if b.start_ns < a.start_ns {
        (b, a)
    } else {
        (a, b)
    };
    let is_reversed = usize::from(second.key != first.key);
    let mut joined = *first;
    for side in 0..2 {
        let other = side ^ is_reversed;
        joined.packets[side] = joined.packets[side].saturating_add(second.packets[other]);
        joined.bytes[side] = joined.bytes[side].saturating_add(second.bytes[other]);
        joined.tcp_flags[side] |= second.tcp_flags[other];
    }
    if second.end_ns > first.end_ns {
        joined.end_ns = second.end_ns;
        joined.end_reason = second.end_reason;
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::EndReason;

    const SECOND: i64 = 1_000_000_000;

    fn record(host: u8, start_s: i64, end_s: i64) -> Record {
        let mut key = FlowKey {
            version: 4,
            ..FlowKey::default()
        };
        key.source[3] = host;
        key.destination[3] = 200;
        Record {
            key,
            start_ns: start_s * SECOND,
            end_ns: end_s * SECOND,
            packets: [10, 1],
            bytes: [1000, 100],
            tcp_flags: [2, 16],
            icmp_type_code: 0,
            end_reason: EndReason::IdleTimeout,
        }
    }

    fn merger(most: usize) -> Merger {
        Merger::new(MergeOptions {
            idle: Some(Duration::from_secs(15)),
            hold: Some(Duration::from_secs(20)),
            held_max: most,
            width: 1,
            both_directions: true,
            links: vec![0, 0, 1],
        })
    }

    fn batch(records: &[Record]) -> RecordBatch {
        RecordBatch {
            records: records.to_vec(),
            values: vec![1.0; records.len()],
            ..RecordBatch::default()
        }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn joins_parts_of_two_queues_and_keeps_the_first_initiator() {
        let mut merger = merger(100);
        let mut ready = RecordBatch::default();
        let mut response = record(1, 5, 9);
        response.key = response.key.reversed();
        merger.add_batch(0, &batch(&[response]), seconds(1), &mut ready);
        merger.add_batch(1, &batch(&[record(1, 3, 7)]), seconds(2), &mut ready);
        assert!(ready.records.is_empty());
        // The holding time restarts when records are joined.
        merger.release_due(seconds(21), &mut ready);
        assert!(ready.records.is_empty());
        merger.release_due(seconds(22), &mut ready);
        let joined = ready.records[0];
        assert_eq!(joined.key, record(1, 0, 0).key);
        assert_eq!((joined.start_ns, joined.end_ns), (3 * SECOND, 9 * SECOND));
        assert_eq!((joined.packets, joined.bytes), ([11, 11], [1100, 1100]));
        assert_eq!(joined.tcp_flags, [18, 18]);
        assert!(ready.values[0].is_nan());
        assert_eq!((merger.merged(), merger.released_early()), (1, 0));
    }

    #[test]
    fn records_of_different_flows_are_not_joined() {
        let mut merger = merger(100);
        let mut ready = RecordBatch::default();
        // Twice the same queue (active timeout), another flow, another link, and too late.
        merger.add_batch(
            0,
            &batch(&[record(1, 0, 9), record(1, 9, 12)]),
            seconds(1),
            &mut ready,
        );
        merger.add_batch(
            1,
            &batch(&[record(2, 0, 9), record(1, 30, 31)]),
            seconds(1),
            &mut ready,
        );
        merger.add_batch(2, &batch(&[record(1, 0, 9)]), seconds(1), &mut ready);
        merger.finish(&mut ready);
        assert_eq!((ready.records.len(), merger.merged()), (5, 0));
        assert!(ready.values.iter().all(|&value| value == 1.0));
    }

    #[test]
    fn held_records_are_bounded() {
        let mut merger = merger(3);
        let mut ready = RecordBatch::default();
        for host in 0..10 {
            merger.add_batch(0, &batch(&[record(host, 0, 1)]), seconds(1), &mut ready);
        }
        assert_eq!((ready.records.len(), merger.released_early()), (7, 7));
        assert_eq!(ready.records[0], record(0, 0, 1));
        merger.finish(&mut ready);
        assert_eq!((ready.records.len(), merger.released_early()), (10, 7));
    }
}
