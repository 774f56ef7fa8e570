//! An open output: bytes go in, and what the system says of them comes out.

use crate::error::ExportError;
use crate::target::Target;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// How long to wait for an output that cannot take bytes now.
const NOT_READY: Duration = Duration::from_millis(1);

/// A file or standard output, without a buffer of its own.
#[derive(Debug)]
pub(crate) struct Output {
    /// How faults name it.
    name: String,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    File(File),
    /// Where standard output cannot be had as a file.
    #[cfg_attr(unix, allow(dead_code))]
    Standard,
    #[cfg(test)]
    Limited(limited::LimitedDisk),
}

impl Output {
    /// Makes the file of `target` new, or takes standard output.
    pub(crate) fn create(target: &Target) -> Result<Self, ExportError> {
        let name = target.to_string();
        let sink = match target {
            Target::StandardOutput => standard_output(),
            Target::Path(path) => File::create(path).map(Sink::File),
        };
        match sink {
            Ok(sink) => Ok(Self { name, sink }),
            Err(error) => Err(ExportError::from_io(&name, error)),
        }
    }

    /// Makes a file that must not exist yet.
    pub(crate) fn create_new(path: &Path) -> io::Result<Self> {
        Ok(Self {
            name: path.display().to_string(),
            sink: Sink::File(File::create_new(path)?),
        })
    }

    /// How faults name it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Writes as much as can be written: how many bytes that is, and why not all, if not all.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> (usize, Result<(), ExportError>) {
        let mut taken = 0;
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            let result = match &mut self.sink {
                Sink::File(file) => file.write(rest),
                Sink::Standard => io::stdout().write(rest),
                #[cfg(test)]
                Sink::Limited(disk) => disk.write(rest),
            };
            let error = match result {
                Ok(0) => ErrorKind::WriteZero.into(),
                Ok(count) => {
                    taken += count;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // Standard output can be shared with a program that made it non-blocking. This is
                // a writer's thread, which may wait as it does for any slow reader.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    thread::sleep(NOT_READY);
                    continue;
                }
                Err(error) => error,
            };
            return (taken, Err(ExportError::from_io(&self.name, error)));
        }
        (taken, Ok(()))
    }

    /// Bytes in the output, where it is a file.
    pub(crate) fn length(&self) -> Option<u64> {
        match &self.sink {
            Sink::File(file) => file.metadata().ok().filter(|it| it.is_file()),
            Sink::Standard => None,
            #[cfg(test)]
            Sink::Limited(_) => None,
        }
        .map(|metadata| metadata.len())
    }

    /// Cuts the output off after `length` bytes, where the kind of output allows it.
    pub(crate) fn cut(&mut self, length: u64) -> Result<(), ExportError> {
        use std::io::Seek;
        let result = match &mut self.sink {
            Sink::File(file) => file
                .set_len(length)
                .and_then(|()| file.seek(io::SeekFrom::Start(length)))
                .map(|_| ()),
            Sink::Standard => Err(ErrorKind::NotSeekable.into()),
            #[cfg(test)]
            Sink::Limited(_) => Err(ErrorKind::NotSeekable.into()),
        };
        result.map_err(|error| ExportError::from_io(&self.name, error))
    }
}

/// Standard output without the line buffer that the standard library puts before it.
#[cfg(unix)]
fn standard_output() -> io::Result<Sink> {
    use std::os::fd::AsFd;
    let descriptor = io::stdout().as_fd().try_clone_to_owned()?;
    Ok(Sink::File(File::from(descriptor)))
}

#[cfg(not(unix))]
fn standard_output() -> io::Result<Sink> {
    Ok(Sink::Standard)
}

#[cfg(test)]
pub(crate) mod limited;
