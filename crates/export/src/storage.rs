//! The steps that put a file onto its device, in the order that survives a power failure: its data
//! before it gets its lasting name, and the name before it counts as finished.
//!
//! All of them pass through this module, where tests check the order and let each of them fail.

use crate::activity::while_syncing;
use crate::error::ExportError;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// Extension of a file that is not complete yet.
pub(crate) const PARTIAL_EXTENSION: &str = "partial";

/// Waits until the device has the data of `file`.
///
/// # Errors
/// The device did not take them all. They may be gone even where a later attempt succeeds.
pub(crate) fn sync_data(file: &File, path: &Path) -> Result<(), ExportError> {
    step(&Step::SyncData(path))
        .and_then(|()| ignore_unsupported(while_syncing(|| file.sync_data())))
        .map_err(|error| sync_error(path, error))
}

/// Waits until the device has the name of `path` in its directory.
///
/// # Errors
/// The directory cannot be read or synced.
pub(crate) fn sync_parent(path: &Path) -> Result<(), ExportError> {
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    let directory = parent.unwrap_or_else(|| Path::new("."));
    step(&Step::SyncDirectory(directory))
        .and_then(|()| File::open(directory))
        .and_then(|opened| ignore_unsupported(while_syncing(|| opened.sync_all())))
        .map_err(|error| sync_error(directory, error))
}

/// Gives the file or directory `from`, whose data are synced, its lasting name, and syncs that.
///
/// # Errors
/// It cannot be renamed, or the directory cannot be synced.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), ExportError> {
    step(&Step::Rename(from, to))
        .and_then(|()| fs::rename(from, to))
        .map_err(|error| ExportError::from_io(&to.display().to_string(), error))?;
    sync_parent(to)
}

/// Creates a directory, whose name is then on the device.
///
/// # Errors
/// It exists, or cannot be created.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    fs::create_dir(path)?;
    // What is written into it is checked; without this the name may be missing after a power failure.
    sync_parent(path).map_err(io::Error::other)
}

/// Writes a whole file, so that neither a reader nor a power failure leaves a part of it: a temporary
/// file with `.partial` at the end of its name is written, synced, and renamed.
///
/// # Errors
/// The file cannot be written, synced or renamed; it is then as it was.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), ExportError> {
    let mut partial = path.to_owned();
    partial.add_extension(PARTIAL_EXTENSION);
    let written = File::create(&partial)
        .and_then(|mut file| {
            step(&Step::Write(&partial))?;
            file.write_all(bytes)?;
            Ok(file)
        })
        .map_err(|error| ExportError::from_io(&path.display().to_string(), error))
        .and_then(|file| sync_data(&file, &partial))
        .and_then(|()| rename(&partial, path));
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written
}

/// Some file systems (over a network, in user space) have nothing to sync.
fn ignore_unsupported(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::InvalidInput | ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        result => result,
    }
}

fn sync_error(path: &Path, error: io::Error) -> ExportError {
    let target = path.display().to_string();
    match ExportError::from_io(&target, error) {
        ExportError::Other { target, source } => ExportError::NotStored { target, source },
        known => known,
    }
}

/// A step that changes what a power failure leaves.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "only tests look at the steps"))]
enum Step<'a> {
    /// Data are written.
    Write(&'a Path),
    SyncData(&'a Path),
    SyncDirectory(&'a Path),
    Rename(&'a Path, &'a Path),
}

#[cfg(not(test))]
#[expect(clippy::unnecessary_wraps, reason = "tests let a step fail")]
const fn step(_: &Step<'_>) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
use recorder::step;

/// Says that data are written to `path`.
pub(crate) fn note_write(path: &Path) {
    // Writes have their own errors.
    let _ = step(&Step::Write(path));
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod recorder {
    //! Records the steps of the current thread, and lets one of them fail.

    use super::Step;
    use std::cell::RefCell;
    use std::collections::HashMap;
    use std::io;
    use std::path::{Path, PathBuf};

    thread_local! {
        static STEPS: RefCell<Vec<(&'static str, PathBuf, PathBuf)>> = const { RefCell::new(Vec::new()) };
        static FAILING: RefCell<Option<&'static str>> = const { RefCell::new(None) };
    }

    pub(super) fn step(step: &Step<'_>) -> io::Result<()> {
        let (name, path, to) = match *step {
            Step::Write(path) => ("write", path, Path::new("")),
            Step::SyncData(path) => ("sync data", path, Path::new("")),
            Step::SyncDirectory(path) => ("sync directory", path, Path::new("")),
            Step::Rename(from, to) => ("rename", from, to),
        };
        STEPS.with_borrow_mut(|steps| steps.push((name, path.to_owned(), to.to_owned())));
        if FAILING.with_borrow(|failing| *failing == Some(name)) {
            // What a failing device reports: EIO.
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok(())
    }

    /// Lets every step of this name fail on this thread, or none.
    pub(super) fn fail(name: Option<&'static str>) {
        FAILING.set(name);
    }

    /// Returns the files that have a lasting name and would survive a power failure now, and forgets
    /// the steps. A name survives if its directory was synced after it was given.
    ///
    /// # Panics
    /// If a file was renamed before its data were synced: after a power failure it would be empty.
    pub(super) fn survivors() -> Vec<PathBuf> {
        let steps = STEPS.take();
        // Whether the data of each file are on the device, and whether its name is.
        #[derive(Default)]
        struct State {
            data: bool,
            name: bool,
            /// The directory that was renamed with the file in it.
            renamed: Option<PathBuf>,
        }
        let mut files: HashMap<PathBuf, State> = HashMap::new();
        for (name, path, to) in steps {
            match name {
                "write" => files.entry(path).or_default().data = false,
                "sync data" => files.entry(path).or_default().data = true,
                "sync directory" => {
                    for (file, state) in &mut files {
                        let named = state.renamed.as_ref().unwrap_or(file);
                        state.name |= named.parent() == Some(&path);
                    }
                }
                "rename" => {
                    // A directory is renamed with the files in it.
                    let moved: Vec<PathBuf> = files
                        .keys()
                        .filter(|file| file.starts_with(&path))
                        .cloned()
                        .collect();
                    for file in moved {
                        let state = files.remove(&file).unwrap();
                        assert!(state.data, "{file:?} is renamed before its data are synced");
                        let rest = file.strip_prefix(&path).unwrap();
                        let is_file = rest == Path::new("");
                        assert!(
                            is_file || state.name,
                            "{file:?}: its directory is not synced"
                        );
                        let renamed = (!is_file).then(|| to.clone());
                        let new = if is_file { to.clone() } else { to.join(rest) };
                        let state = State {
                            data: true,
                            name: false,
                            renamed,
                        };
                        files.insert(new, state);
                    }
                }
                _ => unreachable!(),
            }
        }
        let kept = files
            .into_iter()
            .filter(|(_, state)| state.data && state.name);
        let mut kept: Vec<PathBuf> = kept.map(|(path, _)| path).collect();
        kept.retain(|path| !path.to_string_lossy().contains(".partial"));
        kept.sort();
        kept
    }
}
