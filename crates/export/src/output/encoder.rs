//! Compression on the way out, as the end of the target's name says.

use flate2::write::GzEncoder;
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

/// Compresses into memory, so that a disk that fills never leaves it in the middle.
pub(crate) enum Encoder {
    /// Level 1: records are many, and text repeats itself.
    Gzip(GzEncoder<Vec<u8>>),
    /// Level 3, zstd's own choice.
    Zstandard(zstd::stream::write::Encoder<'static, Vec<u8>>),
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
            Compression::Gzip => {
                Self::Gzip(GzEncoder::new(Vec::new(), flate2::Compression::fast()))
            }
            Compression::Zstandard => {
                Self::Zstandard(zstd::stream::write::Encoder::new(Vec::new(), 3)?)
            }
        })
    }

    /// Takes bytes in.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Gzip(encoder) => encoder.write_all(bytes),
            Self::Zstandard(encoder) => encoder.write_all(bytes),
        }
    }

    /// Gives out all that was taken in, so that a reader can read it.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Gzip(encoder) => encoder.flush(),
            Self::Zstandard(encoder) => encoder.flush(),
        }
    }

    /// What has come out so far.
    pub(crate) fn compressed(&mut self) -> &mut Vec<u8> {
        match self {
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Zstandard(encoder) => encoder.get_mut(),
        }
    }

    /// Ends the stream: its last bytes.
    pub(crate) fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstandard(encoder) => encoder.finish(),
        }
    }
}
