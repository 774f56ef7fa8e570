//! What a library prints on standard output and standard error, kept from the terminal.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Runs `work` with both standard streams of the process going to memory; what came there. Where
/// that cannot be had, `work` runs all the same.
///
/// The streams belong to the whole process: this is for the start of a program, before others write.
pub(super) fn captured<T>(work: impl FnOnce() -> T) -> (T, String) {
    let Ok(capture) = Capture::begin() else {
        return (work(), String::new());
    };
    let result = work();
    (result, capture.end())
}

struct Capture {
    /// The streams as they were, with their numbers.
    kept: Vec<(RawFd, OwnedFd)>,
    memory: File,
}

impl Capture {
    fn begin() -> io::Result<Self> {
        // SAFETY: the name is a string with its end.
        let memory = unsafe { libc::memfd_create(c"captured".as_ptr(), libc::MFD_CLOEXEC) };
        let memory = owned(memory)?;
        let _ = (io::stdout().flush(), io::stderr().flush());
        let mut capture = Self {
            kept: Vec::new(),
            memory: memory.into(),
        };
        for stream in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
            // SAFETY: plain system call; a stream that is closed gives an error.
            let copy = owned(unsafe { libc::fcntl(stream, libc::F_DUPFD_CLOEXEC, 3) })?;
            // SAFETY: both are open; the stream's number keeps meaning an open file.
            if unsafe { libc::dup2(capture.memory.as_raw_fd(), stream) } < 0 {
                return Err(io::Error::last_os_error());
            }
            capture.kept.push((stream, copy));
        }
        Ok(capture)
    }

    /// Puts the streams back.
    fn end(mut self) -> String {
        // SAFETY: flushes every stream of the C library, which is what printed.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        self.restore();
        let mut bytes = Vec::new();
        let read = self
            .memory
            .rewind()
            .and_then(|()| self.memory.read_to_end(&mut bytes));
        read.map_or_else(
            |_| String::new(),
            |_| String::from_utf8_lossy(&bytes).into_owned(),
        )
    }

    fn restore(&mut self) {
        for (stream, copy) in self.kept.drain(..) {
            // SAFETY: both are open.
            unsafe { libc::dup2(copy.as_raw_fd(), stream) };
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.restore();
    }
}

fn owned(descriptor: RawFd) -> io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the system has just opened it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
