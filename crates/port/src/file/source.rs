//! The bytes of an input as they lie on disk or come through a pipe, counted.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// How long a reading waits for a pipe before it says that there is nothing yet, so that whoever
/// reads can look at his clock and at a wish to stop.
const PIPE_PATIENCE_MS: libc::c_int = 100;

/// What to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A file, or a named pipe.
    Path(PathBuf),
    /// Standard input.
    StandardInput,
}

impl Input {
    /// The input that `-r ARGUMENT` names: `-` is standard input.
    #[must_use]
    pub fn from_argument(argument: &std::ffi::OsStr) -> Self {
        if argument == "-" {
            Self::StandardInput
        } else {
            Self::Path(argument.into())
        }
    }

    /// Whether it can be opened again and gives the same bytes from the start.
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

    /// Its size in bytes on disk, where it has one.
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

    /// Opens it.
    pub(super) fn open(&self) -> io::Result<Source> {
        let file = match self {
            // A named pipe is not waited for here, but as one that is silent: by whoever reads.
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
            pipe: (!metadata.is_file()).then(|| file.as_raw_fd()),
            reader: Box::new(file),
            count: 0,
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

/// Standard input without the standard library's buffer: every byte has one way in.
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
    /// What to poll before reading, where reading could wait for ever. It belongs to `reader`.
    pipe: Option<RawFd>,
    size: Option<u64>,
    count: u64,
}

impl Source {
    /// An input that is not a file.
    pub(super) fn from_reader(reader: Box<dyn Read + Send>) -> Self {
        Self {
            reader,
            pipe: None,
            size: None,
            count: 0,
        }
    }

    /// Bytes read so far.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Whether it has to be waited for.
    pub(super) fn is_pipe(&self) -> bool {
        self.pipe.is_some()
    }

    /// Bytes there are, where that is known.
    pub(super) fn size(&self) -> Option<u64> {
        self.size
    }
}

impl Read for Source {
    /// Reads; [`io::ErrorKind::WouldBlock`] from a pipe that stays silent.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(pipe) = self.pipe
            && !has_news(pipe)?
        {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = self.reader.read(buffer)?;
        self.count += count as u64;
        Ok(count)
    }
}

/// Waits until the pipe has bytes, or has ended, or for [`PIPE_PATIENCE_MS`].
fn has_news(pipe: RawFd) -> io::Result<bool> {
    let mut poll = libc::pollfd {
        fd: pipe,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: the pointer is to one initialised `pollfd`, as the count says.
    let ready = unsafe { libc::poll(&raw mut poll, 1, PIPE_PATIENCE_MS) };
    match ready {
        0 => Ok(false),
        1.. => Ok(true),
        _ => Err(io::Error::last_os_error()),
    }
}
