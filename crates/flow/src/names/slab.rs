//! A bounded pool of values with numbers for handles.
//!
//! It grows chunk by chunk and never moves what it holds, so that no packet waits while a large
//! array is copied. Freed places are used again, the last one first, while it is in the cache.

/// Values in a chunk.
const CHUNK: usize = 512;

/// A pool of at most a given number of values. Handle 0 is no value.
#[derive(Debug)]
pub(super) struct Slab<T> {
    chunks: Vec<Box<[T]>>,
    free: Vec<u32>,
    /// Places handed out at least once.
    used: usize,
    places_max: usize,
}

impl<T: Default> Slab<T> {
    /// A pool of at most `places_max` values; memory comes as they do.
    pub(super) fn new(places_max: usize) -> Self {
        Self {
            chunks: Vec::new(),
            free: Vec::new(),
            used: 0,
            places_max: places_max.min(u32::MAX as usize - 1),
        }
    }

    /// A place with a default value in it, or 0 when all are taken.
    pub(super) fn take(&mut self) -> u32 {
        if let Some(handle) = self.free.pop() {
            return handle;
        }
        if self.used == self.places_max {
            return 0;
        }
        if self.used.is_multiple_of(CHUNK) {
            let chunk: Vec<T> = (0..CHUNK).map(|_| T::default()).collect();
            self.chunks.push(chunk.into_boxed_slice());
        }
        self.used += 1;
        self.used as u32
    }

    /// Gives a place back, its value made the default one.
    pub(super) fn release(&mut self, handle: u32) {
        if let Some(value) = self.get_mut(handle) {
            *value = T::default();
            self.free.push(handle);
        }
    }

    /// The value, if `handle` is not 0.
    #[inline]
    pub(super) fn get(&self, handle: u32) -> Option<&T> {
        let at = (handle as usize).wrapping_sub(1);
        self.chunks.get(at / CHUNK)?.get(at % CHUNK)
    }

    /// The value, if `handle` is not 0.
    #[inline]
    pub(super) fn get_mut(&mut self, handle: u32) -> Option<&mut T> {
        let at = (handle as usize).wrapping_sub(1);
        self.chunks.get_mut(at / CHUNK)?.get_mut(at % CHUNK)
    }

    /// Values that are taken now.
    pub(super) fn taken(&self) -> usize {
        self.used - self.free.len()
    }

    /// Memory when all places are taken, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.places_max.next_multiple_of(CHUNK) * (size_of::<T>() + size_of::<u32>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_used_again() {
        let mut slab = Slab::<u64>::new(700);
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
