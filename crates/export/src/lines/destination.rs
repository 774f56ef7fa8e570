//! The destination of lines: a single file or stream, or a sequence of files.

use crate::directory;
use crate::error::ExportError;
use crate::options::ExistingFile;
use crate::output::{Compression, Output, check_writable, existing, is_pipe};
use crate::rotation::{FilePaths, FileWindow, Rotation, create_stamped};
use crate::target::Target;
use std::fmt;
use std::path::{Path, PathBuf};

/// A block is written when it has this many bytes: large enough that the cost of the system call
/// per record is negligible, small enough for the L2 cache.
pub(super) const BLOCK_BYTES: usize = 256 * 1024;

/// The destination of lines.
#[derive(Debug)]
pub(crate) enum Destination {
    /// A single file, whose name determines the compression, or standard output, which has no path.
    Single {
        path: Option<PathBuf>,
        compression: Option<Compression>,
        existing: ExistingFile,
    },
    /// Files `stem-TIME.suffix` in a directory.
    Rotating {
        directory: PathBuf,
        stem: String,
        suffix: String,
        compression: Option<Compression>,
        rotation: Rotation,
    },
    #[cfg(test)]
    Disk(crate::output::test_disk::TestDisk),
}

impl Destination {
    /// Creates the destination for a file or standard output.
    ///
    /// # Errors
    /// Only files can be rotated, and a rotated target must not be a directory.
    pub(crate) fn new(
        target: &Target,
        rotation: Option<Rotation>,
        existing: ExistingFile,
    ) -> Result<Self, ExportError> {
        let compression = target.path().and_then(Compression::from_path);
        let Some(rotation) = rotation else {
            return Ok(Self::Single {
                path: target.path().map(Path::to_owned),
                compression,
                existing,
            });
        };
        let path = target.path().ok_or_else(|| ExportError::CannotRotate {
            target: target.to_string(),
        })?;
        let is_directory = || ExportError::IsDirectory {
            target: path.display().to_string(),
        };
        let name = path.file_name().ok_or_else(is_directory)?.to_string_lossy();
        if path.is_dir() {
            return Err(is_directory());
        }
        // A leading dot hides a file; it does not start the suffix.
        let end = name.get(1..).and_then(|name| name.find('.'));
        let (stem, suffix) = name.split_at(end.map_or(name.len(), |at| at + 1));
        let directory = path.parent().filter(|parent| *parent != Path::new(""));
        Ok(Self::Rotating {
            directory: directory.unwrap_or_else(|| Path::new(".")).to_owned(),
            stem: stem.to_owned(),
            suffix: suffix.to_owned(),
            compression,
            rotation,
        })
    }

    /// Whether files are rotated.
    pub(super) const fn rotates(&self) -> bool {
        matches!(self, Self::Rotating { .. })
    }

    /// Whether it is a named pipe.
    pub(super) fn is_pipe(&self) -> bool {
        matches!(self, Self::Single { path: Some(path), .. } if is_pipe(path))
    }

    /// Checks whether files can be created there; an existing file is left unchanged. A file that
    /// begins with `start` can be continued: returns how many bytes it has.
    pub(crate) fn check(&self, start: &[u8]) -> Result<Option<u64>, ExportError> {
        match self {
            Self::Rotating { directory, .. } => directory::check_writable(directory).map(|()| None),
            Self::Single {
                path: Some(path),
                compression,
                existing,
            } => {
                check_writable(path)?;
                existing::check(path, *existing, compression.is_none().then_some(start))
            }
            _ => Ok(None),
        }
    }

    /// Returns the window of the file that a record of this time begins after a file with `window`.
    pub(super) fn next_window(&self, window: &FileWindow, time_ns: i64) -> FileWindow {
        match self {
            Self::Rotating { rotation, .. } => window.next(rotation, time_ns),
            _ => FileWindow::UNBOUNDED,
        }
    }

    /// Returns the window of the file after a full file with `window`.
    pub(super) fn window_after_full(&self, window: &FileWindow) -> FileWindow {
        match self {
            Self::Rotating { rotation, .. } => window.after_full(rotation),
            _ => FileWindow::UNBOUNDED,
        }
    }

    /// Creates the directory again if it has disappeared.
    pub(super) fn recreate_directory(&self) {
        match self {
            Self::Single {
                path: Some(path), ..
            } => directory::recreate(path.parent().unwrap_or(path)),
            Self::Rotating { directory, .. } => directory::recreate(directory),
            _ => {}
        }
    }

    /// Returns how much to buffer for a file that has `bytes_written` bytes.
    pub(super) fn block_bytes(&self, bytes_written: u64) -> usize {
        match self {
            Self::Rotating {
                rotation: Rotation {
                    bytes: Some(bytes), ..
                },
                compression: None,
                ..
            } => usize::try_from(bytes.saturating_sub(bytes_written))
                .map_or(BLOCK_BYTES, |room| room.min(BLOCK_BYTES)),
            _ => BLOCK_BYTES,
        }
    }

    /// Whether a file of `bytes_written` bytes is full.
    pub(super) fn is_full(&self, bytes_written: u64) -> bool {
        match self {
            Self::Rotating { rotation, .. } => {
                rotation.bytes.is_some_and(|bytes| bytes_written >= bytes)
            }
            _ => false,
        }
    }

    /// Creates the file, and returns its temporary and final path if it is renamed when complete.
    /// A single file that is created again during the run, because it was moved or removed, replaces
    /// none.
    pub(super) fn create(
        &mut self,
        stamp_ns: i64,
        start: &[u8],
    ) -> Result<(Output, Option<FilePaths>), ExportError> {
        match self {
            Self::Single {
                path,
                compression,
                existing,
            } => {
                let output = Output::open(path.as_deref(), *existing, start)?;
                *existing = ExistingFile::Append;
                Ok((output.compress(*compression)?, None))
            }
            Self::Rotating {
                directory,
                stem,
                suffix,
                compression,
                ..
            } => {
                let (output, names) = create_stamped(directory, stem, suffix, stamp_ns)?;
                Ok((output.compress(*compression)?, Some(names)))
            }
            #[cfg(test)]
            Self::Disk(disk) => Ok((disk.output(), None)),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single {
                path: Some(path), ..
            } => path.display().fmt(formatter),
            Self::Single { path: None, .. } => Target::Stdout.fmt(formatter),
            Self::Rotating { directory, .. } => directory.display().fmt(formatter),
            #[cfg(test)]
            Self::Disk(_) => formatter.write_str("disk"),
        }
    }
}
