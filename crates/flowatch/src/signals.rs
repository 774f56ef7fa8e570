//! SIGINT and SIGTERM: the first ends the run in order, a second one leaves at once.

use engine::worker::Stop;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;

/// Asks `stop` on the first signal; exits with 128 + the signal's number on the second.
pub(crate) fn stop_on_signals(stop: &Stop) -> io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        // Runs before the flag is set, so it finds it set only from the second signal on.
        flag::register_conditional_shutdown(signal, 128 + signal, stop.flag())?;
        flag::register(signal, stop.flag())?;
    }
    Ok(())
}
