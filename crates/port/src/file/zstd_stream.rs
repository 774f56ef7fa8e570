//! zstd undone block by block: all that stands before a fault is delivered, in whatever pieces the
//! input comes.

use std::io::{self, BufRead, Read};
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};
use zstd::zstd_safe::DParameter;

/// The base-2 logarithm of the largest window that is taken, zstd's own default: 128 MiB. The few
/// bytes of a hostile header must not ask for more.
const MAX_WINDOW_LOG: u32 = 27;

/// Bytes of a block's header (RFC 8878 section 3.1.1.2), which the decoder asks for with the block before.
const BLOCK_HEADER_BYTES: usize = 3;

/// Bytes that begin any frame: its magic number, and the first that tells how long the header is.
const FRAME_START_BYTES: usize = 5;

/// The frames of an input, one after the other.
pub(super) struct ZstdStream<R> {
    source: R,
    decoder: Decoder<'static>,
    /// Bytes that the decoder asks for; 0 between two frames.
    wanted: usize,
    /// Whether the decoder may have more than it could deliver.
    may_hold: bool,
}

impl<R: BufRead> ZstdStream<R> {
    /// # Errors
    /// When there is no memory for a decoder.
    pub(super) fn new(source: R) -> io::Result<Self> {
        let mut decoder = Decoder::new()?;
        decoder.set_parameter(DParameter::WindowLogMax(MAX_WINDOW_LOG))?;
        Ok(Self {
            source,
            decoder,
            wanted: 0,
            may_hold: false,
        })
    }

    pub(super) fn get_ref(&self) -> &R {
        &self.source
    }

    /// How much is given to the decoder at once: a block without the header of the next, whose fault
    /// would keep the block from being delivered.
    fn step(&self) -> usize {
        match self.wanted {
            0 => FRAME_START_BYTES,
            wanted if wanted > BLOCK_HEADER_BYTES => wanted - BLOCK_HEADER_BYTES,
            wanted => wanted,
        }
    }
}

impl<R: BufRead> Read for ZstdStream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let step = self.step();
            let input = if self.may_hold {
                &[]
            } else {
                let input = self.source.fill_buf()?;
                if input.is_empty() {
                    return match self.wanted {
                        0 => Ok(0),
                        _ => Err(io::ErrorKind::UnexpectedEof.into()),
                    };
                }
                &input[..input.len().min(step)]
            };
            let mut from = InBuffer::around(input);
            let mut to = OutBuffer::around(&mut *buffer);
            let result = self.decoder.run(&mut from, &mut to);
            let (taken, given) = (from.pos(), to.pos());
            self.source.consume(taken);
            self.wanted = result?;
            self.may_hold = given == buffer.len();
            if given > 0 {
                return Ok(given);
            }
        }
    }
}
