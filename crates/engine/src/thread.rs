//! Starting, placing and joining the threads of a run. A thread that panics or cannot start stops the
//! others.

use crate::options::{EngineError, Options};
use crate::report::QueueReport;
use hw::schedule::Schedule;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};

/// Holds the threads of a run back until all of them have started: none begins to read, or waits for
/// another, while the kernel may still refuse that other.
#[derive(Debug, Default)]
pub(crate) struct StartGate {
    /// Whether the threads may begin, once that is decided.
    decision: Mutex<Option<bool>>,
    decided: Condvar,
}

impl StartGate {
    /// Lets all threads begin, now that the last one has started.
    pub(crate) fn open(&self) {
        self.decide(true);
    }

    /// Ends all threads that wait: one of them could not start. Has no effect on an open gate.
    pub(crate) fn abandon(&self) {
        self.decide(false);
    }

    fn decide(&self, begins: bool) {
        let mut decision = self.decision.lock().unwrap_or_else(PoisonError::into_inner);
        decision.get_or_insert(begins);
        self.decided.notify_all();
    }

    /// Waits for the decision, and returns whether to begin.
    pub(crate) fn wait(&self) -> bool {
        let decision = self.decision.lock().unwrap_or_else(PoisonError::into_inner);
        let decision = self.decided.wait_while(decision, |it| it.is_none());
        *decision.unwrap_or_else(PoisonError::into_inner) == Some(true)
    }
}

/// Starts a thread in `scope`. It begins its work when `gate` opens, and returns `None` if that is
/// abandoned.
///
/// # Errors
/// Fails if the thread cannot start; the gate is then abandoned and the run stopped.
pub(crate) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    options: &'scope Options,
    gate: &'scope StartGate,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, Option<T>>, EngineError> {
    let guarded = move || {
        let _guard = options.stop.on_panic();
        gate.wait().then(work)
    };
    hw::threads::spawn_scoped(scope, name, guarded).map_err(|error| {
        gate.abandon();
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
