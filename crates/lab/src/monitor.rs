//! The monitor under test: the real engine over given ports, and its records compared with the truth.

use crate::ledger::FlowTruth;
use engine::options::Level;
use engine::{EngineError, Input, Model, Options, Progress, Report, Stop};
use flow::hash::HashKind;
use flow::statistic::{Estimator, Selection, SelectionError};
use flow::{FlowDefinition, MeterOptions, RecordBatch, TableKind, Timeouts};
use port::Port;
use std::collections::HashMap;
use std::time::Duration;
use wire::FlowKey;

/// Time to wait for a batch of records before checking whether the engine has ended.
const RECORD_WAIT: Duration = Duration::from_millis(1);

/// The configuration of a monitor.
#[derive(Clone, Debug, Default)]
pub struct Monitor {
    /// The engine's options.
    pub options: Options,
}

impl Monitor {
    /// One thread that counts up to `flows` flows, without timeouts.
    #[must_use]
    pub fn counting(flows: usize) -> Self {
        Self {
            options: Options {
                meter: MeterOptions {
                    flows_max: flows.max(1024),
                    timeouts: Timeouts::NONE,
                    populate: true,
                    ..MeterOptions::default()
                },
                ..Options::default()
            },
        }
    }

    /// One thread that counts packets and bytes only.
    #[must_use]
    pub fn packets() -> Self {
        Self {
            options: Options {
                level: Level::Packet,
                ..Self::counting(1024).options
            },
        }
    }

    /// The same with these statistics, in the syntax of `--statistics`.
    ///
    /// # Errors
    /// When the statistics do not exist.
    pub fn with_statistics(
        mut self,
        statistics: &str,
        estimator: Estimator,
    ) -> Result<Self, SelectionError> {
        self.options.meter.statistics = Selection::parse(statistics, estimator)?;
        Ok(self)
    }

    /// The same with another table.
    #[must_use]
    pub fn with_table(mut self, table: TableKind) -> Self {
        self.options.meter.table = table;
        self
    }

    /// The same in another programming model.
    #[must_use]
    pub fn with_model(mut self, model: Model) -> Self {
        self.options.model = model;
        self
    }

    /// The same with flows by another definition.
    #[must_use]
    pub fn with_flow(mut self, flow: FlowDefinition) -> Self {
        self.options.meter.flow = flow;
        self
    }

    /// The same with another hash.
    #[must_use]
    pub fn with_hash(mut self, hash: HashKind) -> Self {
        self.options.meter.hash = hash;
        self
    }

    /// Whether it has a record per 5-tuple, which can be compared with the flows of the wire.
    #[must_use]
    pub fn counts_five_tuples(&self) -> bool {
        self.options.level == Level::Flow && self.options.meter.flow == FlowDefinition::FiveTuple
    }

    /// Runs over the ports of a link until they end; `observe` sees each batch of records.
    ///
    /// # Errors
    /// When the engine cannot run.
    pub fn run(
        &self,
        ports: Vec<Box<dyn Port>>,
        observe: impl FnMut(&RecordBatch) + Send,
    ) -> Result<MonitorResult, EngineError> {
        self.run_until(ports, &Stop::default(), observe)
    }

    /// The same until `stop` is requested; packets received by then are counted.
    ///
    /// # Errors
    /// When the engine cannot run.
    pub fn run_until(
        &self,
        ports: Vec<Box<dyn Port>>,
        stop: &Stop,
        mut observe: impl FnMut(&RecordBatch) + Send,
    ) -> Result<MonitorResult, EngineError> {
        let options = Options {
            stop: stop.clone(),
            ..self.options.clone()
        };
        let measurements = engine::measurements(&options, ports.len())?;
        let workers = options.workers(ports.len());
        let progress = Progress::new(workers);
        let (records, returned) = engine::channel(workers, false);
        returned.populate(workers, &options.meter);
        let lost = records.clone();
        let input = Input { ports, live: true };
        let report = std::thread::scope(|scope| {
            let options = &options;
            let progress = &progress;
            let running = scope.spawn(move || {
                let report = engine::run(options, input, measurements, &records, progress);
                drop(records);
                report
            });
            // `lost` is a sender too and keeps the channel open, so the end of the thread is checked.
            loop {
                match returned.recv_timeout(RECORD_WAIT) {
                    Ok(Some(batch)) => {
                        observe(&batch);
                        returned.recycle(batch);
                    }
                    Ok(None) => break,
                    Err(_) if running.is_finished() => break,
                    Err(_) => {}
                }
            }
            running
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        while let Ok(Some(batch)) = returned.recv_timeout(Duration::ZERO) {
            observe(&batch);
        }
        Ok(MonitorResult {
            report,
            records_lost: lost.lost(),
        })
    }
}

/// The result of a monitor.
pub struct MonitorResult {
    /// The engine's own report.
    pub report: Report,
    /// Records that were lost because the channel was full.
    pub records_lost: u64,
}

/// Packets in records, by 5-tuple.
#[derive(Clone, Debug, Default)]
pub struct FlowCounts(HashMap<FlowKey, u64>);

impl FlowCounts {
    /// Adds the packets of records, both directions together.
    pub fn add(&mut self, batch: &RecordBatch) {
        for record in &batch.records {
            *self.0.entry(record.key).or_default() += record.packets[0] + record.packets[1];
        }
    }

    /// Returns the packets of a flow.
    #[must_use]
    pub fn of(&self, key: &FlowKey) -> u64 {
        self.0.get(key).copied().unwrap_or(0)
    }

    /// Returns each flow and its packets, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&FlowKey, u64)> {
        self.0.iter().map(|(key, &packets)| (key, packets))
    }

    /// Compares the records with the true packets of each flow.
    #[must_use]
    pub fn compare(&self, truth: &HashMap<FlowKey, u64>) -> FlowTruth {
        let mut compared = FlowTruth::default();
        for (key, &packets) in truth {
            let counted = self.of(key);
            compared.flows += u64::from(packets > 0);
            compared.exact += u64::from(packets > 0 && counted == packets);
            compared.deviation += counted.abs_diff(packets);
        }
        compared.unexpected = self
            .iter()
            .filter(|(key, _)| !truth.contains_key(key))
            .map(|(_, packets)| packets)
            .sum();
        compared
    }
}
