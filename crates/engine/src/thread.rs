//! The threads of a run: a thread that panics, or cannot start, stops the others.

use crate::options::{EngineError, Options};
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// Starts a thread.
///
/// # Errors
/// When it cannot start; the others are then asked to stop.
pub(crate) fn start<'scope, T: Send + 'scope>(
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

/// What a thread brings home; a thread that panicked brings its panic here.
pub(crate) fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
