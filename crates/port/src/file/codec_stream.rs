//! Streams of xz and bzip2: one or more, with zero padding after any of them.

use super::gzip_stream::skip_zeroes;
use std::io::{self, BufRead, Read};

/// The most memory that an xz stream may require. `xz -9` requires 65 MiB; a crafted header must not
/// cause larger allocations.
const XZ_MEMORY_MAX: u64 = 256 << 20;

/// The result of one step of a decoder.
pub(super) struct Step {
    consumed: usize,
    written: usize,
    /// Whether the stream has ended.
    outcome: io::Result<bool>,
}

/// A decoder of one stream that can be called with any part of it.
pub(super) trait Codec: Sized {
    /// Creates a decoder for the next stream.
    ///
    /// # Errors
    /// If memory is exhausted.
    fn new() -> io::Result<Self>;

    /// Decodes a part of the stream.
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step;
}

/// Decodes an xz stream (The .xz File Format, version 1.2.1).
pub(super) struct Xz(liblzma::stream::Stream);

impl Codec for Xz {
    fn new() -> io::Result<Self> {
        let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY_MAX, 0)?;
        Ok(Self(stream))
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step {
        use liblzma::stream::{Action, Status};
        let before = (self.0.total_in(), self.0.total_out());
        let result = self.0.process(input, output, Action::Run);
        Step {
            consumed: (self.0.total_in() - before.0) as usize,
            written: (self.0.total_out() - before.1) as usize,
            outcome: result
                .map(|status| status == Status::StreamEnd)
                .map_err(Into::into),
        }
    }
}

/// Decodes a bzip2 stream.
pub(super) struct Bzip2(bzip2::Decompress);

impl Codec for Bzip2 {
    fn new() -> io::Result<Self> {
        Ok(Self(bzip2::Decompress::new(false)))
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step {
        use bzip2::Status;
        let before = (self.0.total_in(), self.0.total_out());
        let result = self.0.decompress(input, output);
        Step {
            consumed: (self.0.total_in() - before.0) as usize,
            written: (self.0.total_out() - before.1) as usize,
            outcome: match result {
                Ok(Status::MemNeeded) => Err(io::ErrorKind::OutOfMemory.into()),
                Ok(status) => Ok(status == Status::StreamEnd),
                Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            },
        }
    }
}

/// Decompresses the streams of `R` one after another.
pub(super) struct CodecStream<R, C> {
    source: R,
    /// `None` between two streams.
    codec: Option<C>,
    /// An error of a step that also wrote bytes, which are delivered first.
    pending_error: Option<io::Error>,
}

impl<R: BufRead, C: Codec> CodecStream<R, C> {
    pub(super) fn new(source: R) -> Self {
        Self {
            source,
            codec: None,
            pending_error: None,
        }
    }

    pub(super) fn get_ref(&self) -> &R {
        &self.source
    }
}

impl<R: BufRead, C: Codec> Read for CodecStream<R, C> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        if let Some(error) = self.pending_error.take() {
            return Err(error);
        }
        loop {
            let codec = match &mut self.codec {
                Some(codec) => codec,
                None if skip_zeroes(&mut self.source)? => return Ok(0),
                none => none.insert(C::new()?),
            };
            let input = self.source.fill_buf()?;
            let is_end = input.is_empty();
            let step = codec.step(input, buffer);
            self.source.consume(step.consumed);
            match step.outcome {
                Ok(true) => self.codec = None,
                Ok(false) if is_end && step.written == 0 => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Ok(false) => {}
                Err(error) if step.written == 0 => return Err(error),
                Err(error) => self.pending_error = Some(error),
            }
            if step.written > 0 {
                return Ok(step.written);
            }
        }
    }
}
