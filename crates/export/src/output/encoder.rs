//! Compression on the way out, as the end of the target's name says.

use flate2::{Compress, Crc, FlushCompress, Status};
use std::io::{self, Write};
use std::path::Path;

/// How the bytes of an output are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// gzip (RFC 1952), for names that end in `.gz`.
    Gzip,
    /// Zstandard (RFC 8878), for names that end in `.zst`.
    Zstandard,
}

impl Compression {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Gzip, Self::Zstandard];

    /// What names end in, without the dot.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Gzip => "gz",
            Self::Zstandard => "zst",
        }
    }

    /// What the name of this file asks for.
    #[must_use]
    pub fn of_name(path: &Path) -> Option<Self> {
        let end = path.extension()?;
        Self::ALL
            .into_iter()
            .find(|compression| compression.extension() == end)
    }
}

/// The header of a gzip member without options: deflate, no time, by the fastest algorithm, on an
/// unknown system (RFC 1952 section 2.3).
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];

/// An empty last block of deflate with fixed codes (RFC 1951 section 3.2.3), behind a flush.
const DEFLATE_END: [u8; 2] = [3, 0];

/// An empty last block of Zstandard (RFC 8878 section 3.1.1.2), behind a flush.
const ZSTANDARD_END: [u8; 3] = [1, 0, 0];

/// Room that deflate is given at a time.
const ROOM: usize = 64 * 1024;

/// Compresses into memory, so that a disk that fills never leaves it in the middle.
pub(crate) enum Encoder {
    /// Level 1: records are many, and text repeats itself.
    Gzip(Box<Gzip>),
    /// Level 3, zstd's own choice.
    Zstandard(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

/// A gzip member (RFC 1952).
pub(crate) struct Gzip {
    deflate: Compress,
    /// Of all that was taken in, for the trailer.
    check: Crc,
    compressed: Vec<u8>,
}

impl Gzip {
    fn new() -> Self {
        Self {
            deflate: Compress::new(flate2::Compression::fast(), false),
            check: Crc::new(),
            compressed: GZIP_HEADER.to_vec(),
        }
    }

    /// Compresses bytes, until all that this flush asks for has come out.
    fn run(&mut self, mut bytes: &[u8], flush: FlushCompress) -> io::Result<()> {
        self.check.update(bytes);
        loop {
            self.compressed.reserve(ROOM);
            let before = self.deflate.total_in();
            let status = self
                .deflate
                .compress_vec(bytes, &mut self.compressed, flush)?;
            let taken = (self.deflate.total_in() - before) as usize;
            bytes = bytes.get(taken..).unwrap_or_default();
            // Where room is left, there is nothing more to come.
            let is_done = self.compressed.len() < self.compressed.capacity();
            if status == Status::StreamEnd || (is_done && bytes.is_empty()) {
                return Ok(());
            }
        }
    }

    /// Check sum and length.
    fn trailer(&self) -> [u8; 8] {
        let [a, b, c, d] = self.check.sum().to_le_bytes();
        let [e, f, g, h] = self.check.amount().to_le_bytes();
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

    /// Takes bytes in, and gives all of them out, so that a reader can read them.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Gzip(gzip) => gzip.run(bytes, FlushCompress::Sync),
            Self::Zstandard(encoder) => {
                encoder.write_all(bytes)?;
                encoder.flush()
            }
        }
    }

    /// What has come out so far.
    pub(crate) fn compressed(&mut self) -> &mut Vec<u8> {
        match self {
            Self::Gzip(gzip) => &mut gzip.compressed,
            Self::Zstandard(encoder) => encoder.get_mut(),
        }
    }

    /// What would end the stream behind the bytes that were taken in, of which there must be some.
    pub(crate) fn ending(&self) -> Vec<u8> {
        match self {
            Self::Gzip(gzip) => [&DEFLATE_END[..], &gzip.trailer()].concat(),
            Self::Zstandard(_) => ZSTANDARD_END.to_vec(),
        }
    }

    /// Ends the stream: its last bytes.
    pub(crate) fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip(mut gzip) => {
                gzip.run(&[], FlushCompress::Finish)?;
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

    /// Behind each part, however well it compresses, the stream can end.
    #[test]
    fn a_stream_can_end_behind_each_part() {
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
                    encoder.take(&part).unwrap();
                    given.extend_from_slice(&part);
                    out.append(encoder.compressed());
                    let ended = [&out[..], &encoder.ending()].concat();
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
