//! Values as Parquet stores them in pages and statistics (PLAIN encoding).

use super::column::{Ipv4Addresses, Strings};
use super::indexer::Indexer;
use crate::address_text::ipv4_text;
use ::parquet::basic::Encoding;
use ::parquet::data_type::ByteArray;
use ::parquet::file::statistics::{Statistics, ValueStatistics};
use std::ops::Range;

/// A sequence of values of one type.
pub(super) trait PlainValues {
    /// Encoding of pages without a dictionary.
    const ENCODING: Encoding = Encoding::PLAIN;

    fn count(&self) -> usize;

    /// Indexes the values in `range`, which follows the previous range. Returns false if a
    /// dictionary does not pay.
    fn index(&self, range: Range<usize>, indexer: &mut Indexer) -> bool;

    /// Encoded size of a value.
    fn encoded_bytes(&self, at: usize) -> usize;

    /// Appends a value.
    fn append(&self, at: usize, page: &mut Vec<u8>);

    /// Appends the values in a range.
    fn append_range(&self, range: Range<usize>, page: &mut Vec<u8>) {
        for at in range {
            self.append(at, page);
        }
    }

    /// Returns the minimum and maximum of the values at `positions`, with the number of nulls.
    /// `unsigned` selects how integers are compared.
    fn statistics(
        &self,
        positions: impl Iterator<Item = usize> + Clone,
        nulls: u64,
        unsigned: bool,
    ) -> Statistics;
}

macro_rules! integers {
    ($($number:ty)*) => {$(
        impl PlainValues for [$number] {
            fn count(&self) -> usize {
                self.len()
            }

            fn index(&self, range: Range<usize>, indexer: &mut Indexer) -> bool {
                indexer.index_fixed(self, range, |number| number as u64)
            }

            fn encoded_bytes(&self, _: usize) -> usize {
                size_of::<$number>()
            }

            fn append(&self, at: usize, page: &mut Vec<u8>) {
                page.extend_from_slice(&self[at].to_le_bytes());
            }

            fn append_range(&self, range: Range<usize>, page: &mut Vec<u8>) {
                append_numbers(&self[range], |number| number.to_le_bytes(), page);
            }

            fn statistics(
                &self,
                positions: impl Iterator<Item = usize> + Clone,
                nulls: u64,
                unsigned: bool,
            ) -> Statistics {
                let flip = if unsigned { <$number>::MIN } else { 0 };
                let values = positions.map(|at| self[at]);
                let minimum = values.clone().min_by_key(|number| number ^ flip);
                let maximum = values.max_by_key(|number| number ^ flip);
                Statistics::new(minimum, maximum, None, Some(nulls), false)
            }
        }
    )*};
}

integers! { i32 i64 }

impl PlainValues for [f64] {
    fn count(&self) -> usize {
        self.len()
    }

    fn index(&self, range: Range<usize>, indexer: &mut Indexer) -> bool {
        indexer.index_fixed(self, range, f64::to_bits)
    }

    fn encoded_bytes(&self, _: usize) -> usize {
        size_of::<f64>()
    }

    fn append(&self, at: usize, page: &mut Vec<u8>) {
        page.extend_from_slice(&self[at].to_le_bytes());
    }

    fn append_range(&self, range: Range<usize>, page: &mut Vec<u8>) {
        append_numbers(&self[range], |number| number.to_le_bytes(), page);
    }

    fn statistics(
        &self,
        positions: impl Iterator<Item = usize> + Clone,
        nulls: u64,
        _: bool,
    ) -> Statistics {
        // All values are finite. A zero bound must cover both zeroes (Parquet, `ColumnOrder`).
        let values = positions.map(|at| self[at]);
        let minimum = values.clone().reduce(f64::min);
        let maximum = values.reduce(f64::max);
        Statistics::new(
            minimum.map(|it| if it == 0.0 { -0.0 } else { it }),
            maximum.map(|it| if it == 0.0 { 0.0 } else { it }),
            None,
            Some(nulls),
            false,
        )
    }
}

impl Ipv4Addresses {
    /// Returns the text of an address (first byte lowest) and its length.
    #[inline]
    fn text(&self, at: usize) -> (u128, usize) {
        ipv4_text(self.0[at].to_be_bytes())
    }
}

impl PlainValues for Ipv4Addresses {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn index(&self, range: Range<usize>, indexer: &mut Indexer) -> bool {
        indexer.index_fixed(&self.0, range, u64::from)
    }

    fn encoded_bytes(&self, at: usize) -> usize {
        size_of::<u32>() + self.text(at).1
    }

    fn append(&self, at: usize, page: &mut Vec<u8>) {
        let (text, length) = self.text(at);
        page.extend_from_slice(&(length as u32).to_le_bytes());
        // Copying a block of fixed size avoids a call.
        page.extend_from_slice(&text.to_le_bytes());
        page.truncate(page.len() + length - size_of_val(&text));
    }

    fn statistics(
        &self,
        positions: impl Iterator<Item = usize> + Clone,
        nulls: u64,
        _: bool,
    ) -> Statistics {
        // Text is ordered by bytes, the first being the most significant.
        let texts = positions.map(|at| self.text(at).0.swap_bytes());
        let bound = |text: u128| {
            let bytes = text.to_be_bytes();
            let text = bytes.split(|&byte| byte == 0).next();
            ByteArray::from(text.unwrap_or_default().to_vec())
        };
        let minimum = texts.clone().min().map(bound);
        Statistics::new(minimum, texts.max().map(bound), None, Some(nulls), false)
    }
}

/// Maximum length of a bound for strings.
const BOUND_BYTES_MAX: usize = 64;

impl PlainValues for Strings {
    fn count(&self) -> usize {
        self.len()
    }

    fn index(&self, range: Range<usize>, indexer: &mut Indexer) -> bool {
        indexer.index_strings(self, range)
    }

    fn encoded_bytes(&self, at: usize) -> usize {
        size_of::<u32>() + self.get(at).len()
    }

    fn append(&self, at: usize, page: &mut Vec<u8>) {
        let bytes = self.get(at);
        page.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        page.extend_from_slice(bytes);
    }

    fn statistics(
        &self,
        positions: impl Iterator<Item = usize> + Clone,
        nulls: u64,
        _: bool,
    ) -> Statistics {
        let values = positions.map(|at| self.get(at));
        let minimum = values.clone().min();
        let maximum = values.max();
        let exact = |it: Option<&[u8]>| it.is_none_or(|bytes| bytes.len() <= BOUND_BYTES_MAX);
        let statistics = ValueStatistics::new(
            minimum.map(|bytes| ByteArray::from(lower_bound(bytes).to_vec())),
            maximum.and_then(upper_bound).map(ByteArray::from),
            None,
            Some(nulls),
            false,
        );
        statistics
            .with_min_is_exact(exact(minimum))
            .with_max_is_exact(exact(maximum))
            .into()
    }
}

/// Returns a lower bound: the longest prefix of whole characters that is not too long.
fn lower_bound(bytes: &[u8]) -> &[u8] {
    let mut end = bytes.len().min(BOUND_BYTES_MAX);
    // A UTF-8 continuation byte.
    while bytes.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) && end > 0 {
        end -= 1;
    }
    &bytes[..end]
}

/// Returns a short upper bound, or `None` if there is none.
fn upper_bound(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut bound = lower_bound(bytes).to_vec();
    if bound.len() < bytes.len() {
        let raised = bound.iter().rposition(|&byte| byte < 0x7f)?;
        bound[raised] += 1;
        bound.truncate(raised + 1);
    }
    Some(bound)
}

/// Appends numbers of the same size.
fn append_numbers<T: Copy, const N: usize>(
    numbers: &[T],
    bytes: impl Fn(T) -> [u8; N],
    page: &mut Vec<u8>,
) {
    let (groups, rest) = numbers.as_chunks::<8>();
    page.reserve(size_of_val(numbers));
    for group in groups {
        page.extend_from_slice(group.map(&bytes).as_flattened());
    }
    for &number in rest {
        page.extend_from_slice(&bytes(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_strings_have_short_bounds_of_whole_characters() {
        let long = format!("{}é", "a".repeat(BOUND_BYTES_MAX - 1));
        assert_eq!(
            lower_bound(long.as_bytes()),
            "a".repeat(BOUND_BYTES_MAX - 1).as_bytes()
        );
        let bound = upper_bound(long.as_bytes()).unwrap();
        assert_eq!(
            bound,
            format!("{}b", "a".repeat(BOUND_BYTES_MAX - 2)).into_bytes()
        );
        assert!(bound.as_slice() > long.as_bytes());
        assert_eq!(upper_bound(b"short").as_deref(), Some(&b"short"[..]));
        assert_eq!(upper_bound("é".repeat(BOUND_BYTES_MAX).as_bytes()), None);
    }
}
