//! The tables and the percentile of FloWatcher-DPDK next to flowatch's: both count the same packets by the
//! device's hash, alternately, on one thread and in memory, and report the packets that they could not
//! attribute to a flow. The paper's program processes packet by packet; its tables are measured without
//! prefetching and once more with flowatch's prefetching of a burst.
//!
//! The measurement is in real time: compare only figures of one run.

use crate::statistics::{Interval, abba, median, paired_ratio};
use crate::traffic::{order_name, small_frames, wire_of};
use crate::trial::TrialError;
use engine::parser::PacketParser;
use flow::statistic::{Estimator, Selection};
use flow::{
    BURST, Batch, FlowDefinition, Meter, MeterOptions, RecordBatch, RecordSink, TableKind, Timeouts,
};
use generator::FlowOrder;
use hw::time::{TickRate, ticks};
use port::{Burst, Frame};
use std::collections::HashMap;
use wire::{Decapsulate, LinkType};

/// The statistics of each flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Packets and bytes.
    Count,
    /// These, and the mean and 99th percentile of the interleaving gap: by a histogram in flowatch, by
    /// P-square in the paper.
    Gap,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// The number of flows.
    pub flows: u32,
    /// How flows share the packets.
    pub order: FlowOrder,
    /// The statistics of each flow.
    pub task: Task,
    /// The paper's table.
    pub table: TableKind,
    /// The required ratio of the paper's time to flowatch's.
    pub goal: f64,
    /// Packets per turn.
    pub packets: usize,
}

impl Setting {
    /// The comparisons with a goal: counting is no slower than the double hash, percentiles are twice as
    /// fast as in the combined table, and with a million flows, which make its lists long, five times.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let setting = |flows, order, task, table, goal| Self {
            flows,
            order,
            task,
            table,
            goal,
            packets: 1 << if flows > 1 << 16 { 20 } else { 21 },
        };
        let mut settings = Vec::new();
        for order in [FlowOrder::Uniform, FlowOrder::Zipf(1.0)] {
            settings.push(setting(
                1 << 16,
                order,
                Task::Count,
                TableKind::DoubleHash,
                1.0,
            ));
            settings.push(setting(1 << 16, order, Task::Gap, TableKind::Combined, 2.0));
        }
        for (task, table) in [
            (Task::Count, TableKind::LinkedList),
            (Task::Count, TableKind::Combined),
            (Task::Gap, TableKind::Combined),
        ] {
            settings.push(setting(1_000_000, FlowOrder::Uniform, task, table, 5.0));
        }
        settings
    }

    /// Describes the comparison.
    #[must_use]
    pub fn name(&self) -> String {
        let task = match self.task {
            Task::Count => "count",
            Task::Gap => "gap and its 99th percentile",
        };
        format!("{} flows, {}, {task}", self.flows, order_name(self.order))
    }
}

/// The counts of a contender, compared with the truth.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Account {
    /// Packets that it processed.
    pub packets: u64,
    /// Packets in records.
    pub in_flows: u64,
    /// Packets without a slot in the table.
    pub unattributed: u64,
    /// Flows, by their hashes.
    pub flows: u64,
    /// Flows whose record has the true number of packets.
    pub exact: u64,
    /// The median over some flows of the relative error of the 99th percentile; `None` if no flow has
    /// enough packets.
    pub error: Option<f64>,
}

/// flowatch's table, the paper's packet by packet, and the paper's with prefetched bursts.
pub const CONTENDERS: usize = 3;

/// The result of a comparison.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The comparison.
    pub setting: Setting,
    /// Nanoseconds per packet of each turn, by contender.
    pub ns: [Vec<f64>; CONTENDERS],
    /// The ratio of each of the paper's times to flowatch's, over the pairs of turns.
    pub ratios: [Interval; CONTENDERS - 1],
    /// The counts of each contender.
    pub accounts: [Account; CONTENDERS],
    /// Bursts that the machine stalled.
    pub stalls: u64,
}

impl Compared {
    /// The medians of the turns, by contender.
    #[must_use]
    pub fn medians(&self) -> [f64; CONTENDERS] {
        self.ns.each_ref().map(|turns| median(turns))
    }

    /// Whether the interval reaches the goal. The goal is for the paper's program, which processes packet by
    /// packet.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        if self.ratios[0].low >= self.setting.goal {
            "reached"
        } else if self.ratios[0].high < self.setting.goal {
            "missed"
        } else {
            "open: the interval contains the goal"
        }
    }
}

/// The number of flows whose percentiles are compared with the truth: those with most packets.
const FLOWS_SAMPLED: usize = 64;

/// The fewest gaps for a meaningful 99th percentile.
const GAPS_LEAST: usize = 300;

/// A burst that takes longer than this multiple of its turn's median was stalled by the machine, and
/// counts as the median.
const STALL: u64 = 8;

/// Nanoseconds between two packets, as at 14.88 Mpps.
const SPACING_NS: i64 = 67;

/// Records by hash: packets, and the 99th percentile of the gap if it is measured.
#[derive(Default)]
struct Records {
    flows: HashMap<u32, (u64, f64)>,
    /// The number of values per record, and the index of the percentile.
    columns: usize,
    percentile: Option<usize>,
}

impl RecordSink for Records {
    fn take(&mut self, batch: &mut RecordBatch) {
        for (index, record) in batch.records.iter().enumerate() {
            let value = self.percentile.map_or(f64::NAN, |column| {
                batch.values[index * self.columns + column]
            });
            if let Some(hash) = record.key.hash() {
                let flow = self.flows.entry(hash).or_default();
                flow.0 += record.packets[0];
                flow.1 = value;
            }
        }
        batch.clear();
    }
}

/// A meter that is compared.
struct Contender {
    parser: PacketParser,
    meter: Meter,
    batch: Batch,
    records: Records,
    /// Packets so far.
    number: i64,
    stalls: u64,
}

impl Contender {
    fn new(
        setting: &Setting,
        table: TableKind,
        estimator: Estimator,
        prefetches: bool,
    ) -> Result<Self, TrialError> {
        let list = match setting.task {
            Task::Count => "count",
            Task::Gap => "gap-mean,gap-percentile=99",
        };
        let options = MeterOptions {
            flow: FlowDefinition::Rss,
            table,
            flows_max: setting.flows as usize + setting.flows as usize / 8,
            timeouts: Timeouts::NONE,
            statistics: Selection::parse(list, estimator).map_err(TrialError::missing)?,
            populate: true,
            prefetches,
            ..MeterOptions::default()
        };
        let columns = options.schema().statistics;
        Ok(Self {
            parser: PacketParser::new(&options, Decapsulate::No),
            meter: Meter::new(&options)?,
            batch: Batch::default(),
            records: Records {
                columns: columns.len(),
                percentile: columns
                    .iter()
                    .position(|column| column.name.contains("ercentile")),
                ..Records::default()
            },
            number: 0,
            stalls: 0,
        })
    }

    /// Processes the packets once; returns nanoseconds per packet.
    fn turn(&mut self, frames: &[Frame<'_>]) -> f64 {
        let mut list: Vec<Frame<'_>> = Vec::with_capacity(BURST);
        let mut times = Vec::with_capacity(frames.len() / BURST + 1);
        for burst in frames.chunks_exact(BURST) {
            list.clear();
            for frame in burst {
                self.number += 1;
                list.push(Frame {
                    time_ns: self.number * SPACING_NS,
                    ..*frame
                });
            }
            let begun = ticks();
            self.batch.clear();
            self.parser.parse(
                &Burst {
                    link: LinkType::Ethernet,
                    frames: &list,
                },
                &mut self.batch,
            );
            self.meter.process(&self.batch, &mut self.records);
            times.push(ticks() - begun);
        }
        let mut sorted = times.clone();
        sorted.sort_unstable();
        let usual = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
        let mut sum = 0;
        for burst in times {
            let is_stalled = burst > STALL * usual;
            self.stalls += u64::from(is_stalled);
            sum += if is_stalled { usual } else { burst };
        }
        let packets = frames.len() / BURST * BURST;
        sum as f64 * 1e9 / TickRate::get().per_second() / packets.max(1) as f64
    }

    /// Ends all flows and compares them with the truth.
    fn account(mut self, truth: &Truth) -> Account {
        self.meter.finish(self.parser.clock_ms(), &mut self.records);
        self.meter.flush(&mut self.records);
        let counters = self.meter.counters();
        let of = |hash: &u32| self.records.flows.get(hash).copied();
        let mut errors: Vec<f64> = truth
            .percentiles
            .iter()
            .filter_map(|(hash, exact)| Some((of(hash)?.1 / exact - 1.0).abs()))
            .filter(|error| !error.is_nan())
            .collect();
        errors.sort_by(f64::total_cmp);
        Account {
            packets: self.number.cast_unsigned(),
            in_flows: counters.recorded[0],
            unattributed: counters.unattributed[0],
            flows: truth.packets.len() as u64,
            exact: truth
                .packets
                .iter()
                .filter(|(hash, packets)| of(hash).is_some_and(|flow| flow.0 == **packets))
                .count() as u64,
            error: (!errors.is_empty()).then(|| median(&errors)),
        }
    }
}

/// The true packets of all turns, by hash.
struct Truth {
    packets: HashMap<u32, u64>,
    /// The true 99th percentile of the gap of some flows.
    percentiles: Vec<(u32, f64)>,
}

impl Truth {
    /// The truth of `turns` rounds of the same packets.
    fn new(hashes: &[u32], turns: usize) -> Self {
        let mut packets: HashMap<u32, u64> = HashMap::new();
        for &hash in hashes {
            *packets.entry(hash).or_default() += turns as u64;
        }
        let mut most: Vec<(u32, u64)> = packets
            .iter()
            .map(|(&hash, &count)| (hash, count))
            .collect();
        // Ties are broken by hash, so that a run repeats.
        most.sort_unstable_by_key(|&(hash, count)| (std::cmp::Reverse(count), hash));
        most.truncate(FLOWS_SAMPLED);
        let mut gaps: HashMap<u32, (Option<usize>, Vec<u64>)> = most
            .iter()
            .map(|&(hash, _)| (hash, (None, Vec::new())))
            .collect();
        for (number, hash) in (0..turns).flat_map(|_| hashes).enumerate() {
            if let Some((last, gaps)) = gaps.get_mut(hash)
                && let Some(last) = last.replace(number)
            {
                gaps.push((number - last - 1) as u64);
            }
        }
        let percentiles = gaps
            .into_iter()
            .filter(|(_, (_, gaps))| gaps.len() >= GAPS_LEAST)
            .map(|(hash, (_, mut gaps))| {
                let rank = gaps.len() * 99 / 100;
                (hash, *gaps.select_nth_unstable(rank).1 as f64)
            })
            .collect();
        Self {
            packets,
            percentiles,
        }
    }
}

/// Runs a comparison: a turn of each contender to fill the tables, then `turns` of each in ABBA order.
///
/// # Errors
/// When there is too little memory for the tables, or the options of the traffic are invalid.
pub fn compare(setting: &Setting, turns: usize, seed: u64) -> Result<Compared, TrialError> {
    let whole_bursts = setting.packets / BURST * BURST;
    let wire = wire_of(
        &small_frames(setting.flows, setting.order, seed),
        whole_bursts,
    )?;
    let frames: Vec<Frame<'_>> = (0..whole_bursts as u64)
        .map(|index| {
            let frame = wire.frame(index);
            Frame {
                rss_hash: frame.hash(),
                ..Frame::new(frame.bytes, 0, frame.wire_length)
            }
        })
        .collect();
    let hashes: Vec<u32> = frames
        .iter()
        .filter_map(|frame| frame.rss_hash)
        .map(std::num::NonZeroU32::get)
        .collect();
    let mut contenders = [
        Contender::new(setting, TableKind::Bucket, Estimator::LogLinear, true)?,
        Contender::new(setting, setting.table, Estimator::PSquare, false)?,
        Contender::new(setting, setting.table, Estimator::PSquare, true)?,
    ];
    for contender in &mut contenders {
        contender.turn(&frames);
        contender.stalls = 0;
    }
    let mut ns = [const { Vec::new() }; CONTENDERS];
    for turn in 0..turns {
        for index in abba(CONTENDERS, turn) {
            ns[index].push(contenders[index].turn(&frames));
        }
    }
    let stalls = contenders.iter().map(|contender| contender.stalls).sum();
    let truth = Truth::new(&hashes, turns + 1);
    Ok(Compared {
        setting: *setting,
        ratios: [1, 2].map(|theirs| paired_ratio(&ns[theirs], &ns[0])),
        ns,
        accounts: contenders.map(|contender| contender.account(&truth)),
        stalls,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(
        flows: u32,
        order: FlowOrder,
        task: Task,
        table: TableKind,
        packets: usize,
    ) -> Compared {
        let setting = Setting {
            flows,
            order,
            task,
            table,
            goal: 1.0,
            packets,
        };
        let compared = compare(&setting, 2, 1).unwrap();
        for account in &compared.accounts {
            assert_eq!(account.packets, 3 * packets as u64);
            assert_eq!(account.in_flows + account.unattributed, account.packets);
        }
        assert!(compared.ns.iter().all(|turns| turns.len() == 2));
        assert!(compared.ratios.iter().all(|ratio| ratio.value > 0.0));
        // Prefetching does not change the counts.
        assert_eq!(compared.accounts[1], compared.accounts[2]);
        // flowatch's table is exact for any traffic.
        let ours = compared.accounts[0];
        assert_eq!((ours.unattributed, ours.exact), (0, ours.flows));
        compared
    }

    #[test]
    fn double_hash_has_unattributed_packets_and_bucket_table_none() {
        let flows = 1 << 16;
        let found = compared(
            flows,
            FlowOrder::Uniform,
            Task::Count,
            TableKind::DoubleHash,
            1 << 19,
        );
        // Two slots per bucket and as many buckets as flows: the flows above 2 of a Poisson distribution
        // with mean 1, which is 3/e - 1 of the flows. (Slightly less of the packets: flows with many
        // packets are inserted first.)
        let theirs = found.accounts[1];
        let without = 1.0 - theirs.exact as f64 / theirs.flows as f64;
        let expected = 3.0 / std::f64::consts::E - 1.0;
        assert!((without - expected).abs() < 0.005, "{theirs:?}");
        let lost = theirs.unattributed as f64 / theirs.packets as f64;
        assert!((0.85 * expected..expected).contains(&lost), "{theirs:?}");
    }

    #[test]
    fn list_tables_are_exact_and_both_estimators_accurate() {
        for order in [FlowOrder::Uniform, FlowOrder::Zipf(1.0)] {
            let found = compared(1 << 8, order, Task::Gap, TableKind::Combined, 1 << 16);
            for account in found.accounts {
                assert_eq!((account.unattributed, account.exact), (0, account.flows));
                let error = account.error.unwrap();
                assert!(error < 0.1, "{order:?}: {error}");
            }
        }
        let found = compared(
            1 << 10,
            FlowOrder::Uniform,
            Task::Count,
            TableKind::LinkedList,
            1 << 14,
        );
        assert_eq!(found.accounts[1].exact, found.accounts[1].flows);
        assert_eq!(found.accounts[1].error, None);
    }

    #[test]
    fn true_percentile_of_round_robin_gaps() {
        // Ten flows in round robin order, so every gap is 9.
        let hashes: Vec<u32> = (0..10_000).map(|number| number % 10 + 1).collect();
        let truth = Truth::new(&hashes, 2);
        assert_eq!(truth.packets[&1], 2000);
        assert_eq!(truth.percentiles.len(), 10);
        assert!(truth.percentiles.iter().all(|(_, exact)| *exact == 9.0));
    }

    #[test]
    fn goal_is_reached_missed_or_open() {
        let with = |low, high| Compared {
            setting: Setting::all()[1],
            ns: [1.0, 2.0, 1.5].map(|ns| vec![ns]),
            ratios: [(low, high), (1.4, 1.6)].map(|(low, high)| Interval {
                value: f64::midpoint(low, high),
                low,
                high,
            }),
            accounts: [Account::default(); CONTENDERS],
            stalls: 0,
        };
        assert_eq!(with(2.0, 2.2).verdict(), "reached");
        assert_eq!(with(1.0, 1.9).verdict(), "missed");
        assert!(with(1.9, 2.1).verdict().starts_with("open"));
    }
}
