//! The records of a batch that have values in a group of columns.

/// A selection of the records of a batch, and which of them have a value in the current column.
#[derive(Debug, Default)]
pub(super) struct RowSelection {
    /// Number of records in the batch.
    records: usize,
    /// One bit per record of the batch, lowest bit first: set if selected.
    selected: Vec<u64>,
    /// Number of selected records.
    count: usize,
    /// Row numbers of the selected records; computed on demand.
    rows: Vec<u32>,
    /// Bits of the selected records with a value in the current column; valid if `some_missing`.
    with_value: Vec<u64>,
    some_missing: bool,
}

/// Records per word.
pub(super) const WORD_BITS: usize = u64::BITS as usize;

impl RowSelection {
    /// Selects all `records`.
    pub(super) fn select_all(&mut self, records: usize) {
        self.select(records, |_| true);
    }

    /// Selects those of `records` for which `has` returns true; it is called in order.
    #[inline]
    pub(super) fn select(&mut self, records: usize, mut has: impl FnMut(usize) -> bool) {
        self.records = records;
        self.rows.clear();
        self.selected.clear();
        self.some_missing = false;
        let words = (0..records).step_by(WORD_BITS).map(|begin| {
            let rows = begin..records.min(begin + WORD_BITS);
            rows.fold(0, |word, row| word | u64::from(has(row)) << (row - begin))
        });
        self.selected.extend(words);
        self.count = self
            .selected
            .iter()
            .map(|it| it.count_ones() as usize)
            .sum();
    }

    /// Number of records in the batch.
    pub(super) const fn records(&self) -> usize {
        self.records
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Records which of the next `items` selected records have a value in the current column: one
    /// bit each, lowest bit first. `number` counts the calls, which cover 64 records each.
    #[inline]
    pub(super) fn record_values(&mut self, number: usize, items: usize, has: u64) {
        let lacking = !has & low_bits(items);
        if lacking != 0 {
            self.clear_missing(number, lacking);
        }
    }

    #[inline(never)]
    fn clear_missing(&mut self, number: usize, mut lacking: u64) {
        if !self.some_missing {
            self.with_value.clone_from(&self.selected);
            self.some_missing = true;
        }
        if self.count == self.records {
            if let Some(word) = self.with_value.get_mut(number) {
                *word &= !lacking;
            }
            return;
        }
        if self.rows.is_empty() {
            self.find_rows();
        }
        let rows = self.rows.get(number * WORD_BITS..).unwrap_or_default();
        while lacking != 0 {
            if let Some(&row) = rows.get(lacking.trailing_zeros() as usize)
                && let Some(word) = self.with_value.get_mut(row as usize / WORD_BITS)
            {
                *word &= !(1 << (row as usize % WORD_BITS));
            }
            lacking &= lacking - 1;
        }
    }

    fn find_rows(&mut self) {
        for (number, &word) in self.selected.iter().enumerate() {
            let mut left = word;
            while left != 0 {
                self.rows
                    .push((number * WORD_BITS) as u32 + left.trailing_zeros());
                left &= left - 1;
            }
        }
    }

    /// Returns one bit per record of the batch: set if it has a value in the current column. Resets
    /// for the next column.
    pub(super) fn take_with_value(&mut self) -> &[u64] {
        if std::mem::take(&mut self.some_missing) {
            &self.with_value
        } else {
            &self.selected
        }
    }
}

/// Returns `bits` low bits set; at most 64.
#[inline]
const fn low_bits(bits: usize) -> u64 {
    if bits >= WORD_BITS {
        u64::MAX
    } else {
        (1 << bits) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn reports_records_with_a_value(
            chosen in prop::collection::vec(prop_oneof![Just(false), any::<bool>(), Just(true)], 0..300),
            columns in prop::collection::vec(prop::option::of(prop::collection::vec(any::<bool>(), 300)), 0..4)
        ) {
            let mut selection = RowSelection::default();
            selection.select(chosen.len(), |row| chosen[row]);
            let rows: Vec<usize> = (0..chosen.len()).filter(|&row| chosen[row]).collect();
            prop_assert_eq!(selection.is_empty(), rows.is_empty());
            for column in columns {
                let has = |row: usize| column.as_ref().is_none_or(|it| it[row]);
                for (number, rows) in rows.chunks(WORD_BITS).enumerate() {
                    let bits = rows.iter().rev().fold(0, |bits, &row| bits << 1 | u64::from(has(row)));
                    selection.record_values(number, rows.len(), bits);
                }
                let present = selection.take_with_value();
                for (row, &chosen) in chosen.iter().enumerate() {
                    let bit = present[row / WORD_BITS] >> (row % WORD_BITS) & 1 == 1;
                    prop_assert_eq!(bit, chosen && has(row), "{}", row);
                }
            }
        }
    }
}
