//! Explains how to gain read permission for a file: on the file itself, or on a directory of its path.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Maximum number of symbolic links to follow; more are treated as a loop.
const LINKS_MAX: usize = 40;

/// Returns one line that says which permission is missing for an unreadable file and how to grant it.
#[must_use]
pub fn permission_hint(path: &Path) -> String {
    match unsearchable_directory(path) {
        Some(directory) => {
            let directory = directory.display();
            format!(
                "no permission to enter the directory {directory}; run as its owner, or: sudo chmod a+x '{directory}'"
            )
        }
        None => format!(
            "no permission to read the file; run as its owner, or: sudo chmod a+r '{}'",
            path.display()
        ),
    }
}

/// Returns the directory of the path without search permission, if there is one.
fn unsearchable_directory(path: &Path) -> Option<PathBuf> {
    path.metadata()
        .is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
        .then_some(())?;
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        // Entries of a directory are visible only with search permission on it.
        let deepest = path
            .ancestors()
            .map(or_current_directory)
            .find(|ancestor| ancestor.symlink_metadata().is_ok())?;
        let Ok(target) = deepest.read_link() else {
            return deepest
                .is_dir()
                .then(|| deepest.to_owned())
                .filter(|deepest| deepest != &path);
        };
        let parent = deepest
            .parent()
            .map_or(Path::new("."), or_current_directory);
        let rest = path.strip_prefix(deepest).unwrap_or(Path::new(""));
        path = parent
            .join(target)
            .components()
            .chain(rest.components())
            .collect();
    }
    None
}

/// Replaces an empty path by the current directory.
fn or_current_directory(path: &Path) -> &Path {
    match path.as_os_str().is_empty() {
        true => Path::new("."),
        false => path,
    }
}
