//! Which records of a batch have values in the columns of a run.

/// Records of a batch, and what a column of them turns out to lack.
#[derive(Debug, Default)]
pub(super) struct Among {
    /// All records of the batch.
    records: usize,
    /// Those that are among them, as a bit a record of the batch, the first the lowest.
    bits: Vec<u64>,
    /// How many they are.
    count: usize,
    /// Their numbers in the batch; empty until somebody asks for them.
    rows: Vec<u32>,
    /// The bits of those with a value in the column at hand, if some lack one.
    present: Vec<u64>,
    lacks: bool,
}

/// Records that a word has bits of.
pub(super) const WORD: usize = u64::BITS as usize;

impl Among {
    /// All of so many records.
    pub(super) fn all(&mut self, records: usize) {
        self.choose(records, |_| true);
    }

    /// Those of so many records for which `has` is true, which is asked in their order.
    #[inline(always)]
    pub(super) fn choose(&mut self, records: usize, mut has: impl FnMut(usize) -> bool) {
        self.records = records;
        self.rows.clear();
        self.bits.clear();
        self.lacks = false;
        let words = (0..records).step_by(WORD).map(|begin| {
            let rows = begin..records.min(begin + WORD);
            rows.fold(0, |word, row| word | u64::from(has(row)) << (row - begin))
        });
        self.bits.extend(words);
        self.count = self.bits.iter().map(|it| it.count_ones() as usize).sum();
    }

    /// All records of the batch.
    pub(super) const fn records(&self) -> usize {
        self.records
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Which of some records, `number` times 64 to 64 more of those that are among them, have a value
    /// in the column at hand: a bit each, the first the lowest.
    #[inline(always)]
    pub(super) fn note(&mut self, number: usize, items: usize, has: u64) {
        let lacking = !has & full(items);
        if lacking != 0 {
            self.lack(number, lacking);
        }
    }

    #[inline(never)]
    fn lack(&mut self, number: usize, mut lacking: u64) {
        if !self.lacks {
            self.present.clone_from(&self.bits);
            self.lacks = true;
        }
        if self.count == self.records {
            if let Some(word) = self.present.get_mut(number) {
                *word &= !lacking;
            }
            return;
        }
        if self.rows.is_empty() {
            self.find_rows();
        }
        let rows = self.rows.get(number * WORD..).unwrap_or_default();
        while lacking != 0 {
            if let Some(&row) = rows.get(lacking.trailing_zeros() as usize)
                && let Some(word) = self.present.get_mut(row as usize / WORD)
            {
                *word &= !(1 << (row as usize % WORD));
            }
            lacking &= lacking - 1;
        }
    }

    fn find_rows(&mut self) {
        for (number, &word) in self.bits.iter().enumerate() {
            let mut left = word;
            while left != 0 {
                self.rows
                    .push((number * WORD) as u32 + left.trailing_zeros());
                left &= left - 1;
            }
        }
    }

    /// A bit a record of the batch that has a value in the column at hand. The next column begins
    /// with all of them.
    pub(super) fn present(&mut self) -> &[u64] {
        if std::mem::take(&mut self.lacks) {
            &self.present
        } else {
            &self.bits
        }
    }
}

/// So many bits, at most 64.
#[inline(always)]
const fn full(bits: usize) -> u64 {
    if bits >= WORD {
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
        fn those_with_a_value_are_told(
            chosen in prop::collection::vec(prop_oneof![Just(false), any::<bool>(), Just(true)], 0..300),
            columns in prop::collection::vec(prop::option::of(prop::collection::vec(any::<bool>(), 300)), 0..4)
        ) {
            let mut among = Among::default();
            among.choose(chosen.len(), |row| chosen[row]);
            let rows: Vec<usize> = (0..chosen.len()).filter(|&row| chosen[row]).collect();
            prop_assert_eq!(among.is_empty(), rows.is_empty());
            for column in columns {
                let has = |row: usize| column.as_ref().is_none_or(|it| it[row]);
                for (number, rows) in rows.chunks(WORD).enumerate() {
                    let bits = rows.iter().rev().fold(0, |bits, &row| bits << 1 | u64::from(has(row)));
                    among.note(number, rows.len(), bits);
                }
                let present = among.present();
                for (row, &chosen) in chosen.iter().enumerate() {
                    let bit = present[row / WORD] >> (row % WORD) & 1 == 1;
                    prop_assert_eq!(bit, chosen && has(row), "{}", row);
                }
            }
        }
    }
}
