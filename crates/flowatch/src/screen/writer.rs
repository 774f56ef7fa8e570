//! What the screen is written to.

use super::ON_ERROR;
use std::io::{self, Write};

/// What the system says of a terminal that has gone.
const EIO: i32 = 5;

/// A terminal. One that has gone takes everything and shows nothing: that is no fault of the run, and
/// there is nobody left to tell.
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

/// The stream that the screen is open on.
pub(super) fn writer(stream: u8) -> Box<dyn Write> {
    if stream == ON_ERROR {
        Box::new(Terminal(io::stderr()))
    } else {
        Box::new(Terminal(io::stdout()))
    }
}
