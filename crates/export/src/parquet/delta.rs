//! Integers as differences of consecutive values (DELTA_BINARY_PACKED).

use super::hybrid::varint;
use super::indexer::Indexer;
use super::plain::PlainValues;
use ::parquet::basic::Encoding;
use ::parquet::file::statistics::Statistics;
use std::ops::Range;

/// Integers that are close to their predecessors.
pub(super) struct DeltaValues<'a>(pub(super) &'a [i64]);

/// Differences per block; a block stores their minimum once.
const BLOCK: usize = 128;

/// Differences packed with the same bit width.
const MINIBLOCK: usize = 32;

const MINIBLOCKS: usize = BLOCK / MINIBLOCK;

impl PlainValues for DeltaValues<'_> {
    const ENCODING: Encoding = Encoding::DELTA_BINARY_PACKED;

    fn count(&self) -> usize {
        self.0.len()
    }

    fn index(&self, range: Range<usize>, indexer: &mut Indexer) -> bool {
        self.0.index(range, indexer)
    }

    fn encoded_bytes(&self, at: usize) -> usize {
        self.0.encoded_bytes(at)
    }

    fn append(&self, at: usize, page: &mut Vec<u8>) {
        self.0.append(at, page);
    }

    fn append_range(&self, range: Range<usize>, page: &mut Vec<u8>) {
        write(&self.0[range], page);
    }

    fn statistics(
        &self,
        positions: impl Iterator<Item = usize> + Clone,
        nulls: u64,
        unsigned: bool,
    ) -> Statistics {
        self.0.statistics(positions, nulls, unsigned)
    }
}

/// Appends integers to a page.
fn write(numbers: &[i64], page: &mut Vec<u8>) {
    let first = numbers.first().copied().unwrap_or_default();
    varint(BLOCK as u64, page);
    varint(MINIBLOCKS as u64, page);
    varint(numbers.len() as u64, page);
    varint(zigzag(first), page);
    let rest = numbers.get(1..).unwrap_or_default();
    let mut differences = [0; BLOCK];
    for (before, block) in numbers.chunks(BLOCK).zip(rest.chunks(BLOCK)) {
        let mut minimum = i64::MAX;
        for ((difference, from), to) in differences.iter_mut().zip(before).zip(block) {
            *difference = to.wrapping_sub(*from);
            minimum = minimum.min(*difference);
        }
        // Readers ignore the padding.
        for difference in &mut differences[block.len()..] {
            *difference = minimum;
        }
        write_block(&differences, minimum, page);
    }
}

fn write_block(differences: &[i64; BLOCK], minimum: i64, page: &mut Vec<u8>) {
    varint(zigzag(minimum), page);
    let above = differences.map(|difference| difference.wrapping_sub(minimum) as u64);
    let (miniblocks, _) = above.as_chunks::<MINIBLOCK>();
    let width = |miniblock: &[u64; MINIBLOCK]| {
        let all = miniblock.iter().fold(0, |all, it| all | it);
        u64::BITS - all.leading_zeros()
    };
    page.extend(miniblocks.iter().map(|miniblock| width(miniblock) as u8));
    for miniblock in miniblocks {
        pack(miniblock, width(miniblock), page);
    }
}

/// Packs numbers with this bit width, lowest bits first.
fn pack(numbers: &[u64; MINIBLOCK], width: u32, page: &mut Vec<u8>) {
    // One more word than the widest numbers need.
    let mut words = [0; MINIBLOCK + 1];
    for (number, index) in numbers.iter().zip(0..) {
        let bit: u32 = index * width;
        let (word, shift) = (bit / u64::BITS, bit % u64::BITS);
        if let Some([low, high]) = words.get_mut(word as usize..word as usize + 2) {
            *low |= number << shift;
            // No bits are carried if nothing was shifted.
            *high |= number >> 1 >> (u64::BITS - 1 - shift);
        }
    }
    let bytes = words.map(u64::to_le_bytes);
    let length = MINIBLOCK / 8 * width as usize;
    page.extend_from_slice(&bytes.as_flattened()[..length]);
}

/// Moves the sign to the lowest bit.
const fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::parquet::basic::Type as Physical;
    use ::parquet::column::page::{Page, PageMetadata, PageReader};
    use ::parquet::column::reader::ColumnReaderImpl;
    use ::parquet::data_type::Int64Type;
    use ::parquet::errors::ParquetError;
    use ::parquet::schema::types::{ColumnDescriptor, ColumnPath, Type};
    use proptest::prelude::*;
    use std::sync::Arc;

    /// A column with one page.
    struct OnePage(Option<Page>);

    impl Iterator for OnePage {
        type Item = Result<Page, ParquetError>;

        fn next(&mut self) -> Option<Self::Item> {
            self.0.take().map(Ok)
        }
    }

    impl PageReader for OnePage {
        fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
            Ok(self.0.take())
        }

        fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
            Ok(None)
        }

        fn skip_next_page(&mut self) -> Result<(), ParquetError> {
            self.0 = None;
            Ok(())
        }
    }

    /// Reads a page with the `parquet` crate.
    fn read(page: Vec<u8>, count: usize) -> Vec<i64> {
        let column = Type::primitive_type_builder("column", Physical::INT64).build();
        let descriptor = ColumnDescriptor::new(
            Arc::new(column.unwrap()),
            0,
            0,
            ColumnPath::new(vec!["column".to_owned()]),
        );
        let page = Page::DataPage {
            buf: page.into(),
            num_values: count as u32,
            encoding: Encoding::DELTA_BINARY_PACKED,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let pages = Box::new(OnePage(Some(page)));
        let mut reader = ColumnReaderImpl::<Int64Type>::new(Arc::new(descriptor), pages);
        let mut numbers = Vec::new();
        reader
            .read_records(count, None, None, &mut numbers)
            .unwrap();
        numbers
    }

    proptest! {
        #[test]
        fn numbers_read_back(
            numbers in prop_oneof![
                prop::collection::vec(any::<i64>(), 1..300),
                prop::collection::vec(-3i64..1000, 1..300),
                prop::collection::vec(prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(0)], 1..300),
            ]
        ) {
            let mut page = Vec::new();
            write(&numbers, &mut page);
            prop_assert_eq!(read(page, numbers.len()), numbers);
        }
    }
}
