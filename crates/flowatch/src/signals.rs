//! Signal handling: the first SIGINT, SIGTERM or SIGHUP ends the run in order, a further SIGINT or
//! SIGTERM exits at once.

use engine::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

/// A second signal this soon after the first is the same request: `timeout`, for one, signals both
/// the program and its process group.
const DUPLICATE_WINDOW: Duration = Duration::from_millis(100);

/// Whether the terminal has hung up.
static HUNG_UP: AtomicBool = AtomicBool::new(false);

/// Whether SIGINT or SIGTERM has been received.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Requests `stop` on the first signal. On a SIGINT or SIGTERM that comes [later](DUPLICATE_WINDOW),
/// restores the terminal and exits with 128 plus the signal number.
///
/// SIGHUP never exits at once and does not count as the first signal: when a terminal closes, the
/// kernel and the shell each send one, perhaps followed by SIGTERM, and exiting would lose records.
/// If SIGHUP is ignored (`nohup`), it stays ignored.
pub(crate) fn stop_on_signals(stop: &Stop) -> io::Result<()> {
    let mut handled = vec![SIGINT, SIGTERM];
    if !is_ignored(SIGHUP) {
        handled.push(SIGHUP);
    }
    let mut signals = Signals::new(handled)?;
    let stop = stop.clone();
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            let mut first: Option<Instant> = None;
            for signal in signals.forever() {
                if signal == SIGHUP {
                    HUNG_UP.store(true, Ordering::Relaxed);
                } else if first.get_or_insert_with(Instant::now).elapsed() < DUPLICATE_WINDOW {
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
