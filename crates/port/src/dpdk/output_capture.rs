//! Captures what a library prints on standard output and standard error.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Runs `work` with both standard streams of the process redirected to memory; returns also the
/// captured text. If the redirection fails, `work` runs without it.
///
/// The streams belong to the whole process: use it at the start of a program, before other threads
/// write.
pub(super) fn capture_output<T>(work: impl FnOnce() -> T) -> (T, String) {
    let Ok(capture) = OutputCapture::begin() else {
        return (work(), String::new());
    };
    let result = work();
    (result, capture.end())
}

struct OutputCapture {
    /// The original streams with their descriptor numbers.
    saved: Vec<(RawFd, OwnedFd)>,
    memory: File,
}

impl OutputCapture {
    fn begin() -> io::Result<Self> {
        // SAFETY: the name is NUL-terminated.
        let memory = unsafe { libc::memfd_create(c"captured".as_ptr(), libc::MFD_CLOEXEC) };
        let memory = owned(memory)?;
        let _ = (io::stdout().flush(), io::stderr().flush());
        let mut capture = Self {
            saved: Vec::new(),
            memory: memory.into(),
        };
        for stream in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
            // SAFETY: takes no pointers; a closed stream returns an error.
            let copy = owned(unsafe { libc::fcntl(stream, libc::F_DUPFD_CLOEXEC, 3) })?;
            // SAFETY: both descriptors are open, and the stream's stays open.
            if unsafe { libc::dup2(capture.memory.as_raw_fd(), stream) } < 0 {
                return Err(io::Error::last_os_error());
            }
            capture.saved.push((stream, copy));
        }
        Ok(capture)
    }

    /// Restores the streams and returns the captured text.
    fn end(mut self) -> String {
        // SAFETY: a null argument flushes all streams of the C library.
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
        for (stream, copy) in self.saved.drain(..) {
            // SAFETY: both descriptors are open.
            unsafe { libc::dup2(copy.as_raw_fd(), stream) };
        }
    }
}

impl Drop for OutputCapture {
    fn drop(&mut self) {
        self.restore();
    }
}

fn owned(descriptor: RawFd) -> io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
