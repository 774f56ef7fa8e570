//! An open output file or stream: writes, compresses, truncates, and reports system errors.

mod encoder;
pub(crate) mod existing;
#[cfg(test)]
pub(crate) mod test_disk;

pub use encoder::Compression;
pub use existing::ExistingFile;

use crate::activity;
use crate::error::ExportError;
use crate::file_lock;
use crate::storage;
use crate::target::Target;
use encoder::Encoder;
use std::cmp::Ordering::{Equal, Greater, Less};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Delay before retrying an output that would block.
const RETRY_DELAY: Duration = Duration::from_millis(1);

/// Number of cut points kept for a compressed stream. If the disk is full right after the last
/// successful write, there is no space for the end of the stream; truncating that write makes some.
const CUT_POINTS_MAX: usize = 3;

/// A file or standard output. Unbuffered, except as needed for compression.
#[derive(Debug)]
pub(crate) struct Output {
    /// Name in error messages.
    name: String,
    sink: Sink,
    encoder: Option<Encoder>,
    /// Compressed bytes that the system has not accepted yet: those of one write at most.
    staged: Vec<u8>,
    /// Where a compressed stream could end: after each of the last writes.
    cut_points: VecDeque<CutPoint>,
    /// Bytes that the system has accepted.
    bytes_written: u64,
    /// Length of the file when it was opened: standard output may be appended to an existing file.
    initial_length: u64,
    /// Path of a regular file, which others could move or remove.
    path: Option<PathBuf>,
    compression: Option<Compression>,
    /// Whether it follows a truncation by others, so that a header is due whatever is in the file.
    begins_anew: bool,
}

#[derive(Debug)]
enum Sink {
    File(File),
    /// Where standard output is not available as a file.
    #[cfg_attr(unix, allow(dead_code))]
    Stdout,
    #[cfg(test)]
    TestDisk(test_disk::TestDisk),
}

/// A position at which a compressed stream can be cut and ended.
#[derive(Debug)]
struct CutPoint {
    /// Length of the stream up to here.
    offset: u64,
    /// The bytes that end the stream here.
    stream_end: Vec<u8>,
    /// Lines in the write that ends here.
    lines: u64,
}

/// Error of a compressed stream that does not contain everything that was written to it.
#[derive(Debug)]
pub(crate) struct TruncatedStream {
    /// The cause.
    pub(crate) fault: ExportError,
    /// Number of lines, the last ones, that readers do not get.
    pub(crate) lost_lines: u64,
    /// Whether the stream was ended before these lines.
    pub(crate) is_terminated: bool,
}

/// What others did to the contents of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentStatus {
    /// Nothing that its length shows.
    Intact,
    /// It is shorter than what was written here.
    Truncated,
    /// It is longer.
    Extended,
}

/// Whether a file is still found under its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileStatus {
    /// Still there, or not a regular file.
    InPlace,
    /// Has another path now: an external tool rotates files.
    Moved,
    /// Has no path any more: data written to it is lost.
    Removed,
}

impl Output {
    /// Opens the file at `path` as `existing` says, or standard output if there is no path. A file
    /// that is continued has been [checked](existing::check).
    pub(crate) fn open(
        path: Option<&Path>,
        existing: ExistingFile,
        start: &[u8],
    ) -> Result<Self, ExportError> {
        let Some(path) = path else {
            let name = Target::Stdout.to_string();
            return match stdout_sink() {
                Ok(sink) => Ok(Self::new(name, sink)),
                Err(error) => Err(ExportError::from_io(&name, error)),
            };
        };
        let name = path.display().to_string();
        // What others append or cut off meanwhile then leaves no hole in the file.
        let opened = File::options().append(true).create(true).open(path);
        let file = opened.map_err(|error| ExportError::from_io(&name, error))?;
        let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
        if is_file {
            file_lock::lock(&file, path)?;
            existing::prepare(path, &file, existing, start)?;
        }
        let mut output = Self::new(name, Sink::File(file));
        output.path = is_file.then(|| path.to_owned());
        Ok(output)
    }

    /// Whether the output continues a file that had records before.
    pub(crate) const fn continues(&self) -> bool {
        self.path.is_some() && self.initial_length > 0 && !self.begins_anew
    }

    /// Waits until the device has the data of a regular file, and its name if it is not renamed later.
    ///
    /// # Errors
    /// The device did not take them.
    pub(crate) fn store(&self, is_renamed_later: bool) -> Result<(), ExportError> {
        let (Sink::File(file), Some(path)) = (&self.sink, &self.path) else {
            return Ok(());
        };
        storage::sync_data(file, path)?;
        if is_renamed_later {
            Ok(())
        } else {
            storage::sync_parent(path)
        }
    }

    /// Creates a file that must not exist yet.
    pub(crate) fn create_new(path: &Path) -> io::Result<Self> {
        let file = File::options().append(true).create_new(true).open(path)?;
        let sink = Sink::File(file);
        let mut output = Self::new(path.display().to_string(), sink);
        output.path = Some(path.to_owned());
        Ok(output)
    }

    fn new(name: String, sink: Sink) -> Self {
        let mut output = Self {
            name,
            sink,
            encoder: None,
            staged: Vec::new(),
            cut_points: VecDeque::new(),
            bytes_written: 0,
            initial_length: 0,
            path: None,
            compression: None,
            begins_anew: false,
        };
        output.initial_length = output.length().unwrap_or(0);
        output
    }

    /// Compresses everything that is written from now on.
    pub(crate) fn compress(
        mut self,
        compression: Option<Compression>,
    ) -> Result<Self, ExportError> {
        self.compression = compression;
        self.encoder = compression
            .map(Encoder::new)
            .transpose()
            .map_err(|error| ExportError::from_io(&self.name, error))?;
        Ok(self)
    }

    /// Name in error messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the output is compressed.
    pub(crate) const fn compresses(&self) -> bool {
        self.encoder.is_some()
    }

    /// Bytes that the system has accepted.
    pub(crate) const fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    /// Writes as much as possible. Returns the number of bytes accepted, and the error if these are
    /// not all.
    ///
    /// A compressed output accepts all bytes or none: it keeps them until the system takes them,
    /// and accepts no others meanwhile.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> (usize, Result<(), ExportError>) {
        if self.encoder.is_none() {
            return self.write_to_sink(bytes);
        }
        if let Err(fault) = self.write_staged() {
            return (0, Err(fault));
        }
        if bytes.is_empty() {
            // An empty stream cannot be ended.
            return (0, Ok(()));
        }
        if let Some(encoder) = &mut self.encoder {
            if let Err(error) = encoder.write(bytes) {
                return (0, Err(ExportError::from_io(&self.name, error)));
            }
            self.staged.append(encoder.compressed());
            if self.cut_points.len() == CUT_POINTS_MAX {
                self.cut_points.pop_front();
            }
            self.cut_points.push_back(CutPoint {
                offset: self.bytes_written + self.staged.len() as u64,
                stream_end: encoder.stream_end(),
                lines: bytes.iter().filter(|&&byte| byte == b'\n').count() as u64,
            });
        }
        (bytes.len(), self.write_staged())
    }

    /// Retries writing compressed bytes that the system did not accept.
    pub(crate) fn sync(&mut self) -> Result<(), ExportError> {
        self.write_staged()
    }

    /// Ends a compressed stream; nothing may be written afterwards. If the system does not accept
    /// all of it, the stream is truncated and ended after the last complete write: truncating needs
    /// no space.
    pub(crate) fn finish(&mut self) -> Result<(), TruncatedStream> {
        let Some(encoder) = self.encoder.take() else {
            return Ok(());
        };
        let last = encoder.finish();
        let result = last
            .map_err(|error| ExportError::from_io(&self.name, error))
            .and_then(|last| {
                self.staged.extend_from_slice(&last);
                self.write_staged()
            });
        let Err(fault) = result else {
            return Ok(());
        };
        self.staged.clear();
        let ends = std::mem::take(&mut self.cut_points);
        let whole = ends
            .iter()
            .rev()
            .any(|end| self.truncate_and_end(end).is_ok());
        if ends.iter().all(|end| end.offset > self.bytes_written) {
            // Not even one write is complete. An empty file does not look like data.
            let _ = self.truncate(0);
        }
        let missing = ends.iter().filter(|end| end.offset > self.bytes_written);
        Err(TruncatedStream {
            fault,
            lost_lines: missing.map(|end| end.lines).sum(),
            is_terminated: whole,
        })
    }

    /// Truncates a compressed stream and ends it there.
    fn truncate_and_end(&mut self, end: &CutPoint) -> Result<(), ExportError> {
        self.truncate(end.offset)?;
        self.write_to_sink(&end.stream_end).1
    }

    fn write_staged(&mut self) -> Result<(), ExportError> {
        if self.staged.is_empty() {
            return Ok(());
        }
        let staged = std::mem::take(&mut self.staged);
        let (accepted, result) = self.write_to_sink(&staged);
        self.staged = staged;
        self.staged.drain(..accepted);
        result
    }

    fn write_to_sink(&mut self, bytes: &[u8]) -> (usize, Result<(), ExportError>) {
        if let Some(path) = &self.path {
            storage::note_write(path);
        }
        let mut accepted = 0;
        while let Some(rest) = bytes.get(accepted..).filter(|rest| !rest.is_empty()) {
            let result = match &mut self.sink {
                Sink::File(file) => file.write(rest),
                Sink::Stdout => io::stdout().write(rest),
                #[cfg(test)]
                Sink::TestDisk(disk) => disk.write(rest),
            };
            let error = match result {
                Ok(0) => ErrorKind::WriteZero.into(),
                Ok(count) => {
                    activity::step();
                    accepted += count;
                    self.bytes_written += count as u64;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // Standard output may be shared with a program that made it non-blocking. This is a
                // writer thread, which may wait.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    thread::sleep(RETRY_DELAY);
                    continue;
                }
                Err(error) => error,
            };
            return (accepted, Err(ExportError::from_io(&self.name, error)));
        }
        (accepted, Ok(()))
    }

    /// Returns the length of the output without its initial contents, if it is a file.
    pub(crate) fn length(&self) -> Option<u64> {
        let length = match &self.sink {
            Sink::File(file) => file
                .metadata()
                .ok()
                .filter(|it| it.is_file())
                .map(|metadata| metadata.len()),
            Sink::Stdout => None,
            #[cfg(test)]
            Sink::TestDisk(disk) => disk.length(),
        };
        length.map(|length| length.saturating_sub(self.initial_length))
    }

    /// Truncates the output to `length` bytes. Works only for a file that has nothing after what
    /// was written here.
    pub(crate) fn truncate(&mut self, length: u64) -> Result<(), ExportError> {
        use std::io::Seek;
        let end = self.initial_length + length;
        let result = if length > self.bytes_written || self.length() != Some(self.bytes_written) {
            Err(ErrorKind::NotSeekable.into())
        } else {
            match &mut self.sink {
                Sink::File(file) => file
                    .set_len(end)
                    .and_then(|()| file.seek(io::SeekFrom::Start(end)))
                    .map(|_| ()),
                Sink::Stdout => Err(ErrorKind::NotSeekable.into()),
                #[cfg(test)]
                Sink::TestDisk(disk) => {
                    disk.truncate(end as usize);
                    Ok(())
                }
            }
        };
        match result {
            Ok(()) => {
                self.bytes_written = length;
                Ok(())
            }
            Err(error) => Err(ExportError::from_io(&self.name, error)),
        }
    }

    /// Returns what others did to the contents of the file. Standard output is not looked at: it may be
    /// shared on purpose.
    pub(crate) fn content_status(&self) -> ContentStatus {
        let Some(length) = self.path.as_ref().and_then(|_| self.length()) else {
            return ContentStatus::Intact;
        };
        match length.cmp(&self.bytes_written) {
            Equal => ContentStatus::Intact,
            Less => ContentStatus::Truncated,
            Greater => ContentStatus::Extended,
        }
    }

    /// Takes what others have written to the file as its initial contents.
    pub(crate) fn accept_extension(&mut self) {
        if let Some(length) = self.length() {
            self.initial_length += length.saturating_sub(self.bytes_written);
        }
    }

    /// Begins anew at the end of a file that others have truncated.
    pub(crate) fn restart(self) -> Result<Self, ExportError> {
        let mut output = Self::new(self.name, self.sink);
        output.path = self.path;
        output.begins_anew = true;
        output.compress(self.compression)
    }

    /// Removes the file, if it was created here.
    pub(crate) fn remove(&self) {
        if let Some(path) = &self.path
            && self.file_status() == FileStatus::InPlace
        {
            // A file that cannot be removed stays.
            let _ = fs::remove_file(path);
        }
    }

    /// Returns whether the file is still found under its path.
    #[cfg(unix)]
    pub(crate) fn file_status(&self) -> FileStatus {
        use std::os::unix::fs::MetadataExt;
        let (Some(path), Sink::File(file)) = (&self.path, &self.sink) else {
            return FileStatus::InPlace;
        };
        let Ok(open) = file.metadata() else {
            return FileStatus::InPlace;
        };
        let named = fs::metadata(path);
        if named.is_ok_and(|named| (named.dev(), named.ino()) == (open.dev(), open.ino())) {
            FileStatus::InPlace
        } else if open.nlink() == 0 {
            FileStatus::Removed
        } else {
            FileStatus::Moved
        }
    }

    #[cfg(not(unix))]
    pub(crate) fn file_status(&self) -> FileStatus {
        match &self.path {
            Some(path) if fs::metadata(path).is_err() => FileStatus::Removed,
            _ => FileStatus::InPlace,
        }
    }
}

/// Checks whether a file can be created or overwritten, and leaves it unchanged.
pub(crate) fn check_writable(path: &Path) -> Result<(), ExportError> {
    let result = match fs::metadata(path) {
        Ok(found) if found.is_file() || found.is_dir() => {
            File::options().write(true).open(path).map(drop)
        }
        // Opening a pipe would wait for its reader.
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => match File::create_new(path) {
            Ok(_) => fs::remove_file(path),
            // A dangling symbolic link.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    result.map_err(|error| ExportError::from_io(&path.display().to_string(), error))
}

/// Whether `path` is a named pipe. Opening it waits for its reader, so only a writer thread opens it.
#[cfg(unix)]
pub(crate) fn is_pipe(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

#[cfg(not(unix))]
pub(crate) const fn is_pipe(_: &Path) -> bool {
    false
}

/// Opens standard output without the line buffer of the standard library.
#[cfg(unix)]
fn stdout_sink() -> io::Result<Sink> {
    use std::os::fd::AsFd;
    let descriptor = io::stdout().as_fd().try_clone_to_owned()?;
    Ok(Sink::File(File::from(descriptor)))
}

#[cfg(not(unix))]
fn stdout_sink() -> io::Result<Sink> {
    Ok(Sink::Stdout)
}
