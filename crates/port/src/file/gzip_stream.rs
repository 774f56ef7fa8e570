//! gzip: members one after the other, with zeroes behind any of them, as tapes and disks leave them.

use flate2::bufread::GzDecoder;
use std::io::{self, BufRead, Read};

/// What the members of `R` hold.
pub(super) enum GzipStream<R> {
    /// Within a member.
    Member(Box<GzDecoder<R>>),
    /// Between two, or behind the last.
    Between(R),
    /// Only while one changes into the other.
    Changing,
}

impl<R: BufRead> GzipStream<R> {
    pub(super) fn new(compressed: R) -> Self {
        Self::Member(Box::new(GzDecoder::new(compressed)))
    }

    /// Where the compressed bytes come from.
    pub(super) fn get_ref(&self) -> Option<&R> {
        match self {
            Self::Member(decoder) => Some(decoder.get_ref()),
            Self::Between(compressed) => Some(compressed),
            Self::Changing => None,
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
                Self::Between(compressed) => {
                    if skip_zeroes(compressed)? {
                        return Ok(0);
                    }
                }
                Self::Changing => return Ok(0),
            }
            *self = match std::mem::replace(self, Self::Changing) {
                Self::Member(decoder) => Self::Between(decoder.into_inner()),
                Self::Between(compressed) => Self::new(compressed),
                Self::Changing => Self::Changing,
            };
        }
    }
}

/// Passes zeroes over; whether there is nothing behind them.
fn skip_zeroes(compressed: &mut impl BufRead) -> io::Result<bool> {
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
