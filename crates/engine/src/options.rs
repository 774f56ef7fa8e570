//! The options of a run, and the errors that prevent it.

use crate::flow_measurement::FLOWS;
use crate::measurement::{MeasurementSpec, PacketInput};
use crate::packet_count::PACKETS;
use flow::MeterOptions;
use hw::schedule::Schedule;
use port::Port;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use wire::Decapsulate;

/// The threading model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Model {
    /// Each thread receives packets, parses their headers and meters them.
    #[default]
    RunToCompletion,
    /// Receiver threads parse headers and send packets over rings to monitor threads, which meter them.
    Pipeline,
    /// The receiver and its monitors are tasks of one thread, which yield to each other.
    Cooperative,
    /// Threads share the work on a file: each meters its own flows, and the one without packets reads
    /// and parses more.
    SharedReading,
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Every flow.
    #[default]
    Flow,
    /// Only all packets and bytes; no frame is read. Always in run to completion.
    Packet,
}

/// When a receive queue is drained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PollMode {
    /// Continuously.
    #[default]
    Continuous,
    /// Once per period, until it is empty.
    Periodic(Duration),
}

/// The options of acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquisition {
    /// Size of each port's buffer, in bytes.
    pub buffer_bytes: usize,
    /// Size of the blocks within which frames are sorted by flow, in bytes; 0 for no sorting.
    pub sort_bytes: usize,
    /// When the receive queues are drained.
    pub mode: PollMode,
    /// Capacity of a receive queue in frames, if the port does not report it. The report gives the
    /// probability that the queue overflows.
    pub queue_size: usize,
}

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The threading model.
    pub model: Model,
    /// Whether to count flows or only packets.
    pub level: Level,
    /// Measurements besides the one of `level`.
    pub extra_measurements: Vec<MeasurementSpec>,
    /// The options of the meters.
    pub meter: MeterOptions,
    /// Whether to decapsulate tunnels.
    pub decapsulate: Decapsulate,
    /// Cores of the threads, in order; empty for no pinning.
    pub cores: Vec<usize>,
    /// Scheduling policies of the threads, in order, repeated if there are more threads; empty for the
    /// default policy.
    pub schedules: Vec<Schedule>,
    /// All models but run to completion: monitors per port.
    pub monitors: usize,
    /// All models but run to completion: capacity of the ring to a monitor, in packets.
    pub ring: usize,
    /// A packet counter that all queues of the link share, so that gaps count the packets of the whole
    /// link. Without it, each queue numbers its own packets.
    pub link_packet_counter: Option<Arc<AtomicU64>>,
    /// Acquisition in threads of its own.
    pub acquisition: Option<Acquisition>,
    /// The handle to stop the run.
    pub stop: Stop,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            model: Model::default(),
            level: Level::default(),
            extra_measurements: Vec::new(),
            meter: MeterOptions::default(),
            decapsulate: Decapsulate::No,
            cores: Vec::new(),
            schedules: Vec::new(),
            monitors: 1,
            // The size of the papers' receive rings.
            ring: 4096,
            link_packet_counter: None,
            acquisition: None,
            stop: Stop::default(),
        }
    }
}

impl Options {
    /// Returns the measurements of the run.
    pub(crate) fn measurements(&self) -> impl Iterator<Item = &MeasurementSpec> {
        let of_level = match self.level {
            Level::Flow => &FLOWS,
            Level::Packet => &PACKETS,
        };
        std::iter::once(of_level).chain(&self.extra_measurements)
    }

    /// Returns what the measurements together read of a packet.
    pub(crate) fn packet_input(&self) -> PacketInput {
        let reads_headers = |spec: &MeasurementSpec| spec.input == PacketInput::Headers;
        if self.measurements().any(reads_headers) {
            PacketInput::Headers
        } else {
            PacketInput::Frames
        }
    }

    /// Returns the model in use: if no headers are read, there is nothing to hand to a monitor.
    pub(crate) fn effective_model(&self) -> Model {
        match self.packet_input() {
            PacketInput::Frames => Model::RunToCompletion,
            PacketInput::Headers => self.model,
        }
    }

    /// Returns the number of threads of a run over `ports` ports.
    #[must_use]
    pub fn threads(&self, ports: usize) -> usize {
        let processing = match self.effective_model() {
            Model::RunToCompletion | Model::Cooperative => ports,
            Model::SharedReading => ports * self.monitors,
            Model::Pipeline => ports * (1 + self.monitors),
        };
        let acquiring = self.acquisition.map_or(0, |_| ports);
        acquiring + processing
    }

    /// Returns options without the cores and policies of the first `threads` threads, which are those of
    /// acquisition.
    pub(crate) fn skip_threads(&self, threads: usize) -> Self {
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

    /// Returns the number of workers, each with an entry in `Progress::queues`, of a run over `ports` ports.
    #[must_use]
    pub fn workers(&self, ports: usize) -> usize {
        match self.model {
            Model::RunToCompletion => ports,
            Model::Pipeline | Model::Cooperative | Model::SharedReading => {
                ports * (1 + self.monitors)
            }
        }
    }

    /// Returns the number of flow tables of a run over `ports` ports.
    #[must_use]
    pub fn tables(&self, ports: usize) -> usize {
        if self.level == Level::Packet {
            return 0;
        }
        match self.model {
            Model::RunToCompletion => ports,
            Model::Pipeline | Model::Cooperative | Model::SharedReading => ports * self.monitors,
        }
    }

    /// Returns whether the tables share DNS answers: there are several tables, and the analysis looks for
    /// names.
    pub(crate) fn shares_dns(&self, ports: usize) -> bool {
        let analysis = self.meter.statistics.analysis;
        self.tables(ports) > 1 && analysis.is_some_and(analysis::Level::has_applications)
    }

    /// Returns the core of a thread, or `None` if it is not pinned.
    pub(crate) fn core(&self, thread: usize) -> Option<usize> {
        (!self.cores.is_empty()).then(|| self.cores[thread % self.cores.len()])
    }

    /// Returns the scheduling policy of a thread.
    pub(crate) fn schedule(&self, thread: usize) -> Schedule {
        let count = self.schedules.len().max(1);
        self.schedules
            .get(thread % count)
            .copied()
            .unwrap_or_default()
    }

    /// Returns the packet counter of the link, if there is one.
    pub(crate) fn link_packet_counter(&self) -> Option<Arc<AtomicU64>> {
        self.link_packet_counter.clone()
    }
}

/// The input of a run.
pub struct Input {
    /// One port for each receiving thread.
    pub ports: Vec<Box<dyn Port>>,
    /// Whether packets come from a link, which cannot wait, unlike a file.
    pub live: bool,
}

/// A handle to stop a run. Clones stop the same run.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<StopState>);

#[derive(Debug, Default)]
struct StopState {
    requested: AtomicBool,
    deadline: OnceLock<Instant>,
}

impl Stop {
    /// Requests the stop.
    pub fn request(&self) {
        self.0.requested.store(true, Ordering::Relaxed);
    }

    /// Returns whether a stop was requested.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.0.requested.load(Ordering::Relaxed)
    }

    /// Sets the time at which the run stops. Only the first call has an effect.
    pub fn set_deadline(&self, end: Instant) {
        let _ = self.0.deadline.set(end);
    }

    /// Requests the stop if the deadline has passed. Receivers call this themselves: under SCHED_FIFO they
    /// may leave no core to any other thread for a second.
    pub fn check_deadline(&self) {
        if let Some(end) = self.0.deadline.get()
            && Instant::now() >= *end
        {
            self.request();
        }
    }

    /// Returns a guard that requests the stop if its thread panics: the others must not run without it.
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

/// The reason why a run cannot start.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A core is not available to this process.
    #[error("core {core} is not available: this process may use {allowed}")]
    Core {
        /// The core.
        core: usize,
        /// The cores that are available.
        allowed: String,
    },
    /// Not enough memory for the tables.
    #[error(
        "not enough memory for {tables} tables of {flows_max} flows: {reason}; use a smaller --max-flows"
    )]
    Memory {
        /// Number of tables.
        tables: usize,
        /// Maximum number of flows in each.
        flows_max: usize,
        /// The error of the kernel.
        reason: String,
    },
    /// A measurement cannot start.
    #[error("cannot start the measurement {name}: {reason}; run without it, or free memory first")]
    Measurement {
        /// Its name.
        name: &'static str,
        /// The error of the measurement.
        reason: String,
    },
    /// Not enough memory for the acquisition buffers.
    #[error("{0}")]
    Buffer(String),
    /// A permission is missing; the message ends with the command that grants it.
    #[error("{0}")]
    Permission(String),
    /// A scheduling policy is invalid or not available.
    #[error("{0}")]
    Schedule(String),
    /// A thread cannot start.
    #[error("cannot start a thread: {0}")]
    Thread(String),
}

impl EngineError {
    /// Creates the error for `tables` tables of `flows_max` flows that do not fit in memory.
    pub(crate) fn table_memory(tables: usize, flows_max: usize, error: &io::Error) -> Self {
        Self::Memory {
            tables,
            flows_max,
            reason: error.to_string(),
        }
    }

    /// Creates the error for a measurement that cannot start.
    pub(crate) fn measurement(name: &'static str, error: &io::Error) -> Self {
        Self::Measurement {
            name,
            reason: error.to_string(),
        }
    }
}

/// Checks that all of `cores` are available.
///
/// # Errors
/// Returns the first core that is not.
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
