//! Places for the state of flows, and for parts of it, taken and given back by handle.

use crate::memory::HugeVec;
use crate::prefetch;
use std::io;

/// States whose memory is taken in the beginning, where it is asked for: all of a million flows' would
/// be a gibibyte and more that most links never need. The first states are those that are taken first.
const POPULATED: usize = 1 << 17;

/// A handle that is none.
pub const NONE: u32 = 0;

/// A value that lends a number of its own to the pool while nobody has its place.
pub trait Linked: Default {
    /// The number, which is 0 in a default value.
    fn link(&mut self) -> &mut u32;
}

/// A pool of at most a given number of values. Memory is reserved whole and taken from the machine as
/// flows come. Free places are chained by the numbers that they lend, so that they cost nothing
/// besides; the one that was given back last is taken first, since it is still in the cache.
#[derive(Debug)]
pub struct Pool<T> {
    places: HugeVec<T>,
    /// Handle of the first free place, or [`NONE`].
    free: u32,
    free_count: usize,
}

impl<T: Linked> Pool<T> {
    /// A pool of at most `places_max` values.
    ///
    /// # Errors
    /// When the machine has no room for them.
    pub fn new(places_max: usize) -> io::Result<Self> {
        Ok(Self {
            places: HugeVec::try_with_capacity(places_max.min(u32::MAX as usize - 1))?,
            free: NONE,
            free_count: 0,
        })
    }

    /// Takes the memory of the first values from the machine now.
    pub fn populate(&mut self) {
        self.places.populate_first(POPULATED);
    }

    /// A place with a default value in it, or [`NONE`] when all are taken.
    #[inline]
    pub fn take(&mut self) -> u32 {
        let handle = self.free;
        if let Some(place) = self.get_mut(handle) {
            let free = *place.link();
            *place = T::default();
            self.free = free;
            self.free_count -= 1;
            return handle;
        }
        match self.places.push(T::default()) {
            Ok(()) => self.places.len() as u32,
            Err(_) => NONE,
        }
    }

    /// Gives a place back. Its value stays, but for the link, until the place is taken again.
    #[inline]
    pub fn release(&mut self, handle: u32) {
        let free = self.free;
        if let Some(place) = self.get_mut(handle) {
            *place.link() = free;
            self.free = handle;
            self.free_count += 1;
        }
    }

    /// Brings cache lines of a value near, by where in it they begin.
    #[inline(always)]
    pub fn prefetch<const N: usize>(&self, handle: u32, lines: [usize; N]) {
        // Handles count from 1.
        let before = self.places.as_ptr().wrapping_sub(1);
        let start = before.wrapping_add(handle as usize);
        for line in lines {
            prefetch::address(start.cast::<u8>().wrapping_add(line));
        }
    }

    /// Brings a value near.
    #[inline(always)]
    pub fn prefetch_all(&self, handle: u32) {
        for line in (0..size_of::<T>()).step_by(64) {
            self.prefetch(handle, [line]);
        }
    }

    /// The value, if `handle` is that of one.
    #[inline(always)]
    pub fn get(&self, handle: u32) -> Option<&T> {
        self.places.get(handle.wrapping_sub(1) as usize)
    }

    /// The value, if `handle` is that of one.
    #[inline(always)]
    pub fn get_mut(&mut self, handle: u32) -> Option<&mut T> {
        self.places.get_mut(handle.wrapping_sub(1) as usize)
    }

    /// Values that are taken now.
    pub fn taken(&self) -> usize {
        self.places.len() - self.free_count
    }

    /// Values that may yet be taken.
    #[inline]
    pub fn left(&self) -> usize {
        self.places.capacity() - self.taken()
    }

    /// Memory when all places are taken, in bytes.
    pub fn memory_bytes(&self) -> usize {
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
        let mut pool = Pool::<Value>::new(700).unwrap();
        let handles: Vec<u32> = (0..700).map(|_| pool.take()).collect();
        assert!(handles.iter().all(|&handle| handle != 0));
        assert_eq!(pool.take(), 0);
        *pool.get_mut(handles[699]).unwrap() = Value(6, 7);
        assert_eq!(pool.get(handles[699]), Some(&Value(6, 7)));
        assert_eq!(pool.get(0), None);
        pool.release(handles[699]);
        pool.release(handles[3]);
        pool.release(0);
        assert_eq!((pool.taken(), pool.left()), (698, 2));
        assert_eq!(pool.take(), handles[3]);
        assert_eq!(pool.take(), handles[699]);
        assert_eq!(pool.get(handles[699]), Some(&Value::default()));
        assert_eq!(pool.take(), 0);
    }
}
