//! The directories that files are made in.

use crate::error::ExportError;
use crate::output::Output;
use crate::rotation::PARTIAL;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// Makes a directory, not those that it lies in.
pub(crate) fn make(directory: &Path) -> Result<(), ExportError> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(ExportError::from_io(
            &directory.display().to_string(),
            error,
        )),
        _ => Ok(()),
    }
}

/// Whether files can be made in `directory`, so that a wrong one shows at once.
pub(crate) fn check(directory: &Path) -> Result<(), ExportError> {
    let probe = directory.join(format!(".flowatch-{}.{PARTIAL}", std::process::id()));
    let made = Output::create_new(&probe);
    // Whether it was made or was there: nobody wants it.
    let _ = fs::remove_file(&probe);
    match made {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(ExportError::from_io(
            &directory.display().to_string(),
            error,
        )),
        _ => Ok(()),
    }
}

/// Makes a directory that has vanished, not those that it lies in; if that cannot be, making a file
/// in it tells why.
pub(crate) fn make_again(directory: &Path) {
    if directory != Path::new("") && !directory.exists() {
        let _ = fs::create_dir(directory);
    }
}
