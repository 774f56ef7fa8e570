//! Large zero-filled arrays on huge pages.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::{fmt, io, ptr, slice};

/// Types for which all bytes zero is a value.
///
/// # Safety
/// A value of all zero bytes must be valid, and the type must not need dropping. (How it is aligned
/// is checked where memory is made for it.)
pub unsafe trait Zeroed: Copy {}

macro_rules! zeroed {
    ($($type:ty),*) => { $(
        // SAFETY: zero is a value of every number.
        unsafe impl Zeroed for $type {}
    )* };
}
zeroed!(u8, u16, u32, u64, u128, i8, i16, i32, i64, usize, f32, f64);

// SAFETY: an array is its elements.
unsafe impl<T: Zeroed, const N: usize> Zeroed for [T; N] {}

/// An array that starts on a cache line of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(64))]
pub struct Line<T, const N: usize>(pub [T; N]);

// SAFETY: the array within is; padding may hold anything.
unsafe impl<T: Zeroed, const N: usize> Zeroed for Line<T, N> {}

impl<T: Default + Copy, const N: usize> Default for Line<T, N> {
    fn default() -> Self {
        Self([T::default(); N])
    }
}

/// Where a [`HugeSlice`] begins: whatever is stored in one is aligned to no more.
const PAGE: usize = 4096;

/// Size of a huge page on x86-64.
const HUGE_PAGE: usize = 2 << 20;

/// A zero-filled slice of fixed length, on transparent huge pages where the kernel grants them.
///
/// Memory is taken from the machine page by page as it is first written, so an array that is
/// bounded generously costs little until it fills.
pub struct HugeSlice<T: Zeroed> {
    start: NonNull<T>,
    length: usize,
    mapping: NonNull<u8>,
    mapped_bytes: usize,
}

// SAFETY: the slice owns its memory alone, as a Vec does.
unsafe impl<T: Zeroed + Send> Send for HugeSlice<T> {}
// SAFETY: shared access gives shared references only.
unsafe impl<T: Zeroed + Sync> Sync for HugeSlice<T> {}

impl<T: Zeroed> HugeSlice<T> {
    /// No elements, and no memory.
    #[must_use]
    pub const fn empty() -> Self {
        Self {
            start: NonNull::dangling(),
            length: 0,
            mapping: NonNull::dangling(),
            mapped_bytes: 0,
        }
    }

    /// `length` zeroes. Of a type that wants to be aligned to more than a page, this does not compile:
    ///
    /// ```compile_fail
    /// #[derive(Clone, Copy)]
    /// #[repr(align(8192))]
    /// struct TwoPages([u8; 8192]);
    /// // SAFETY: bytes, of which zero is a value.
    /// unsafe impl hw::memory::Zeroed for TwoPages {}
    /// let _ = hw::memory::HugeSlice::<TwoPages>::try_zeroed(1);
    /// ```
    ///
    /// # Errors
    /// When the machine has no room for them.
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
        // Small arrays take plain pages: a huge page would cost more to clear than it saves.
        let align = if bytes >= HUGE_PAGE { HUGE_PAGE } else { PAGE };
        let rounded = bytes
            .checked_next_multiple_of(align)
            .ok_or_else(too_large)?;
        let mapped_bytes = rounded.checked_add(align).ok_or_else(too_large)?;
        // SAFETY: an anonymous private mapping at an address of the kernel's choice.
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
        // SAFETY: `skip` is less than `align`, by which the mapping is longer than `rounded`.
        let start = unsafe { mapping.add(skip) };
        if align == HUGE_PAGE {
            // SAFETY: the range lies within the mapping. Refusal costs speed only.
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
    /// Takes all the memory now, so that no first touch has to wait for it later. Where the kernel
    /// does not know how (before 5.14), memory comes as it is touched.
    pub fn populate(&self) {
        self.populate_first(self.length);
    }

    /// Takes the memory of the first `count` elements now.
    pub fn populate_first(&self, count: usize) {
        if self.mapped_bytes > 0 {
            let bytes = count.min(self.length) * size_of::<T>();
            // SAFETY: the range lies within the mapping and starts on a page.
            unsafe { libc::madvise(self.start.as_ptr().cast(), bytes, libc::MADV_POPULATE_WRITE) };
        }
    }
}

impl<T: Zeroed> HugeSlice<T> {
    /// Where the elements begin.
    pub(crate) const fn start(&self) -> *mut T {
        self.start.as_ptr()
    }
}

impl<T: Zeroed> Drop for HugeSlice<T> {
    fn drop(&mut self) {
        if self.mapped_bytes > 0 {
            // SAFETY: the mapping made in `try_zeroed`, given back once.
            unsafe { libc::munmap(self.mapping.as_ptr().cast(), self.mapped_bytes) };
        }
    }
}

impl<T: Zeroed> Deref for HugeSlice<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `length` elements from `start` on are mapped, aligned and zero or written since.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl<T: Zeroed> DerefMut for HugeSlice<T> {
    #[inline(always)]
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

/// A vector that never grows beyond the room it was given, on huge pages where the kernel grants
/// them: its elements never move.
pub struct HugeVec<T> {
    room: HugeSlice<u8>,
    capacity: usize,
    length: usize,
    elements: PhantomData<T>,
}

impl<T> HugeVec<T> {
    /// Room for `capacity` elements.
    ///
    /// # Errors
    /// When the machine has no room for them.
    pub fn try_with_capacity(capacity: usize) -> io::Result<Self> {
        const { assert!(align_of::<T>() <= PAGE) };
        let bytes = capacity
            .checked_mul(size_of::<T>())
            .ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            room: HugeSlice::try_zeroed(bytes.max(align_of::<T>()))?,
            capacity,
            length: 0,
            elements: PhantomData,
        })
    }

    /// Appends an element; gives it back where there is no room.
    ///
    /// # Errors
    /// The element, when the vector is full.
    #[inline]
    pub fn push(&mut self, element: T) -> Result<(), T> {
        if self.length == self.capacity {
            return Err(element);
        }
        // SAFETY: there is room for `capacity` elements from the start on, which is aligned to a
        // page and so to a `T`, and place `length` holds none yet.
        unsafe { self.start().add(self.length).write(element) };
        self.length += 1;
        Ok(())
    }

    /// Takes the last element out.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        self.length = self.length.checked_sub(1)?;
        // SAFETY: the place held an element, and is free from now on.
        Some(unsafe { self.start().add(self.length).read() })
    }

    /// Takes the memory of the first `count` elements now.
    pub fn populate_first(&mut self, count: usize) {
        let bytes = count.saturating_mul(size_of::<T>());
        self.room.populate_first(bytes);
    }

    /// How many elements there may be.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    #[inline(always)]
    fn start(&self) -> *mut T {
        self.room.start.as_ptr().cast()
    }
}

impl<T> Deref for HugeVec<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the first `length` places hold elements.
        unsafe { slice::from_raw_parts(self.start(), self.length) }
    }
}

impl<T> DerefMut for HugeVec<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`, and the borrow is unique.
        unsafe { slice::from_raw_parts_mut(self.start(), self.length) }
    }
}

impl<T> Drop for HugeVec<T> {
    fn drop(&mut self) {
        // SAFETY: the elements are dropped once, and nobody can look at them any more.
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
    fn a_vector_holds_as_many_as_it_has_room_for_and_drops_them_all() {
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
    fn zero_filled_aligned_and_writable_at_every_size() {
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
    fn more_than_the_address_space_is_an_error() {
        assert!(HugeSlice::<u64>::try_zeroed(usize::MAX / 4).is_err());
        assert!(HugeSlice::<u64>::try_zeroed(1 << 50).is_err());
    }
}
