//! Starting, placing and joining the threads of a run. A thread that panics or cannot start stops the
//! others.

use crate::options::{EngineError, Options};
use crate::report::QueueReport;
use hw::schedule::Schedule;
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// Starts a thread in `scope`.
///
/// # Errors
/// Fails if the thread cannot start; the run is then stopped.
pub(crate) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    options: &'scope Options,
    name: String,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, EngineError> {
    let guarded = move || {
        let _guard = options.stop.on_panic();
        work()
    };
    Builder::new()
        .name(name)
        .spawn_scoped(scope, guarded)
        .map_err(|error| {
            options.stop.request();
            EngineError::Thread(error.to_string())
        })
}

/// Waits for a thread and returns its result, or propagates its panic.
pub(crate) fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The core and scheduling policy of a thread.
#[derive(Debug, Default)]
pub(crate) struct ThreadPlacement {
    pub(crate) core: Option<usize>,
    pub(crate) schedule: Schedule,
    /// Describes a policy that could not be applied.
    pub(crate) fault: Option<String>,
}

impl ThreadPlacement {
    /// Applies the core and policy of thread number `thread` to the calling thread. They were checked
    /// before; a policy that the kernel now rejects is a fault, and the thread continues without it.
    pub(crate) fn apply(options: &Options, thread: usize) -> Self {
        let core = options.core(thread);
        let mut schedule = options.schedule(thread);
        if let Some(core) = core {
            let _ = hw::cores::pin(core);
        }
        let mut fault = None;
        if schedule != Schedule::Other
            && let Err(error) = schedule.apply()
        {
            fault = Some(format!("a thread continues without {schedule}: {error}"));
            schedule = Schedule::Other;
        }
        Self {
            core,
            schedule,
            fault,
        }
    }

    /// Returns a copy without the fault, for another task of the same thread.
    pub(crate) fn for_task(&self) -> Self {
        Self {
            fault: None,
            ..*self
        }
    }

    /// Returns a report with the placement, overruns and CPU time of the calling thread.
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
