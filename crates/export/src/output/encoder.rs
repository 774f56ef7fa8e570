//! Compression of outputs, selected by file extension.

use flate2::{Compress, Crc, FlushCompress, Status};
use std::io::{self, Write};
use std::path::Path;

/// A compression format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// gzip (RFC 1952), for names that end in `.gz`.
    Gzip,
    /// Zstandard (RFC 8878), for names that end in `.zst`.
    Zstandard,
}

impl Compression {
    /// All formats.
    pub const ALL: [Self; 2] = [Self::Gzip, Self::Zstandard];

    /// Returns the file extension, without the dot.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Gzip => "gz",
            Self::Zstandard => "zst",
        }
    }

    /// Returns the compression that the extension of a path asks for.
    #[must_use]
    pub fn from_path(path: &Path) -> Option<Self> {
        let end = path.extension()?;
        Self::ALL
            .into_iter()
            .find(|compression| compression.extension() == end)
    }
}

/// Header of a gzip member without options: deflate, no timestamp, fastest algorithm, unknown
/// system (RFC 1952 section 2.3).
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];

/// An empty final deflate block with fixed codes (RFC 1951 section 3.2.3), valid after a flush.
const DEFLATE_END: [u8; 2] = [3, 0];

/// An empty final Zstandard block (RFC 8878 section 3.1.1.2), valid after a flush.
const ZSTANDARD_END: [u8; 3] = [1, 0, 0];

/// Output space reserved for deflate at a time.
const OUTPUT_CHUNK: usize = 64 * 1024;

/// Compresses into memory, so that a full disk cannot interrupt it.
pub(crate) enum Encoder {
    /// Level 1: there are many records, and text compresses well.
    Gzip(Box<Gzip>),
    /// Level 3, the default of zstd.
    Zstandard(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

/// A gzip member (RFC 1952).
pub(crate) struct Gzip {
    deflate: Compress,
    /// Checksum of all input, for the trailer.
    crc: Crc,
    compressed: Vec<u8>,
}

impl Gzip {
    fn new() -> Self {
        Self {
            deflate: Compress::new(flate2::Compression::fast(), false),
            crc: Crc::new(),
            compressed: GZIP_HEADER.to_vec(),
        }
    }

    /// Compresses bytes until the output of this flush is complete.
    fn compress(&mut self, mut bytes: &[u8], flush: FlushCompress) -> io::Result<()> {
        self.crc.update(bytes);
        loop {
            self.compressed.reserve(OUTPUT_CHUNK);
            let before = self.deflate.total_in();
            let status = self
                .deflate
                .compress_vec(bytes, &mut self.compressed, flush)?;
            let consumed = (self.deflate.total_in() - before) as usize;
            bytes = bytes.get(consumed..).unwrap_or_default();
            // Unused space means that all output is out.
            let is_done = self.compressed.len() < self.compressed.capacity();
            if status == Status::StreamEnd || (is_done && bytes.is_empty()) {
                return Ok(());
            }
        }
    }

    /// Checksum and length.
    fn trailer(&self) -> [u8; 8] {
        let [a, b, c, d] = self.crc.sum().to_le_bytes();
        let [e, f, g, h] = self.crc.amount().to_le_bytes();
        [a, b, c, d, e, f, g, h]
    }
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Gzip(_) => "Gzip",
            Self::Zstandard(_) => "Zstandard",
        })
    }
}

impl Encoder {
    pub(crate) fn new(compression: Compression) -> io::Result<Self> {
        Ok(match compression {
            Compression::Gzip => Self::Gzip(Box::new(Gzip::new())),
            Compression::Zstandard => {
                Self::Zstandard(zstd::stream::write::Encoder::new(Vec::new(), 3)?)
            }
        })
    }

    /// Compresses bytes and flushes, so that readers can decompress all of them.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Gzip(gzip) => gzip.compress(bytes, FlushCompress::Sync),
            Self::Zstandard(encoder) => {
                encoder.write_all(bytes)?;
                encoder.flush()
            }
        }
    }

    /// Returns the compressed bytes, for the caller to remove.
    pub(crate) fn compressed(&mut self) -> &mut Vec<u8> {
        match self {
            Self::Gzip(gzip) => &mut gzip.compressed,
            Self::Zstandard(encoder) => encoder.get_mut(),
        }
    }

    /// Returns the bytes that would end the stream after the input so far, which must not be empty.
    pub(crate) fn stream_end(&self) -> Vec<u8> {
        match self {
            Self::Gzip(gzip) => [&DEFLATE_END[..], &gzip.trailer()].concat(),
            Self::Zstandard(_) => ZSTANDARD_END.to_vec(),
        }
    }

    /// Ends the stream and returns its last bytes.
    pub(crate) fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip(mut gzip) => {
                gzip.compress(&[], FlushCompress::Finish)?;
                let trailer = gzip.trailer();
                gzip.compressed.extend_from_slice(&trailer);
                Ok(gzip.compressed)
            }
            Self::Zstandard(encoder) => encoder.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn read(compression: Compression, bytes: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        let result = match compression {
            Compression::Gzip => flate2::bufread::GzDecoder::new(bytes).read_to_end(&mut text),
            Compression::Zstandard => zstd::Decoder::with_buffer(bytes)
                .unwrap()
                .read_to_end(&mut text),
        };
        result.unwrap();
        text
    }

    /// The stream can be ended after each write, however well it compresses.
    #[test]
    fn stream_can_end_after_each_write() {
        for compression in Compression::ALL {
            let mut encoder = Encoder::new(compression).unwrap();
            let (mut given, mut out) = (Vec::new(), Vec::new());
            let mut noise = 1_u64;
            for length in [1, 10, 1000, 40_000, 65_536, 300_000, 1_000_000, 2] {
                for bits in [0, 4, 8] {
                    let part: Vec<u8> = (0..length)
                        .map(|_| {
                            noise = noise.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                            ((noise >> 40) & ((1 << bits) - 1)) as u8
                        })
                        .collect();
                    encoder.write(&part).unwrap();
                    given.extend_from_slice(&part);
                    out.append(encoder.compressed());
                    let ended = [&out[..], &encoder.stream_end()].concat();
                    assert!(
                        read(compression, &ended) == given,
                        "{compression:?} {length}"
                    );
                }
            }
            out.append(&mut encoder.finish().unwrap());
            assert!(read(compression, &out) == given, "{compression:?}");
            let empty = Encoder::new(compression).unwrap().finish().unwrap();
            assert!(read(compression, &empty).is_empty());
        }
    }
}
