//! Decompresses gzip and zstd inputs, detected by their magic numbers.

use super::gzip_stream::GzipStream;
use super::source::Source;
use super::zstd_stream::ZstdStream;
use std::io::{self, BufReader, Cursor, Read};

/// Compressed bytes per read.
const COMPRESSED_BLOCK_BYTES: usize = 128 << 10;

/// The first bytes of a gzip member (RFC 1952 section 2.3.1); the third is the only defined method.
const GZIP_MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
/// The first bytes of a zstd frame (RFC 8878 section 3.1.1), little-endian 0xfd2fb528.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Bytes needed to detect the compression.
const MAGIC_BYTES: usize = 4;

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
}

impl Compression {
    /// Name in messages; empty if uncompressed.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
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
    /// Uncompressed. Plain(Rewound),
    Plain(Rewound),
    /// gzip.
    Gzip(GzipStream<BufReader<Rewound>>),
    /// zstd.
    Zstd(Box<ZstdStream<BufReader<Rewound>>>),
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
        let gzip = first.starts_with(&GZIP_MAGIC);
        let zstd = first.starts_with(&ZSTD_MAGIC);
        let Some(source) = source.take() else {
            return Ok(None);
        };
        let rewound = Cursor::new(std::mem::take(first)).chain(source);
        let buffered = |rewound| BufReader::with_capacity(COMPRESSED_BLOCK_BYTES, rewound);
        Ok(Some(if gzip {
            Self::Gzip(GzipStream::new(buffered(rewound)))
        } else if zstd {
            Self::Zstd(Box::new(ZstdStream::new(buffered(rewound))?))
        } else {
            Self::Plain(rewound)
        }))
    }

    /// Compression of the input; `None` until detected.
    pub(super) fn compression(&self) -> Compression {
        match self {
            Self::Undecided { .. } | Self::Plain(_) => Compression::None,
            Self::Gzip(_) => Compression::Gzip,
            Self::Zstd(_) => Compression::Zstd,
        }
    }

    /// The source, which counts compressed bytes if the input is compressed.
    pub(super) fn source(&self) -> Option<&Source> {
        let rewound = match self {
            Self::Undecided { source, .. } => return source.as_ref(),
            Self::Plain(rewound) => rewound,
            Self::Gzip(stream) => stream.get_ref()?.get_ref(),
            Self::Zstd(decoder) => decoder.get_ref().get_ref(),
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
        }
    }
}

/// Whether a read failed only because no bytes are available yet or a signal interrupted it.
pub(super) fn is_retryable(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
