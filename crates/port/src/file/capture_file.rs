//! One capture file as a port.

use super::block_buffer::{BlockBuffer, Filled};
use super::decompress::{Compression, Decompressed};
use super::fault::Fault;
use super::missing_right::missing_right;
use super::pcap::{self, Pcap};
use super::pcapng::{self, Pcapng};
use super::source::{Input, Source};
use super::unrecognised;
use super::walk::{Next, Walked};
use crate::frame::{Burst, Counters, Port, PortError, Received};
use crate::frame_list::FrameList;
use std::io::{self, Read};
use wire::LinkType;

/// One capture: pcap or pcapng, plain or compressed, read once from its start to its end.
pub struct CaptureFile {
    name: String,
    buffer: BlockBuffer<Decompressed>,
    frames: FrameList,
    /// Unknown until the first bytes have come.
    format: Option<Format>,
    /// The burst at hand: the first `count` of `frames`.
    count: usize,
    link: LinkType,
    /// What the last walk left to do.
    next: Next,
    ended: bool,
    counters: Counters,
}

enum Format {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

/// What [`CaptureFile::advance`] came to: a [`Received`] that borrows nothing.
pub(super) enum Advanced {
    /// There is a burst.
    Burst,
    /// There is nothing yet.
    Idle,
    /// Something cannot be read.
    Fault(String),
    /// The file has ended.
    End,
}

impl CaptureFile {
    /// Opens `input`. A file's header is read and checked; standard input and named pipes are not
    /// waited for: what is wrong with their first bytes is an error of the first
    /// [`Port::receive`].
    ///
    /// # Errors
    /// One line that says what is wrong with the input and what to do about it:
    /// [`PortError::Permission`] where it may not be read, else [`PortError::Failed`].
    pub fn open(input: &Input) -> Result<Self, PortError> {
        let name = input.to_string();
        let source = input.open().map_err(|error| cannot_open(input, &error))?;
        let wait = !source.is_pipe();
        let mut file = Self::new(name, source);
        if wait {
            while file.format.is_none() {
                file.recognise()?;
            }
        }
        Ok(file)
    }

    /// Reads from anything; messages call it `name`.
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

    /// Reads on until there is a burst or something to tell.
    pub(super) fn advance(&mut self) -> Result<Advanced, PortError> {
        self.count = 0;
        loop {
            if self.ended {
                return Ok(Advanced::End);
            }
            if self.format.is_none() {
                match self.recognise() {
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
                Next::Complain(fault, bytes) => {
                    self.next = Next::Skip(bytes);
                    return Ok(self.complain(&fault, "it was left out"));
                }
                Next::GiveUp(fault) => {
                    self.ended = true;
                    return Ok(
                        self.complain(&fault, "the rest cannot be found, the file is damaged")
                    );
                }
            };
            match self.buffer.fill(needed) {
                Ok(Filled::More) => {}
                Ok(Filled::Idle) => return Ok(Advanced::Idle),
                Ok(Filled::End) => {
                    self.ended = true;
                    if self.is_cut() {
                        return Ok(self.complain_cut(needed));
                    }
                }
                Err(error) => {
                    self.ended = true;
                    return Ok(self.complain_reading(&error));
                }
            }
        }
    }

    /// The burst that [`CaptureFile::advance`] found.
    pub(super) fn burst(&self) -> Burst<'_> {
        Burst {
            link: self.link,
            frames: self.frames.first(self.count),
        }
    }

    /// Walks once over the bytes that are there.
    fn walk(&mut self) {
        // SAFETY: the frames are read through `burst` alone, of those that this walk has put there,
        // as `count` says. `count` is set to 0 at the start of `advance`, which is the only place from
        // where the buffer is filled: until then its bytes neither move nor change (`consume` and
        // `skip` move offsets only), and whoever holds a burst borrows the port until then.
        let frames = unsafe { self.frames.borrow() };
        let bytes = self.buffer.bytes();
        let walked: Walked = match &mut self.format {
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
        self.counters.faults += walked.more_faults;
        self.counters.snap_lengths += walked.snap_lengths;
    }

    /// Reads once, and finds out the format if there is enough for it.
    fn recognise(&mut self) -> Result<Filled, PortError> {
        const NEEDED: usize = pcap::FILE_HEADER_BYTES;
        let filled = self
            .buffer
            .fill(NEEDED)
            .map_err(|error| self.cannot_begin(&error))?;
        let bytes = self.buffer.bytes();
        if filled == Filled::Idle || (filled == Filled::More && bytes.len() < NEEDED) {
            return Ok(filled);
        }
        let failed = |what: String| Err(PortError::Failed(format!("{}: {what}", self.name)));
        if bytes.is_empty() {
            return failed(match self.compression() {
                "" => "is empty; was the capture written to its end?".to_owned(),
                kind => format!("is empty once unpacked ({kind})"),
            });
        }
        if Pcapng::recognises(bytes) {
            if bytes.len() < pcapng::SECTION_START_BYTES {
                return failed("ends in the middle of its header".to_owned());
            }
            if let Err(fault) = Pcapng::check(bytes) {
                return failed(format!("is a pcapng file that cannot be read: {fault}"));
            }
            self.format = Some(Format::Pcapng(Pcapng::default()));
        } else if Pcap::recognises(bytes) {
            let Some(header) = bytes.first_chunk() else {
                return failed("ends in the middle of its header".to_owned());
            };
            match Pcap::new(header, &mut self.counters.snap_lengths) {
                Ok(pcap) => self.format = Some(Format::Pcap(pcap)),
                Err(error) => {
                    return failed(format!("is a pcap file that cannot be read: {error}"));
                }
            }
            self.buffer.consume(pcap::FILE_HEADER_BYTES);
        } else {
            let unpacked = match self.compression() {
                "" => String::new(),
                kind => format!(" (once unpacked: {kind})"),
            };
            let looks = unrecognised::describe(bytes);
            return failed(format!("is not a pcap or pcapng file{unpacked}: {looks}"));
        }
        Ok(filled)
    }

    /// Whether the input's end leaves something unfinished.
    fn is_cut(&self) -> bool {
        !self.buffer.bytes().is_empty() || self.buffer.to_skip() > 0
    }

    fn compression(&self) -> &'static str {
        self.buffer.reader().compression().name()
    }

    fn complain(&mut self, fault: &Fault, then: &str) -> Advanced {
        let at = self.buffer.consumed();
        self.tell(format_args!("{fault}, at byte {at}; {then}"))
    }

    fn complain_cut(&mut self, needed: usize) -> Advanced {
        let what = match self.format {
            Some(Format::Pcap(_)) => "a packet",
            _ => "a block",
        };
        let skip = self.buffer.to_skip();
        let have = self.buffer.bytes().len();
        if skip > 0 {
            return self.tell(format_args!(
                "the file ends in the middle of {what}, {skip} bytes too early"
            ));
        }
        self.tell(format_args!(
            "the file ends in the middle of {what}, {have} of at least {needed} bytes are there"
        ))
    }

    fn complain_reading(&mut self, error: &io::Error) -> Advanced {
        match self.compression() {
            "" => self.tell(format_args!("the file cannot be read any further: {error}")),
            kind if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.tell(format_args!("the {kind} data end too early"))
            }
            kind => self.tell(format_args!("the {kind} data are damaged: {error}")),
        }
    }

    /// Counts a fault and says where it is.
    fn tell(&mut self, what: std::fmt::Arguments<'_>) -> Advanced {
        self.counters.faults += 1;
        let frames = self.counters.frames;
        Advanced::Fault(format!("{}: after {frames} packets {what}", self.name))
    }

    fn cannot_begin(&self, error: &io::Error) -> PortError {
        let name = &self.name;
        match self.buffer.reader().compression() {
            Compression::None => cannot_read(name, error),
            kind => PortError::Failed(format!(
                "{name}: the {} data are damaged from the start: {error}",
                kind.name()
            )),
        }
    }
}

/// Why an input could not be opened, and what to do.
fn cannot_open(input: &Input, error: &io::Error) -> PortError {
    match (input, error.kind()) {
        (Input::Path(path), io::ErrorKind::PermissionDenied) => {
            PortError::Permission(format!("{input}: {}", missing_right(path)))
        }
        _ => cannot_read(&input.to_string(), error),
    }
}

/// Why an input could not be read from its beginning.
fn cannot_read(name: &str, error: &io::Error) -> PortError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            PortError::Permission(format!("{name}: no permission to read it"))
        }
        io::ErrorKind::NotFound => {
            PortError::Failed(format!("{name}: no such file; check the path"))
        }
        io::ErrorKind::IsADirectory => {
            PortError::Failed(format!("{name}: is a directory; name the files in it"))
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
        let position = self.buffer.reader().source().map_or(0, Source::count);
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
    fn a_missing_right_is_told_apart_and_ends_with_the_line_that_grants_it() {
        let input = Input::Path("a.pcap".into());
        let error = cannot_open(&input, &io::ErrorKind::PermissionDenied.into());
        assert!(matches!(error, PortError::Permission(_)));
        assert_eq!(
            error.to_string(),
            "a.pcap: no permission to read it; run as its owner, or: sudo chmod a+r 'a.pcap'"
        );
    }
}
