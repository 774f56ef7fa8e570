//! Slots in memory of one's own, for links that copy frames on, or to nowhere.

use crate::frame::{BURST, PortError};
use crate::transmit::Slot;
use hw::memory::HugeSlice;
use std::io;
use std::mem::MaybeUninit;
use std::slice;

/// The most bytes of a slot: no file has a longer frame to send.
pub(crate) const ROOM_MAX: usize = 128 << 20;

/// A cache line.
const LINE: usize = 64;

/// What is kept of a slot that was submitted and not taken.
#[derive(Clone, Copy, Default)]
struct Left {
    length: usize,
    time_ns: i64,
    rss_hash: u32,
}

/// A burst of slots, lent out and read back.
pub(crate) struct SlotMemory {
    /// [`BURST`] rooms of `room` bytes.
    memory: HugeSlice<u8>,
    room: usize,
    /// Which room each slot has: what is left over moves to the front without its bytes.
    order: [u16; BURST],
    left: [Left; BURST],
    left_count: usize,
    /// The slots last lent. Their bytes are never read from here, nor trusted.
    slots: Box<[MaybeUninit<Slot<'static>>; BURST]>,
    lent: usize,
}

impl SlotMemory {
    pub(crate) fn new() -> Self {
        Self {
            memory: HugeSlice::empty(),
            room: 0,
            order: std::array::from_fn(|index| index as u16),
            left: [Left::default(); BURST],
            left_count: 0,
            slots: Box::new([const { MaybeUninit::uninit() }; BURST]),
            lent: 0,
        }
    }

    /// Where the room of a slot begins.
    fn start_of(&self, slot: usize) -> usize {
        usize::from(self.order[slot]) * self.room
    }

    /// As [`Transmit::reserve`](crate::Transmit::reserve), at most [`BURST`].
    ///
    /// # Errors
    /// When `room` is more than [`ROOM_MAX`], or the machine has not so much memory.
    pub(crate) fn lend(&mut self, count: usize, room: usize) -> Result<&mut [Slot<'_>], PortError> {
        if room > self.room {
            self.grow(room)?;
        }
        let count = count.clamp(self.left_count, BURST);
        let memory = self.memory.as_mut_ptr();
        for index in 0..count {
            let left = if index < self.left_count {
                self.left[index]
            } else {
                Left {
                    length: self.room,
                    ..Left::default()
                }
            };
            // SAFETY: `memory` has `BURST` rooms, and `order` is a permutation of their numbers, so
            // that each slot has one of its own within it. Nothing else refers to it until the slots
            // are back: they are lent with the lifetime of a mutable borrow of `self`.
            let bytes =
                unsafe { slice::from_raw_parts_mut(memory.add(self.start_of(index)), self.room) };
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
        Ok(unsafe { slice::from_raw_parts_mut(self.slots.as_mut_ptr().cast::<Slot<'_>>(), count) })
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
        let start = self.start_of(index);
        let bytes = &self.memory[start..start + kept.length];
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

    fn grow(&mut self, room: usize) -> Result<(), PortError> {
        if room > ROOM_MAX {
            return Err(PortError::Failed(format!(
                "a frame of {room} bytes cannot be sent: {ROOM_MAX} bytes are the most"
            )));
        }
        // A line each at least, so that no two frames share one.
        let room = room.next_multiple_of(LINE);
        let memory = room
            .checked_mul(BURST)
            .ok_or_else(|| io::ErrorKind::OutOfMemory.into())
            .and_then(HugeSlice::try_zeroed);
        let mut memory: HugeSlice<u8> = memory.map_err(|error| {
            PortError::Failed(format!(
                "no memory for {BURST} frames of {room} bytes: {error}"
            ))
        })?;
        for index in 0..self.left_count {
            let (from, to) = (self.start_of(index), usize::from(self.order[index]) * room);
            memory[to..to + self.room].copy_from_slice(&self.memory[from..from + self.room]);
        }
        self.memory = memory;
        self.room = room;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_over_comes_first_as_it_was_written() {
        let mut memory = SlotMemory::new();
        for (index, slot) in memory.lend(5, 60).unwrap().iter_mut().enumerate() {
            slot.bytes.fill(index as u8);
            slot.length = 10 + index;
            slot.time_ns = index as i64;
        }
        // The fifth was not submitted.
        memory.take(1, 4);
        let slots = memory.lend(6, 100).unwrap();
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
        assert_eq!(memory.lend(1, 60).unwrap().len(), 3);
        memory.discard();
        assert_eq!(memory.lend(1, 60).unwrap().len(), 1);
    }

    #[test]
    fn a_length_beyond_the_room_is_cut() {
        let mut memory = SlotMemory::new();
        memory.lend(1, 64).unwrap()[0].length = usize::MAX;
        assert_eq!(memory.length(0), 64);
        assert_eq!(memory.frame(0).0.len(), 64);
        assert_eq!(memory.lend(1000, 1).unwrap().len(), BURST);
    }

    #[test]
    fn a_room_that_no_frame_needs_is_refused_and_what_is_left_over_stays() {
        let mut memory = SlotMemory::new();
        memory.lend(1, 60).unwrap()[0].bytes[..60].fill(7);
        memory.take(0, 1);
        // Times a burst, or rounded up to a line, the others are too large for a number.
        for room in [
            ROOM_MAX + 1,
            1 << 56,
            usize::MAX / BURST + 1,
            usize::MAX - 1,
            usize::MAX,
        ] {
            let error = memory.lend(1, room).err().map(|error| error.to_string());
            let error = error.unwrap_or_default();
            assert!(
                error.contains(&format!("{room} bytes cannot be sent")),
                "{error}"
            );
        }
        let slots = memory.lend(1, 1).unwrap();
        assert_eq!((slots[0].bytes.len(), slots[0].bytes[59]), (64, 7));
    }

    #[test]
    fn a_link_refuses_a_room_that_no_frame_needs() {
        use crate::{NullSink, Transmit, memory_link};
        assert!(NullSink::new().reserve(1, 1 << 56).is_err());
        let (mut sender, _receiver) = memory_link(1, wire::LinkType::Ethernet);
        assert!(sender.reserve(1, 1 << 56).is_err());
        assert_eq!(sender.reserve(1, 100).unwrap().len(), 1);
    }
}
