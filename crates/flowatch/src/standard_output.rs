//! Printing on standard output.

use crate::messages::warn;
use crate::signals;
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long the reader of the last text may accept nothing before a line says so.
const STALL_WARNING: Duration = Duration::from_secs(3);

/// How long it may accept nothing after a signal.
const SIGNAL_LIMIT: Duration = Duration::from_secs(10);

/// The same after the second signal.
const EXIT_LIMIT: Duration = Duration::from_millis(500);

/// How often the waiting thread looks for signals.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Prints the last text of a run, on standard error if `on_standard_error`. A reader may take its time
/// (a pager), but not after a signal.
///
/// # Errors
/// A write error, or the reader accepted nothing for too long after a signal.
pub(crate) fn print_at_end(text: String, on_standard_error: bool) -> io::Result<()> {
    let (sender, printed) = channel();
    let text = Arc::new(text);
    let shared = Arc::clone(&text);
    let write = move |text: &str| {
        if on_standard_error {
            // Standard error may be closed.
            let _ = io::stderr().lock().write_all(text.as_bytes());
            return Ok(());
        }
        print(text)
    };
    let work = move || {
        // The receiver may have given up.
        let _ = sender.send(write(&shared));
    };
    if thread::Builder::new()
        .name("printer".into())
        .spawn(work)
        .is_err()
    {
        return write(&text);
    }
    let started = Instant::now();
    let (mut interrupted, mut exiting) = (None, None);
    let mut is_reported = false;
    loop {
        match printed.recv_timeout(POLL_INTERVAL) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Disconnected) => return Err(ErrorKind::BrokenPipe.into()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let is_over = |is_set: bool, since: &mut Option<Instant>, limit| {
            is_set && since.get_or_insert_with(Instant::now).elapsed() >= limit
        };
        if is_over(signals::is_interrupted(), &mut interrupted, SIGNAL_LIMIT)
            || is_over(signals::exit_signal().is_some(), &mut exiting, EXIT_LIMIT)
        {
            let text = "the reader of the summary accepts nothing: it is lost";
            return Err(io::Error::new(ErrorKind::TimedOut, text));
        }
        if !is_reported && !on_standard_error && started.elapsed() >= STALL_WARNING {
            is_reported = true;
            warn("the run has ended, but the summary waits for the reader of standard output");
        }
    }
}

/// Prints `text`. Succeeds if the reader has closed the pipe or the terminal has hung up.
///
/// # Errors
/// Any other write error.
pub(crate) fn print(text: impl AsRef<[u8]>) -> io::Result<()> {
    let mut output = io::stdout().lock();
    let written = output.write_all(text.as_ref());
    match written.and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe || signals::is_hung_up() => Ok(()),
        result => result.map_err(|error| {
            let what = match error.kind() {
                ErrorKind::StorageFull => "no space left on the device; make room".to_owned(),
                _ => error.to_string(),
            };
            io::Error::new(error.kind(), format!("standard output: {what}"))
        }),
    }
}
