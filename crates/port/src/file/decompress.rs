//! Plain, gzip and zstd inputs, told apart by their first bytes.

use super::gzip_stream::GzipStream;
use super::source::Source;
use super::zstd_stream::ZstdStream;
use std::io::{self, BufReader, Cursor, Read};

/// Compressed bytes read at a time.
const COMPRESSED_BLOCK_BYTES: usize = 128 << 10;

/// The first bytes of a gzip member (RFC 1952 section 2.3.1); the third is the only method there is.
const GZIP_MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
/// The first bytes of a zstd frame (RFC 8878 section 3.1.1), little-endian 0xfd2fb528.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The bytes that tell.
const MAGIC_BYTES: usize = 4;

/// A source from its first byte on, though some bytes have been looked at.
type Rewound = io::Chain<Cursor<Vec<u8>>, Source>;

/// How an input is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    /// Not at all.
    None,
    /// gzip, RFC 1952, of one or more members.
    Gzip,
    /// zstd, RFC 8878, of one or more frames.
    Zstd,
}

impl Compression {
    /// How messages call it; empty for none.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// An input whose compression is being undone.
pub(super) enum Decompressed {
    /// The first bytes have not all come yet; without a source only while the variant changes.
    Undecided {
        /// Those that have.
        first: Vec<u8>,
        /// Where the rest comes from.
        source: Option<Source>,
    },
    /// Nothing to undo.
    Plain(Rewound),
    /// gzip.
    Gzip(GzipStream<BufReader<Rewound>>),
    /// zstd.
    Zstd(Box<ZstdStream<BufReader<Rewound>>>),
}

impl Decompressed {
    /// Reads nothing yet.
    pub(super) fn new(source: Source) -> Self {
        Self::Undecided {
            first: Vec::with_capacity(MAGIC_BYTES),
            source: Some(source),
        }
    }

    /// Reads the bytes that tell how `source` is compressed, and goes on from there.
    fn decide(first: &mut Vec<u8>, source: &mut Option<Source>) -> io::Result<Option<Self>> {
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

    /// How the input is compressed.
    pub(super) fn compression(&self) -> Compression {
        match self {
            Self::Undecided { .. } | Self::Plain(_) => Compression::None,
            Self::Gzip(_) => Compression::Gzip,
            Self::Zstd(_) => Compression::Zstd,
        }
    }

    /// The source: what it has read is compressed where it is compressed.
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
            && let Some(decided) = Self::decide(first, source)?
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

/// Whether reading failed only because there is nothing yet, or a signal came.
pub(super) fn is_pause(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
