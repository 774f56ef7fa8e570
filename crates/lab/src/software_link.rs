//! The software NIC as an instrument: a generator thread sends in real time to a card of DPDK rings, and
//! the monitor receives from it as from any card.
//!
//! Limits: on a machine whose cores stall, real time loses packets whatever the code does. Its figures are
//! for comparisons within a run; the virtual clock is the gate for loss.

use crate::ledger::{FlowTruth, Ledger};
use crate::monitor::{FlowCounts, Monitor};
use crate::trial::{TrialError, Validity};
use ::wire::FlowKey;
use engine::{Loss, Stop};
use flow::RecordBatch;
use generator::{
    Pacing, Rate, SendControl, SendOptions, SendReport, Source, Traffic, TrafficOptions, Truth,
};
use port::Port;
use port::dpdk::software_nic::{NicOptions, QueueCounts, Wire};
use port::dpdk::{Eal, software_nic};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs;
use std::sync::OnceLock;
use std::time::Duration;

/// Memory of the DPDK process, in MiB.
pub const MEMORY_MIB: u64 = 256;

/// The share of intended packets that the generator may fail to send; above it a trial is invalid.
const SHORTFALL_MAX: f64 = 0.01;

/// When a trial ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// After this time; packets that were not sent by then are the shortfall.
    Time(Duration),
    /// After this number of packets, however late.
    Packets(u64),
}

/// Options of a trial in real time.
#[derive(Clone, Debug, PartialEq)]
pub struct RealOptions {
    /// Packets per second.
    pub rate_pps: f64,
    /// When the trial ends.
    pub extent: Extent,
    /// The card.
    pub nic: NicOptions,
    /// The generator's core.
    pub core: Option<usize>,
}

/// The result of a trial in real time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RealTrial {
    /// The books.
    pub ledger: Ledger,
    /// Whether the trial is valid.
    pub validity: Validity,
    /// Packets per second that were sent.
    pub sent_pps: f64,
    /// The 99th percentile of the lateness of sending, in microseconds.
    pub late_p99_us: f64,
    /// CPU time of the monitor's threads per processed packet, in nanoseconds.
    pub cpu_ns: f64,
    /// Faults that do not make the trial invalid, such as a thread without its scheduling policy.
    pub faults: Vec<String>,
}

/// The pages of DPDK's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Huge pages.
    HugePages,
    /// Ordinary pages.
    Ordinary,
}

/// DPDK, which starts once per process.
static STARTED: OnceLock<(Memory, Result<Eal, String>)> = OnceLock::new();

/// Starts DPDK with this kind of memory. Trials start it themselves, with huge pages if enough are free.
///
/// # Errors
/// When DPDK does not start, or was started with other memory.
pub fn start(memory: Memory) -> Result<&'static Eal, TrialError> {
    let (started, eal) = STARTED.get_or_init(|| {
        let mut arguments: Vec<String> = vec!["-m".into(), MEMORY_MIB.to_string()];
        if memory == Memory::Ordinary {
            arguments.push("--no-huge".into());
        }
        let eal = Eal::start(&[], &arguments).map_err(|error| error.to_string());
        (memory, eal)
    });
    let other = "DPDK was started with other memory in this process";
    match eal {
        Ok(_) if *started != memory => Err(TrialError::Missing(other.into())),
        Ok(eal) => Ok(eal),
        Err(error) => Err(TrialError::Missing(error.clone())),
    }
}

fn eal() -> Result<&'static Eal, TrialError> {
    start(match STARTED.get() {
        Some((memory, _)) => *memory,
        None if free_huge_mib() < MEMORY_MIB => Memory::Ordinary,
        None => Memory::HugePages,
    })
}

/// Free huge pages of the default size, in MiB.
fn free_huge_mib() -> u64 {
    let information = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        information
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .and_then(|value| value.split_whitespace().next())
            .and_then(|value| value.parse::<u64>().ok())
            .unwrap_or(0)
    };
    field("HugePages_Free:") * field("Hugepagesize:") / 1024
}

impl RealTrial {
    /// Runs a trial.
    ///
    /// # Errors
    /// When DPDK, the generator or the engine reports an error.
    pub fn run(
        traffic: &TrafficOptions,
        options: &RealOptions,
        monitor: &Monitor,
    ) -> Result<Self, TrialError> {
        let mut source = Traffic::new(traffic).map_err(TrialError::missing)?;
        let flows = traffic.flows as usize;
        Self::of(&mut source, flows, Traffic::key, options, monitor, |_| {})
    }

    /// The same with any source of `flows` flows, whose keys `key` returns; `observe` sees each batch of
    /// records.
    ///
    /// # Errors
    /// When DPDK, the source or the engine reports an error.
    pub fn of<S: Source + Send>(
        source: &mut S,
        flows: usize,
        key: impl Fn(&S, u32) -> FlowKey,
        options: &RealOptions,
        monitor: &Monitor,
        mut observe: impl FnMut(&RecordBatch) + Send,
    ) -> Result<Self, TrialError> {
        let missing = |error: String| TrialError::Missing(error);
        let (mut wire, ports) =
            software_nic(eal()?, &options.nic).map_err(|error| missing(error.to_string()))?;
        let ports: Vec<Box<dyn Port>> = ports
            .into_iter()
            .map(|port| Box::new(port) as Box<dyn Port>)
            .collect();
        let (duration, count) = match options.extent {
            Extent::Time(time) => (Some(time), None),
            Extent::Packets(packets) => (None, Some(packets)),
        };
        let send = SendOptions {
            pacing: Pacing::Rate(Rate::Packets((options.rate_pps * 1e6) as u128)),
            duration,
            count,
            ..SendOptions::default()
        };
        let stop = Stop::default();
        let control = SendControl::default();
        let mut truth = Truth::new(flows);
        let mut counts = FlowCounts::default();
        let (sent, result) = std::thread::scope(|scope| -> Result<_, TrialError> {
            let truth = &mut truth;
            let source = &mut *source;
            let wire = &mut wire;
            let stop_after = stop.clone();
            let control = &control;
            let sending = hw::threads::spawn_scoped(scope, "sender", move || {
                if let Some(core) = options.core {
                    // The caller has checked the core; if pinning fails the thread runs on any core.
                    let _ = hw::cores::pin(core);
                }
                // Give the monitor's threads time to start before the first packet.
                std::thread::sleep(Duration::from_millis(60));
                let sent = generator::send(source, wire, &send, Some(truth), control);
                stop_after.request();
                sent
            })?;
            let result = monitor.run_until(ports, &stop, |batch| {
                counts.add(batch);
                observe(batch);
            });
            control
                .stop
                .store(true, std::sync::atomic::Ordering::Relaxed);
            let sent = sending
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok((sent, result))
        })?;
        let sent = sent.map_err(|error| missing(error.to_string()))?;
        let result = result?;
        let ledger = books(&sent, &wire, &result.report.books);
        let flows = (ledger.lost() == 0 && monitor.counts_five_tuples()).then(|| {
            let truth: HashMap<_, _> = (0..flows as u32)
                .map(|flow| (key(source, flow), truth.sent_by(flow).packets))
                .collect();
            counts.compare(&truth)
        });
        Ok(Self::judge(
            sent,
            Ledger { flows, ..ledger },
            &result.report,
            monitor,
        ))
    }

    fn judge(sent: SendReport, ledger: Ledger, report: &engine::Report, monitor: &Monitor) -> Self {
        let mut reasons = ledger.faults();
        let short = ledger.shortfall() as f64 / ledger.intended.max(1) as f64;
        if short > SHORTFALL_MAX {
            reasons.push(format!(
                "the generator was short of {:.1} % of its packets",
                short * 100.0
            ));
        }
        if !report.books.is_balanced() {
            reasons.push("the engine's books do not balance".into());
        }
        let exact_table = monitor.options.meter.table == flow::TableKind::Bucket;
        if exact_table && ledger.flows.as_ref().is_some_and(|truth| !truth.is_exact()) {
            reasons.push("per-flow counts differ from the truth although nothing was lost".into());
        }
        let cpu: Duration = report.queues.iter().map(|queue| queue.cpu).sum();
        Self {
            sent_pps: sent.sent as f64 * 1e9 / sent.elapsed_ns.max(1) as f64,
            late_p99_us: sent
                .lateness
                .as_ref()
                .map_or(f64::NAN, |late| late.percentile(99.0) as f64 / 1e3),
            cpu_ns: cpu.as_nanos() as f64 / ledger.received.max(1) as f64,
            faults: report.faults.clone(),
            validity: Validity { reasons },
            ledger,
        }
    }
}

fn books(sent: &SendReport, wire: &Wire, books: &engine::Books) -> Ledger {
    let sum = |figure: fn(&QueueCounts) -> u64| wire.counts().iter().map(figure).sum::<u64>();
    let mut losses = vec![
        ("missed".into(), sum(|queue| queue.missed)),
        ("no-buffer".into(), sum(|queue| queue.no_buffer)),
    ];
    for reason in Loss::ALL {
        let packets = books.dropped[reason as usize].packets;
        if !matches!(reason, Loss::Missed | Loss::NoBuffer) && packets > 0 {
            losses.push((reason.name().into(), packets));
        }
    }
    Ledger {
        intended: sent.intended,
        offered: sent.sent,
        link_loss: sent.sent - sum(|queue| queue.offered),
        monitor_loss: losses,
        waiting: 0,
        received: books.processed.packets,
        in_flows: books.in_flows.packets,
        no_flow: books.without_flow().packets,
        unattributed: books.unattributed.packets,
        counted_only: books.counted_only.packets,
        flows: None::<FlowTruth>,
    }
}
