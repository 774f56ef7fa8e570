//! One capture file as a port.

use super::block_buffer::{BlockBuffer, Filled};
use super::decompress::{Compression, Decompressed};
use super::fault::FileFault;
use super::pcap::{self, Pcap};
use super::pcapng::{self, Pcapng};
use super::permission_hint::permission_hint;
use super::source::{Input, Source};
use super::unrecognised;
use super::walk::{Next, WalkResult};
use crate::frame::{Burst, Counters, Port, PortError, Received};
use crate::frame_list::FrameList;
use std::io::{self, Read};
use wire::LinkType;

/// A capture file: pcap or pcapng, compressed or not, read once from start to end.
pub struct CaptureFile {
    name: String,
    buffer: BlockBuffer<Decompressed>,
    frames: FrameList,
    /// Unknown until the first bytes are read.
    format: Option<Format>,
    /// Length of the current burst: the first `count` of `frames`.
    count: usize,
    link: LinkType,
    /// What to do next, from the last walk.
    next: Next,
    ended: bool,
    counters: Counters,
}

enum Format {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

/// Result of [`CaptureFile::advance`]: a [`Received`] without borrows.
pub(super) enum Advanced {
    /// A burst is available.
    Burst,
    /// No bytes yet.
    Idle,
    /// A part of the file is unreadable.
    Fault(String),
    /// End of the file.
    End,
}

impl CaptureFile {
    /// Opens `input`. The header of a regular file is read and validated. Standard input and named
    /// pipes are not waited for: if their header is invalid, the first [`Port::receive`] fails.
    ///
    /// # Errors
    /// [`PortError::Permission`] if read permission is missing, else [`PortError::Failed`]; the message
    /// says what to do.
    pub fn open(input: &Input) -> Result<Self, PortError> {
        let name = input.to_string();
        let source = input.open().map_err(|error| open_error(input, &error))?;
        let wait = !source.is_pipe();
        let mut file = Self::new(name, source);
        if wait {
            while file.format.is_none() {
                file.detect_format()?;
            }
        }
        Ok(file)
    }

    /// Reads from `reader`, which messages call `name`.
    #[must_use]
    pub fn from_reader(name: &str, reader: Box<dyn Read + Send>) -> Self {
        Self::new(name.to_owned(), Source::from_reader(reader))
    }

    fn new(name: String, source: Source) -> Self {
        let size = source.size().unwrap_or(0);
        Self {
            name,
            buffer: BlockBuffer::new(Decompressed::new(source)),
            frames: FrameList::default(),
            format: None,
            count: 0,
            link: LinkType::Other(0),
            next: Next::Walk,
            ended: false,
            counters: Counters {
                size,
                ..Counters::default()
            },
        }
    }

    /// Reads until there is a burst or something to report.
    pub(super) fn advance(&mut self) -> Result<Advanced, PortError> {
        self.count = 0;
        loop {
            if self.ended {
                return Ok(Advanced::End);
            }
            if self.format.is_none() {
                match self.detect_format() {
                    Ok(Filled::Idle) => return Ok(Advanced::Idle),
                    Ok(_) => continue,
                    Err(error) => {
                        self.ended = true;
                        return Err(error);
                    }
                }
            }
            let needed = match self.next {
                Next::Walk => {
                    self.walk();
                    if self.count > 0 {
                        return Ok(Advanced::Burst);
                    }
                    continue;
                }
                Next::Need(bytes) if bytes <= self.buffer.bytes().len() => {
                    self.next = Next::Walk;
                    continue;
                }
                Next::Need(bytes) => bytes,
                Next::Skip(bytes) => {
                    self.buffer.skip(bytes);
                    self.next = Next::Walk;
                    continue;
                }
                Next::Report(fault, bytes) => {
                    self.next = Next::Skip(bytes);
                    return Ok(self.report_fault(&fault, "skipped"));
                }
                Next::Abort(fault) => {
                    self.ended = true;
                    return Ok(
                        self.report_fault(&fault, "the file is damaged, the rest cannot be read")
                    );
                }
            };
            match self.buffer.fill(needed) {
                Ok(Filled::More) => {}
                Ok(Filled::Idle) => return Ok(Advanced::Idle),
                Ok(Filled::End) => {
                    self.ended = true;
                    if let Some(fault) = self.report_shrinking() {
                        return Ok(fault);
                    }
                    if self.is_truncated() {
                        return Ok(self.report_truncation(needed));
                    }
                }
                Err(error) => {
                    self.ended = true;
                    return Ok(self.report_read_error(&error));
                }
            }
        }
    }

    /// Returns the burst of the last [`CaptureFile::advance`].
    pub(super) fn burst(&self) -> Burst<'_> {
        Burst {
            link: self.link,
            frames: self.frames.first(self.count),
        }
    }

    /// Walks the available bytes once.
    fn walk(&mut self) {
        // SAFETY: only `burst` reads the frames, and only the `count` frames that this walk writes.
        // `advance` resets `count` to 0 before it fills the buffer, and nothing else fills it: until
        // then its bytes neither move nor change (`consume` and `skip` change offsets only), and a
        // burst borrows the port.
        let frames = unsafe { self.frames.slots() };
        let bytes = self.buffer.bytes();
        let walked: WalkResult = match &mut self.format {
            Some(Format::Pcap(pcap)) => pcap.walk(bytes, frames),
            Some(Format::Pcapng(pcapng)) => pcapng.walk(bytes, frames),
            None => return,
        };
        self.buffer.consume(walked.consumed);
        self.count = walked.frames;
        self.link = walked.link;
        self.next = walked.next;
        self.counters.frames += walked.frames as u64;
        self.counters.bytes += walked.wire_bytes;
        self.counters.faults += walked.suppressed_faults;
        self.counters.snaplen_errors += walked.snaplen_errors;
    }

    /// Reads once, and detects the format if enough bytes are available.
    fn detect_format(&mut self) -> Result<Filled, PortError> {
        const NEEDED: usize = pcap::FILE_HEADER_BYTES;
        let filled = self
            .buffer
            .fill(NEEDED)
            .map_err(|error| self.start_error(&error))?;
        let bytes = self.buffer.bytes();
        if filled == Filled::Idle || (filled == Filled::More && bytes.len() < NEEDED) {
            return Ok(filled);
        }
        let failed = |what: String| Err(PortError::Failed(format!("{}: {what}", self.name)));
        if bytes.is_empty() {
            return failed(match self.compression() {
                "" => "the input is empty; was the capture completed?".to_owned(),
                kind => format!("the input is empty after decompression ({kind})"),
            });
        }
        if Pcapng::matches(bytes) {
            if bytes.len() < pcapng::SECTION_START_BYTES {
                return failed("the capture is truncated in its file header".to_owned());
            }
            if let Err(fault) = Pcapng::validate(bytes) {
                return failed(format!("unreadable pcapng file: {fault}"));
            }
            self.format = Some(Format::Pcapng(Pcapng::default()));
        } else if Pcap::matches(bytes) {
            let Some(header) = bytes.first_chunk() else {
                return failed("the capture is truncated in its file header".to_owned());
            };
            match Pcap::new(header, &mut self.counters.snaplen_errors) {
                Ok(pcap) => self.format = Some(Format::Pcap(pcap)),
                Err(error) => {
                    return failed(format!("unreadable pcap file: {error}"));
                }
            }
            self.buffer.consume(pcap::FILE_HEADER_BYTES);
        } else {
            let decompressed = match self.compression() {
                "" => String::new(),
                kind => format!(" (after {kind} decompression)"),
            };
            let description = unrecognised::describe(bytes);
            return failed(format!(
                "not a pcap or pcapng file{decompressed}: {description}"
            ));
        }
        Ok(filled)
    }

    /// Whether the input ended inside a record.
    fn is_truncated(&self) -> bool {
        !self.buffer.bytes().is_empty() || self.buffer.pending_skip() > 0
    }

    fn compression(&self) -> &'static str {
        self.buffer.reader().compression().name()
    }

    fn report_fault(&mut self, fault: &FileFault, consequence: &str) -> Advanced {
        let offset = self.buffer.consumed();
        self.fault(format_args!("{fault} at byte {offset}; {consequence}"))
    }

    /// Reports a file that became shorter before all of it was read. It may end between two packets, so
    /// that nothing else shows the loss.
    fn report_shrinking(&mut self) -> Option<Advanced> {
        let source = self.buffer.reader().source()?;
        let (before, read) = (source.size()?, source.bytes_read());
        let now = source.changed_size()?;
        (now < before && read < before).then(|| {
            self.fault(format_args!(
                "the file shrank from {before} to {now} bytes while it was read, after {read} bytes: another \
                 program has truncated it"
            ))
        })
    }

    /// Returns what to add to the message about a truncated capture.
    fn growth(&self) -> String {
        let source = self.buffer.reader().source();
        let grown = source.and_then(|source| source.changed_size()?.checked_sub(source.size()?));
        grown.map_or_else(String::new, |bytes| {
            format!("; {bytes} bytes were added while it was read: it is still being written")
        })
    }

    fn report_truncation(&mut self, needed: usize) -> Advanced {
        let unit = match self.format {
            Some(Format::Pcap(_)) => "a packet",
            _ => "a block",
        };
        let skip = self.buffer.pending_skip();
        let available = self.buffer.bytes().len();
        let growth = self.growth();
        if skip > 0 {
            return self.fault(format_args!(
                "the capture is truncated in {unit}, {skip} bytes are missing{growth}"
            ));
        }
        self.fault(format_args!(
            "the capture is truncated in {unit}, after {available} of at least {needed} bytes{growth}"
        ))
    }

    fn report_read_error(&mut self, error: &io::Error) -> Advanced {
        match self.compression() {
            "" => self.fault(format_args!("read error: {error}")),
            kind if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.fault(format_args!("the {kind} data are truncated"))
            }
            kind => self.fault(format_args!("the {kind} data are corrupt: {error}")),
        }
    }

    /// Counts a fault; the message says how many packets precede it.
    fn fault(&mut self, message: std::fmt::Arguments<'_>) -> Advanced {
        self.counters.faults += 1;
        let frames = self.counters.frames;
        Advanced::Fault(format!("{}: after {frames} packets: {message}", self.name))
    }

    fn start_error(&self, error: &io::Error) -> PortError {
        let name = &self.name;
        match self.buffer.reader().compression() {
            Compression::None => read_error(name, error),
            kind => PortError::Failed(format!(
                "{name}: the {} data are corrupt at the start: {error}",
                kind.name()
            )),
        }
    }
}

/// Returns the error for an input that could not be opened.
fn open_error(input: &Input, error: &io::Error) -> PortError {
    match (input, error.kind()) {
        (Input::Path(path), io::ErrorKind::PermissionDenied) => {
            PortError::Permission(format!("{input}: {}", permission_hint(path)))
        }
        _ => read_error(&input.to_string(), error),
    }
}

/// Returns the error for an input whose first bytes could not be read.
fn read_error(name: &str, error: &io::Error) -> PortError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            PortError::Permission(format!("{name}: no permission to read the file"))
        }
        io::ErrorKind::NotFound => {
            PortError::Failed(format!("{name}: no such file; check the path"))
        }
        io::ErrorKind::IsADirectory => {
            PortError::Failed(format!("{name}: is a directory; specify the files in it"))
        }
        _ => PortError::Failed(format!("{name}: cannot be read: {error}")),
    }
}

impl Port for CaptureFile {
    fn receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        Ok(match self.advance()? {
            Advanced::Burst => Received::Burst(self.burst()),
            Advanced::Idle => Received::Idle,
            Advanced::Fault(message) => Received::Fault(message),
            Advanced::End => Received::End,
        })
    }

    fn counters(&mut self) -> Counters {
        let position = self.buffer.reader().source().map_or(0, Source::bytes_read);
        Counters {
            position,
            ..self.counters
        }
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn stop(&mut self) {
        self.ended = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permission_error_ends_with_the_command_that_grants_it() {
        let input = Input::Path("a.pcap".into());
        let error = open_error(&input, &io::ErrorKind::PermissionDenied.into());
        assert!(matches!(error, PortError::Permission(_)));
        assert_eq!(
            error.to_string(),
            "a.pcap: no permission to read the file; run as its owner, or: sudo chmod a+r 'a.pcap'"
        );
    }
}
