//! Where lines go: one file or stream, or files that follow each other.

use super::BLOCK_BYTES;
use crate::directory;
use crate::error::ExportError;
use crate::output::{Compression, Output, check_file};
use crate::rotation::{Names, Rotation, Slot, create_stamped};
use crate::target::Target;
use std::fmt;
use std::path::{Path, PathBuf};

/// Where lines go.
#[derive(Debug)]
pub(crate) enum Place {
    /// One file or stream, compressed if its name says so.
    Single {
        target: Target,
        compression: Option<Compression>,
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
    Disk(crate::output::limited::LimitedDisk),
}

impl Place {
    /// The place of a target.
    ///
    /// # Errors
    /// Standard output cannot rotate.
    pub(crate) fn new(target: &Target, rotation: Option<Rotation>) -> Result<Self, ExportError> {
        let path = match target {
            Target::StandardOutput if rotation.is_some() => return Err(ExportError::NoRotation),
            Target::StandardOutput => {
                return Ok(Self::Single {
                    target: target.clone(),
                    compression: None,
                });
            }
            Target::Path(path) => path,
        };
        let compression = Compression::of_name(path);
        let Some(rotation) = rotation else {
            return Ok(Self::Single {
                target: target.clone(),
                compression,
            });
        };
        let is_directory = || ExportError::IsDirectory {
            target: path.display().to_string(),
        };
        let name = path.file_name().ok_or_else(is_directory)?.to_string_lossy();
        if path.is_dir() {
            return Err(is_directory());
        }
        // A leading dot hides a file, and ends no stem.
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

    /// Whether files follow each other.
    pub(super) const fn rotates(&self) -> bool {
        matches!(self, Self::Rotating { .. })
    }

    /// Whether files can be made there; one that is there is left as it is.
    pub(crate) fn check(&self) -> Result<(), ExportError> {
        match self {
            Self::Rotating { directory, .. } => directory::check(directory),
            Self::Single {
                target: Target::Path(path),
                ..
            } => check_file(path),
            _ => Ok(()),
        }
    }

    /// What goes into the file that a record of this time begins after that of a slot.
    pub(super) fn slot_after(&self, slot: &Slot, time_ns: i64) -> Slot {
        match self {
            Self::Rotating { rotation, .. } => slot.next(rotation, time_ns),
            _ => Slot::ALWAYS,
        }
    }

    /// What goes into the file behind a full one of a slot.
    pub(super) fn slot_behind_full(&self, slot: &Slot) -> Slot {
        match self {
            Self::Rotating { rotation, .. } => slot.behind_full(rotation),
            _ => Slot::ALWAYS,
        }
    }

    /// Makes the directory again if it has vanished.
    pub(super) fn make_directory_again(&self) {
        match self {
            Self::Single {
                target: Target::Path(path),
                ..
            } => directory::make_again(path.parent().unwrap_or(path)),
            Self::Rotating { directory, .. } => directory::make_again(directory),
            _ => {}
        }
    }

    /// How much is gathered before it goes into a file that has so many bytes.
    pub(super) fn block_bytes(&self, taken: u64) -> usize {
        match self {
            Self::Rotating {
                rotation: Rotation {
                    bytes: Some(bytes), ..
                },
                compression: None,
                ..
            } => usize::try_from(bytes.saturating_sub(taken))
                .map_or(BLOCK_BYTES, |room| room.min(BLOCK_BYTES)),
            _ => BLOCK_BYTES,
        }
    }

    /// Whether a file of so many bytes ends.
    pub(super) fn is_full(&self, taken: u64) -> bool {
        match self {
            Self::Rotating { rotation, .. } => rotation.bytes.is_some_and(|bytes| taken >= bytes),
            _ => false,
        }
    }

    /// Makes the file, and the names that it has until it is complete and afterwards.
    pub(super) fn create(&self, stamp_ns: i64) -> Result<(Output, Option<Names>), ExportError> {
        match self {
            Self::Single {
                target,
                compression,
            } => Ok((Output::create(target)?.compress(*compression)?, None)),
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

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single { target, .. } => target.fmt(formatter),
            Self::Rotating { directory, .. } => directory.display().fmt(formatter),
            #[cfg(test)]
            Self::Disk(_) => formatter.write_str("disk"),
        }
    }
}
