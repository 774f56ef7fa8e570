//! Decompresses inputs: gzip, zstd, xz, bzip2 and lz4, detected by their magic numbers.

use super::codec_stream::{Bzip2, CodecStream, Xz};
use super::gzip_stream::GzipStream;
use super::lz4_stream::{LZ4_MAGIC, Lz4Stream};
use super::source::{Input, Source};
use super::zstd_stream::ZstdStream;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};

/// Compressed bytes per read.
const COMPRESSED_BLOCK_BYTES: usize = 128 << 10;

/// The first bytes of a gzip member (RFC 1952 section 2.3.1); the third is the only defined method.
const GZIP_MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
/// The first bytes of a zstd frame (RFC 8878 section 3.1.1), little-endian 0xfd2fb528.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The first bytes of an xz stream (The .xz File Format, section 2.1.1.1).
const XZ_MAGIC: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];
/// The first bytes of a bzip2 stream; a digit follows, the size of its blocks.
const BZIP2_MAGIC: [u8; 3] = *b"BZh";
/// Bytes needed to detect the compression.
const MAGIC_BYTES: usize = 6;

/// A source with the bytes read for detection put back in front.
type Rewound = io::Chain<Cursor<Vec<u8>>, Source>;

/// Compression format of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    /// Uncompressed.
    None,
    /// gzip, RFC 1952, one or more members.
    Gzip,
    /// zstd, RFC 8878, one or more frames.
    Zstd,
    /// xz, one or more streams.
    Xz,
    /// bzip2, one or more streams.
    Bzip2,
    /// lz4, one or more frames.
    Lz4,
}

impl Compression {
    /// Detects the compression of an input that starts with `bytes`, [`MAGIC_BYTES`] unless it is
    /// shorter.
    fn detect(bytes: &[u8]) -> Self {
        if bytes.starts_with(&GZIP_MAGIC) {
            Self::Gzip
        } else if bytes.starts_with(&ZSTD_MAGIC) {
            Self::Zstd
        } else if bytes.starts_with(&XZ_MAGIC) {
            Self::Xz
        } else if bytes.starts_with(&BZIP2_MAGIC) && bytes.get(3).is_some_and(u8::is_ascii_digit) {
            Self::Bzip2
        } else if bytes.starts_with(&LZ4_MAGIC) {
            Self::Lz4
        } else {
            Self::None
        }
    }

    /// Name in messages; empty if uncompressed.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
            Self::Bzip2 => "bzip2",
            Self::Lz4 => "lz4",
        }
    }
}

/// An input being decompressed.
pub(super) enum Decompressed {
    /// The magic number is not complete yet. `source` is `None` only while the variant is replaced.
    Undecided {
        /// The bytes read so far.
        first: Vec<u8>,
        /// The source of the rest.
        source: Option<Source>,
    },
    /// Uncompressed.
    Plain(Rewound),
    /// gzip.
    Gzip(GzipStream<BufReader<Rewound>>),
    /// zstd.
    Zstd(Box<ZstdStream<BufReader<Rewound>>>),
    /// xz.
    Xz(Box<CodecStream<BufReader<Rewound>, Xz>>),
    /// bzip2.
    Bzip2(Box<CodecStream<BufReader<Rewound>, Bzip2>>),
    /// lz4.
    Lz4(Box<Lz4Stream<BufReader<Rewound>>>),
}

impl Decompressed {
    /// Creates a decompressor; reads nothing yet.
    pub(super) fn new(source: Source) -> Self {
        Self::Undecided {
            first: Vec::with_capacity(MAGIC_BYTES),
            source: Some(source),
        }
    }

    /// Reads the magic number and returns the decompressor for it; `None` if there is no source.
    fn detect(first: &mut Vec<u8>, source: &mut Option<Source>) -> io::Result<Option<Self>> {
        let Some(reader) = source else {
            return Ok(None);
        };
        while first.len() < MAGIC_BYTES {
            let mut more = [0; MAGIC_BYTES];
            match reader.read(&mut more[first.len()..])? {
                0 => break,
                count => first.extend_from_slice(&more[first.len()..][..count]),
            }
        }
        let compression = Compression::detect(first);
        let Some(source) = source.take() else {
            return Ok(None);
        };
        let rewound = Cursor::new(std::mem::take(first)).chain(source);
        let buffered = |rewound| BufReader::with_capacity(COMPRESSED_BLOCK_BYTES, rewound);
        Ok(Some(match compression {
            Compression::None => Self::Plain(rewound),
            Compression::Gzip => Self::Gzip(GzipStream::new(buffered(rewound))),
            Compression::Zstd => Self::Zstd(Box::new(ZstdStream::new(buffered(rewound))?)),
            Compression::Xz => Self::Xz(Box::new(CodecStream::new(buffered(rewound)))),
            Compression::Bzip2 => Self::Bzip2(Box::new(CodecStream::new(buffered(rewound)))),
            Compression::Lz4 => Self::Lz4(Box::new(Lz4Stream::new(buffered(rewound)))),
        }))
    }

    /// Compression of the input; `None` until detected.
    pub(super) fn compression(&self) -> Compression {
        match self {
            Self::Undecided { .. } | Self::Plain(_) => Compression::None,
            Self::Gzip(_) => Compression::Gzip,
            Self::Zstd(_) => Compression::Zstd,
            Self::Xz(_) => Compression::Xz,
            Self::Bzip2(_) => Compression::Bzip2,
            Self::Lz4(_) => Compression::Lz4,
        }
    }

    /// The source, which counts compressed bytes if the input is compressed.
    pub(super) fn source(&self) -> Option<&Source> {
        let rewound = match self {
            Self::Undecided { source, .. } => return source.as_ref(),
            Self::Plain(rewound) => rewound,
            Self::Gzip(stream) => stream.get_ref()?.get_ref(),
            Self::Zstd(decoder) => decoder.get_ref().get_ref(),
            Self::Xz(decoder) => decoder.get_ref().get_ref(),
            Self::Bzip2(decoder) => decoder.get_ref().get_ref(),
            Self::Lz4(decoder) => decoder.get_ref().get_ref(),
        };
        Some(rewound.get_ref().1)
    }
}

impl Read for Decompressed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Self::Undecided { first, source } = self
            && let Some(decided) = Self::detect(first, source)?
        {
            *self = decided;
        }
        match self {
            Self::Undecided { .. } => Ok(0),
            Self::Plain(rewound) => rewound.read(buffer),
            Self::Gzip(decoder) => decoder.read(buffer),
            Self::Zstd(decoder) => decoder.read(buffer),
            Self::Xz(decoder) => decoder.read(buffer),
            Self::Bzip2(decoder) => decoder.read(buffer),
            Self::Lz4(decoder) => decoder.read(buffer),
        }
    }
}

/// Returns the size in bytes of an input that is a regular file and not compressed.
#[must_use]
pub fn uncompressed_size(input: &Input) -> Option<u64> {
    let Input::Path(path) = input else {
        return None;
    };
    if !input.is_repeatable() {
        return None;
    }
    let mut start = Vec::with_capacity(MAGIC_BYTES);
    let file = File::open(path).ok()?;
    file.take(MAGIC_BYTES as u64).read_to_end(&mut start).ok()?;
    match Compression::detect(&start) {
        Compression::None => input.size(),
        _ => None,
    }
}

/// Whether a read failed only because no bytes are available yet or a signal interrupted it.
pub(super) fn is_retryable(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
