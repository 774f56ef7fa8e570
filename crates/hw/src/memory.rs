//! Large zero-filled arrays, on huge pages if possible.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::{fmt, io, ptr, slice};

/// Types for which all-zero bytes are a valid value.
///
/// # Safety
/// A value of all zero bytes must be valid, and the type must not need dropping. (Its alignment is
/// checked when memory is allocated for it.)
pub unsafe trait Zeroed: Copy {}

macro_rules! zeroed {
    ($($type:ty),*) => { $(
        // SAFETY: zero is a valid value of every number type.
        unsafe impl Zeroed for $type {}
    )* };
}
zeroed!(u8, u16, u32, u64, u128, i8, i16, i32, i64, usize, f32, f64);

// SAFETY: an array consists of its elements only.
unsafe impl<T: Zeroed, const N: usize> Zeroed for [T; N] {}

/// An array that starts on a cache line of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(64))]
pub struct Line<T, const N: usize>(pub [T; N]);

// SAFETY: the inner array is `Zeroed`, and padding may have any value.
unsafe impl<T: Zeroed, const N: usize> Zeroed for Line<T, N> {}

impl<T: Default + Copy, const N: usize> Default for Line<T, N> {
    fn default() -> Self {
        Self([T::default(); N])
    }
}

/// The alignment of a [`HugeSlice`], and so the largest alignment of its elements.
const PAGE: usize = 4096;

/// Bytes of a huge page on x86-64.
const HUGE_PAGE: usize = 2 << 20;

thread_local! {
    /// What this thread would have committed, while it [defers](defer_population) that.
    static DEFERRED: RefCell<Option<Population>> = const { RefCell::new(None) };
}

/// Memory that is to be committed, in the order of the requests. See [`defer_population`].
#[derive(Debug, Default)]
pub struct Population {
    /// Start and size of each range, in bytes.
    ranges: Vec<(usize, usize)>,
}

/// Runs `build` on this thread. What it would commit with `populate` is returned instead, so that another
/// thread can commit it while the memory is already in use.
pub fn defer_population<T>(build: impl FnOnce() -> T) -> (T, Population) {
    let outer = DEFERRED.replace(Some(Population::default()));
    let built = build();
    let deferred = DEFERRED.replace(outer);
    (built, deferred.unwrap_or_default())
}

impl Population {
    /// Returns the number of bytes to commit.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.ranges.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Commits the memory, the beginnings of all ranges first, because they are used first. Checks before
    /// each huge page whether to end early: `is_over` must return true before the memory is freed.
    pub fn commit(self, is_over: impl Fn() -> bool) {
        let longest = self.ranges.iter().map(|(_, bytes)| *bytes).max();
        for offset in (0..longest.unwrap_or(0)).step_by(HUGE_PAGE) {
            for &(start, bytes) in &self.ranges {
                if is_over() {
                    return;
                }
                if offset < bytes {
                    commit(start + offset, HUGE_PAGE.min(bytes - offset));
                }
            }
        }
    }
}

/// Commits the pages from `start`, a page boundary, on.
fn commit(start: usize, bytes: usize) {
    // SAFETY: this only commits pages and changes no contents, so it may race with their use. Should the
    // range have been unmapped meanwhile, the call fails; should something else have been mapped there, its
    // pages are committed early, which nothing can observe.
    unsafe { libc::madvise(start as *mut libc::c_void, bytes, libc::MADV_POPULATE_WRITE) };
}

/// A zero-filled slice of fixed length, on transparent huge pages if the kernel grants them.
///
/// The kernel commits memory page by page at the first write, so a generously sized array costs little
/// until it fills.
pub struct HugeSlice<T: Zeroed> {
    start: NonNull<T>,
    length: usize,
    mapping: NonNull<u8>,
    mapped_bytes: usize,
}

// SAFETY: the slice is the only owner of its memory, like a `Vec`.
unsafe impl<T: Zeroed + Send> Send for HugeSlice<T> {}
// SAFETY: a shared slice gives shared references only.
unsafe impl<T: Zeroed + Sync> Sync for HugeSlice<T> {}

impl<T: Zeroed> HugeSlice<T> {
    /// Creates an empty slice, without allocating.
    #[must_use]
    pub const fn empty() -> Self {
        Self {
            start: NonNull::dangling(),
            length: 0,
            mapping: NonNull::dangling(),
            mapped_bytes: 0,
        }
    }

    /// Allocates `length` zeroed elements. A type aligned to more than a page does not compile:
    ///
    /// ```compile_fail
    /// #[derive(Clone, Copy)]
    /// #[repr(align(8192))]
    /// struct TwoPages([u8; 8192]);
    /// // SAFETY: zero is a valid value of bytes.
    /// unsafe impl hw::memory::Zeroed for TwoPages {}
    /// let _ = hw::memory::HugeSlice::<TwoPages>::try_zeroed(1);
    /// ```
    ///
    /// # Errors
    /// Fails if the memory cannot be reserved.
    pub fn try_zeroed(length: usize) -> io::Result<Self> {
        const { assert!(align_of::<T>() <= PAGE) };
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let bytes = length.checked_mul(size_of::<T>()).ok_or_else(too_large)?;
        if bytes == 0 {
            return Ok(Self {
                length,
                ..Self::empty()
            });
        }
        // Small arrays use normal pages: clearing a huge page would cost more than it saves.
        let align = if bytes >= HUGE_PAGE { HUGE_PAGE } else { PAGE };
        let rounded = bytes
            .checked_next_multiple_of(align)
            .ok_or_else(too_large)?;
        let mapped_bytes = rounded.checked_add(align).ok_or_else(too_large)?;
        // SAFETY: an anonymous private mapping at an address that the kernel chooses.
        let mapping = unsafe {
            libc::mmap(
                ptr::null_mut(),
                mapped_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if mapping == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapping = NonNull::new(mapping.cast::<u8>()).ok_or_else(too_large)?;
        let skip = mapping.as_ptr().align_offset(align);
        // SAFETY: `skip` is less than `align`, and the mapping is `align` bytes longer than `rounded`.
        let start = unsafe { mapping.add(skip) };
        if align == HUGE_PAGE {
            // SAFETY: the range is within the mapping. A failure costs speed only.
            unsafe { libc::madvise(start.as_ptr().cast(), rounded, libc::MADV_HUGEPAGE) };
        }
        Ok(Self {
            start: start.cast(),
            length,
            mapping,
            mapped_bytes,
        })
    }
}

impl<T: Zeroed> HugeSlice<T> {
    /// Commits all memory now, so that no first write waits for a page fault later. A kernel older than
    /// 5.14 cannot do this, and memory is then committed at the first write.
    pub fn populate(&self) {
        self.populate_first(self.length);
    }

    /// Commits the memory of the first `count` elements now, or [later](defer_population).
    pub fn populate_first(&self, count: usize) {
        if self.mapped_bytes == 0 {
            return;
        }
        let start = self.start.as_ptr() as usize;
        let bytes = count.min(self.length) * size_of::<T>();
        DEFERRED.with_borrow_mut(|deferred| match deferred {
            Some(deferred) => deferred.ranges.push((start, bytes)),
            None => commit(start, bytes),
        });
    }
}

impl<T: Zeroed> HugeSlice<T> {
    /// Returns the address of the first element.
    pub(crate) const fn start(&self) -> *mut T {
        self.start.as_ptr()
    }
}

impl<T: Zeroed> Drop for HugeSlice<T> {
    fn drop(&mut self) {
        if self.mapped_bytes > 0 {
            // SAFETY: `try_zeroed` made this mapping, and it is unmapped only once.
            unsafe { libc::munmap(self.mapping.as_ptr().cast(), self.mapped_bytes) };
        }
    }
}

impl<T: Zeroed> Deref for HugeSlice<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `length` elements from `start` are mapped and aligned, and are zero or written since.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl<T: Zeroed> DerefMut for HugeSlice<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`, and the borrow is unique.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl<T: Zeroed> fmt::Debug for HugeSlice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HugeSlice of {} x {} B", self.length, size_of::<T>())
    }
}

/// A vector of fixed capacity, on huge pages if the kernel grants them. Its elements never move.
pub struct HugeVec<T> {
    memory: HugeSlice<u8>,
    capacity: usize,
    length: usize,
    elements: PhantomData<T>,
}

impl<T> HugeVec<T> {
    /// Creates an empty vector with room for `capacity` elements.
    ///
    /// # Errors
    /// Fails if the memory cannot be reserved.
    pub fn try_with_capacity(capacity: usize) -> io::Result<Self> {
        const { assert!(align_of::<T>() <= PAGE) };
        let bytes = capacity
            .checked_mul(size_of::<T>())
            .ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            memory: HugeSlice::try_zeroed(bytes.max(align_of::<T>()))?,
            capacity,
            length: 0,
            elements: PhantomData,
        })
    }

    /// Appends an element.
    ///
    /// # Errors
    /// Returns the element if the vector is full.
    #[inline]
    pub fn push(&mut self, element: T) -> Result<(), T> {
        if self.length == self.capacity {
            return Err(element);
        }
        // SAFETY: the memory has room for `capacity` elements, is aligned to a page and so to a `T`,
        // and slot `length` holds no element yet.
        unsafe { self.start().add(self.length).write(element) };
        self.length += 1;
        Ok(())
    }

    /// Removes the last element and returns it.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        self.length = self.length.checked_sub(1)?;
        // SAFETY: the slot held an element and is free from now on.
        Some(unsafe { self.start().add(self.length).read() })
    }

    /// Commits the memory of the first `count` elements now.
    pub fn populate_first(&mut self, count: usize) {
        let bytes = count.saturating_mul(size_of::<T>());
        self.memory.populate_first(bytes);
    }

    /// Returns the maximum number of elements.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    #[inline]
    fn start(&self) -> *mut T {
        self.memory.start.as_ptr().cast()
    }
}

impl<T> Deref for HugeVec<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the first `length` slots hold elements.
        unsafe { slice::from_raw_parts(self.start(), self.length) }
    }
}

impl<T> DerefMut for HugeVec<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`, and the borrow is unique.
        unsafe { slice::from_raw_parts_mut(self.start(), self.length) }
    }
}

impl<T> Drop for HugeVec<T> {
    fn drop(&mut self) {
        // SAFETY: the elements are dropped once, and cannot be accessed afterwards.
        unsafe { ptr::drop_in_place(&mut **self) };
    }
}

impl<T> fmt::Debug for HugeVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HugeVec of {} of {}", self.length, self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vector_is_bounded_by_its_capacity_and_drops_its_elements() {
        let alive = std::rc::Rc::new(());
        let mut vector = HugeVec::try_with_capacity(1000).unwrap();
        vector.populate_first(500);
        for number in 0..1000 {
            assert!(vector.push((number, std::rc::Rc::clone(&alive))).is_ok());
        }
        assert!(vector.push((1000, std::rc::Rc::clone(&alive))).is_err());
        assert_eq!(vector.pop().map(|(number, _)| number), Some(999));
        assert!(vector.push((999, std::rc::Rc::clone(&alive))).is_ok());
        vector[7].0 = 70;
        assert_eq!((vector.len(), vector[7].0, vector[999].0), (1000, 70, 999));
        assert_eq!(std::rc::Rc::strong_count(&alive), 1001);
        drop(vector);
        assert_eq!(std::rc::Rc::strong_count(&alive), 1);
        assert!(HugeVec::<u64>::try_with_capacity(usize::MAX / 4).is_err());
        assert!(
            HugeVec::<u64>::try_with_capacity(0)
                .unwrap()
                .push(1)
                .is_err()
        );
    }

    #[test]
    fn slices_of_every_size_are_zeroed_aligned_and_writable() {
        for length in [0, 1, 63, 4096, 40_000, 1_000_000] {
            let mut slice = HugeSlice::<Line<u64, 8>>::try_zeroed(length).unwrap();
            assert_eq!(slice.len(), length);
            assert_eq!(slice.as_ptr().align_offset(64), 0);
            if length == 40_000 {
                slice.populate();
            }
            assert!(slice.iter().all(|line| line.0 == [0; 8]));
            if let Some(last) = slice.last_mut() {
                last.0[7] = 1;
            }
        }
    }

    #[test]
    fn deferred_memory_is_committed_while_it_is_used() {
        let (mut slice, population) = defer_population(|| {
            let slice = HugeSlice::<u64>::try_zeroed(1 << 20).unwrap();
            slice.populate();
            slice
        });
        assert_eq!(population.bytes(), 8 << 20);
        std::thread::scope(|scope| {
            scope.spawn(|| population.commit(|| false));
            for (index, number) in slice.iter_mut().enumerate() {
                *number = index as u64;
            }
        });
        assert!(
            slice
                .iter()
                .enumerate()
                .all(|(index, &it)| it == index as u64)
        );
        // Outside, nothing is deferred, and an end is respected.
        let (again, population) = defer_population(|| HugeSlice::<u8>::try_zeroed(100).unwrap());
        again.populate();
        assert_eq!(population.bytes(), 0);
        Population {
            ranges: vec![(again.as_ptr() as usize, 100)],
        }
        .commit(|| true);
    }

    #[test]
    fn rejects_more_than_the_address_space() {
        assert!(HugeSlice::<u64>::try_zeroed(usize::MAX / 4).is_err());
        assert!(HugeSlice::<u64>::try_zeroed(1 << 50).is_err());
    }
}
