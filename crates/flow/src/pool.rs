//! Places for the state of flows, taken and given back by number.

use hw::memory::HugeVec;
use hw::prefetch;
use std::io;

/// States whose memory is taken in the beginning, where it is asked for: all of a million flows' would
/// be a gibibyte and more that most links never need. The first states are those that are taken first.
pub(crate) const POPULATED: usize = 1 << 17;

/// Up to a fixed number of states. Memory is reserved whole and taken from the machine as flows
/// come; a place that was given back last is taken first, since it is still in the cache.
#[derive(Debug)]
pub(crate) struct Pool<T> {
    states: HugeVec<T>,
    free: HugeVec<u32>,
}

impl<T: Default> Pool<T> {
    /// Room for `max` states.
    ///
    /// # Errors
    /// When the machine has none.
    pub(crate) fn new(max: usize) -> io::Result<Self> {
        Ok(Self {
            states: HugeVec::try_with_capacity(max)?,
            free: HugeVec::try_with_capacity(max)?,
        })
    }

    /// Takes the memory of the first states from the machine now.
    pub(crate) fn populate(&mut self) {
        self.states.populate_first(POPULATED);
        self.free.populate_first(POPULATED);
    }

    /// A fresh state, if there is room for one.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<u32> {
        if let Some(number) = self.free.pop() {
            return Some(number);
        }
        let number = self.states.len() as u32;
        self.states.push(T::default()).ok().map(|()| number)
    }

    /// Gives a state back.
    #[inline]
    pub(crate) fn give_back(&mut self, number: u32) {
        if let Some(state) = self.states.get_mut(number as usize) {
            *state = T::default();
            let kept = self.free.push(number);
            debug_assert!(kept.is_ok(), "a state given back twice");
        }
    }

    /// Brings cache lines of a state near, by their numbers.
    #[inline(always)]
    pub(crate) fn prefetch<const N: usize>(&self, number: u32, lines: [usize; N]) {
        let start = self.states.as_ptr().wrapping_add(number as usize);
        for line in lines {
            prefetch::address(start.cast::<u8>().wrapping_add(64 * line));
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.states.get(number as usize)
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.states.get_mut(number as usize)
    }

    /// Memory that they take when all are in use, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.states.capacity() * (size_of::<T>() + size_of::<u32>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_given_back_is_taken_again_and_no_more_than_there_are() {
        let mut pool = Pool::<u64>::new(2).unwrap();
        let (first, second) = (pool.take().unwrap(), pool.take().unwrap());
        assert_ne!(first, second);
        assert_eq!(pool.take(), None);
        *pool.get_mut(first).unwrap() = 7;
        pool.give_back(first);
        assert_eq!(pool.take(), Some(first));
        assert_eq!(pool.get(first), Some(&0));
    }
}
