//! Writes whole files, so that readers never see a partial one.

use crate::error::ExportError;
use crate::rotation::PARTIAL_EXTENSION;
use std::fs;
use std::path::Path;

/// Writes a temporary file and renames it.
pub(super) fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), ExportError> {
    let mut partial = path.to_owned();
    partial.add_extension(PARTIAL_EXTENSION);
    let written = fs::write(&partial, bytes).and_then(|()| fs::rename(&partial, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&partial);
        ExportError::from_io(&path.display().to_string(), error)
    })
}
