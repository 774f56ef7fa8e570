//! Where the summary and the ground truth are written.

use super::failure::Failure;
use crate::standard_output;
use export::{ExportError, printable};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Prints on standard output, or on standard error if `on_standard_error`.
pub(super) fn print(text: &str, on_standard_error: bool) -> Result<(), Failure> {
    let text = match text.starts_with('{') {
        true => printable::json(text),
        false => printable::lines(text),
    };
    if on_standard_error {
        // Standard error may be closed.
        let _ = io::stderr().lock().write_all(text.as_bytes());
        return Ok(());
    }
    standard_output::print(&*text).map_err(|error| Failure::Message(error.to_string()))
}

/// Creates a file to write to; `-` is standard output.
pub(super) fn create(path: &Path) -> Result<Box<dyn Write>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(BufWriter::new(io::stdout())));
    }
    match File::create(path) {
        Ok(file) => Ok(Box::new(BufWriter::new(file))),
        Err(error) => Err(ExportError::from_io(&path.display().to_string(), error).into()),
    }
}
