//! What a run is told, and why it may refuse to begin.

use crate::acquisition::Acquisition;
use crate::report::QueueReport;
use flow::MeterOptions;
use hw::schedule::Schedule;
use port::Port;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use wire::Decapsulate;

/// Which threads do what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Model {
    /// Each thread receives, reads headers and counts.
    #[default]
    RunToCompletion,
    /// Receiver threads read headers, monitor threads count; a ring joins them.
    Pipeline,
    /// Receiver and monitors as tasks of one thread, which give way to each other.
    Cooperative,
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Every flow.
    #[default]
    Flow,
    /// Packets and bytes of the whole; no frame is touched. Run to completion only.
    Packet,
}

/// How an engine runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// The programming model.
    pub model: Model,
    /// Whether flows are counted, or packets alone.
    pub level: Level,
    /// What is metered.
    pub meter: MeterOptions,
    /// How far to look into tunnels.
    pub decapsulate: Decapsulate,
    /// Cores for the threads in their order; empty to leave them to the scheduler.
    pub cores: Vec<usize>,
    /// Policies for the threads in their order, from the first again when there are more threads;
    /// empty for the default.
    pub schedules: Vec<Schedule>,
    /// Pipeline and cooperative: monitors behind each receiver.
    pub monitors: usize,
    /// Pipeline and cooperative: packets that the ring before a monitor holds.
    pub ring: usize,
    /// The counter that all queues share, where gaps count the packets of the whole link; else each
    /// queue numbers its own.
    pub link_numbers: Option<Arc<AtomicU64>>,
    /// Acquisition apart from processing.
    pub acquisition: Option<Acquisition>,
    /// Ends the run when set.
    pub stop: Stop,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            model: Model::default(),
            level: Level::default(),
            meter: MeterOptions::default(),
            decapsulate: Decapsulate::No,
            cores: Vec::new(),
            schedules: Vec::new(),
            monitors: 1,
            ring: 4096,
            link_numbers: None,
            acquisition: None,
            stop: Stop::default(),
        }
    }
}

impl Options {
    /// Threads that a run over so many ports has.
    #[must_use]
    pub fn threads(&self, ports: usize) -> usize {
        let processing = match self.model {
            Model::RunToCompletion | Model::Cooperative => ports,
            Model::Pipeline => ports * (1 + self.monitors),
        };
        let acquiring = self.acquisition.map_or(0, |_| ports);
        acquiring + processing
    }

    /// The options of the model behind `threads` threads of acquisition, which have the first cores and
    /// policies.
    pub(crate) fn behind(&self, threads: usize) -> Self {
        let mut options = self.clone();
        let cores = options.cores.len().max(1);
        if !options.cores.is_empty() {
            options.cores.rotate_left(threads % cores);
        }
        let policies = options.schedules.len().max(1);
        if !options.schedules.is_empty() {
            options.schedules.rotate_left(threads % policies);
        }
        options
    }

    /// Workers, each with a place in the progress, that a run over so many ports has.
    #[must_use]
    pub fn workers(&self, ports: usize) -> usize {
        match self.model {
            Model::RunToCompletion => ports,
            Model::Pipeline | Model::Cooperative => ports * (1 + self.monitors),
        }
    }

    /// Tables that a run over so many ports has.
    #[must_use]
    pub fn tables(&self, ports: usize) -> usize {
        if self.level == Level::Packet {
            return 0;
        }
        match self.model {
            Model::RunToCompletion => ports,
            Model::Pipeline | Model::Cooperative => ports * self.monitors,
        }
    }

    /// Whether tables are to be told what DNS responses say wherever they go: where there are several
    /// and names are looked for.
    pub(crate) fn overhears(&self, ports: usize) -> bool {
        let analysis = self.meter.statistics.analysis;
        self.tables(ports) > 1 && analysis.is_some_and(analysis::Level::has_applications)
    }

    /// The core of the thread with this number.
    pub(crate) fn core(&self, thread: usize) -> Option<usize> {
        (!self.cores.is_empty()).then(|| self.cores[thread % self.cores.len()])
    }

    /// The policy of the thread with this number.
    pub(crate) fn schedule(&self, thread: usize) -> Schedule {
        let count = self.schedules.len().max(1);
        self.schedules
            .get(thread % count)
            .copied()
            .unwrap_or_default()
    }

    /// The counter of the whole link's packets, where they are numbered by it.
    pub(crate) fn link_numbers(&self) -> Option<Arc<AtomicU64>> {
        self.link_numbers.clone()
    }

    /// Puts the calling thread where it belongs. What was checked before and cannot be had any more
    /// is a fault to be told; the thread goes on without.
    pub(crate) fn settle(&self, thread: usize) -> Seat {
        let core = self.core(thread);
        let mut schedule = self.schedule(thread);
        if let Some(core) = core {
            let _ = hw::cores::pin(core);
        }
        let mut fault = None;
        if schedule != Schedule::Other
            && let Err(error) = schedule.apply()
        {
            fault = Some(format!("a thread goes on without {schedule}: {error}"));
            schedule = Schedule::Other;
        }
        Seat {
            core,
            schedule,
            fault,
        }
    }
}

/// What is read.
pub struct Input {
    /// One for each receiving thread.
    pub ports: Vec<Box<dyn Port>>,
    /// Whether every port reads the same packets, so that each thread must keep to its share.
    pub same_packets: bool,
    /// Whether packets come from a link, which waits for nobody.
    pub live: bool,
}

/// Asks a run to end. Clones ask the same run.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Asked>);

#[derive(Debug, Default)]
struct Asked {
    requested: AtomicBool,
    end: OnceLock<Instant>,
}

impl Stop {
    /// Asks.
    pub fn request(&self) {
        self.0.requested.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.0.requested.load(Ordering::Relaxed)
    }

    /// The moment at which the run ends; the first that is given counts.
    pub fn end_at(&self, end: Instant) {
        let _ = self.0.end.set(end);
    }

    /// Asks if that moment has come. Receivers do it themselves: where they leave no core to others, as
    /// under SCHED_FIFO, nobody else may get to it for a second.
    pub fn look_at_clock(&self) {
        if let Some(end) = self.0.end.get()
            && Instant::now() >= *end
        {
            self.request();
        }
    }

    /// Asks when the holder's thread panics: its siblings must not go on without it.
    pub(crate) fn on_panic(&self) -> StopOnPanic {
        StopOnPanic(self.clone())
    }
}

/// See [`Stop::on_panic`].
pub(crate) struct StopOnPanic(Stop);

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.request();
        }
    }
}

/// Why a run cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A thread cannot run on the core that it was given.
    #[error("core {core} is not available: this process may use {allowed}")]
    Core {
        /// The core.
        core: usize,
        /// The cores that it may use.
        allowed: String,
    },
    /// The machine has no room for the tables.
    #[error(
        "no room for {tables} tables of {flows_max} flows: {reason}; give a smaller --max-flows"
    )]
    Memory {
        /// How many tables.
        tables: usize,
        /// Flows in each at most.
        flows_max: usize,
        /// The system's words.
        reason: String,
    },
    /// There is no memory for the buffers of acquisition.
    #[error("{0}")]
    Buffer(String),
    /// A right is missing; the message ends with the line that grants it.
    #[error("{0}")]
    Permission(String),
    /// A scheduling policy cannot be had.
    #[error("{0}")]
    Schedule(String),
    /// The system refuses a thread.
    #[error("cannot start a thread: {0}")]
    Thread(String),
}

impl EngineError {
    /// So many tables, of so many flows each, are more than the machine has memory for.
    pub(crate) fn no_room(tables: usize, flows_max: usize, error: &io::Error) -> Self {
        Self::Memory {
            tables,
            flows_max,
            reason: error.to_string(),
        }
    }
}

/// Checks that every given core can be used.
///
/// # Errors
/// The first that cannot.
pub fn check_cores(cores: &[usize]) -> Result<(), EngineError> {
    let allowed = hw::cores::allowed();
    match cores.iter().find(|core| !allowed.contains(core)) {
        None => Ok(()),
        Some(&core) => Err(EngineError::Core {
            core,
            allowed: allowed
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(","),
        }),
    }
}

/// Where a thread runs.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) core: Option<usize>,
    pub(crate) schedule: Schedule,
    /// What could not be had.
    pub(crate) fault: Option<String>,
}

impl Seat {
    /// The same, for another task of the thread, which need not tell again.
    pub(crate) fn task(&self) -> Self {
        Self {
            fault: None,
            ..*self
        }
    }

    /// What is known of the thread.
    pub(crate) fn report(&self) -> QueueReport {
        QueueReport {
            core: self.core,
            schedule: self.schedule,
            overruns: hw::schedule::overruns(),
            cpu: hw::time::thread_cpu(),
            ..QueueReport::default()
        }
    }
}
