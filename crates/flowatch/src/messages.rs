//! Messages for the user.

use export::printable;
use std::io::{self, Write};

/// Prints one line on standard error. Names in it may be anybody's, so nothing in it acts on a terminal.
pub(crate) fn warn(message: &str) {
    let message = printable::message(message);
    // Standard error may be closed.
    let _ = writeln!(io::stderr().lock(), "flowatch: {message}");
}

/// Prints one line on standard error for each message.
pub(crate) fn warn_all(messages: impl IntoIterator<Item = String>) {
    for message in messages {
        warn(&message);
    }
}
