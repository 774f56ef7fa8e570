//! Decompresses lz4 frames (LZ4 Frame Format, version 1.6.4).
//!
//! The decoder reads from its input and cannot be resumed in the middle of a block. It therefore gets
//! whole units, headers and blocks, which [`Units`] collects while the input may be an empty pipe.

use lz4_flex::frame::FrameDecoder;
use std::io::{self, BufRead, Read};

/// The magic number of a frame.
pub(super) const LZ4_MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

/// Bytes of a frame header up to its flags.
const FLAGS_END: usize = 5;
/// Bytes of a frame header without the optional fields: magic number, flags, block size, checksum.
const HEADER_BYTES: usize = 7;
/// Bytes of a block header: the size of the block.
const BLOCK_HEADER_BYTES: usize = 4;
/// Bytes of the checksum of a block or of the content.
const CHECKSUM_BYTES: usize = 4;
/// Bit of the size of a block that is stored uncompressed.
const UNCOMPRESSED: u32 = 1 << 31;
/// The largest block of any frame; the decoder rejects a header with a larger one.
const BLOCK_BYTES_MAX: usize = 4 << 20;

/// Bits of the flags.
const BLOCK_CHECKSUMS: u8 = 1 << 4;
const CONTENT_SIZE: u8 = 1 << 3;
const CONTENT_CHECKSUM: u8 = 1 << 2;
const DICTIONARY: u8 = 1;

/// Decompresses consecutive frames.
pub(super) struct Lz4Stream<R: BufRead> {
    decoder: FrameDecoder<Units<R>>,
}

impl<R: BufRead> Lz4Stream<R> {
    pub(super) fn new(source: R) -> Self {
        let units = Units {
            source,
            unit: Vec::new(),
            delivered: 0,
            is_complete: true,
            is_cut_short: false,
            flags: None,
        };
        Self {
            decoder: FrameDecoder::new(units),
        }
    }

    pub(super) fn get_ref(&self) -> &R {
        &self.decoder.get_ref().source
    }
}

impl<R: BufRead> Read for Lz4Stream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let count = self.decoder.read(buffer)?;
            if count > 0 {
                return Ok(count);
            }
            // The decoder returns 0 after each frame, and also where a frame lacks its end.
            let units = self.decoder.get_mut();
            if units.flags.is_some() || !units.is_complete {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if units.source.fill_buf()?.is_empty() {
                return Ok(0);
            }
        }
    }
}

/// Reads whole headers and blocks. Fails with [`io::ErrorKind::WouldBlock`] only between two of them.
struct Units<R> {
    source: R,
    unit: Vec<u8>,
    /// Bytes of `unit` that the decoder has read.
    delivered: usize,
    /// Whether `unit` is complete.
    is_complete: bool,
    /// Whether the input has ended within `unit`. A pipe may be empty after its end, which must not
    /// interrupt the decoder within a unit.
    is_cut_short: bool,
    /// Flags of the current frame; `None` between frames.
    flags: Option<u8>,
}

impl<R: BufRead> Units<R> {
    /// Returns the length of the current unit, as far as its bytes so far determine it.
    fn unit_bytes(&self) -> usize {
        let unit = &self.unit[..];
        let Some(flags) = self.flags else {
            let Some(flags) = unit.get(FLAGS_END - 1) else {
                return FLAGS_END;
            };
            let has = |bit: u8| usize::from(flags & bit != 0);
            return HEADER_BYTES + 8 * has(CONTENT_SIZE) + 4 * has(DICTIONARY);
        };
        let Some(size) = unit.first_chunk::<BLOCK_HEADER_BYTES>() else {
            return BLOCK_HEADER_BYTES;
        };
        let size = (u32::from_le_bytes(*size) & !UNCOMPRESSED) as usize;
        let checksum = match size {
            0 => CONTENT_CHECKSUM,
            _ => BLOCK_CHECKSUMS,
        };
        match size {
            BLOCK_BYTES_MAX.. => BLOCK_HEADER_BYTES,
            _ if flags & checksum != 0 => BLOCK_HEADER_BYTES + size + CHECKSUM_BYTES,
            _ => BLOCK_HEADER_BYTES + size,
        }
    }

    /// Collects the current unit; at the end of the input it may be cut short.
    fn collect(&mut self) -> io::Result<()> {
        loop {
            let missing = self.unit_bytes() - self.unit.len();
            if missing == 0 {
                break;
            }
            let input = self.source.fill_buf()?;
            if input.is_empty() {
                self.is_cut_short = true;
                return Ok(());
            }
            let input = &input[..input.len().min(missing)];
            self.unit.extend_from_slice(input);
            let count = input.len();
            self.source.consume(count);
        }
        self.is_complete = true;
        self.flags = match self.flags {
            None => self.unit.get(FLAGS_END - 1).copied(),
            Some(_) if self.unit.starts_with(&[0; BLOCK_HEADER_BYTES]) => None,
            flags => flags,
        };
        Ok(())
    }
}

impl<R: BufRead> Read for Units<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.delivered == self.unit.len() && self.is_complete {
            self.unit.clear();
            self.delivered = 0;
            self.is_complete = false;
        }
        if !self.is_complete && !self.is_cut_short {
            self.collect()?;
        }
        let rest = &self.unit[self.delivered..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.delivered += count;
        Ok(count)
    }
}
