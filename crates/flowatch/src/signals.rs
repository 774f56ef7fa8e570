//! SIGINT and SIGTERM: the first ends the run in order, a second one leaves at once.

use engine::Stop;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::{io, thread};

/// Asks `stop` on the first signal; exits with 128 + the signal's number on the second, the
/// terminal put back.
pub(crate) fn stop_on_signals(stop: &Stop) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let stop = stop.clone();
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for (number, signal) in signals.forever().enumerate() {
                if number > 0 {
                    crate::screen::restore();
                    std::process::exit(128 + signal);
                }
                stop.request();
            }
        })?;
    Ok(())
}
