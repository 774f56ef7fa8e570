//! The meter: counts batches of packets in flows, and lets flows go as records when they end.

mod options;

pub use options::MeterOptions;

use crate::analyser::Analyser;
use crate::batch::{BURST, Batch, Kept, Payloads};
use crate::ended::{self, fill, has_intervals, mean_of};
use crate::entry::FlowEntry;
use crate::expiry::Expiry;
use crate::garbage::Garbage;
use crate::order;
use crate::record::{EndReason, FULL, Record, RecordBatch};
use crate::statistic::{Statistic, Value};
use crate::table::{
    Bucket, Combined, DoubleHash, LinkedList, MANY_FLOWS, NO_SLOT, NO_VALUE, Observed, Step, Table,
    TableKind,
};
use crate::view::{LiveView, ViewBuilder};
use hw::lines::Rows;
use hw::prefetch::CacheLevel;
use std::io;
use std::iter;
use std::ops::{Range, RangeInclusive};

/// Where records go: takes what a batch of records holds, and leaves it empty.
pub trait RecordSink {
    /// Whether it [completes](RecordBatch::complete) batches itself, most often in another thread.
    const COMPLETES: bool = false;

    /// Takes the records out of `batch`, which is complete unless the sink completes it itself.
    fn take(&mut self, batch: &mut RecordBatch);
}

/// Records that are handed on together.
pub const RECORDS: usize = 1024;

/// How many flows are asked for together while as many before them are ended.
const TOGETHER: usize = 8;

/// Packets that are counted together while what statistics keep of those before them comes near: the
/// most of these where it comes from a cache, a quarter of a burst within them where from memory.
const GROUP: RangeInclusive<usize> = 16..=64;

/// How long finished records of a link wait for others to be handed on with.
pub const FLUSH_MS: u32 = 500;

/// What a meter counted besides its flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterCounters {
    /// Packets and bytes in the records handed out.
    pub recorded: [u64; 2],
    /// Packets and bytes that found no place in the table, and are in no record.
    pub miscounted: [u64; 2],
    /// Records handed out.
    pub records: u64,
    /// Records of flows that made room for others.
    pub evicted: u64,
    /// Whether the table was ever full. Where it was not, flows were evicted since too many hashes
    /// share a place.
    pub was_full: bool,
    /// Flows in the table now.
    pub flows: u64,
}

/// The table, and a column of rows for each statistic: beside the entries where the table is ours and
/// its flows come from memory, which brings two lines together sooner than two lines apart; from a
/// cache it does not.
fn table_and_rows(options: &MeterOptions) -> io::Result<(Box<dyn Table>, Rows)> {
    let (flows_max, wanted) = (options.flows_max, options.statistics.wanted());
    let kept = options.statistics.build(&mut Rows::default()).len();
    let table: Box<dyn Table> = match options.table {
        TableKind::Bucket => {
            let lines = if flows_max < MANY_FLOWS {
                Rows::try_apart
            } else {
                Rows::try_together
            };
            let mut rows = lines(Bucket::slots_for(flows_max), 1 + kept)?;
            let entries = rows.take();
            let table = Bucket::new(flows_max, options.flow_hash(), wanted, entries)?;
            return Ok((Box::new(table), rows));
        }
        TableKind::DoubleHash => Box::new(DoubleHash::new(wanted)?),
        TableKind::LinkedList => Box::new(LinkedList::new(flows_max, wanted)?),
        TableKind::Combined => Box::new(Combined::new(flows_max, wanted)?),
    };
    let rows = Rows::try_apart(table.slots_max() as usize, kept)?;
    Ok((table, rows))
}

/// Counts packets in flows.
pub struct Meter {
    table: Box<dyn Table>,
    expiry: Expiry,
    garbage: Garbage,
    statistics: Vec<(Value, Box<dyn Statistic>)>,
    gap_mean: bool,
    asks_ahead: bool,
    /// What is not chosen does not exist.
    analyser: Option<Box<Analyser>>,
    observed: Observed,
    sizes: Vec<u64>,
    ended: Vec<(u32, EndReason)>,
    /// Flows that make room for others.
    leaving: Vec<u32>,
    occupied: Vec<u32>,
    records: RecordBatch,
    counters: MeterCounters,
    /// The clock when records were last handed on for their age.
    flushed_ms: u32,
    view: Option<ViewBuilder>,
}

impl Meter {
    /// A meter with all the memory that it will ever take, for `options`.
    ///
    /// # Errors
    /// When the machine has no room for it.
    pub fn new(options: &MeterOptions) -> io::Result<Self> {
        let (mut table, mut rows) = table_and_rows(options)?;
        let slots = table.slots_max();
        let mut statistics = options.statistics.build(&mut rows);
        let mut analyser = match options.statistics.analysis {
            None => None,
            Some(level) => {
                let flows_max = match options.table {
                    TableKind::Bucket => options.flows_max.min(slots as usize),
                    _ => slots as usize,
                };
                let applications = options.applications.clone().unwrap_or_default();
                Some(Box::new(Analyser::new(
                    level,
                    slots as usize,
                    flows_max,
                    &options.timeouts,
                    applications,
                    options.seed,
                )?))
            }
        };
        if let Some(analyser) = &mut analyser
            && options.overhears
        {
            analyser.overhear();
        }
        if options.populate {
            if let Some(analyser) = &mut analyser {
                analyser.populate();
            }
            table.populate();
            for (_, statistic) in &mut statistics {
                statistic.populate();
            }
        }
        Ok(Self {
            expiry: options.expiry(),
            garbage: Garbage::new(&options.garbage),
            statistics,
            gap_mean: options.statistics.gap_mean,
            asks_ahead: options.asks_ahead || options.table == TableKind::Bucket,
            analyser,
            observed: Observed::default(),
            sizes: Vec::with_capacity(BURST),
            ended: Vec::new(),
            leaving: Vec::new(),
            occupied: Vec::new(),
            records: match options.populate {
                true => RecordBatch::populated(&options.schema()),
                false => RecordBatch::default(),
            },
            counters: MeterCounters::default(),
            flushed_ms: 0,
            view: (options.view_flows > 0).then(|| ViewBuilder::new(options.view_flows)),
            table,
        })
    }

    /// Memory that this meter takes when its table is full, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let slots = self.table.slots_max() as usize;
        let statistics: usize = self
            .statistics
            .iter()
            .map(|(_, each)| each.bytes_per_flow())
            .sum();
        let analyser = self.analyser.as_ref().map_or(0, |it| it.memory_bytes());
        self.table.memory_bytes() + slots * statistics + analyser
    }

    /// Counts the packets of `batch`, whose hashes are made; flows that end go to `sink`. Payloads,
    /// if they are asked for, are those that the batch has [kept](Batch::keep_payloads).
    pub fn process(&mut self, batch: &Batch, sink: &mut impl RecordSink) {
        self.process_with(batch, &Kept, sink);
    }

    /// [`Meter::process`] with payloads that lie somewhere else.
    pub fn process_with(
        &mut self,
        batch: &Batch,
        payloads: &impl Payloads,
        sink: &mut impl RecordSink,
    ) {
        let Some(last) = batch.packets().last() else {
            if let Some(analyser) = &mut self.analyser {
                batch
                    .told()
                    .iter()
                    .for_each(|(_, told)| analyser.hear(told));
            }
            return;
        };
        self.grow(sink);
        if self.asks_ahead {
            self.table.stage(batch);
        }
        self.make_room(batch, sink);
        let (mut start, mut observed) = (0, 0);
        loop {
            let (end, step) = self.count(batch, start);
            if let Some(analyser) = &mut self.analyser {
                analyser.find(batch, start..end, &self.observed);
            }
            self.note_begun(batch);
            start = end;
            let Step::Ended { slot, reason, .. } = step else {
                break;
            };
            self.tell(&[slot], &[reason]);
            self.table.remove(&[slot]);
            // A flow that goes on must know what it goes on from; others have time until all is counted.
            if reason == EndReason::ActiveTimeout {
                self.observe(batch, observed..end, payloads);
                self.hand_over(sink);
                observed = end;
            }
        }
        self.observe(batch, observed..start, payloads);
        self.hand_over(sink);
        self.advance(last.clock_ms, sink);
    }

    /// The same when there is nothing else to do: some more of what the sweep owes is looked at.
    pub fn advance_idle(&mut self, clock_ms: u32, sink: &mut impl RecordSink) {
        /// Steps of catching up between two looks at the link.
        const STEPS: u32 = 16;
        self.advance(clock_ms, sink);
        for _ in 1..STEPS {
            if !self.garbage.owes() {
                return;
            }
            self.advance(clock_ms, sink);
        }
    }

    /// Moves the clock, by which flows end; a share of the table is looked at.
    pub fn advance(&mut self, clock_ms: u32, sink: &mut impl RecordSink) {
        let ranges = self.garbage.due(clock_ms, self.table.slots());
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            self.table.expired(
                range.start,
                range.end,
                clock_ms,
                &self.expiry,
                &mut self.ended,
            );
            let ended = std::mem::take(&mut self.ended);
            self.end_flows(ended.len(), |at| ended[at].0, |_, at| ended[at].1, sink);
            self.ended = ended;
            self.ended.clear();
            self.look(range.start, range.end);
        }
        if let Some(view) = &mut self.view
            && Garbage::ends_round(&ranges, self.table.slots())
        {
            view.finish_round(self.table.flows() as u64);
        }
    }

    /// Hands finished records on if [`FLUSH_MS`] have passed since that was last done.
    pub fn flush_after(&mut self, clock_ms: u32, sink: &mut impl RecordSink) {
        if clock_ms.wrapping_sub(self.flushed_ms) >= FLUSH_MS {
            self.flushed_ms = clock_ms;
            self.flush(sink);
        }
    }

    /// Hands all finished records on, without waiting for a full batch of them.
    pub fn flush<S: RecordSink>(&mut self, sink: &mut S) {
        if !self.records.is_empty() {
            if !S::COMPLETES {
                self.records.complete();
            }
            sink.take(&mut self.records);
            self.records.clear();
            self.records.ended.reserve(FULL);
        }
    }

    /// Ends all flows with the input, at `clock_ms`; the records come by start and key.
    pub fn finish(&mut self, clock_ms: u32, sink: &mut impl RecordSink) {
        let slots = self.slots_by_start();
        let reason = |meter: &Self, at: usize| {
            if let Some(&ahead) = slots.get(at + 2 * TOGETHER) {
                meter.table.prefetch(ahead);
            }
            let entry = meter.table.entry(slots[at]);
            meter.expiry.ended_at_end(entry, clock_ms)
        };
        self.end_flows(slots.len(), |at| slots[at], reason, sink);
        self.flush(sink);
    }

    /// The slots of all flows by start and key.
    fn slots_by_start(&self) -> Vec<u32> {
        let mut slots = Vec::with_capacity(self.table.flows());
        self.table.occupied(0, self.table.slots(), &mut slots);
        // With the sign turned, times before 1970 come first.
        let start = |slot: u32| self.table.opening(slot)[0] ^ 1 << 63;
        let mut starts: Vec<(u64, u32)> = slots.iter().map(|&slot| (start(slot), slot)).collect();
        // Keys are long, and starts seldom equal.
        order::by_digits(&mut starts);
        for equal in starts.chunk_by_mut(|a, b| a.0 == b.0) {
            if equal.len() > 1 {
                equal.sort_by_cached_key(|&(_, slot)| self.table.key(slot, self.table.entry(slot)));
            }
        }
        slots.clear();
        slots.extend(starts.iter().map(|&(_, slot)| slot));
        slots
    }

    /// What the meter has counted.
    #[must_use]
    pub fn counters(&self) -> MeterCounters {
        MeterCounters {
            miscounted: self.table.miscounted(),
            flows: self.table.flows() as u64,
            ..self.counters
        }
    }

    /// The view of the last full round over the table, if one was asked for and is new.
    pub fn take_view(&mut self) -> Option<LiveView> {
        self.view.as_mut().and_then(ViewBuilder::take)
    }

    fn grow(&mut self, sink: &mut impl RecordSink) {
        loop {
            let Self {
                table,
                statistics,
                analyser,
                ..
            } = self;
            let crowded = table.grow(&mut |from, to| {
                for (_, statistic) in statistics.iter_mut() {
                    statistic.relocate(from, to);
                }
                if let Some(analyser) = analyser {
                    analyser.relocate(from, to);
                }
            });
            match crowded {
                Ok(()) => return,
                Err(slot) => {
                    self.tell(&[slot], &[EndReason::LackOfResources]);
                    self.table.remove(&[slot]);
                    self.hand_over(sink);
                }
            }
        }
    }

    /// Lets the flows go that must make room for those of the staged batch.
    fn make_room(&mut self, batch: &Batch, sink: &mut impl RecordSink) {
        let first = self.records.ended.len();
        let mut leaving = std::mem::take(&mut self.leaving);
        self.table
            .make_room(batch, &mut leaving, &mut self.records.ended);
        if !leaving.is_empty() {
            self.counters.was_full = true;
            let reasons = [EndReason::LackOfResources; TOGETHER];
            let mut groups = leaving.chunks(TOGETHER).peekable();
            self.approach_kept(leaving.iter().take(TOGETHER).copied());
            while let Some(group) = groups.next() {
                if let Some(ahead) = groups.peek() {
                    self.approach_kept(ahead.iter().copied());
                }
                self.tell_of(group, &reasons[..group.len()]);
            }
            debug_assert_eq!(self.records.ended.len(), first + leaving.len());
            leaving.clear();
            self.hand_over(sink);
        }
        self.leaving = leaving;
    }

    /// Flows have begun. One that goes on after its active time-out has the initiator of its first record.
    fn note_begun(&mut self, batch: &Batch) {
        let opened = self.observed.opened.drain(..);
        if let Some(analyser) = &self.analyser {
            for at in opened {
                let slot = self.observed.slots[usize::from(at)];
                let direction = batch.packets()[usize::from(at)].direction;
                if let Some(initiator) = analyser.initiator(slot)
                    && initiator != direction
                {
                    ended::set_direction(self.table.opening_mut(slot), initiator);
                }
            }
        }
    }

    /// Counts the packets from `start` on, and takes them into the statistics, as far as no flow ends
    /// before one; tells how far that is.
    fn count(&mut self, batch: &Batch, start: usize) -> (usize, Step) {
        // Statistics are one group behind the table: what they keep comes near meanwhile. So do the
        // handles of an analysis, which begins when all are counted.
        let level = self.table.level();
        let group = match (self.statistics.is_empty(), &self.analyser) {
            (true, None) => batch.len(),
            (false, None) if level == CacheLevel::First => *GROUP.end(),
            _ => (batch.len() / 4).clamp(*GROUP.start(), *GROUP.end()),
        };
        let (mut start, mut before) = (start, start..start);
        loop {
            let packets = start..batch.len().min(start + group);
            let step = self
                .table
                .update(batch, packets.clone(), &self.expiry, &mut self.observed);
            let end = match step {
                Step::Done => packets.end,
                Step::Ended { at, slot, .. } => {
                    self.approach(iter::once(slot));
                    at
                }
            };
            let slots = &self.observed.slots[start..end];
            if let Some(analyser) = &self.analyser {
                analyser.approach(slots.iter().copied());
            }
            if self.asks_ahead {
                for (_, statistic) in &self.statistics {
                    statistic.prefetch(level, slots);
                }
            }
            self.update_statistics(batch, before);
            if step != Step::Done || end == batch.len() {
                self.update_statistics(batch, start..end);
                return (end, step);
            }
            before = start..end;
            start = end;
        }
    }

    fn update_statistics(&mut self, batch: &Batch, Range { start, end }: Range<usize>) {
        let slots = &self.observed.slots[start..end];
        // What came into the second level has still a way to go, all of it at once.
        let ask_once_more = self.asks_ahead && self.table.level() == CacheLevel::Second;
        for (value, statistic) in &mut self.statistics {
            let values = match value {
                Value::Size => {
                    let packets = &batch.packets()[start..end];
                    self.sizes.clear();
                    self.sizes
                        .extend(packets.iter().map(|packet| u64::from(packet.length)));
                    &self.sizes[..]
                }
                Value::InterArrivalTime => &self.observed.inter_arrival_ns[start..end],
                Value::Gap => &self.observed.gaps[start..end],
            };
            if ask_once_more {
                statistic.prefetch(CacheLevel::First, slots);
            }
            statistic.update(slots, values);
        }
    }

    /// Analyses packets that are counted, if that was asked for.
    fn observe(&mut self, batch: &Batch, packets: Range<usize>, payloads: &impl Payloads) {
        if let Some(analyser) = &mut self.analyser {
            analyser.observe(batch, packets, payloads);
        }
    }

    /// Ends so many flows, each in its slot and for its reason, whose entries are near.
    fn end_flows(
        &mut self,
        count: usize,
        slot: impl Fn(usize) -> u32,
        reason: impl Fn(&Self, usize) -> EndReason,
        sink: &mut impl RecordSink,
    ) {
        let group = |start: usize| start..count.min(start + TOGETHER);
        let (mut slots, mut reasons) = ([NO_SLOT; TOGETHER], [EndReason::EndOfInput; TOGETHER]);
        self.approach(group(0).map(&slot));
        for start in (0..count).step_by(TOGETHER) {
            self.approach(group(start + TOGETHER).map(&slot));
            let group = group(start);
            let flows = group.len();
            for (place, at) in group.enumerate() {
                slots[place] = slot(at);
                reasons[place] = reason(self, at);
            }
            self.tell(&slots[..flows], &reasons[..flows]);
            self.table.remove(&slots[..flows]);
            self.hand_over(sink);
        }
    }

    /// Asks for what is kept of flows that are about to end, whose entries are near.
    fn approach(&self, slots: impl Iterator<Item = u32> + Clone) {
        for slot in slots.clone() {
            self.table.approach_removal(slot);
        }
        self.approach_kept(slots);
    }

    /// The same of those that the table has told.
    fn approach_kept(&self, slots: impl Iterator<Item = u32> + Clone) {
        for (value, statistic) in &self.statistics {
            for slot in slots.clone() {
                if *value == Value::Size || has_intervals(self.table.entry(slot)) {
                    statistic.prefetch(CacheLevel::First, &[slot]);
                }
            }
        }
        if let Some(analyser) = &self.analyser {
            analyser.approach(slots);
        }
    }

    /// Tells of flows that have ended, and clears what is kept of them, but for their entries.
    fn tell(&mut self, slots: &[u32], reasons: &[EndReason]) {
        self.table.tell(slots, &mut self.records.ended);
        self.tell_of(slots, reasons);
    }

    /// The same of those whose entries the table has told.
    fn tell_of(&mut self, slots: &[u32], reasons: &[EndReason]) {
        let RecordBatch { ended, values, .. } = &mut self.records;
        let first = ended.len();
        ended.reasons.extend_from_slice(reasons);
        let entries = &ended.entries[first..ended.reasons.len()];
        let mut recorded = [0; 2];
        for entry in entries {
            let ([there, back], [bytes_there, bytes_back]) = (entry.packets(), entry.bytes());
            recorded[0] += there + back;
            recorded[1] += bytes_there + bytes_back;
        }
        for (sum, more) in self.counters.recorded.iter_mut().zip(recorded) {
            *sum += more;
        }
        let evicted = |reason: &&EndReason| **reason == EndReason::LackOfResources;
        self.counters.evicted += reasons.iter().filter(evicted).count() as u64;
        self.counters.records += slots.len() as u64;
        if self.gap_mean || !self.statistics.is_empty() {
            let flows = slots.iter().zip(entries).zip(&ended.openings[first..]);
            for ((&slot, entry), opening) in flows {
                if self.gap_mean {
                    values.push(mean_of(Value::Gap, entry, opening));
                }
                let has_intervals = has_intervals(entry);
                for (value, statistic) in &mut self.statistics {
                    if has_intervals || *value == Value::Size {
                        let mean = mean_of(*value, entry, opening);
                        statistic.summarise(slot, mean, values);
                        statistic.clear(slot);
                    } else {
                        // What is nowhere has nothing either: the memory of the slot was never touched.
                        statistic.summarise(NO_SLOT, f64::NAN, values);
                    }
                }
            }
        }
        if let Some(analyser) = &mut self.analyser {
            for (&slot, entry) in slots.iter().zip(entries) {
                analyser.leave(slot, entry.last_clock_ms());
            }
        }
    }

    /// Completes the records of flows that have ended by what is known of them besides, and hands a full
    /// batch of them on.
    fn hand_over(&mut self, sink: &mut impl RecordSink) {
        if let Some(analyser) = &mut self.analyser {
            let missing = FULL.saturating_sub(self.records.len());
            self.records.records.reserve(missing);
            self.records.complete();
            let RecordBatch {
                records, analyses, ..
            } = &mut self.records;
            if analyses.is_empty() {
                // An analysis is long: none is to be moved while the batch fills.
                analyses.reserve_places(FULL);
            }
            analyser.tell_left(records, analyses);
        }
        if self.records.len() >= RECORDS {
            self.flush(sink);
        }
    }

    /// Shows the flows within a range of slots to the view, if there is one.
    fn look(&mut self, from: u32, to: u32) {
        let Some(mut view) = self.view.take() else {
            return;
        };
        self.occupied.clear();
        self.table.occupied(from, to, &mut self.occupied);
        let mut values = Vec::new();
        for &slot in &self.occupied {
            let entry = self.table.entry(slot);
            let [there, back] = entry.bytes();
            if view.wants(there + back) {
                let opening = self.table.opening(slot);
                let mut record = Record::default();
                fill(&mut record, entry, opening, || self.table.key(slot, entry));
                view.insert(there + back, record);
            }
            values.clear();
            match self.statistics.first() {
                Some((value, statistic)) => {
                    let mean = mean_of(*value, entry, self.table.opening(slot));
                    statistic.summarise(slot, mean, &mut values);
                }
                None => values.push((entry.packets()[0] + entry.packets()[1]) as f64),
            }
            view.distribute(values.last().copied().unwrap_or(f64::NAN));
        }
        self.view = Some(view);
    }
}

const _: () = assert!(NO_VALUE == u64::MAX);
