//! Arrays of cache lines, several of which may lie together, row by row: what a packet needs of one
//! flow is then on one page, and costs one walk of the page tables where arrays apart cost one each.

use crate::memory::{HugeSlice, Line, Zeroed};
use crate::prefetch::{self, CacheLevel};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};
use std::ptr::NonNull;
use std::sync::Arc;
use std::{fmt, io};

/// A line of whatever type.
type AnyLine = Line<u64, 8>;

/// Zero-filled memory of rows of lines, to be taken column by column.
#[derive(Default)]
pub struct Rows(VecDeque<Lines<AnyLine>>);

impl Rows {
    /// `length` rows of `columns` lines each, one row beside the other.
    ///
    /// # Errors
    /// When the machine has no room for them.
    pub fn try_together(length: usize, columns: usize) -> io::Result<Self> {
        let lines = length.checked_mul(columns);
        let memory = Arc::new(HugeSlice::<AnyLine>::try_zeroed(
            lines.ok_or(io::ErrorKind::OutOfMemory)?,
        )?);
        let column = |place| Lines {
            start: memory.start().wrapping_add(place),
            length,
            row_bytes: columns * size_of::<AnyLine>(),
            memory: Some(Arc::clone(&memory)),
        };
        Ok(Self((0..columns).map(column).collect()))
    }

    /// The same with each column in a memory of its own.
    ///
    /// # Errors
    /// When the machine has no room for them.
    pub fn try_apart(length: usize, columns: usize) -> io::Result<Self> {
        let mut rows = Self::default();
        for _ in 0..columns {
            rows.0.append(&mut Self::try_together(length, 1)?.0);
        }
        Ok(rows)
    }

    /// The next column; an empty one when all are taken.
    #[must_use]
    pub fn take<T: Zeroed>(&mut self) -> Lines<T> {
        const {
            assert!(size_of::<T>() == size_of::<AnyLine>());
            assert!(align_of::<T>() <= align_of::<AnyLine>());
        }
        self.0.pop_front().map_or_else(Lines::default, |column| {
            // Nothing but zeroes so far, which are a value of every such type.
            Lines {
                start: column.start.cast(),
                length: column.length,
                row_bytes: column.row_bytes,
                memory: column.memory,
            }
        })
    }
}

/// A column of lines: alone in its memory, or beside others that somebody else has.
pub struct Lines<T> {
    start: *mut T,
    length: usize,
    /// From one line to the next.
    row_bytes: usize,
    memory: Option<Arc<HugeSlice<AnyLine>>>,
}

/// A column of lines without its memory: nothing but what a loop needs at hand.
pub struct View<'l, T> {
    start: *mut T,
    length: usize,
    row_bytes: usize,
    lines: PhantomData<&'l mut [T]>,
}

impl<T: Zeroed> View<'_, T> {
    /// The line of this index, if there is one, to be changed.
    #[inline(always)]
    #[must_use]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        let place = self
            .start
            .wrapping_byte_add(index.wrapping_mul(self.row_bytes));
        // SAFETY: as for `Lines::get_mut`, of which this has the borrow.
        (index < self.length).then(|| unsafe { &mut *place })
    }
}

// SAFETY: a column owns its lines alone, as a Vec does; that the memory goes when the last of its
// columns goes, concerns no line.
unsafe impl<T: Zeroed + Send> Send for Lines<T> {}
// SAFETY: shared access gives shared references only.
unsafe impl<T: Zeroed + Sync> Sync for Lines<T> {}

impl<T> Default for Lines<T> {
    fn default() -> Self {
        Self {
            start: NonNull::dangling().as_ptr(),
            length: 0,
            row_bytes: 0,
            memory: None,
        }
    }
}

impl<T: Zeroed> Lines<T> {
    /// `length` zeroes on their own.
    ///
    /// # Errors
    /// When the machine has no room for them.
    pub fn try_zeroed(length: usize) -> io::Result<Self> {
        Ok(Rows::try_together(length, 1)?.take())
    }

    /// `length` zeroes on their own.
    ///
    /// # Panics
    /// When the machine has no room for them.
    #[must_use]
    pub fn zeroed(length: usize) -> Self {
        match Self::try_zeroed(length) {
            Ok(lines) => lines,
            Err(error) => panic!("{length} lines of memory: {error}"),
        }
    }

    /// How many lines there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    #[inline(always)]
    fn place(&self, index: usize) -> *mut T {
        self.start
            .wrapping_byte_add(index.wrapping_mul(self.row_bytes))
    }

    /// The line of this index, if there is one.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&T> {
        // SAFETY: a row of this index exists, this column of it belongs to `self` alone, and it is
        // zero or was written as a `T`.
        (index < self.length).then(|| unsafe { &*self.place(index) })
    }

    /// The same, to be changed.
    #[inline(always)]
    #[must_use]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        // SAFETY: as for `get`, and the borrow is unique.
        (index < self.length).then(|| unsafe { &mut *self.place(index) })
    }

    /// The lines for a loop that changes many of them.
    #[inline(always)]
    pub fn view(&mut self) -> View<'_, T> {
        View {
            start: self.start,
            length: self.length,
            row_bytes: self.row_bytes,
            lines: PhantomData,
        }
    }

    /// Asks for a line that is needed soon; an index past the end asks for nothing useful.
    #[inline(always)]
    pub fn prefetch(&self, index: usize) {
        prefetch::address(self.place(index).cast());
    }

    /// The same into a level of cache.
    #[inline(always)]
    pub fn prefetch_into(&self, level: CacheLevel, index: usize) {
        prefetch::address_into(level, self.place(index).cast());
    }

    /// The same for all lines of these indices.
    #[inline(always)]
    pub fn prefetch_each(&self, level: CacheLevel, indices: &[u32]) {
        prefetch::flat(indices, |&index| self.prefetch_into(level, index as usize));
    }

    /// Takes all memory of these rows from the machine now, that of other columns too.
    pub fn populate(&self) {
        if let Some(memory) = &self.memory {
            memory.populate();
        }
    }
}

impl<T: Zeroed> Index<usize> for Lines<T> {
    type Output = T;
    #[inline(always)]
    fn index(&self, index: usize) -> &T {
        let length = self.length;
        self.get(index).unwrap_or_else(|| past(index, length))
    }
}

impl<T: Zeroed> IndexMut<usize> for Lines<T> {
    #[inline(always)]
    fn index_mut(&mut self, index: usize) -> &mut T {
        let length = self.length;
        self.get_mut(index).unwrap_or_else(|| past(index, length))
    }
}

#[cold]
fn past(index: usize, length: usize) -> ! {
    panic!("line {index} of {length}")
}

impl<T> fmt::Debug for Lines<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} lines, {} B apart", self.length, self.row_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_rows_are_apart_from_each_other() {
        for columns in 1..4 {
            for rows in [
                Rows::try_together(1000, columns),
                Rows::try_apart(1000, columns),
            ] {
                let mut rows = rows.unwrap();
                let mut taken: Vec<Lines<Line<u8, 64>>> =
                    (0..columns).map(|_| rows.take()).collect();
                taken[0].populate();
                for (number, column) in taken.iter_mut().enumerate() {
                    for at in 0..1000 {
                        assert_eq!(column[at].0, [0; 64]);
                        column[at].0.fill((at % 50 * 4 + number) as u8);
                    }
                }
                for (number, column) in taken.iter().enumerate() {
                    assert_eq!(column.len(), 1000);
                    for at in 0..1000 {
                        assert_eq!(column[at].0, [(at % 50 * 4 + number) as u8; 64]);
                    }
                    assert!(column.get(1000).is_none() && column.get(usize::MAX).is_none());
                }
                assert!(rows.take::<Line<u64, 8>>().is_empty());
            }
        }
    }

    #[test]
    fn a_column_outlives_the_others_and_its_rows() {
        let mut rows = Rows::try_together(3, 2).unwrap();
        let (first, mut second) = (rows.take::<Line<u64, 8>>(), rows.take::<Line<u64, 8>>());
        drop((rows, first));
        second[2].0[7] = 5;
        assert_eq!(second[2].0[7], 5);
    }

    #[test]
    fn none_at_all_and_too_many() {
        let none = Lines::<Line<u64, 8>>::default();
        none.populate();
        assert!(none.is_empty() && none.get(0).is_none());
        Lines::<Line<u64, 8>>::try_zeroed(3)
            .unwrap()
            .prefetch(usize::MAX);
        assert!(Lines::<Line<u64, 8>>::try_zeroed(0).unwrap().is_empty());
        assert!(Rows::try_together(usize::MAX / 2, 3).is_err());
        assert!(Rows::try_apart(1 << 50, 1).is_err());
    }

    #[test]
    #[should_panic(expected = "line 3 of 3")]
    fn a_line_past_the_end() {
        let lines = Lines::<Line<u64, 8>>::try_zeroed(3).unwrap();
        let _ = lines[3];
    }
}
