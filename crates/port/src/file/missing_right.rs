//! What to do where a right to read a file is missing: of the file, or of a directory on the way to it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Symbolic links that are followed: more are a circle.
const LINKS_MAX: usize = 40;

/// One line that says what to do so that a file, which may not be read, may be.
#[must_use]
pub fn missing_right(path: &Path) -> String {
    match closed_directory(path) {
        Some(directory) => {
            let directory = directory.display();
            format!(
                "no permission to enter the directory {directory}; run as its owner, or: sudo chmod a+x '{directory}'"
            )
        }
        None => format!(
            "no permission to read it; run as its owner, or: sudo chmod a+r '{}'",
            path.display()
        ),
    }
}

/// The directory on the way to a file that may not be entered, if there is one.
fn closed_directory(path: &Path) -> Option<PathBuf> {
    path.metadata()
        .is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
        .then_some(())?;
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        // What is in a directory is seen by those who may enter it.
        let seen = path
            .ancestors()
            .map(or_here)
            .find(|place| place.symlink_metadata().is_ok())?;
        let Ok(target) = seen.read_link() else {
            return seen
                .is_dir()
                .then(|| seen.to_owned())
                .filter(|seen| seen != &path);
        };
        let around = seen.parent().map_or(Path::new("."), or_here);
        let beyond = path.strip_prefix(seen).unwrap_or(Path::new(""));
        path = around
            .join(target)
            .components()
            .chain(beyond.components())
            .collect();
    }
    None
}

/// A path, which is the directory at hand where it is empty.
fn or_here(path: &Path) -> &Path {
    match path.as_os_str().is_empty() {
        true => Path::new("."),
        false => path,
    }
}
