//! The monitor under test: the real engine over given ports, its records compared with the truth.

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

/// How long the records' end of a run waits before it looks whether the run has ended.
const PATIENCE: Duration = Duration::from_millis(1);

/// How the monitor runs.
#[derive(Clone, Debug, Default)]
pub struct Monitor {
    /// What the engine is told.
    pub options: Options,
}

impl Monitor {
    /// One thread that counts up to `flows` flows, which last until the end.
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

    /// One thread that counts packets and bytes, and no flows.
    #[must_use]
    pub fn packets() -> Self {
        Self {
            options: Options {
                level: Level::Packet,
                ..Self::counting(1024).options
            },
        }
    }

    /// The same with `statistics` as `--statistics` takes them.
    ///
    /// # Errors
    /// When there are no such statistics.
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

    /// Whether its records can be held against the flows of the wire: a record a 5-tuple.
    #[must_use]
    pub fn tells_flows(&self) -> bool {
        self.options.level == Level::Flow && self.options.meter.flow == FlowDefinition::FiveTuple
    }

    /// Runs over `ports`, a link's, until they end. Each batch of records is shown to `look`.
    ///
    /// # Errors
    /// When the engine cannot run.
    pub fn watch(
        &self,
        ports: Vec<Box<dyn Port>>,
        look: impl FnMut(&RecordBatch) + Send,
    ) -> Result<Watched, EngineError> {
        self.watch_until(ports, &Stop::default(), look)
    }

    /// The same until `stop` is requested, and what had come by then is counted.
    ///
    /// # Errors
    /// When the engine cannot run.
    pub fn watch_until(
        &self,
        ports: Vec<Box<dyn Port>>,
        stop: &Stop,
        mut look: impl FnMut(&RecordBatch) + Send,
    ) -> Result<Watched, EngineError> {
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
        let input = Input {
            ports,
            same_packets: false,
            live: true,
        };
        let report = std::thread::scope(|scope| {
            let options = &options;
            let progress = &progress;
            let running = scope.spawn(move || {
                let report = engine::run(options, input, measurements, &records, progress);
                drop(records);
                report
            });
            // The clone that is kept here for its count keeps the way open: the thread's end ends it.
            loop {
                match returned.recv_timeout(PATIENCE) {
                    Ok(Some(batch)) => {
                        look(&batch);
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
            look(&batch);
        }
        Ok(Watched {
            report,
            records_lost: lost.lost(),
        })
    }
}

/// What a monitor came to.
pub struct Watched {
    /// The engine's own report.
    pub report: Report,
    /// Records that found no room on their way.
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

    /// Packets of a flow.
    #[must_use]
    pub fn of(&self, key: &FlowKey) -> u64 {
        self.0.get(key).copied().unwrap_or(0)
    }

    /// Each flow and its packets, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&FlowKey, u64)> {
        self.0.iter().map(|(key, &packets)| (key, packets))
    }

    /// Holds the records against the truth: the packets of each flow.
    #[must_use]
    pub fn against(&self, truth: &HashMap<FlowKey, u64>) -> FlowTruth {
        let mut compared = FlowTruth::default();
        for (key, &packets) in truth {
            let counted = self.of(key);
            compared.flows += u64::from(packets > 0);
            compared.exact += u64::from(packets > 0 && counted == packets);
            compared.off += counted.abs_diff(packets);
        }
        compared.strangers = self
            .iter()
            .filter(|(key, _)| !truth.contains_key(key))
            .map(|(_, packets)| packets)
            .sum();
        compared
    }
}
