//! A bounded pool of values with numbers for handles, of which 0 is no value.

use crate::pool::Pool;
use std::io;

/// A pool of at most a given number of values.
#[derive(Debug)]
pub(super) struct Slab<T>(Pool<T>);

impl<T: Default> Slab<T> {
    /// A pool of at most `places_max` values.
    ///
    /// # Errors
    /// When the machine has no room for them.
    pub(super) fn new(places_max: usize) -> io::Result<Self> {
        Pool::new(places_max.min(u32::MAX as usize - 1)).map(Self)
    }

    /// Takes the memory of the first values from the machine now.
    pub(super) fn populate(&mut self) {
        self.0.populate();
    }

    /// A place with a default value in it, or 0 when all are taken.
    pub(super) fn take(&mut self) -> u32 {
        self.0.take().map_or(0, |number| number + 1)
    }

    /// Gives a place back, its value made the default one.
    pub(super) fn release(&mut self, handle: u32) {
        self.0.give_back(handle.wrapping_sub(1));
    }

    /// The value, if `handle` is not 0.
    #[inline]
    pub(super) fn get(&self, handle: u32) -> Option<&T> {
        self.0.get(handle.wrapping_sub(1))
    }

    /// The value, if `handle` is not 0.
    #[inline]
    pub(super) fn get_mut(&mut self, handle: u32) -> Option<&mut T> {
        self.0.get_mut(handle.wrapping_sub(1))
    }

    /// Values that are taken now.
    pub(super) fn taken(&self) -> usize {
        self.0.taken()
    }

    /// Memory when all places are taken, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_used_again() {
        let mut slab = Slab::<u64>::new(700).unwrap();
        let handles: Vec<u32> = (0..700).map(|_| slab.take()).collect();
        assert!(handles.iter().all(|&handle| handle != 0));
        assert_eq!(slab.take(), 0);
        *slab.get_mut(handles[699]).unwrap() = 7;
        assert_eq!(slab.get(handles[699]), Some(&7));
        assert_eq!(slab.get(0), None);
        slab.release(handles[699]);
        slab.release(0);
        assert_eq!(slab.taken(), 699);
        assert_eq!(slab.take(), handles[699]);
        assert_eq!(slab.get(handles[699]), Some(&0));
    }
}
