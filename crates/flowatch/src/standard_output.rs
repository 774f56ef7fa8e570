//! Printing on standard output.

use crate::signals;
use std::io::{self, ErrorKind, Write};

/// Prints `text`. Succeeds if the reader has closed the pipe or the terminal has hung up.
///
/// # Errors
/// Any other write error.
pub(crate) fn print(text: impl AsRef<[u8]>) -> io::Result<()> {
    let mut output = io::stdout().lock();
    let written = output.write_all(text.as_ref());
    match written.and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe || signals::is_hung_up() => Ok(()),
        result => result.map_err(|error| {
            let what = match error.kind() {
                ErrorKind::StorageFull => "no space left on the device; make room".to_owned(),
                _ => error.to_string(),
            };
            io::Error::new(error.kind(), format!("standard output: {what}"))
        }),
    }
}
