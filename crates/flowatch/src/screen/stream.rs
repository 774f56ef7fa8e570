//! The stream that the screen is on, and its writer.

use std::io::{self, IsTerminal, Write};

/// Standard output, as the stream of a screen.
const STDOUT: u8 = 1;

/// Standard error, as the stream of a screen.
pub(super) const STDERR: u8 = 2;

/// The error of a write to a terminal that has gone.
const EIO: i32 = 5;

/// A terminal. Writes to a terminal that has gone are discarded: the run should not fail, and nobody
/// is left to read a message.
struct Terminal<W>(W);

impl<W: Write> Write for Terminal<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.raw_os_error() == Some(EIO) => Ok(bytes.len()),
            result => result,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(error) if error.raw_os_error() == Some(EIO) => Ok(()),
            result => result,
        }
    }
}

/// Returns a writer to the stream that the screen is open on.
pub(super) fn writer(stream: u8) -> Box<dyn Write> {
    if stream == STDERR {
        Box::new(Terminal(io::stderr()))
    } else {
        Box::new(Terminal(io::stdout()))
    }
}

/// Returns the stream that is a terminal.
pub(super) fn stream() -> Option<u8> {
    if io::stdout().is_terminal() {
        Some(STDOUT)
    } else if io::stderr().is_terminal() {
        Some(STDERR)
    } else {
        None
    }
}
