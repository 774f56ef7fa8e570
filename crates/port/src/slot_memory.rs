//! Slots in memory of one's own, for links that copy frames on, or to nowhere.

use crate::frame::BURST;
use crate::transmit::Slot;
use std::mem::MaybeUninit;
use std::slice;

/// What is kept of a slot that was submitted and not taken.
#[derive(Clone, Copy, Default)]
struct Left {
    length: usize,
    time_ns: i64,
    rss_hash: u32,
}

/// A burst of slots, lent out and read back.
pub(crate) struct SlotMemory {
    /// [`BURST`] rooms of `room` bytes; made by `allocate`, freed on drop.
    memory: *mut u8,
    room: usize,
    /// Which room each slot has: what is left over moves to the front without its bytes.
    order: [u16; BURST],
    left: [Left; BURST],
    left_count: usize,
    /// The slots last lent. Their bytes are never read from here, nor trusted.
    slots: Box<[MaybeUninit<Slot<'static>>; BURST]>,
    lent: usize,
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for SlotMemory {}

fn allocate(room: usize) -> *mut u8 {
    Box::into_raw(vec![0u8; room * BURST].into_boxed_slice()).cast()
}

impl SlotMemory {
    pub(crate) fn new() -> Self {
        Self {
            memory: allocate(0),
            room: 0,
            order: std::array::from_fn(|index| index as u16),
            left: [Left::default(); BURST],
            left_count: 0,
            slots: Box::new([const { MaybeUninit::uninit() }; BURST]),
            lent: 0,
        }
    }

    fn bytes_of(&self, slot: usize) -> *mut u8 {
        // `order` holds numbers below BURST, so this lies within the memory.
        self.memory
            .wrapping_add(usize::from(self.order[slot]) * self.room)
    }

    /// As [`Transmit::reserve`](crate::Transmit::reserve), at most [`BURST`].
    pub(crate) fn lend(&mut self, count: usize, room: usize) -> &mut [Slot<'_>] {
        if room > self.room {
            self.grow(room);
        }
        let count = count.clamp(self.left_count, BURST);
        for index in 0..count {
            let start = self.bytes_of(index);
            let left = if index < self.left_count {
                self.left[index]
            } else {
                Left {
                    length: self.room,
                    ..Left::default()
                }
            };
            // SAFETY: `order` is a permutation, so that each slot has a room of its own within the
            // memory. Nothing else refers to it until the slots are back: they are lent with the
            // lifetime of a mutable borrow of `self`.
            let bytes = unsafe { slice::from_raw_parts_mut(start, self.room) };
            self.slots[index].write(Slot {
                bytes,
                length: left.length,
                time_ns: left.time_ns,
                rss_hash: left.rss_hash,
            });
        }
        self.lent = count;
        // SAFETY: the first `count` were written above. The type differs in a lifetime only, and what
        // stays behind in the slots when the borrow has ended is never read as bytes.
        unsafe { slice::from_raw_parts_mut(self.slots.as_mut_ptr().cast::<Slot<'_>>(), count) }
    }

    /// The most that can be submitted.
    pub(crate) fn lent(&self) -> usize {
        self.lent
    }

    fn kept(&self, index: usize) -> Left {
        assert!(index < self.lent);
        let slot = self.slots[index].as_ptr();
        // SAFETY: slots below `lent` were written when they were lent; these are numbers.
        unsafe {
            Left {
                length: (*slot).length.min(self.room),
                time_ns: (*slot).time_ns,
                rss_hash: (*slot).rss_hash,
            }
        }
    }

    /// Length of the frame in a slot that was lent.
    pub(crate) fn length(&self, index: usize) -> usize {
        self.kept(index).length
    }

    /// The frame in a slot that was lent, its time, and its hash.
    pub(crate) fn frame(&self, index: usize) -> (&[u8], i64, u32) {
        let kept = self.kept(index);
        // SAFETY: within the room of this slot, which nobody writes to while `self` is borrowed.
        let bytes = unsafe { slice::from_raw_parts(self.bytes_of(index), kept.length) };
        (bytes, kept.time_ns, kept.rss_hash)
    }

    /// Of the `submitted` slots the first `taken` are free again, the others are left over.
    pub(crate) fn take(&mut self, taken: usize, submitted: usize) {
        let submitted = submitted.min(self.lent);
        let taken = taken.min(submitted);
        self.left_count = submitted - taken;
        for index in taken..submitted {
            self.left[index - taken] = self.kept(index);
        }
        if self.left_count > 0 {
            self.order.rotate_left(taken);
        }
        self.lent = 0;
    }

    pub(crate) fn discard(&mut self) {
        self.left_count = 0;
        self.lent = 0;
    }

    fn grow(&mut self, room: usize) {
        // A line each at least, so that no two frames share one.
        let room = room.next_multiple_of(64);
        let memory = allocate(room);
        for index in 0..self.left_count {
            let to = memory.wrapping_add(usize::from(self.order[index]) * room);
            // SAFETY: a room of the old memory and a larger one of the new, both of this value.
            unsafe { self.bytes_of(index).copy_to_nonoverlapping(to, self.room) };
        }
        self.free();
        self.memory = memory;
        self.room = room;
    }

    fn free(&mut self) {
        let whole = std::ptr::slice_from_raw_parts_mut(self.memory, self.room * BURST);
        // SAFETY: made by `allocate` with this length, and let go of here alone.
        drop(unsafe { Box::from_raw(whole) });
    }
}

impl Drop for SlotMemory {
    fn drop(&mut self) {
        self.free();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_over_comes_first_as_it_was_written() {
        let mut memory = SlotMemory::new();
        for (index, slot) in memory.lend(5, 60).iter_mut().enumerate() {
            slot.bytes.fill(index as u8);
            slot.length = 10 + index;
            slot.time_ns = index as i64;
        }
        // The fifth was not submitted.
        memory.take(1, 4);
        let slots = memory.lend(6, 100);
        assert_eq!(slots.len(), 6);
        for (slot, index) in slots.iter().zip(1u8..4) {
            assert_eq!(slot.length, 10 + usize::from(index));
            assert_eq!(slot.time_ns, i64::from(index));
            assert_eq!(slot.bytes[..60], [index; 60]);
        }
        assert!(slots[3].bytes.len() >= 100 && slots[3].length == slots[3].bytes.len());
        slots[5].bytes.fill(9);
        assert_eq!(slots[0].bytes[0], 1);
        // Fewer than are left over cannot be had.
        memory.take(0, 3);
        assert_eq!(memory.lend(1, 60).len(), 3);
        memory.discard();
        assert_eq!(memory.lend(1, 60).len(), 1);
    }

    #[test]
    fn a_length_beyond_the_room_is_cut() {
        let mut memory = SlotMemory::new();
        memory.lend(1, 64)[0].length = usize::MAX;
        assert_eq!(memory.length(0), 64);
        assert_eq!(memory.frame(0).0.len(), 64);
        assert_eq!(memory.lend(1000, 1).len(), BURST);
    }
}
