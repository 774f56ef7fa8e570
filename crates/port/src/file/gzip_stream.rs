//! gzip streams of one or more members, with zero padding after any of them, as written to tapes and
//! disks.

use flate2::bufread::GzDecoder;
use std::io::{self, BufRead, Read};

/// Decompresses the members of `R`.
pub(super) enum GzipStream<R> {
    /// Inside a member.
    Member(Box<GzDecoder<R>>),
    /// Between two members or after the last.
    BetweenMembers(R),
    /// Placeholder while one variant is replaced by another.
    Swapping,
}

impl<R: BufRead> GzipStream<R> {
    pub(super) fn new(compressed: R) -> Self {
        Self::Member(Box::new(GzDecoder::new(compressed)))
    }

    /// The source of the compressed bytes.
    pub(super) fn get_ref(&self) -> Option<&R> {
        match self {
            Self::Member(decoder) => Some(decoder.get_ref()),
            Self::BetweenMembers(compressed) => Some(compressed),
            Self::Swapping => None,
        }
    }
}

impl<R: BufRead> Read for GzipStream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self {
                Self::Member(decoder) => {
                    let count = decoder.read(buffer)?;
                    if count > 0 || buffer.is_empty() {
                        return Ok(count);
                    }
                }
                Self::BetweenMembers(compressed) => {
                    if skip_zeroes(compressed)? {
                        return Ok(0);
                    }
                }
                Self::Swapping => return Ok(0),
            }
            *self = match std::mem::replace(self, Self::Swapping) {
                Self::Member(decoder) => Self::BetweenMembers(decoder.into_inner()),
                Self::BetweenMembers(compressed) => Self::new(compressed),
                Self::Swapping => Self::Swapping,
            };
        }
    }
}

/// Skips zeroes; returns whether the input ends after them.
pub(super) fn skip_zeroes(compressed: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let bytes = compressed.fill_buf()?;
        let zeroes = bytes.iter().take_while(|&&byte| byte == 0).count();
        let (is_end, is_more) = (bytes.is_empty(), zeroes < bytes.len());
        compressed.consume(zeroes);
        if is_end || is_more {
            return Ok(is_end);
        }
    }
}
