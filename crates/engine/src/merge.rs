//! One record of a flow that two queues of a link have seen parts of: the device divides packets by
//! its own hash, which passes over the ports of fragments, looks into some tunnels, and knows nothing
//! of flows by address. Records wait as long as their counterpart may still come, and are joined.

use flow::{Record, RecordBatch};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use wire::FlowKey;

/// What is joined, and how long it is waited for.
#[derive(Clone, Debug)]
pub struct MergeOptions {
    /// Two records are of one flow when no more than this lies between them; none: always.
    pub idle: Option<Duration>,
    /// How long a record waits; none: to the end.
    pub hold: Option<Duration>,
    /// The most records that wait; one more, and the one that has waited longest goes.
    pub most: usize,
    /// Statistics in a record. Those of a joined one cannot be told from its parts: they are NaN.
    pub width: usize,
    /// Whether a key and its reverse are one flow.
    pub both_directions: bool,
    /// The link of each worker: only records of one link are joined.
    pub links: Vec<usize>,
}

/// A record that waits.
#[derive(Debug)]
struct Held {
    number: u64,
    record: Record,
    values: Vec<f64>,
    /// The workers whose parts it has.
    workers: Vec<usize>,
    link: usize,
    since: Duration,
}

/// Joins records.
#[derive(Debug)]
pub struct Merger {
    options: MergeOptions,
    held: HashMap<FlowKey, Vec<Held>>,
    /// Held records by the time from which they wait; one that was joined since stands there as it
    /// was before.
    order: VecDeque<(Duration, FlowKey, u64)>,
    next_number: u64,
    waiting: usize,
    merged: u64,
    hurried: u64,
}

impl Merger {
    /// With `options`.
    #[must_use]
    pub fn new(options: MergeOptions) -> Self {
        Self {
            options,
            held: HashMap::new(),
            order: VecDeque::new(),
            next_number: 0,
            waiting: 0,
            merged: 0,
            hurried: 0,
        }
    }

    /// Takes the records of a worker at `now` (any clock that does not go back); those that have
    /// waited long enough are added to `ready`.
    pub fn take(
        &mut self,
        worker: usize,
        batch: &RecordBatch,
        now: Duration,
        ready: &mut RecordBatch,
    ) {
        let width = self.options.width;
        for (row, record) in batch.records.iter().enumerate() {
            let values = &batch.values[row * width..(row + 1) * width];
            self.take_one(worker, record, values, now);
        }
        self.release(now, ready);
    }

    /// Adds the records that have waited long enough at `now` to `ready`.
    pub fn release(&mut self, now: Duration, ready: &mut RecordBatch) {
        while let Some(&(since, key, number)) = self.order.front() {
            let due = self.options.hold.is_some_and(|hold| now >= since + hold);
            let crowded = self.waiting > self.options.most;
            if !due && !crowded {
                return;
            }
            self.order.pop_front();
            let Some(held) = self.held.get_mut(&key) else {
                continue;
            };
            let Some(at) = held.iter().position(|held| held.number == number) else {
                continue;
            };
            if held[at].since > since && !crowded {
                // Joined since: it waits anew for another part.
                self.order.push_back((held[at].since, key, number));
                continue;
            }
            let held_one = held.swap_remove(at);
            if held.is_empty() {
                self.held.remove(&key);
            }
            self.waiting -= 1;
            self.hurried += u64::from(!due);
            ready.records.push(held_one.record);
            ready.values.extend(held_one.values);
        }
    }

    /// Adds all records that wait to `ready`: there will be no more.
    pub fn finish(&mut self, ready: &mut RecordBatch) {
        self.options.hold = Some(Duration::ZERO);
        self.release(Duration::MAX, ready);
    }

    /// Records that went into others.
    #[must_use]
    pub fn merged(&self) -> u64 {
        self.merged
    }

    /// Records that went before their time, since too many waited.
    #[must_use]
    pub fn hurried(&self) -> u64 {
        self.hurried
    }

    fn take_one(&mut self, worker: usize, record: &Record, values: &[f64], now: Duration) {
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
        let counterpart = held.iter_mut().find(|held| {
            held.link == link
                && !held.workers.contains(&worker)
                && record.start_ns.saturating_sub(held.record.end_ns) <= idle_ns
                && held.record.start_ns.saturating_sub(record.end_ns) <= idle_ns
        });
        if let Some(counterpart) = counterpart {
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
        self.waiting += 1;
        self.order.push_back((now, key, number));
    }
}

/// One record of two: the initiator and the ICMP type are those of the part that began first, the end
/// and its reason those of the part that ended last.
fn join(one: &Record, two: &Record) -> Record {
    let (first, second) = if two.start_ns < one.start_ns {
        (two, one)
    } else {
        (one, two)
    };
    let turned = usize::from(second.key != first.key);
    let mut sum = *first;
    for side in 0..2 {
        let other = side ^ turned;
        sum.packets[side] = sum.packets[side].saturating_add(second.packets[other]);
        sum.bytes[side] = sum.bytes[side].saturating_add(second.bytes[other]);
        sum.tcp_flags[side] |= second.tcp_flags[other];
    }
    if second.end_ns > first.end_ns {
        sum.end_ns = second.end_ns;
        sum.end_reason = second.end_reason;
    }
    sum
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
            most,
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
    fn parts_of_two_queues_are_one_record_and_the_initiator_is_the_first() {
        let mut merger = merger(100);
        let mut ready = RecordBatch::default();
        let mut answer = record(1, 5, 9);
        answer.key = answer.key.reversed();
        merger.take(0, &batch(&[answer]), seconds(1), &mut ready);
        merger.take(1, &batch(&[record(1, 3, 7)]), seconds(2), &mut ready);
        assert!(ready.records.is_empty());
        // It waits anew from the moment of the joining.
        merger.release(seconds(21), &mut ready);
        assert!(ready.records.is_empty());
        merger.release(seconds(22), &mut ready);
        let joined = ready.records[0];
        assert_eq!(joined.key, record(1, 0, 0).key);
        assert_eq!((joined.start_ns, joined.end_ns), (3 * SECOND, 9 * SECOND));
        assert_eq!((joined.packets, joined.bytes), ([11, 11], [1100, 1100]));
        assert_eq!(joined.tcp_flags, [18, 18]);
        assert!(ready.values[0].is_nan());
        assert_eq!((merger.merged(), merger.hurried()), (1, 0));
    }

    #[test]
    fn what_is_not_one_flow_stays_apart() {
        let mut merger = merger(100);
        let mut ready = RecordBatch::default();
        // The same queue twice (an active time-out), another flow, another link, and too late.
        merger.take(
            0,
            &batch(&[record(1, 0, 9), record(1, 9, 12)]),
            seconds(1),
            &mut ready,
        );
        merger.take(
            1,
            &batch(&[record(2, 0, 9), record(1, 30, 31)]),
            seconds(1),
            &mut ready,
        );
        merger.take(2, &batch(&[record(1, 0, 9)]), seconds(1), &mut ready);
        merger.finish(&mut ready);
        assert_eq!((ready.records.len(), merger.merged()), (5, 0));
        assert!(ready.values.iter().all(|&value| value == 1.0));
    }

    #[test]
    fn no_more_wait_than_may() {
        let mut merger = merger(3);
        let mut ready = RecordBatch::default();
        for host in 0..10 {
            merger.take(0, &batch(&[record(host, 0, 1)]), seconds(1), &mut ready);
        }
        assert_eq!((ready.records.len(), merger.hurried()), (7, 7));
        assert_eq!(ready.records[0], record(0, 0, 1));
        merger.finish(&mut ready);
        assert_eq!((ready.records.len(), merger.hurried()), (10, 7));
    }
}
