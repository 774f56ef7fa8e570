//! A bounded pool of values with numbers for handles, of which 0 is no value.

use crate::pool::POPULATED;
use hw::memory::HugeVec;
use std::io;

/// A value that lends a number of its own to the pool while nobody has its place.
pub(super) trait Linked: Default {
    /// The number, which is 0 in a default value.
    fn link(&mut self) -> &mut u32;
}

/// A pool of at most a given number of values. Free places are chained by the numbers that they
/// lend, so that they cost nothing besides; the one that was given back last is taken first, since
/// it is still in the cache.
#[derive(Debug)]
pub(super) struct Slab<T> {
    places: HugeVec<T>,
    /// Handle of the first free place, 0 for none.
    free: u32,
    free_count: usize,
}

impl<T: Linked> Slab<T> {
    /// A pool of at most `places_max` values.
    ///
    /// # Errors
    /// When the machine has no room for them.
    pub(super) fn new(places_max: usize) -> io::Result<Self> {
        Ok(Self {
            places: HugeVec::try_with_capacity(places_max.min(u32::MAX as usize - 1))?,
            free: 0,
            free_count: 0,
        })
    }

    /// Takes the memory of the first values from the machine now.
    pub(super) fn populate(&mut self) {
        self.places.populate_first(POPULATED);
    }

    /// A place with a default value in it, or 0 when all are taken.
    #[inline]
    pub(super) fn take(&mut self) -> u32 {
        let handle = self.free;
        if let Some(place) = self.get_mut(handle) {
            self.free = std::mem::take(place.link());
            self.free_count -= 1;
            return handle;
        }
        match self.places.push(T::default()) {
            Ok(()) => self.places.len() as u32,
            Err(_) => 0,
        }
    }

    /// Gives a place back, its value made the default one.
    #[inline]
    pub(super) fn release(&mut self, handle: u32) {
        let free = self.free;
        if let Some(place) = self.get_mut(handle) {
            *place = T::default();
            *place.link() = free;
            self.free = handle;
            self.free_count += 1;
        }
    }

    /// The value, if `handle` is not 0.
    #[inline(always)]
    pub(super) fn get(&self, handle: u32) -> Option<&T> {
        self.places.get(handle.wrapping_sub(1) as usize)
    }

    /// The value, if `handle` is not 0.
    #[inline(always)]
    pub(super) fn get_mut(&mut self, handle: u32) -> Option<&mut T> {
        self.places.get_mut(handle.wrapping_sub(1) as usize)
    }

    /// Values that are taken now.
    pub(super) fn taken(&self) -> usize {
        self.places.len() - self.free_count
    }

    /// Values that may yet be taken.
    #[inline]
    pub(super) fn left(&self) -> usize {
        self.places.capacity() - self.taken()
    }

    /// Memory when all places are taken, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.places.capacity() * size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq)]
    struct Value(u32, u64);

    impl Linked for Value {
        fn link(&mut self) -> &mut u32 {
            &mut self.0
        }
    }

    #[test]
    fn places_are_bounded_and_used_again() {
        let mut slab = Slab::<Value>::new(700).unwrap();
        let handles: Vec<u32> = (0..700).map(|_| slab.take()).collect();
        assert!(handles.iter().all(|&handle| handle != 0));
        assert_eq!(slab.take(), 0);
        *slab.get_mut(handles[699]).unwrap() = Value(6, 7);
        assert_eq!(slab.get(handles[699]), Some(&Value(6, 7)));
        assert_eq!(slab.get(0), None);
        slab.release(handles[699]);
        slab.release(handles[3]);
        slab.release(0);
        assert_eq!((slab.taken(), slab.left()), (698, 2));
        assert_eq!(slab.take(), handles[3]);
        assert_eq!(slab.take(), handles[699]);
        assert_eq!(slab.get(handles[699]), Some(&Value::default()));
        assert_eq!(slab.take(), 0);
    }
}
