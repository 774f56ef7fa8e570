//! Creates and checks the directories of output files.

use crate::error::ExportError;
use crate::output::Output;
use crate::storage::{self, PARTIAL_EXTENSION};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// Creates a directory, but not its parents.
pub(crate) fn create(directory: &Path) -> Result<(), ExportError> {
    match storage::create_directory(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(ExportError::from_io(
            &directory.display().to_string(),
            error,
        )),
        _ => Ok(()),
    }
}

/// Checks whether files can be created in `directory`, so that errors show up at the start.
pub(crate) fn check_writable(directory: &Path) -> Result<(), ExportError> {
    let probe = directory.join(format!(
        ".flowatch-{}.{PARTIAL_EXTENSION}",
        std::process::id()
    ));
    let made = Output::create_new(&probe);
    // Remove the probe file, whether it was created or existed.
    let _ = fs::remove_file(&probe);
    match made {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(ExportError::from_io(
            &directory.display().to_string(),
            error,
        )),
        _ => Ok(()),
    }
}

/// Creates a directory again that has disappeared, but not its parents. Creating a file in it
/// reports any error.
pub(crate) fn recreate(directory: &Path) {
    if directory != Path::new("") && !directory.exists() {
        let _ = storage::create_directory(directory);
    }
}
