//! Which records of a batch have values in the columns of a run.

/// Records of a batch, and what a column of them turns out to lack.
#[derive(Debug, Default)]
pub(super) struct Among {
    /// All records of the batch.
    records: usize,
    /// Those that are among them, by their numbers in the batch.
    rows: Vec<u32>,
    /// The same as a bit a record of the batch, the first the lowest.
    bits: Vec<u64>,
    /// Places in `rows` of those without a value in the column at hand.
    absent: Vec<u32>,
    /// The bits of those with a value.
    present: Vec<u64>,
}

impl Among {
    /// None of a batch of so many records, for a start.
    pub(super) fn clear(&mut self, records: usize) {
        self.records = records;
        self.rows.clear();
        self.bits.clear();
        self.bits.resize(records.div_ceil(WORD), 0);
    }

    /// All of so many records.
    pub(super) fn all(&mut self, records: usize) {
        self.clear(records);
        for row in 0..records {
            self.add(row);
        }
    }

    /// Record `row` too, which is behind those that are.
    #[inline(always)]
    pub(super) fn add(&mut self, row: usize) {
        if let Some(word) = self.bits.get_mut(row / WORD) {
            *word |= 1 << (row % WORD);
            self.rows.push(row as u32);
        }
    }

    /// All records of the batch.
    pub(super) const fn records(&self) -> usize {
        self.records
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Where to say which have no value in the column at hand: their places, in order.
    pub(super) const fn absent(&mut self) -> &mut Vec<u32> {
        &mut self.absent
    }

    /// A bit a record of the batch that has a value in the column at hand. The next column begins
    /// with all of them.
    pub(super) fn present(&mut self) -> &[u64] {
        if self.absent.is_empty() {
            return &self.bits;
        }
        self.present.clone_from(&self.bits);
        for place in self.absent.drain(..) {
            if let Some(&row) = self.rows.get(place as usize)
                && let Some(word) = self.present.get_mut(row as usize / WORD)
            {
                *word &= !(1 << (row as usize % WORD));
            }
        }
        &self.present
    }
}

/// Records that a word has bits of.
const WORD: usize = u64::BITS as usize;
