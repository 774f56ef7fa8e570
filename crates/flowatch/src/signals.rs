//! Signal handling: the first SIGINT or SIGTERM ends the run in order, a further one ends it without
//! waiting for anything. SIGHUP ends it too if the process has a terminal; without one, it reopens the
//! outputs. SIGUSR1 prints the books.

use engine::{Stop, StopReason};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

/// A second signal this soon after the first is the same request: `timeout`, for one, signals both
/// the program and its process group.
const DUPLICATE_WINDOW: Duration = Duration::from_millis(100);

/// Whether the terminal has hung up.
static HUNG_UP: AtomicBool = AtomicBool::new(false);

/// How long the program may take from the second signal to its exit. It then exits as it is.
const EXIT_GRACE: Duration = Duration::from_secs(4);

/// The signal that ends the program without waiting; 0 if there was none.
static EXIT_SIGNAL: AtomicI32 = AtomicI32::new(0);

/// See [`end_with_books`].
static ENDS_WITH_BOOKS: AtomicBool = AtomicBool::new(false);

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

/// Requests `stop` on the first signal. A SIGINT or SIGTERM that comes [later](DUPLICATE_WINDOW) exits
/// with 128 plus the signal number, as [`exit_soon`] says.
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
                    exit_soon(signal);
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

/// Lets the second signal print the books and close what can be closed, for a program that ends
/// when [`exit_signal`] is set.
pub(crate) fn end_with_books() {
    ENDS_WITH_BOOKS.store(true, Ordering::Relaxed);
}

/// Exits with 128 plus the signal number: at once, or, if the program [ends with its
/// books](end_with_books), at the third signal or after [`EXIT_GRACE`].
pub(crate) fn exit_soon(signal: i32) {
    let exit = move || {
        crate::screen::restore();
        std::process::exit(128 + signal);
    };
    let is_first = EXIT_SIGNAL.swap(signal, Ordering::Relaxed) == 0;
    if !is_first || !ENDS_WITH_BOOKS.load(Ordering::Relaxed) {
        exit();
    }
    let wait = move || {
        thread::sleep(EXIT_GRACE);
        exit();
    };
    if hw::threads::spawn("exit", wait).is_err() {
        exit();
    }
}

/// Returns the signal that ends the program without waiting, if there was one.
pub(crate) fn exit_signal() -> Option<u8> {
    u8::try_from(EXIT_SIGNAL.load(Ordering::Relaxed))
        .ok()
        .filter(|&signal| signal > 0)
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
