//! Values as Parquet has them in pages and statistics ("PLAIN").

use super::column::{Ipv4Addresses, Strings};
use super::numbering::Numbering;
use crate::address_text::ipv4_text;
use ::parquet::basic::Encoding;
use ::parquet::data_type::ByteArray;
use ::parquet::file::statistics::{Statistics, ValueStatistics};
use std::ops::Range;

/// Values of one type, by their places.
pub(super) trait Plain {
    /// How they stand in a page where they are not numbered.
    const ENCODING: Encoding = Encoding::PLAIN;

    fn count(&self) -> usize;

    /// Numbers those in this range, which follows what was numbered before; false where that is not
    /// worth it.
    fn number(&self, range: Range<usize>, numbering: &mut Numbering) -> bool;

    /// Bytes of one.
    fn bytes(&self, at: usize) -> usize;

    /// Appends one.
    fn append(&self, at: usize, page: &mut Vec<u8>);

    /// Appends several.
    fn append_all(&self, range: Range<usize>, page: &mut Vec<u8>) {
        for at in range {
            self.append(at, page);
        }
    }

    /// The least and the greatest of those `among`, and how many records have none; `unsigned`: how
    /// whole numbers are compared.
    fn statistics(
        &self,
        among: impl Iterator<Item = usize> + Clone,
        nulls: u64,
        unsigned: bool,
    ) -> Statistics;
}

macro_rules! whole_numbers {
    ($($number:ty)*) => {$(
        impl Plain for [$number] {
            fn count(&self) -> usize {
                self.len()
            }

            fn number(&self, range: Range<usize>, numbering: &mut Numbering) -> bool {
                numbering.whole_numbers(self, range, |number| number as u64)
            }

            fn bytes(&self, _: usize) -> usize {
                size_of::<$number>()
            }

            fn append(&self, at: usize, page: &mut Vec<u8>) {
                page.extend_from_slice(&self[at].to_le_bytes());
            }

            fn append_all(&self, range: Range<usize>, page: &mut Vec<u8>) {
                append_all(&self[range], |number| number.to_le_bytes(), page);
            }

            fn statistics(
                &self,
                among: impl Iterator<Item = usize> + Clone,
                nulls: u64,
                unsigned: bool,
            ) -> Statistics {
                let flip = if unsigned { <$number>::MIN } else { 0 };
                let values = among.map(|at| self[at]);
                let least = values.clone().min_by_key(|number| number ^ flip);
                let greatest = values.max_by_key(|number| number ^ flip);
                Statistics::new(least, greatest, None, Some(nulls), false)
            }
        }
    )*};
}

whole_numbers! { i32 i64 }

impl Plain for [f64] {
    fn count(&self) -> usize {
        self.len()
    }

    fn number(&self, range: Range<usize>, numbering: &mut Numbering) -> bool {
        numbering.whole_numbers(self, range, f64::to_bits)
    }

    fn bytes(&self, _: usize) -> usize {
        size_of::<f64>()
    }

    fn append(&self, at: usize, page: &mut Vec<u8>) {
        page.extend_from_slice(&self[at].to_le_bytes());
    }

    fn append_all(&self, range: Range<usize>, page: &mut Vec<u8>) {
        append_all(&self[range], |number| number.to_le_bytes(), page);
    }

    fn statistics(
        &self,
        among: impl Iterator<Item = usize> + Clone,
        nulls: u64,
        _: bool,
    ) -> Statistics {
        // All are finite. A bound that is a zero is that of both zeroes (Parquet, "ColumnOrder").
        let values = among.map(|at| self[at]);
        let least = values.clone().reduce(f64::min);
        let greatest = values.reduce(f64::max);
        Statistics::new(
            least.map(|it| if it == 0.0 { -0.0 } else { it }),
            greatest.map(|it| if it == 0.0 { 0.0 } else { it }),
            None,
            Some(nulls),
            false,
        )
    }
}

impl Ipv4Addresses {
    /// The text of one, the first byte the lowest, and its length.
    #[inline(always)]
    fn text(&self, at: usize) -> (u128, usize) {
        ipv4_text(self.0[at].to_be_bytes())
    }
}

impl Plain for Ipv4Addresses {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn number(&self, range: Range<usize>, numbering: &mut Numbering) -> bool {
        numbering.whole_numbers(&self.0, range, u64::from)
    }

    fn bytes(&self, at: usize) -> usize {
        size_of::<u32>() + self.text(at).1
    }

    fn append(&self, at: usize, page: &mut Vec<u8>) {
        let (text, length) = self.text(at);
        page.extend_from_slice(&(length as u32).to_le_bytes());
        // A block of fixed size is copied without a call.
        page.extend_from_slice(&text.to_le_bytes());
        page.truncate(page.len() + length - size_of_val(&text));
    }

    fn statistics(
        &self,
        among: impl Iterator<Item = usize> + Clone,
        nulls: u64,
        _: bool,
    ) -> Statistics {
        // Texts are in the order of their bytes, the first the highest.
        let texts = among.map(|at| self.text(at).0.swap_bytes());
        let bound = |text: u128| {
            let bytes = text.to_be_bytes();
            let text = bytes.split(|&byte| byte == 0).next();
            ByteArray::from(text.unwrap_or_default().to_vec())
        };
        let least = texts.clone().min().map(bound);
        Statistics::new(least, texts.max().map(bound), None, Some(nulls), false)
    }
}

/// Bytes of a string that bounds others.
const BOUND: usize = 64;

impl Plain for Strings {
    fn count(&self) -> usize {
        self.len()
    }

    fn number(&self, range: Range<usize>, numbering: &mut Numbering) -> bool {
        numbering.strings(self, range)
    }

    fn bytes(&self, at: usize) -> usize {
        size_of::<u32>() + self.get(at).len()
    }

    fn append(&self, at: usize, page: &mut Vec<u8>) {
        let bytes = self.get(at);
        page.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        page.extend_from_slice(bytes);
    }

    fn statistics(
        &self,
        among: impl Iterator<Item = usize> + Clone,
        nulls: u64,
        _: bool,
    ) -> Statistics {
        let values = among.map(|at| self.get(at));
        let least = values.clone().min();
        let greatest = values.max();
        let exact = |it: Option<&[u8]>| it.is_none_or(|bytes| bytes.len() <= BOUND);
        let statistics = ValueStatistics::new(
            least.map(|bytes| ByteArray::from(start(bytes).to_vec())),
            greatest.and_then(above).map(ByteArray::from),
            None,
            Some(nulls),
            false,
        );
        statistics
            .with_min_is_exact(exact(least))
            .with_max_is_exact(exact(greatest))
            .into()
    }
}

/// As much of the beginning of a string as bounds it from below, in whole characters.
fn start(bytes: &[u8]) -> &[u8] {
    let mut end = bytes.len().min(BOUND);
    // A byte of this form continues a character.
    while bytes.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) && end > 0 {
        end -= 1;
    }
    &bytes[..end]
}

/// A string that is not below this one, and not too long; none where there is none.
fn above(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut bound = start(bytes).to_vec();
    if bound.len() < bytes.len() {
        let raised = bound.iter().rposition(|&byte| byte < 0x7f)?;
        bound[raised] += 1;
        bound.truncate(raised + 1);
    }
    Some(bound)
}

/// Appends numbers of one length.
fn append_all<T: Copy, const N: usize>(
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
    fn long_strings_are_bounded_by_short_ones_in_whole_characters() {
        let long = format!("{}é", "a".repeat(BOUND - 1));
        assert_eq!(start(long.as_bytes()), "a".repeat(BOUND - 1).as_bytes());
        let bound = above(long.as_bytes()).unwrap();
        assert_eq!(bound, format!("{}b", "a".repeat(BOUND - 2)).into_bytes());
        assert!(bound.as_slice() > long.as_bytes());
        assert_eq!(above(b"short").as_deref(), Some(&b"short"[..]));
        assert_eq!(above("é".repeat(BOUND).as_bytes()), None);
    }
}
