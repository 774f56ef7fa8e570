//! Messages for the user.

use std::io::{self, Write};

/// Prints one line on standard error.
pub(crate) fn warn(message: &str) {
    // Standard error may be closed.
    let _ = writeln!(io::stderr().lock(), "flowatch: {message}");
}

/// Prints one line on standard error for each message.
pub(crate) fn warn_all(messages: impl IntoIterator<Item = String>) {
    for message in messages {
        warn(&message);
    }
}
