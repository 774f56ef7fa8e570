//! What a run is told, and why it may refuse to begin.

use flow::MeterOptions;
use port::Port;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::Decapsulate;

/// Which threads do what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Model {
    /// Each thread receives, reads headers and counts.
    #[default]
    RunToCompletion,
    /// Receiver threads read headers, monitor threads count; a ring joins them.
    Pipeline,
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
    /// Pipeline: monitors behind each receiver.
    pub monitors: usize,
    /// Pipeline: packets that the ring before a monitor holds.
    pub ring: usize,
    /// Whether packets are numbered over all queues of the link, by a counter that they share; else
    /// each queue numbers its own, and gaps count the packets of the queue.
    pub link_gaps: bool,
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
            monitors: 1,
            ring: 4096,
            link_gaps: false,
            stop: Stop::default(),
        }
    }
}

impl Options {
    /// Threads that a run over so many ports has.
    #[must_use]
    pub fn threads(&self, ports: usize) -> usize {
        match self.model {
            Model::RunToCompletion => ports,
            Model::Pipeline => ports * (1 + self.monitors),
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
            Model::Pipeline => ports * self.monitors,
        }
    }

    /// The core of the thread with this number.
    pub(crate) fn core(&self, thread: usize) -> Option<usize> {
        (!self.cores.is_empty()).then(|| self.cores[thread % self.cores.len()])
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
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
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
    /// The system refuses a thread.
    #[error("cannot start a thread: {0}")]
    Thread(String),
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

/// Keeps the calling thread on its core. The core was checked; should it have gone since, the
/// thread runs anywhere.
pub(crate) fn settle(core: Option<usize>) {
    if let Some(core) = core {
        let _ = hw::cores::pin(core);
    }
}
