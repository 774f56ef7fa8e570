//! A pool of slots for flow state, allocated and freed by handle.

use crate::memory::HugeVec;
use crate::prefetch;
use std::io;

/// Slots whose memory [`Pool::populate`] commits: the state of a million flows would be over 1 GiB,
/// which most links never need. The first slots are also the first to be allocated.
const POPULATED_SLOTS: usize = 1 << 17;

/// The null handle.
pub const NO_HANDLE: u32 = 0;

/// A value whose slot can be on the free list of a pool: one of its fields then holds the link.
pub trait FreeListNode: Default {
    /// Returns the field that links a free slot to the next; it must be 0 in a default value.
    fn next_free(&mut self) -> &mut u32;
}

/// A pool with a fixed maximum of values. The whole address range is reserved at once, and memory is
/// committed as slots are first used. Free slots form a linked list through the values themselves, so
/// the list costs no memory. It is last in, first out, since the slot freed last is still cached.
#[derive(Debug)]
pub struct Pool<T> {
    slots: HugeVec<T>,
    /// Handle of the first free slot, or [`NO_HANDLE`].
    free: u32,
    free_count: usize,
}

impl<T: FreeListNode> Pool<T> {
    /// Creates a pool of at most `slots_max` values.
    ///
    /// # Errors
    /// Fails if the address space for them cannot be reserved.
    pub fn new(slots_max: usize) -> io::Result<Self> {
        Ok(Self {
            slots: HugeVec::try_with_capacity(slots_max.min(u32::MAX as usize - 1))?,
            free: NO_HANDLE,
            free_count: 0,
        })
    }

    /// Commits the memory of the first slots now.
    pub fn populate(&mut self) {
        self.slots.populate_first(POPULATED_SLOTS);
    }

    /// Allocates a slot with a default value; returns [`NO_HANDLE`] if the pool is full.
    #[inline]
    pub fn allocate(&mut self) -> u32 {
        let handle = self.free;
        if let Some(value) = self.get_mut(handle) {
            let free = *value.next_free();
            *value = T::default();
            self.free = free;
            self.free_count -= 1;
            return handle;
        }
        match self.slots.push(T::default()) {
            Ok(()) => self.slots.len() as u32,
            Err(_) => NO_HANDLE,
        }
    }

    /// Frees a slot. Except for the link, its value stays readable until the slot is allocated again.
    #[inline]
    pub fn free(&mut self, handle: u32) {
        let free = self.free;
        if let Some(value) = self.get_mut(handle) {
            *value.next_free() = free;
            self.free = handle;
            self.free_count += 1;
        }
    }

    /// Prefetches cache lines of a value; `lines` are their byte offsets in it.
    #[inline]
    pub fn prefetch<const N: usize>(&self, handle: u32, lines: [usize; N]) {
        // Handles start at 1.
        let base = self.slots.as_ptr().wrapping_sub(1);
        let start = base.wrapping_add(handle as usize);
        for line in lines {
            prefetch::address(start.cast::<u8>().wrapping_add(line));
        }
    }

    /// Prefetches all cache lines of a value.
    #[inline]
    pub fn prefetch_all(&self, handle: u32) {
        for line in (0..size_of::<T>()).step_by(64) {
            self.prefetch(handle, [line]);
        }
    }

    /// Returns the value of `handle`, or `None` for an invalid handle.
    #[inline]
    pub fn get(&self, handle: u32) -> Option<&T> {
        self.slots.get(handle.wrapping_sub(1) as usize)
    }

    /// Returns the value of `handle`, mutable, or `None` for an invalid handle.
    #[inline]
    pub fn get_mut(&mut self, handle: u32) -> Option<&mut T> {
        self.slots.get_mut(handle.wrapping_sub(1) as usize)
    }

    /// Returns the number of allocated slots.
    pub fn allocated(&self) -> usize {
        self.slots.len() - self.free_count
    }

    /// Returns how many more slots can be allocated.
    #[inline]
    pub fn available(&self) -> usize {
        self.slots.capacity() - self.allocated()
    }

    /// Returns the memory of a full pool, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq)]
    struct Value(u32, u64);

    impl FreeListNode for Value {
        fn next_free(&mut self) -> &mut u32 {
            &mut self.0
        }
    }

    #[test]
    fn slots_are_bounded_and_reused() {
        let mut pool = Pool::<Value>::new(700).unwrap();
        let handles: Vec<u32> = (0..700).map(|_| pool.allocate()).collect();
        assert!(handles.iter().all(|&handle| handle != 0));
        assert_eq!(pool.allocate(), 0);
        *pool.get_mut(handles[699]).unwrap() = Value(6, 7);
        assert_eq!(pool.get(handles[699]), Some(&Value(6, 7)));
        assert_eq!(pool.get(0), None);
        pool.free(handles[699]);
        pool.free(handles[3]);
        pool.free(0);
        assert_eq!((pool.allocated(), pool.available()), (698, 2));
        assert_eq!(pool.allocate(), handles[3]);
        assert_eq!(pool.allocate(), handles[699]);
        assert_eq!(pool.get(handles[699]), Some(&Value::default()));
        assert_eq!(pool.allocate(), 0);
    }
}
