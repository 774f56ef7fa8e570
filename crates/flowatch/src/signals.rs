//! Signal handling: the first SIGINT or SIGTERM ends the run in order, a further one exits at once.
//! SIGHUP ends it too if the process has a terminal; without one, it reopens the outputs. SIGUSR1 prints
//! the books.

use engine::{Stop, StopReason};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io};

/// A second signal this soon after the first is the same request: `timeout`, for one, signals both
/// the program and its process group.
const DUPLICATE_WINDOW: Duration = Duration::from_millis(100);

/// Whether the terminal has hung up.
static HUNG_UP: AtomicBool = AtomicBool::new(false);

/// Whether SIGINT or SIGTERM has been received.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// How often SIGUSR1 has been received.
static BOOKS_REQUESTS: AtomicU64 = AtomicU64::new(0);

/// How often SIGHUP has been received without a terminal.
static REOPEN_REQUESTS: AtomicU64 = AtomicU64::new(0);

/// What SIGHUP does in a process without a terminal. (With one, it means that the terminal has closed.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HangUp {
    /// It reopens the outputs: that is how a service is asked for it.
    Reopens,
    /// It ends the run in order.
    Ends,
}

/// Requests `stop` on the first signal. On a SIGINT or SIGTERM that comes [later](DUPLICATE_WINDOW),
/// restores the terminal and exits with 128 plus the signal number.
///
/// SIGHUP never exits at once and does not count as the first signal: when a terminal closes, the
/// kernel and the shell each send one, perhaps followed by SIGTERM, and exiting would lose records.
/// If SIGHUP is ignored (`nohup`), it stays ignored. SIGUSR2 has no effect: it must not end a run that an
/// operator only wants to ask something.
pub(crate) fn stop_on_signals(stop: &Stop, hang_up: HangUp) -> io::Result<()> {
    let mut handled = vec![SIGINT, SIGTERM, SIGUSR1, SIGUSR2];
    if !is_ignored(SIGHUP) {
        handled.push(SIGHUP);
    }
    // Asked now: a terminal that has closed is no longer found.
    let reopens = hang_up == HangUp::Reopens && !has_terminal();
    let mut signals = Signals::new(handled)?;
    let stop = stop.clone();
    hw::threads::spawn("signals", move || {
        let mut first: Option<Instant> = None;
        for signal in signals.forever() {
            match signal {
                SIGUSR1 => {
                    BOOKS_REQUESTS.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                SIGUSR2 => continue,
                SIGHUP if reopens => {
                    REOPEN_REQUESTS.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                SIGHUP => HUNG_UP.store(true, Ordering::Relaxed),
                _ if first.get_or_insert_with(Instant::now).elapsed() < DUPLICATE_WINDOW => {
                    INTERRUPTED.store(true, Ordering::Relaxed);
                }
                _ => {
                    crate::screen::restore();
                    std::process::exit(128 + signal);
                }
            }
            stop.request_for(StopReason::Signal(name(signal)));
        }
    })?;
    Ok(())
}

const fn name(signal: i32) -> &'static str {
    match signal {
        SIGINT => "SIGINT",
        SIGTERM => "SIGTERM",
        _ => "SIGHUP",
    }
}

/// Whether the process has a controlling terminal.
fn has_terminal() -> bool {
    fs::File::open("/dev/tty").is_ok()
}

/// Returns how often the books were requested.
pub(crate) fn books_requests() -> u64 {
    BOOKS_REQUESTS.load(Ordering::Relaxed)
}

/// Returns how often the outputs were to be reopened.
pub(crate) fn reopen_requests() -> u64 {
    REOPEN_REQUESTS.load(Ordering::Relaxed)
}

/// Whether the terminal has hung up; failing to write to it is then not an error.
pub(crate) fn is_hung_up() -> bool {
    HUNG_UP.load(Ordering::Relaxed)
}

/// Whether SIGINT or SIGTERM has been received; one more exits at once.
pub(crate) fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Whether this process inherited the signal as ignored.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
