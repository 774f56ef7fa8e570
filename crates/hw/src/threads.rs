//! Starting threads. The kernel refuses a thread beyond the limits of its user or control group, so a
//! start can fail at any time; the functions of the standard library panic then.

use std::io;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// Starts a thread.
///
/// # Errors
/// Fails if the kernel refuses the thread. The message names it and says what to do.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let thread = Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(|error| explain(name, &error))
}

/// Starts a thread in a scope.
///
/// # Errors
/// As for [`spawn`].
pub fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    let thread = Builder::new()
        .name(name.to_owned())
        .spawn_scoped(scope, work);
    thread.map_err(|error| explain(name, &error))
}

fn explain(name: &str, error: &io::Error) -> io::Error {
    io::Error::new(
        error.kind(),
        format!(
            "cannot start the thread {name}: {error}; allow more threads (ulimit -u, TasksMax= of a systemd unit, \
             pids.max of a control group) or use fewer (--queues, --monitors, -o)"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_has_its_name_and_an_error_names_it() {
        let name = || std::thread::current().name().map(str::to_owned);
        let thread = spawn("writer", name).unwrap();
        assert_eq!(thread.join().unwrap().as_deref(), Some("writer"));
        let scoped = std::thread::scope(|scope| {
            let thread = spawn_scoped(scope, "monitor-3", name).unwrap();
            thread.join().unwrap()
        });
        assert_eq!(scoped.as_deref(), Some("monitor-3"));
        let error = explain("monitor-3", &io::ErrorKind::WouldBlock.into());
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(error.to_string().contains("the thread monitor-3"));
    }
}
