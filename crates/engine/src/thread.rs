//! Starting and joining the threads of a run. A thread that panics or cannot start stops the others.

use crate::options::{EngineError, Options};
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
