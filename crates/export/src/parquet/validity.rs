//! Which records have a value, and how pages encode it.

use super::hybrid;
use std::ops::Range;

/// One bit per record, lowest bit first, as in pages.
#[derive(Debug, Default)]
pub(super) struct ValidityBitmap {
    bits: Vec<u8>,
    records: usize,
}

/// Spare bytes at the end, so that whole words can be written.
const PADDING_BYTES: usize = size_of::<u64>() + 1;

/// Records per byte.
const RECORDS_PER_BYTE: usize = 8;

/// From this many equal bytes on, a run is shorter.
const RUN_BYTES_MIN: usize = 4;

impl ValidityBitmap {
    /// Appends records without a value.
    pub(super) fn add_nulls(&mut self, count: usize) {
        self.records += count;
        self.bits
            .resize(self.records.div_ceil(RECORDS_PER_BYTE) + PADDING_BYTES, 0);
    }

    /// Appends `count` records, which have a value where a bit of `words` is set; other bits must
    /// be zero.
    pub(super) fn add(&mut self, words: &[u64], count: usize) {
        let (first, shift) = (
            self.records / RECORDS_PER_BYTE,
            self.records % RECORDS_PER_BYTE,
        );
        self.add_nulls(count);
        let buffer = self.bits.get_mut(first..).unwrap_or_default();
        // Bits of the first byte that belong to earlier records.
        let mut carry = buffer.first().map_or(0, |&byte| u64::from(byte));
        let (chunks, _) = buffer.as_chunks_mut();
        for (chunk, &word) in chunks.iter_mut().zip(words) {
            *chunk = (word << shift | carry).to_le_bytes();
            carry = word.checked_shr(u64::BITS - shift as u32).unwrap_or(0);
        }
        if let Some(last) = buffer.get_mut(size_of_val(words)) {
            *last |= carry as u8;
        }
    }

    pub(super) fn clear(&mut self) {
        self.bits.clear();
        self.records = 0;
    }

    /// Returns how many of the records `rows` have a value. The range starts at a multiple of
    /// eight, and ends at one or at the last record.
    pub(super) fn count(&self, rows: &Range<usize>) -> usize {
        let (words, rest) = self.bytes(rows).as_chunks::<8>();
        let in_words: u32 = words
            .iter()
            .map(|&word| u64::from_le_bytes(word).count_ones())
            .sum();
        let in_rest: u32 = rest.iter().map(|byte| byte.count_ones()).sum();
        (in_words + in_rest) as usize
    }

    /// Appends the definition levels of `rows` (as for [`ValidityBitmap::count`]) in the format of
    /// data page version 1: their length in four bytes, then the hybrid encoding.
    fn write(&self, rows: &Range<usize>, page: &mut Vec<u8>) {
        let begin = page.len();
        page.extend_from_slice(&[0; 4]);
        let bytes = self.bytes(rows);
        let (mut at, mut written) = (0, 0);
        while let Some(&byte) = bytes.get(at) {
            let repeated = 1 + bytes[at + 1..].iter().take_while(|&&it| it == byte).count();
            if repeated >= RUN_BYTES_MIN && (byte == 0 || byte == u8::MAX) {
                write_groups(&bytes[written..at], page);
                let left = rows.len() - at * RECORDS_PER_BYTE;
                hybrid::run_header((repeated * RECORDS_PER_BYTE).min(left), page);
                page.push(byte & 1);
                written = at + repeated;
            }
            at += repeated;
        }
        write_groups(&bytes[written..], page);
        let length = (page.len() - begin - 4) as u32;
        page[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
    }

    fn bytes(&self, rows: &Range<usize>) -> &[u8] {
        self.bits
            .get(rows.start / RECORDS_PER_BYTE..rows.end.div_ceil(RECORDS_PER_BYTE))
            .unwrap_or_default()
    }
}

/// The encoded levels of a page, for reuse: most columns have the same ones as the previous column.
#[derive(Debug, Default)]
pub(super) struct LevelCache {
    records: usize,
    bits: Vec<u8>,
    written: Vec<u8>,
}

impl LevelCache {
    /// Appends the levels of `rows`, encoded as by [`ValidityBitmap::write`].
    pub(super) fn append(
        &mut self,
        presence: &ValidityBitmap,
        rows: &Range<usize>,
        page: &mut Vec<u8>,
    ) {
        let bits = presence.bytes(rows);
        if self.records != rows.len() || self.bits != bits {
            self.records = rows.len();
            self.bits.clear();
            self.bits.extend_from_slice(bits);
            self.written.clear();
            presence.write(rows, &mut self.written);
        }
        page.extend_from_slice(&self.written);
    }
}

/// Appends groups of eight levels, a byte each.
fn write_groups(bytes: &[u8], page: &mut Vec<u8>) {
    if !bytes.is_empty() {
        hybrid::groups_header(bytes.len(), page);
        page.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bitmap_returns_what_was_added(
            batches in prop::collection::vec(prop::option::of(prop::collection::vec(any::<bool>(), 0..200)), 0..12)
        ) {
            let mut presence = ValidityBitmap::default();
            let mut expected: Vec<bool> = Vec::new();
            for batch in batches {
                let Some(batch) = batch else {
                    presence.add_nulls(5);
                    expected.extend([false; 5]);
                    continue;
                };
                let words: Vec<u64> = batch
                    .chunks(64)
                    .map(|bits| bits.iter().rev().fold(0, |word, &bit| word << 1 | u64::from(bit)))
                    .collect();
                presence.add(&words, batch.len());
                expected.extend(batch);
            }
            let rows = 0..expected.len();
            let bytes = presence.bytes(&rows);
            let found: Vec<bool> = rows.clone().map(|at| bytes[at / 8] >> (at % 8) & 1 == 1).collect();
            prop_assert_eq!(found, expected.clone());
            prop_assert_eq!(presence.count(&rows), expected.iter().filter(|&&it| it).count());
        }
    }
}
