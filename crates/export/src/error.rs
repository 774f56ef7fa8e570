//! Errors of outputs.

use std::io::{self, ErrorKind};

/// An output error. Its text is one line that names the target and says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The reader of the output has closed it. A program should exit quietly.
    #[error("{target}: broken pipe, its reader has closed it")]
    BrokenPipe {
        /// The output.
        target: String,
    },
    /// The disk is full, or a quota or file size limit is reached. Records are lost until there is
    /// space again; the output stays well-formed, and writing may continue.
    #[error("{target}: no space left on the device; free some space, or records will be lost")]
    DiskFull {
        /// The output.
        target: String,
    },
    /// No permission to create or write the output.
    #[error("{target}: permission denied; choose another target, or run as its owner")]
    Permission {
        /// The output.
        target: String,
    },
    /// The file system is read-only.
    #[error("{target}: the file system is read-only; choose another target")]
    ReadOnly {
        /// The output.
        target: String,
    },
    /// The path should be a directory but is not.
    #[error("{target}: a file exists where a directory is needed; choose another target")]
    NotADirectory {
        /// The output.
        target: String,
    },
    /// A parent directory does not exist.
    #[error("{target}: no such directory; create the parent directory first")]
    NoSuchDirectory {
        /// The output.
        target: String,
    },
    /// The path should be a file but is a directory.
    #[error("{target}: is a directory; specify a file in it")]
    IsDirectory {
        /// The output.
        target: String,
    },
    /// Binary data would be written to a terminal.
    #[error(
        "Parquet cannot be written to a terminal; specify a file or directory, as in parquet:flows"
    )]
    Terminal,
    /// The format needs bidirectional flows.
    #[error("{format} needs bidirectional flows: add --flow bidirectional")]
    NotBidirectional {
        /// The format.
        format: &'static str,
    },
    /// The format writes several files in a directory.
    #[error("{format} writes several files; specify a directory, as in {format}:DIR")]
    NeedsDirectory {
        /// The format.
        format: &'static str,
    },
    /// An existing file of round-robin series cannot be continued.
    #[error("{target}: {reason}")]
    UnusableSeries {
        /// The file.
        target: String,
        /// The reason.
        reason: &'static str,
    },
    /// Records are older than all intervals of the round-robin series.
    #[error(
        "{target}: some flows ended before the oldest interval of the series; their records are counted as lost"
    )]
    TooOld {
        /// The directory.
        target: String,
    },
    /// Only files can be rotated.
    #[error("{target} cannot be rotated; specify a file, or omit --rotate")]
    CannotRotate {
        /// The output.
        target: String,
    },
    /// The format writes files only.
    #[error("{format} cannot be sent to a receiver; specify a file, or use json or csv")]
    NeedsFile {
        /// The format.
        format: &'static str,
    },
    /// Records did not reach the receiver.
    #[error("{target}: {lost} records were not delivered: {reason}")]
    NotDelivered {
        /// The receiver.
        target: String,
        /// Number of records lost.
        lost: u64,
        /// The last error, or why records were lost.
        reason: String,
    },
    /// The file was removed while it was being written.
    #[error(
        "{target}: removed while it was being written; records in it are lost, later ones go to a new file"
    )]
    Removed {
        /// The output.
        target: String,
    },
    /// The file was truncated while it was being written.
    #[error(
        "{target}: truncated by another program while it was being written (logrotate with copytruncate?); the \
         {lost} records in it count as lost, later ones follow with a new header; move the file and send SIGHUP \
         instead, or use --rotate"
    )]
    Truncated {
        /// The output.
        target: String,
        /// Number of records that were in the file.
        lost: u64,
    },
    /// Another process writes to the file, too.
    #[error(
        "{target}: another program writes to this file, too; readers may find its data between the records"
    )]
    Shared {
        /// The output.
        target: String,
    },
    /// Another process has locked the file for writing.
    #[error("{target}: {holder} is writing this file; choose another target, or end that process")]
    InUse {
        /// The output.
        target: String,
        /// The other process.
        holder: String,
    },
    /// A thread that the output needs cannot start.
    #[error("{target}: {reason}")]
    Thread {
        /// The output.
        target: String,
        /// Which thread, and what to do.
        reason: String,
    },
    /// A file exists that was to be created.
    #[error(
        "{target}: the file exists; add --overwrite to replace it or --append to continue it, or name another file"
    )]
    Exists {
        /// The output.
        target: String,
    },
    /// A file exists, and its format cannot be continued.
    #[error(
        "{target}: the file exists, and a compressed or Parquet file cannot be continued; name another file, add --rotate for a file per period, or --overwrite to replace it"
    )]
    CannotContinue {
        /// The output.
        target: String,
    },
    /// A file exists that does not contain the records of such a run.
    #[error(
        "{target}: the file exists and does not begin like the records of this run (other columns?); name another file, or add --overwrite to replace it"
    )]
    OtherContents {
        /// The output.
        target: String,
    },
    /// The storage device did not take the data.
    #[error("{target}: the data cannot be stored: {source}; records in it may be lost")]
    NotStored {
        /// The file or directory.
        target: String,
        /// The system error.
        source: io::Error,
    },
    /// Any other system error.
    #[error("{target}: {source}")]
    Other {
        /// The output.
        target: String,
        /// The system error.
        source: io::Error,
    },
    /// The Parquet encoder failed.
    #[error("{target}: Parquet: {reason}")]
    Parquet {
        /// The output.
        target: String,
        /// The error of the encoder.
        reason: String,
    },
    /// Two columns have the same name.
    #[error("two columns are named {name}; select each statistic only once")]
    DuplicateColumn {
        /// The name.
        name: String,
    },
}

impl ExportError {
    /// Converts an I/O error from writing `target`.
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
            ErrorKind::NotADirectory | ErrorKind::AlreadyExists => Self::NotADirectory { target },
            ErrorKind::NotFound => Self::NoSuchDirectory { target },
            ErrorKind::IsADirectory => Self::IsDirectory { target },
            _ => Self::Other { target, source },
        }
    }

    /// Whether the reader has closed the output, so that there is nothing left to do.
    #[must_use]
    pub const fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::BrokenPipe { .. })
    }
}
