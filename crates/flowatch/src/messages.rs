//! Messages for the user.

use std::io::{self, Write};

/// Prints one line on standard error.
pub(crate) fn warn(message: &str) {
    // Standard error may be closed.
    let _ = writeln!(io::stderr().lock(), "flowatch: {message}");
}
