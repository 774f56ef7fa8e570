//! What can go wrong where records go out.

use std::io::{self, ErrorKind};

/// A fault of an output; its text is one line that names the target and says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// Whoever read the output has gone: no more records are wanted. A program ends quietly.
    #[error("{target}: nobody reads it any more")]
    BrokenPipe {
        /// The output.
        target: String,
    },
    /// No room, or a quota or limit of file size is reached. Records are lost until there is
    /// room again; the output stays well-formed, and may be written on.
    #[error("{target}: no space left on the device; make room, or records are lost")]
    DiskFull {
        /// The output.
        target: String,
    },
    /// Not allowed to create or write it.
    #[error("{target}: permission denied; choose another target, or run as its owner")]
    Permission {
        /// The output.
        target: String,
    },
    /// Nobody may write there.
    #[error("{target}: the file system is read-only; choose another target")]
    ReadOnly {
        /// The output.
        target: String,
    },
    /// A directory is wanted, and there is something else.
    #[error("{target}: a file is where a directory should be; choose another target")]
    NoDirectory {
        /// The output.
        target: String,
    },
    /// A part of the path does not exist.
    #[error("{target}: no such directory; create the directory that it lies in")]
    NoSuchDirectory {
        /// The output.
        target: String,
    },
    /// A file is wanted, and the path is a directory.
    #[error("{target} is a directory; name a file in it")]
    IsDirectory {
        /// The output.
        target: String,
    },
    /// Binary data would go to a terminal.
    #[error("Parquet is not for terminals; name a directory or file as in parquet:flows")]
    Terminal,
    /// The format is of connections, or needs both directions of flows together.
    #[error("{format} needs both directions of a flow together: add --flow bidirectional")]
    NotBidirectional {
        /// The format.
        format: &'static str,
    },
    /// The format is files in a directory.
    #[error("{format} writes several files: name a directory, as in {format}:DIR")]
    NeedsDirectory {
        /// The format.
        format: &'static str,
    },
    /// A file of round-robin series that cannot be gone on with.
    #[error("{target}: {reason}")]
    Series {
        /// The file.
        target: String,
        /// Why not.
        reason: &'static str,
    },
    /// Records that are older than all that round-robin series keep.
    #[error(
        "{target}: records of flows that ended before the oldest interval of the series; they are counted as lost"
    )]
    TooOld {
        /// The directory.
        target: String,
    },
    /// Standard output is one stream.
    #[error("standard output cannot be rotated; name a file, or leave --rotate out")]
    NoRotation,
    /// Somebody removed the file while it was written.
    #[error(
        "{target}: removed while it was written; what went into it is lost, and what comes goes into a new one"
    )]
    Removed {
        /// The output.
        target: String,
    },
    /// Any other fault of the system below.
    #[error("{target}: {source}")]
    Other {
        /// The output.
        target: String,
        /// What the system said.
        source: io::Error,
    },
    /// The Parquet encoder refused.
    #[error("{target}: Parquet: {reason}")]
    Parquet {
        /// The output.
        target: String,
        /// What the encoder said.
        reason: String,
    },
    /// Two columns of one name.
    #[error("two columns are named {name}: name each statistic once")]
    DuplicateColumn {
        /// The name.
        name: String,
    },
}

impl ExportError {
    /// What `source` means for `target`, something that is written.
    #[must_use]
    pub fn from_io(target: &str, source: io::Error) -> Self {
        let target = target.to_owned();
        match source.kind() {
            ErrorKind::BrokenPipe => Self::BrokenPipe { target },
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                Self::DiskFull { target }
            }
            ErrorKind::PermissionDenied => Self::Permission { target },
            ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { target },
            ErrorKind::NotADirectory | ErrorKind::AlreadyExists => Self::NoDirectory { target },
            ErrorKind::NotFound => Self::NoSuchDirectory { target },
            ErrorKind::IsADirectory => Self::IsDirectory { target },
            _ => Self::Other { target, source },
        }
    }

    /// Whether the reader of the output has gone, so that there is nothing left to do.
    #[must_use]
    pub const fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::BrokenPipe { .. })
    }
}
