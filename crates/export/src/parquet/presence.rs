//! Which records have a value, and the form that pages have that in.

use super::hybrid;
use std::ops::Range;

/// A bit a record, the first the lowest of its byte: as pages have them.
#[derive(Debug, Default)]
pub(super) struct Presence {
    bits: Vec<u8>,
    records: usize,
}

/// Bytes that are held behind those of the records, so that whole words are written.
const SLACK: usize = size_of::<u64>() + 1;

/// Records that a byte stands for.
const IN_BYTE: usize = 8;

/// Bytes that are all alike from which on their number is shorter than they are.
const ALIKE: usize = 4;

impl Presence {
    /// So many more records, none of which has a value.
    pub(super) fn add_none(&mut self, count: usize) {
        self.records += count;
        self.bits.resize(self.records.div_ceil(IN_BYTE) + SLACK, 0);
    }

    /// So many more records, which have a value where a bit of `words` is set; no others are.
    pub(super) fn add(&mut self, words: &[u64], count: usize) {
        let (first, shift) = (self.records / IN_BYTE, self.records % IN_BYTE);
        self.add_none(count);
        let room = self.bits.get_mut(first..).unwrap_or_default();
        // What the byte has that is shared with the records before.
        let mut carry = room.first().map_or(0, |&byte| u64::from(byte));
        let (places, _) = room.as_chunks_mut();
        for (place, &word) in places.iter_mut().zip(words) {
            *place = (word << shift | carry).to_le_bytes();
            carry = word.checked_shr(u64::BITS - shift as u32).unwrap_or(0);
        }
        if let Some(last) = room.get_mut(size_of_val(words)) {
            *last |= carry as u8;
        }
    }

    pub(super) fn clear(&mut self) {
        self.bits.clear();
        self.records = 0;
    }

    /// How many of the records `rows` have a value; where they begin is a multiple of eight, and
    /// where they end too, or it is the end of all.
    pub(super) fn count(&self, rows: &Range<usize>) -> usize {
        let (words, rest) = self.bytes(rows).as_chunks::<8>();
        let in_words: u32 = words
            .iter()
            .map(|&word| u64::from_le_bytes(word).count_ones())
            .sum();
        let in_rest: u32 = rest.iter().map(|byte| byte.count_ones()).sum();
        (in_words + in_rest) as usize
    }

    /// Appends the definition levels of `rows` (as in [`Presence::count`]) as a data page of version 1
    /// has them: their length in four bytes, then runs and groups of bits.
    fn write(&self, rows: &Range<usize>, page: &mut Vec<u8>) {
        let begin = page.len();
        page.extend_from_slice(&[0; 4]);
        let bytes = self.bytes(rows);
        let (mut at, mut written) = (0, 0);
        while let Some(&byte) = bytes.get(at) {
            let alike = 1 + bytes[at + 1..].iter().take_while(|&&it| it == byte).count();
            if alike >= ALIKE && (byte == 0 || byte == u8::MAX) {
                groups(&bytes[written..at], page);
                let left = rows.len() - at * IN_BYTE;
                hybrid::run_header((alike * IN_BYTE).min(left), page);
                page.push(byte & 1);
                written = at + alike;
            }
            at += alike;
        }
        groups(&bytes[written..], page);
        let length = (page.len() - begin - 4) as u32;
        page[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
    }

    fn bytes(&self, rows: &Range<usize>) -> &[u8] {
        self.bits
            .get(rows.start / IN_BYTE..rows.end.div_ceil(IN_BYTE))
            .unwrap_or_default()
    }
}

/// The levels of a page as they were written, since most columns have those of the one before.
#[derive(Debug, Default)]
pub(super) struct Levels {
    records: usize,
    bits: Vec<u8>,
    written: Vec<u8>,
}

impl Levels {
    /// Appends the levels of `rows`, as [`Presence::write`] has them.
    pub(super) fn append(&mut self, presence: &Presence, rows: &Range<usize>, page: &mut Vec<u8>) {
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

/// Groups of eight levels, a byte each.
fn groups(bytes: &[u8], page: &mut Vec<u8>) {
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
        fn records_have_the_values_that_were_said(
            batches in prop::collection::vec(prop::option::of(prop::collection::vec(any::<bool>(), 0..200)), 0..12)
        ) {
            let mut presence = Presence::default();
            let mut expected: Vec<bool> = Vec::new();
            for batch in batches {
                let Some(batch) = batch else {
                    presence.add_none(5);
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
