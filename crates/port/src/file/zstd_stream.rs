//! Decompresses zstd block by block, so that all data before a fault is delivered, however the input is
//! split.

use std::io::{self, BufRead, Read};
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};
use zstd::zstd_safe::DParameter;

/// Base-2 logarithm of the largest accepted window: 128 MiB, zstd's default. A crafted header must not
/// cause larger allocations.
const MAX_WINDOW_LOG: u32 = 27;

/// Bytes of a block header (RFC 8878 section 3.1.1.2), which the decoder requests along with the
/// previous block.
const BLOCK_HEADER_BYTES: usize = 3;

/// Bytes at the start of any frame: its magic number and the descriptor byte, which determines the
/// header's length.
const FRAME_START_BYTES: usize = 5;

/// Decompresses consecutive frames.
pub(super) struct ZstdStream<R> {
    source: R,
    decoder: Decoder<'static>,
    /// Bytes that the decoder requests; 0 between two frames.
    wanted: usize,
    /// Whether the decoder may hold output that did not fit.
    has_pending_output: bool,
}

impl<R: BufRead> ZstdStream<R> {
    /// # Errors
    /// If memory for a decoder is exhausted.
    pub(super) fn new(source: R) -> io::Result<Self> {
        let mut decoder = Decoder::new()?;
        decoder.set_parameter(DParameter::WindowLogMax(MAX_WINDOW_LOG))?;
        Ok(Self {
            source,
            decoder,
            wanted: 0,
            has_pending_output: false,
        })
    }

    pub(super) fn get_ref(&self) -> &R {
        &self.source
    }

    /// Bytes to pass to the decoder next: a block without the header of the next one, since a fault in
    /// that header would prevent the delivery of the block.
    fn next_input_bytes(&self) -> usize {
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
            let max = self.next_input_bytes();
            let input = if self.has_pending_output {
                &[]
            } else {
                let input = self.source.fill_buf()?;
                if input.is_empty() {
                    return match self.wanted {
                        0 => Ok(0),
                        _ => Err(io::ErrorKind::UnexpectedEof.into()),
                    };
                }
                &input[..input.len().min(max)]
            };
            let mut from = InBuffer::around(input);
            let mut to = OutBuffer::around(&mut *buffer);
            let result = self.decoder.run(&mut from, &mut to);
            let (consumed, written) = (from.pos(), to.pos());
            self.source.consume(consumed);
            self.wanted = result?;
            self.has_pending_output = written == buffer.len();
            if written > 0 {
                return Ok(written);
            }
        }
    }
}
