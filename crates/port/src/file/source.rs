//! Reads and counts the raw bytes of a file or a pipe.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// How long a read waits for a pipe before it returns `WouldBlock`, so that the reader can check its
/// timers and a request to stop.
const PIPE_TIMEOUT_MS: libc::c_int = 100;

/// An input to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A file, or a named pipe.
    Path(PathBuf),
    /// Standard input.
    StandardInput,
}

impl Input {
    /// Converts the argument of `-r`: `-` is standard input.
    #[must_use]
    pub fn from_argument(argument: &std::ffi::OsStr) -> Self {
        if argument == "-" {
            Self::StandardInput
        } else {
            Self::Path(argument.into())
        }
    }

    /// Whether it is a regular file, which can be opened and read again.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        match self {
            Self::Path(path) => std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file()),
            Self::StandardInput => false,
        }
    }

    /// Whether it is standard input, or exists and is neither a file nor a directory.
    pub(super) fn is_pipe(&self) -> bool {
        match self {
            Self::Path(path) => std::fs::metadata(path)
                .is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()),
            Self::StandardInput => true,
        }
    }

    /// Size in bytes of a regular file.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        match self {
            Self::Path(path) => std::fs::metadata(path).ok().and_then(|found| size(&found)),
            Self::StandardInput => standard_input()
                .and_then(|file| file.metadata())
                .ok()
                .and_then(|found| size(&found)),
        }
    }

    /// Opens the input.
    pub(super) fn open(&self) -> io::Result<Source> {
        let file = match self {
            // Nonblocking, so that opening a named pipe does not wait for its writer; reading does.
            Self::Path(path) => File::options()
                .read(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(path)?,
            Self::StandardInput => standard_input()?,
        };
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(Source {
            size: size(&metadata),
            // Without a second descriptor, a change is not noticed.
            file: metadata.is_file().then(|| file.try_clone().ok()).flatten(),
            pipe: (!metadata.is_file()).then(|| file.as_raw_fd()),
            reader: Box::new(file),
            bytes_read: 0,
        })
    }
}

impl fmt::Display for Input {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(formatter),
            Self::StandardInput => formatter.write_str("standard input"),
        }
    }
}

/// Standard input without the standard library's buffer, which would take bytes away from a later
/// reader.
fn standard_input() -> io::Result<File> {
    let descriptor: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    Ok(descriptor.into())
}

fn size(metadata: &std::fs::Metadata) -> Option<u64> {
    metadata.is_file().then_some(metadata.len())
}

/// An open input.
pub(super) struct Source {
    reader: Box<dyn Read + Send>,
    /// The descriptor to poll before a read that could block; owned by `reader`.
    pipe: Option<RawFd>,
    /// The file, to learn whether it has changed.
    file: Option<File>,
    size: Option<u64>,
    bytes_read: u64,
}

impl Source {
    /// Creates a source from any reader.
    pub(super) fn from_reader(reader: Box<dyn Read + Send>) -> Self {
        Self {
            reader,
            pipe: None,
            file: None,
            size: None,
            bytes_read: 0,
        }
    }

    /// Returns the size of the file now, if it is not the one at the start.
    pub(super) fn changed_size(&self) -> Option<u64> {
        let now = self.file.as_ref()?.metadata().ok()?.len();
        (Some(now) != self.size).then_some(now)
    }

    /// Bytes read so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Whether a read may have to wait.
    pub(super) fn is_pipe(&self) -> bool {
        self.pipe.is_some()
    }

    /// Size in bytes, if known.
    pub(super) fn size(&self) -> Option<u64> {
        self.size
    }
}

impl Read for Source {
    /// Reads; fails with [`io::ErrorKind::WouldBlock`] if a pipe stays empty.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(pipe) = self.pipe
            && !wait_readable(pipe)?
        {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = self.reader.read(buffer)?;
        self.bytes_read += count as u64;
        Ok(count)
    }
}

/// Waits until the pipe has bytes or has ended, for [`PIPE_TIMEOUT_MS`] at most.
fn wait_readable(pipe: RawFd) -> io::Result<bool> {
    let mut poll = libc::pollfd {
        fd: pipe,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: the pointer refers to one initialized `pollfd`, and the count is 1.
    let ready = unsafe { libc::poll(&raw mut poll, 1, PIPE_TIMEOUT_MS) };
    match ready {
        0 => Ok(false),
        1.. => Ok(true),
        _ => Err(io::Error::last_os_error()),
    }
}
