//! Arrays of cache lines, several of which can be interleaved row by row. All lines of one flow are
//! then on one page and cost one page-table walk; with separate arrays, each costs its own.

use crate::memory::{HugeSlice, Line, Zeroed};
use crate::prefetch::{self, CacheLevel};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};
use std::ptr::NonNull;
use std::sync::Arc;
use std::{fmt, io};

/// A line of any type.
type AnyLine = Line<u64, 8>;

/// Zero-filled rows of cache lines. [`Rows::take_column`] hands out one column after another.
#[derive(Default)]
pub struct Rows(VecDeque<Lines<AnyLine>>);

impl Rows {
    /// Allocates `length` rows of `columns` lines, the lines of a row next to each other.
    ///
    /// # Errors
    /// Fails if the memory cannot be reserved.
    pub fn try_interleaved(length: usize, columns: usize) -> io::Result<Self> {
        let lines = length.checked_mul(columns);
        let memory = Arc::new(HugeSlice::<AnyLine>::try_zeroed(
            lines.ok_or(io::ErrorKind::OutOfMemory)?,
        )?);
        let column = |index| Lines {
            start: memory.start().wrapping_add(index),
            length,
            stride: columns * size_of::<AnyLine>(),
            memory: Some(Arc::clone(&memory)),
        };
        Ok(Self((0..columns).map(column).collect()))
    }

    /// Allocates `length` rows of `columns` lines, each column in memory of its own.
    ///
    /// # Errors
    /// Fails if the memory cannot be reserved.
    pub fn try_separate(length: usize, columns: usize) -> io::Result<Self> {
        let mut rows = Self::default();
        for _ in 0..columns {
            rows.0.append(&mut Self::try_interleaved(length, 1)?.0);
        }
        Ok(rows)
    }

    /// Returns the next column, or an empty one if all have been taken.
    #[must_use]
    pub fn take_column<T: Zeroed>(&mut self) -> Lines<T> {
        const {
            assert!(size_of::<T>() == size_of::<AnyLine>());
            assert!(align_of::<T>() <= align_of::<AnyLine>());
        }
        self.0.pop_front().map_or_else(Lines::default, |column| {
            // All bytes are still zero, which is a valid value of every `Zeroed` type.
            Lines {
                start: column.start.cast(),
                length: column.length,
                stride: column.stride,
                memory: column.memory,
            }
        })
    }
}

/// A column of cache lines, in memory of its own or interleaved with other columns.
pub struct Lines<T> {
    start: *mut T,
    length: usize,
    /// Bytes from one line to the next.
    stride: usize,
    memory: Option<Arc<HugeSlice<AnyLine>>>,
}

/// A borrowed column of lines, with only the fields that an inner loop needs in registers.
pub struct View<'l, T> {
    start: *mut T,
    length: usize,
    stride: usize,
    lines: PhantomData<&'l mut [T]>,
}

impl<T: Zeroed> View<'_, T> {
    /// Returns the line at `index`, mutable, or `None` past the end.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        let line = self
            .start
            .wrapping_byte_add(index.wrapping_mul(self.stride));
        // SAFETY: as for `Lines::get_mut`, whose unique borrow this view holds.
        (index < self.length).then(|| unsafe { &mut *line })
    }
}

// SAFETY: a column is the only owner of its lines, like a `Vec`. The shared memory is freed only when
// its last column is dropped.
unsafe impl<T: Zeroed + Send> Send for Lines<T> {}
// SAFETY: a shared column gives shared references only.
unsafe impl<T: Zeroed + Sync> Sync for Lines<T> {}

impl<T> Default for Lines<T> {
    fn default() -> Self {
        Self {
            start: NonNull::dangling().as_ptr(),
            length: 0,
            stride: 0,
            memory: None,
        }
    }
}

impl<T: Zeroed> Lines<T> {
    /// Allocates a single column of `length` zeroed lines.
    ///
    /// # Errors
    /// Fails if the memory cannot be reserved.
    pub fn try_zeroed(length: usize) -> io::Result<Self> {
        Ok(Rows::try_interleaved(length, 1)?.take_column())
    }

    /// Allocates a single column of `length` zeroed lines.
    ///
    /// # Panics
    /// Panics if the memory cannot be reserved.
    #[must_use]
    pub fn zeroed(length: usize) -> Self {
        match Self::try_zeroed(length) {
            Ok(lines) => lines,
            Err(error) => panic!("{length} lines of memory: {error}"),
        }
    }

    /// Returns the number of lines.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Returns whether there are no lines.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    #[inline]
    fn line(&self, index: usize) -> *mut T {
        self.start
            .wrapping_byte_add(index.wrapping_mul(self.stride))
    }

    /// Returns the line at `index`, or `None` past the end.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&T> {
        // SAFETY: the row exists, its line in this column belongs to `self` alone, and the line is
        // zero or was written as a `T`.
        (index < self.length).then(|| unsafe { &*self.line(index) })
    }

    /// Returns the line at `index`, mutable, or `None` past the end.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        // SAFETY: as for `get`, and the borrow is unique.
        (index < self.length).then(|| unsafe { &mut *self.line(index) })
    }

    /// Borrows the lines for an inner loop that changes many of them.
    #[inline]
    pub fn view(&mut self) -> View<'_, T> {
        View {
            start: self.start,
            length: self.length,
            stride: self.stride,
            lines: PhantomData,
        }
    }

    /// Prefetches the line at `index`. An index past the end is harmless.
    #[inline]
    pub fn prefetch(&self, index: usize) {
        prefetch::address(self.line(index).cast());
    }

    /// Prefetches the line at `index` into `level`.
    #[inline]
    pub fn prefetch_into(&self, level: CacheLevel, index: usize) {
        prefetch::address_into(level, self.line(index).cast());
    }

    /// Prefetches the lines at all of `indices` into `level`.
    #[inline]
    pub fn prefetch_each(&self, level: CacheLevel, indices: &[u32]) {
        prefetch::unrolled(indices, |&index| self.prefetch_into(level, index as usize));
    }

    /// Commits the memory of all rows now, including the other columns interleaved with this one.
    pub fn populate(&self) {
        if let Some(memory) = &self.memory {
            memory.populate();
        }
    }
}

impl<T: Zeroed> Index<usize> for Lines<T> {
    type Output = T;
    #[inline]
    fn index(&self, index: usize) -> &T {
        let length = self.length;
        self.get(index)
            .unwrap_or_else(|| out_of_bounds(index, length))
    }
}

impl<T: Zeroed> IndexMut<usize> for Lines<T> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        let length = self.length;
        self.get_mut(index)
            .unwrap_or_else(|| out_of_bounds(index, length))
    }
}

#[cold]
fn out_of_bounds(index: usize, length: usize) -> ! {
    panic!("line {index} of {length}")
}

impl<T> fmt::Debug for Lines<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} lines, {} B apart", self.length, self.stride)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_do_not_overlap() {
        for columns in 1..4 {
            for rows in [
                Rows::try_interleaved(1000, columns),
                Rows::try_separate(1000, columns),
            ] {
                let mut rows = rows.unwrap();
                let mut taken: Vec<Lines<Line<u8, 64>>> =
                    (0..columns).map(|_| rows.take_column()).collect();
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
                assert!(rows.take_column::<Line<u64, 8>>().is_empty());
            }
        }
    }

    #[test]
    fn column_outlives_its_rows_and_the_other_columns() {
        let mut rows = Rows::try_interleaved(3, 2).unwrap();
        let (first, mut second) = (
            rows.take_column::<Line<u64, 8>>(),
            rows.take_column::<Line<u64, 8>>(),
        );
        drop((rows, first));
        second[2].0[7] = 5;
        assert_eq!(second[2].0[7], 5);
    }

    #[test]
    fn accepts_zero_lines_and_rejects_too_many() {
        let none = Lines::<Line<u64, 8>>::default();
        none.populate();
        assert!(none.is_empty() && none.get(0).is_none());
        Lines::<Line<u64, 8>>::try_zeroed(3)
            .unwrap()
            .prefetch(usize::MAX);
        assert!(Lines::<Line<u64, 8>>::try_zeroed(0).unwrap().is_empty());
        assert!(Rows::try_interleaved(usize::MAX / 2, 3).is_err());
        assert!(Rows::try_separate(1 << 50, 1).is_err());
    }

    #[test]
    #[should_panic(expected = "line 3 of 3")]
    fn indexing_past_the_end_panics() {
        let lines = Lines::<Line<u64, 8>>::try_zeroed(3).unwrap();
        let _ = lines[3];
    }
}
