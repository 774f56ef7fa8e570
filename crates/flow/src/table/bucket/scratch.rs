//! Buffers of a split.

/// Buffers for the flows of a bucket that is split.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) slots: Vec<u32>,
    pub(super) keys: Vec<u128>,
    pub(super) hashes: Vec<u64>,
}

impl Scratch {
    /// Retains only the flows whose hashes satisfy `predicate`.
    pub(super) fn retain(&mut self, predicate: impl Fn(u64) -> bool) {
        let mut kept = 0;
        for at in 0..self.hashes.len().min(self.slots.len()) {
            let (slot, hash) = (self.slots[at], self.hashes[at]);
            self.slots[kept] = slot;
            self.hashes[kept] = hash;
            kept += usize::from(predicate(hash));
        }
        self.slots.truncate(kept);
        self.hashes.truncate(kept);
    }
}
