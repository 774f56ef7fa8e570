//! SIGINT, SIGTERM and SIGHUP: the first of them ends the run in order, a further SIGINT or SIGTERM
//! leaves at once.

use engine::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

/// What comes so soon after the first signal is the same wish: who ends a program and its group of
/// processes (`timeout` does) sends it two.
const SAME_WISH: Duration = Duration::from_millis(100);

/// Whether the terminal has hung up.
static HUNG_UP: AtomicBool = AtomicBool::new(false);

/// Whether SIGINT or SIGTERM has come.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Asks `stop` on the first signal; exits with 128 + the signal's number on a SIGINT or SIGTERM that
/// comes [later](SAME_WISH), the terminal put back. A SIGHUP never leaves at once, nor is it the first: where a
/// terminal is closed, the kernel and the shell both send one, the program may be told to end
/// besides, and records would be lost. Where it is ignored (`nohup`), it stays so.
pub(crate) fn stop_on_signals(stop: &Stop) -> io::Result<()> {
    let mut wanted = vec![SIGINT, SIGTERM];
    if !is_ignored(SIGHUP) {
        wanted.push(SIGHUP);
    }
    let mut signals = Signals::new(wanted)?;
    let stop = stop.clone();
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            let mut first: Option<Instant> = None;
            for signal in signals.forever() {
                if signal == SIGHUP {
                    HUNG_UP.store(true, Ordering::Relaxed);
                } else if first.get_or_insert_with(Instant::now).elapsed() < SAME_WISH {
                    INTERRUPTED.store(true, Ordering::Relaxed);
                } else {
                    crate::screen::restore();
                    std::process::exit(128 + signal);
                }
                stop.request();
            }
        })?;
    Ok(())
}

/// Whether the terminal has hung up: what cannot be said there any more is no fault.
pub(crate) fn is_hung_up() -> bool {
    HUNG_UP.load(Ordering::Relaxed)
}

/// Whether SIGINT or SIGTERM has come: one more leaves at once.
pub(crate) fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Whether whoever started the program had a signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
