//! An open output: bytes go in, and what the system says of them comes out.

mod encoder;
#[cfg(test)]
pub(crate) mod limited;

pub use encoder::Compression;

use crate::error::ExportError;
use crate::target::Target;
use encoder::Encoder;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// How long to wait for an output that cannot take bytes now.
const NOT_READY: Duration = Duration::from_millis(1);

/// Ends that are remembered of a compressed stream. Where the disk filled just behind the last write
/// that it took, there is no room to end there; to cut that write off makes some.
const ENDS: usize = 3;

/// A file or standard output, without a buffer of its own but for what compression needs.
#[derive(Debug)]
pub(crate) struct Output {
    /// How faults name it.
    name: String,
    sink: Sink,
    encoder: Option<Encoder>,
    /// Compressed bytes that the system has not taken yet: at most those of one write.
    staged: Vec<u8>,
    /// Where a compressed stream could end: behind each of the last writes.
    ends: VecDeque<End>,
    /// Bytes that the system has taken.
    taken: u64,
    /// Bytes that were in the file before: standard output may be one that is written on.
    before: u64,
    /// The file's name, where it is a file that others could remove.
    path: Option<PathBuf>,
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

/// Where a compressed stream could end.
#[derive(Debug)]
struct End {
    /// Behind so many bytes, if the system takes them.
    at: u64,
    /// With these.
    ending: Vec<u8>,
    /// Lines of the write before it.
    lines: u64,
}

/// A compressed stream that could not be ended behind all that was written.
#[derive(Debug)]
pub(crate) struct Unended {
    /// Why not.
    pub(crate) fault: ExportError,
    /// Lines, the last ones, that a reader does not get.
    pub(crate) missing: u64,
    /// Whether the stream has ended before them.
    pub(crate) whole: bool,
}

/// What became of a file under its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    /// It is where it was made, or is no such file.
    InPlace,
    /// It has another name now: somebody rotates files.
    Moved,
    /// It has no name any more: what is written to it is lost.
    Removed,
}

impl Output {
    /// Makes the file of `target` new, or takes standard output.
    pub(crate) fn create(target: &Target) -> Result<Self, ExportError> {
        let name = target.to_string();
        let (sink, path) = match target {
            Target::StandardOutput => (standard_output(), None),
            Target::Path(path) => (File::create(path).map(Sink::File), Some(path)),
        };
        match sink {
            Ok(sink) => {
                let mut output = Self::new(name, sink);
                output.path = path.filter(|path| path.is_file()).cloned();
                Ok(output)
            }
            Err(error) => Err(ExportError::from_io(&name, error)),
        }
    }

    /// Makes a file that must not exist yet.
    pub(crate) fn create_new(path: &Path) -> io::Result<Self> {
        let sink = Sink::File(File::create_new(path)?);
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
            ends: VecDeque::new(),
            taken: 0,
            before: 0,
            path: None,
        };
        output.before = output.length().unwrap_or(0);
        output
    }

    /// Compresses what is written from now on.
    pub(crate) fn compress(
        mut self,
        compression: Option<Compression>,
    ) -> Result<Self, ExportError> {
        self.encoder = compression
            .map(Encoder::new)
            .transpose()
            .map_err(|error| ExportError::from_io(&self.name, error))?;
        Ok(self)
    }

    /// How faults name it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it compresses.
    pub(crate) const fn compresses(&self) -> bool {
        self.encoder.is_some()
    }

    /// Bytes that the system has taken.
    pub(crate) const fn taken(&self) -> u64 {
        self.taken
    }

    /// Writes as much as can be written: how many bytes that is, and why not all, if not all.
    ///
    /// Where it compresses, it takes all or nothing: all is kept until the system takes it, and
    /// nothing more is taken meanwhile.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> (usize, Result<(), ExportError>) {
        if self.encoder.is_none() {
            return self.write_through(bytes);
        }
        if let Err(fault) = self.write_staged() {
            return (0, Err(fault));
        }
        if bytes.is_empty() {
            // Behind nothing no stream can end.
            return (0, Ok(()));
        }
        if let Some(encoder) = &mut self.encoder {
            if let Err(error) = encoder.take(bytes) {
                return (0, Err(ExportError::from_io(&self.name, error)));
            }
            self.staged.append(encoder.compressed());
            if self.ends.len() == ENDS {
                self.ends.pop_front();
            }
            self.ends.push_back(End {
                at: self.taken + self.staged.len() as u64,
                ending: encoder.ending(),
                lines: bytes.iter().filter(|&&byte| byte == b'\n').count() as u64,
            });
        }
        (bytes.len(), self.write_staged())
    }

    /// Tries again to let a reader have all that was written.
    pub(crate) fn sync(&mut self) -> Result<(), ExportError> {
        self.write_staged()
    }

    /// Ends a compressed stream. Nothing may be written afterwards. Where the system does not take
    /// all of it, it is ended behind the last write that is whole: to cut a file off needs no room.
    pub(crate) fn finish(&mut self) -> Result<(), Unended> {
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
        let ends = std::mem::take(&mut self.ends);
        let whole = ends.iter().rev().any(|end| self.end_at(end).is_ok());
        if ends.iter().all(|end| end.at > self.taken) {
            // Not even one write is in it. An empty file does not look as if it had any.
            let _ = self.cut(0);
        }
        let missing = ends.iter().filter(|end| end.at > self.taken);
        Err(Unended {
            fault,
            missing: missing.map(|end| end.lines).sum(),
            whole,
        })
    }

    /// Cuts a compressed stream off, and ends it there.
    fn end_at(&mut self, end: &End) -> Result<(), ExportError> {
        self.cut(end.at)?;
        self.write_through(&end.ending).1
    }

    fn write_staged(&mut self) -> Result<(), ExportError> {
        if self.staged.is_empty() {
            return Ok(());
        }
        let staged = std::mem::take(&mut self.staged);
        let (taken, result) = self.write_through(&staged);
        self.staged = staged;
        self.staged.drain(..taken);
        result
    }

    fn write_through(&mut self, bytes: &[u8]) -> (usize, Result<(), ExportError>) {
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
                    self.taken += count as u64;
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

    /// Bytes in the output, where it is a file, without those that were there before.
    pub(crate) fn length(&self) -> Option<u64> {
        let length = match &self.sink {
            Sink::File(file) => file
                .metadata()
                .ok()
                .filter(|it| it.is_file())
                .map(|metadata| metadata.len()),
            Sink::Standard => None,
            #[cfg(test)]
            Sink::Limited(disk) => disk.length(),
        };
        length.map(|length| length.saturating_sub(self.before))
    }

    /// Cuts the output off after `length` bytes, where it is a file with nothing behind what was
    /// written here.
    pub(crate) fn cut(&mut self, length: u64) -> Result<(), ExportError> {
        use std::io::Seek;
        let end = self.before + length;
        let result = if length > self.taken || self.length() != Some(self.taken) {
            Err(ErrorKind::NotSeekable.into())
        } else {
            match &mut self.sink {
                Sink::File(file) => file
                    .set_len(end)
                    .and_then(|()| file.seek(io::SeekFrom::Start(end)))
                    .map(|_| ()),
                Sink::Standard => Err(ErrorKind::NotSeekable.into()),
                #[cfg(test)]
                Sink::Limited(disk) => {
                    disk.cut(end as usize);
                    Ok(())
                }
            }
        };
        match result {
            Ok(()) => {
                self.taken = length;
                Ok(())
            }
            Err(error) => Err(ExportError::from_io(&self.name, error)),
        }
    }

    /// Removes the file, where it is one that was made here.
    pub(crate) fn remove(&self) {
        if let Some(path) = &self.path
            && self.whereabouts() == Whereabouts::InPlace
        {
            // What cannot be removed stays as it is.
            let _ = fs::remove_file(path);
        }
    }

    /// Whether the file is still what its name stands for.
    #[cfg(unix)]
    pub(crate) fn whereabouts(&self) -> Whereabouts {
        use std::os::unix::fs::MetadataExt;
        let (Some(path), Sink::File(file)) = (&self.path, &self.sink) else {
            return Whereabouts::InPlace;
        };
        let Ok(open) = file.metadata() else {
            return Whereabouts::InPlace;
        };
        let named = fs::metadata(path);
        if named.is_ok_and(|named| (named.dev(), named.ino()) == (open.dev(), open.ino())) {
            Whereabouts::InPlace
        } else if open.nlink() == 0 {
            Whereabouts::Removed
        } else {
            Whereabouts::Moved
        }
    }

    #[cfg(not(unix))]
    pub(crate) fn whereabouts(&self) -> Whereabouts {
        match &self.path {
            Some(path) if fs::metadata(path).is_err() => Whereabouts::Removed,
            _ => Whereabouts::InPlace,
        }
    }
}

/// Whether a file can be made new, or written over; it is left as it is.
pub(crate) fn check_file(path: &Path) -> Result<(), ExportError> {
    let result = match fs::metadata(path) {
        Ok(found) if found.is_file() || found.is_dir() => {
            File::options().write(true).open(path).map(drop)
        }
        // To open a pipe waits for its other end.
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => match File::create_new(path) {
            Ok(_) => fs::remove_file(path),
            // A symbolic link that leads nowhere yet.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    result.map_err(|error| ExportError::from_io(&path.display().to_string(), error))
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
