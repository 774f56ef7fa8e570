//! Merges the records of a flow whose packets arrived on several queues of a link. The device distributes
//! packets by its own hash, which ignores the ports of fragments, looks into some tunnels and does not
//! match flow keys of addresses only. Records are held as long as another part of their flow may arrive,
//! and are then joined.

use flow::{Record, RecordBatch};
use hw::memory::{HugeSlice, HugeVec};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
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

/// Most records with the same hash that are held. A sender who repeats a flow would otherwise make the
/// search for its other part longer and longer.
const CHAIN_MAX: usize = 16;

/// The end of a list of slots.
const NONE: u32 = u32::MAX;

/// Workers per word of a set of workers.
const WORD_BITS: usize = u64::BITS as usize;

impl MergeOptions {
    /// Returns the memory of a merger that holds as many records as it may, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        // The hash map has at least 8 places for 7 entries, a power of two, with a control byte each.
        let places = (self.held_max * 8 / 7).next_power_of_two();
        let record =
            size_of::<Held>() + size_of::<f64>() * self.width + size_of::<u64>() * self.words();
        self.held_max * record + places * (size_of::<(u64, u32)>() + 1)
    }

    /// Returns the number of words of a set of workers.
    fn words(&self) -> usize {
        self.links.len().div_ceil(WORD_BITS).max(1)
    }
}

/// A held record, or a free slot.
#[derive(Debug)]
struct Held {
    record: Record,
    hash: u64,
    link: usize,
    since: Duration,
    /// When it was put into the queue. A record that was joined since goes back into it.
    queued: Duration,
    /// The next slot with the same hash, or the next free one.
    next: u32,
    /// The next slot in the queue.
    later: u32,
}

/// Merges records. Its memory is reserved at the start and committed as records are held.
#[derive(Debug)]
pub struct Merger {
    options: MergeOptions,
    slots: HugeVec<Held>,
    /// The statistics of each slot.
    values: HugeSlice<f64>,
    /// The workers whose records were joined in each slot, a bit each.
    workers: HugeSlice<u64>,
    /// The first slot of each hash.
    heads: HashMap<u64, u32, RandomState>,
    /// Hashes keys. Its secret seed keeps a sender from choosing flows with the same hash.
    hasher: RandomState,
    free: u32,
    /// The slots in the order in which they are due.
    first: u32,
    last: u32,
    held_count: usize,
    merged: u64,
    released_early: u64,
}

impl Merger {
    /// Creates a merger without held records.
    ///
    /// # Errors
    /// Fails if the memory cannot be reserved.
    pub fn new(options: MergeOptions) -> io::Result<Self> {
        let held_max = options.held_max.min(NONE as usize - 1);
        Ok(Self {
            slots: HugeVec::try_with_capacity(held_max)?,
            values: HugeSlice::try_zeroed(held_max * options.width)?,
            workers: HugeSlice::try_zeroed(held_max * options.words())?,
            heads: HashMap::with_capacity_and_hasher(held_max, RandomState::new()),
            hasher: RandomState::new(),
            free: NONE,
            first: NONE,
            last: NONE,
            options,
            held_count: 0,
            merged: 0,
            released_early: 0,
        })
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
            self.add_record(worker, record, values, now, ready);
        }
        self.release_due(now, ready);
    }

    /// Appends the records that are due at `now` to `ready`.
    pub fn release_due(&mut self, now: Duration, ready: &mut RecordBatch) {
        while self.release_first(now, false, ready) {}
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

    /// Releases the record at the head of the queue if it is due, or in any case if `room` is needed.
    /// Returns whether there may be another one.
    fn release_first(&mut self, now: Duration, room: bool, ready: &mut RecordBatch) -> bool {
        let hold = self.options.hold;
        let slot = self.first;
        let Some(held) = self.slots.get_mut(slot as usize) else {
            return false;
        };
        let due = hold.is_some_and(|hold| now >= held.queued.saturating_add(hold));
        if !due && !room {
            return false;
        }
        self.first = held.later;
        if self.first == NONE {
            self.last = NONE;
        }
        if held.since > held.queued && !room {
            // Joined since: held again for the full time, for another part.
            held.queued = held.since;
            self.enqueue(slot);
            return true;
        }
        let width = self.options.width;
        ready.records.push(held.record);
        let values = slot as usize * width..(slot as usize + 1) * width;
        ready.values.extend_from_slice(&self.values[values]);
        self.released_early += u64::from(!due);
        self.remove(slot);
        true
    }

    /// Appends a slot to the queue.
    fn enqueue(&mut self, slot: u32) {
        self.slots[slot as usize].later = NONE;
        match self.slots.get_mut(self.last as usize) {
            Some(last) => last.later = slot,
            None => self.first = slot,
        }
        self.last = slot;
    }

    /// Removes a slot, which has left the queue, from the list of its hash, and frees it.
    fn remove(&mut self, slot: u32) {
        let (hash, next) = {
            let held = &self.slots[slot as usize];
            (held.hash, held.next)
        };
        let head = self.heads.get(&hash).copied().unwrap_or(NONE);
        if head == slot {
            if next == NONE {
                self.heads.remove(&hash);
            } else {
                self.heads.insert(hash, next);
            }
        } else {
            // At most `CHAIN_MAX` steps.
            let mut at = head;
            while let Some(held) = self.slots.get_mut(at as usize) {
                at = held.next;
                if at == slot {
                    held.next = next;
                }
            }
        }
        self.slots[slot as usize].next = self.free;
        self.free = slot;
        self.held_count -= 1;
    }

    fn add_record(
        &mut self,
        worker: usize,
        record: &Record,
        values: &[f64],
        now: Duration,
        ready: &mut RecordBatch,
    ) {
        let key = self.key(record);
        let hash = self.hasher.hash_one(key);
        let link = self.options.links.get(worker).copied().unwrap_or(0);
        let head = self.heads.get(&hash).copied().unwrap_or(NONE);
        let (mut at, mut length) = (head, 0);
        while let Some(held) = self.slots.get(at as usize) {
            length += 1;
            if held.link == link
                && self.key(&held.record) == key
                && self.is_part(at, worker, record)
            {
                self.join_to(at, worker, record, now);
                return;
            }
            at = held.next;
        }
        if length >= CHAIN_MAX {
            self.released_early += 1;
            ready.records.push(*record);
            ready.values.extend_from_slice(values);
            return;
        }
        if self.held_count == self.slots.capacity() {
            self.release_first(now, true, ready);
        }
        let held = Held {
            record: *record,
            hash,
            link,
            since: now,
            queued: now,
            // The head may have been released to make room.
            next: self.heads.get(&hash).copied().unwrap_or(NONE),
            later: NONE,
        };
        let Some(slot) = self.allocate(held) else {
            self.released_early += 1;
            ready.records.push(*record);
            ready.values.extend_from_slice(values);
            return;
        };
        let width = self.options.width;
        self.values[slot as usize * width..][..width].copy_from_slice(values);
        let words = self.options.words();
        self.workers[slot as usize * words..][..words].fill(0);
        self.set_worker(slot, worker);
        self.heads.insert(hash, slot);
        self.held_count += 1;
        self.enqueue(slot);
    }

    /// Returns the key by which a record finds its other parts.
    fn key(&self, record: &Record) -> FlowKey {
        if self.options.both_directions {
            record.key.min(record.key.reversed())
        } else {
            record.key
        }
    }

    /// Whether a record of `worker` is another part of the flow in a slot that has its key.
    fn is_part(&self, slot: u32, worker: usize, record: &Record) -> bool {
        let idle_ns = self.options.idle.map_or(i64::MAX, |idle| {
            i64::try_from(idle.as_nanos()).unwrap_or(i64::MAX)
        });
        let held = &self.slots[slot as usize].record;
        let word = slot as usize * self.options.words() + worker / WORD_BITS;
        let has_worker = self.workers[word] >> (worker % WORD_BITS) & 1 == 1;
        !has_worker
            && record.start_ns.saturating_sub(held.end_ns) <= idle_ns
            && held.start_ns.saturating_sub(record.end_ns) <= idle_ns
    }

    fn set_worker(&mut self, slot: u32, worker: usize) {
        let word = slot as usize * self.options.words() + worker / WORD_BITS;
        self.workers[word] |= 1 << (worker % WORD_BITS);
    }

    fn join_to(&mut self, slot: u32, worker: usize, record: &Record, now: Duration) {
        let held = &mut self.slots[slot as usize];
        held.record = join(&held.record, record);
        held.since = now;
        let width = self.options.width;
        self.values[slot as usize * width..][..width].fill(f64::NAN);
        self.set_worker(slot, worker);
        self.merged += 1;
    }

    /// Puts a record into a free slot, if there is one.
    fn allocate(&mut self, held: Held) -> Option<u32> {
        let slot = self.free;
        if let Some(place) = self.slots.get_mut(slot as usize) {
            self.free = place.next;
            *place = held;
            return Some(slot);
        }
        self.slots.push(held).ok()?;
        Some(self.slots.len() as u32 - 1)
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
    use proptest::prelude::*;

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
        .unwrap()
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

    #[test]
    fn repeated_flow_does_not_lengthen_the_search() {
        let mut merger = merger(1000);
        let mut ready = RecordBatch::default();
        for number in 0..100 {
            let at = 100 * number;
            merger.add_batch(0, &batch(&[record(1, at, at + 1)]), seconds(1), &mut ready);
        }
        assert_eq!(ready.records.len(), 100 - CHAIN_MAX);
        assert_eq!(merger.released_early(), 100 - CHAIN_MAX as u64);
        merger.finish(&mut ready);
        assert_eq!((ready.records.len(), ready.values.len()), (100, 100));
    }

    proptest! {
        /// Whatever arrives, every packet leaves in some record, and never more records are held than
        /// allowed.
        #[test]
        fn no_packet_is_lost_or_counted_twice(
            added in proptest::collection::vec((0_usize..3, 0_u8..6, 0_i64..60, 0_u64..90), 1..300),
            held_max in 1_usize..20,
        ) {
            let mut merger = merger(held_max);
            let mut ready = RecordBatch::default();
            let mut now = 0;
            for &(worker, host, start, later) in &added {
                now += later / 10;
                let mut part = record(host, start, start + 1);
                if later % 2 == 0 {
                    part.key = part.key.reversed();
                }
                merger.add_batch(worker, &batch(&[part]), seconds(now), &mut ready);
                prop_assert!(merger.held_count <= held_max);
                let held = added.len() as u64;
                prop_assert!(ready.records.len() as u64 + merger.merged() <= held);
            }
            merger.finish(&mut ready);
            prop_assert_eq!(merger.held_count, 0);
            prop_assert!(merger.heads.is_empty());
            prop_assert_eq!(ready.records.len() as u64 + merger.merged(), added.len() as u64);
            prop_assert_eq!(ready.records.len(), ready.values.len());
            let packets: u64 = ready.records.iter().flat_map(|record| record.packets).sum();
            prop_assert_eq!(packets, 11 * added.len() as u64);
        }
    }
}
