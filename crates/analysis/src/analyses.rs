//! A list of analyses that reuses its slots.

use super::Analysis;
use hw::prefetch;
use std::fmt;
use std::iter;
use std::ops::{Deref, DerefMut};

/// A list of analyses.
///
/// An analysis is larger than a kilobyte and owns heap memory. Clearing the list therefore only resets
/// its length: the next analysis overwrites an old one, so the thread that allocates memory for the new
/// texts is also the one that frees the old texts.
#[derive(Default)]
pub struct Analyses {
    slots: Vec<Analysis>,
    /// Length of the list. The slots after it hold old analyses.
    count: usize,
}

impl Analyses {
    /// Creates an empty list with this many slots, whose memory is mapped.
    #[must_use]
    pub fn populated(slots: usize) -> Self {
        let mut list = Self::default();
        list.slots.resize_with(slots, Analysis::default);
        list
    }

    /// Empties the list.
    pub const fn clear(&mut self) {
        self.count = 0;
    }

    /// Appends an analysis.
    pub fn push(&mut self, analysis: Analysis) {
        self.slots.truncate(self.count);
        self.slots.push(analysis);
        self.count += 1;
    }

    /// Appends an analysis: `overwrite` is called with the old analysis in the next slot, or `new` if
    /// the slot does not exist yet. Prefetches the slot after it.
    #[inline]
    pub fn push_with(
        &mut self,
        new: impl FnOnce() -> Analysis,
        overwrite: impl FnOnce(&mut Analysis),
    ) -> &mut Analysis {
        let at = self.count;
        self.count += 1;
        match self.slots.get_mut(at) {
            Some(slot) => overwrite(slot),
            // `extend` builds the analysis in its slot. `push` would build it on the stack and copy it.
            None => self.slots.extend(iter::once_with(new)),
        }
        let slots = &mut self.slots[..=at];
        prefetch::next_push(slots);
        &mut slots[at]
    }

    /// Moves all analyses of `other` to the end of this list.
    pub fn append(&mut self, other: &mut Self) {
        self.slots.truncate(self.count);
        self.slots.extend(other.slots.drain(..other.count));
        self.count = self.slots.len();
        other.count = 0;
    }

    /// Reserves memory for this many slots in total, so that filling them moves none.
    pub fn reserve_slots(&mut self, slots: usize) {
        self.slots
            .reserve_exact(slots.saturating_sub(self.slots.len()));
    }

    /// Returns how many analyses fit before the list is reallocated.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.slots.capacity()
    }
}

impl Deref for Analyses {
    type Target = [Analysis];

    fn deref(&self) -> &[Analysis] {
        &self.slots[..self.count]
    }
}

impl DerefMut for Analyses {
    fn deref_mut(&mut self) -> &mut [Analysis] {
        &mut self.slots[..self.count]
    }
}

impl From<Vec<Analysis>> for Analyses {
    fn from(slots: Vec<Analysis>) -> Self {
        let count = slots.len();
        Self { slots, count }
    }
}

impl Clone for Analyses {
    fn clone(&self) -> Self {
        self.to_vec().into()
    }
}

impl fmt::Debug for Analyses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> IntoIterator for &'a Analyses {
    type Item = &'a Analysis;
    type IntoIter = std::slice::Iter<'a, Analysis>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut Analyses {
    type Item = &'a mut Analysis;
    type IntoIter = std::slice::IterMut<'a, Analysis>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(flow_id: u64) -> Analysis {
        Analysis {
            flow_id,
            ..Analysis::default()
        }
    }

    fn numbers(list: &Analyses) -> Vec<u64> {
        list.iter().map(|it| it.flow_id).collect()
    }

    #[test]
    fn reused_slots_hide_their_old_analyses() {
        let mut list = Analyses::populated(2);
        assert!(list.is_empty() && list.capacity() >= 2);
        list.push(numbered(1));
        list.push(numbered(2));
        list.push(numbered(3));
        assert_eq!(numbers(&list), [1, 2, 3]);
        list.clear();
        assert!(list.is_empty() && list.clone().is_empty() && list.capacity() >= 3);
        assert_eq!(format!("{list:?}"), "[]");
        list.push_with(|| numbered(0), |slot| slot.flow_id += 6);
        assert_eq!(numbers(&list), [7]);
        let mut empty = Analyses::default();
        empty.push_with(|| numbered(5), |_| panic!("the slot is new"));
        assert_eq!(numbers(&empty), [5]);
        let mut other = Analyses::from(vec![numbered(8)]);
        other.append(&mut list);
        assert_eq!((numbers(&other), list.len()), (vec![8, 7], 0));
        list.push(numbered(9));
        assert_eq!(numbers(&list), [9]);
        assert!((&mut list).into_iter().all(|it| it.flow_id == 9));
    }
}
