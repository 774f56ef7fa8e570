//! Memory for slots, for links that copy or discard frames.

use crate::frame::{BURST, PortError};
use crate::transmit::Slot;
use hw::memory::HugeSlice;
use std::io;
use std::mem::MaybeUninit;
use std::slice;

/// Maximum bytes of a slot: the longest frame of any capture file.
pub(crate) const SLOT_BYTES_MAX: usize = 128 << 20;

/// Bytes of a cache line.
const CACHE_LINE_BYTES: usize = 64;

/// Metadata of a slot that was submitted and not accepted.
#[derive(Clone, Copy, Default)]
struct SlotState {
    length: usize,
    time_ns: i64,
    rss_hash: u32,
}

/// Memory for a burst of slots.
pub(crate) struct SlotMemory {
    /// [`BURST`] buffers of `slot_bytes` bytes.
    memory: HugeSlice<u8>,
    slot_bytes: usize,
    /// The buffer of each slot. Pending slots move to the front by a rotation of this table, without
    /// copying their bytes.
    order: [u16; BURST],
    pending: [SlotState; BURST],
    pending_count: usize,
    /// The slots last reserved. The caller may have swapped their `bytes`, which are never used.
    slots: Box<[MaybeUninit<Slot<'static>>; BURST]>,
    reserved: usize,
}

impl SlotMemory {
    pub(crate) fn new() -> Self {
        Self {
            memory: HugeSlice::empty(),
            slot_bytes: 0,
            order: std::array::from_fn(|index| index as u16),
            pending: [SlotState::default(); BURST],
            pending_count: 0,
            slots: Box::new([const { MaybeUninit::uninit() }; BURST]),
            reserved: 0,
        }
    }

    /// Offset of a slot's buffer in `memory`.
    fn offset(&self, slot: usize) -> usize {
        usize::from(self.order[slot]) * self.slot_bytes
    }

    /// Implements [`Transmit::reserve`](crate::Transmit::reserve) for at most [`BURST`] slots.
    ///
    /// # Errors
    /// If `slot_bytes` exceeds [`SLOT_BYTES_MAX`], or memory is exhausted.
    pub(crate) fn reserve(
        &mut self,
        count: usize,
        slot_bytes: usize,
    ) -> Result<&mut [Slot<'_>], PortError> {
        if slot_bytes > self.slot_bytes {
            self.grow(slot_bytes)?;
        }
        let count = count.clamp(self.pending_count, BURST);
        let memory = self.memory.as_mut_ptr();
        for index in 0..count {
            let left = if index < self.pending_count {
                self.pending[index]
            } else {
                SlotState {
                    length: self.slot_bytes,
                    ..SlotState::default()
                }
            };
            // SAFETY: `memory` has `BURST` buffers and `order` is a permutation of their numbers, so
            // that each slot has a buffer of its own. Nothing else refers to them while the slots live:
            // they have the lifetime of a mutable borrow of `self`.
            let bytes = unsafe {
                slice::from_raw_parts_mut(memory.add(self.offset(index)), self.slot_bytes)
            };
            self.slots[index].write(Slot {
                bytes,
                length: left.length,
                time_ns: left.time_ns,
                rss_hash: left.rss_hash,
            });
        }
        self.reserved = count;
        // SAFETY: the first `count` slots were written above. The types differ in a lifetime only, and
        // the `bytes` that remain in the slots after the borrow are never read.
        Ok(unsafe { slice::from_raw_parts_mut(self.slots.as_mut_ptr().cast::<Slot<'_>>(), count) })
    }

    /// Number of reserved slots: the maximum that can be submitted.
    pub(crate) fn reserved(&self) -> usize {
        self.reserved
    }

    fn slot_state(&self, index: usize) -> SlotState {
        assert!(index < self.reserved);
        let slot = self.slots[index].as_ptr();
        // SAFETY: slots below `reserved` were written when they were reserved; these fields are
        // integers.
        unsafe {
            SlotState {
                length: (*slot).length.min(self.slot_bytes),
                time_ns: (*slot).time_ns,
                rss_hash: (*slot).rss_hash,
            }
        }
    }

    /// Length of the frame in a reserved slot.
    pub(crate) fn length(&self, index: usize) -> usize {
        self.slot_state(index).length
    }

    /// The frame in a reserved slot, its timestamp and its hash.
    pub(crate) fn frame(&self, index: usize) -> (&[u8], i64, u32) {
        let kept = self.slot_state(index);
        let start = self.offset(index);
        let bytes = &self.memory[start..start + kept.length];
        (bytes, kept.time_ns, kept.rss_hash)
    }

    /// Of the `submitted` slots, releases the first `accepted`; the others become pending.
    pub(crate) fn commit(&mut self, accepted: usize, submitted: usize) {
        let submitted = submitted.min(self.reserved);
        let accepted = accepted.min(submitted);
        self.pending_count = submitted - accepted;
        for index in accepted..submitted {
            self.pending[index - accepted] = self.slot_state(index);
        }
        if self.pending_count > 0 {
            self.order.rotate_left(accepted);
        }
        self.reserved = 0;
    }

    pub(crate) fn discard(&mut self) {
        self.pending_count = 0;
        self.reserved = 0;
    }

    fn grow(&mut self, slot_bytes: usize) -> Result<(), PortError> {
        if slot_bytes > SLOT_BYTES_MAX {
            return Err(PortError::Failed(format!(
                "a frame of {slot_bytes} bytes cannot be sent: the maximum is {SLOT_BYTES_MAX} bytes"
            )));
        }
        // Whole cache lines, so that no two frames share one.
        let slot_bytes = slot_bytes.next_multiple_of(CACHE_LINE_BYTES);
        let memory = slot_bytes
            .checked_mul(BURST)
            .ok_or_else(|| io::ErrorKind::OutOfMemory.into())
            .and_then(HugeSlice::try_zeroed);
        let mut memory: HugeSlice<u8> = memory.map_err(|error| {
            PortError::Failed(format!(
                "no memory for {BURST} frames of {slot_bytes} bytes: {error}"
            ))
        })?;
        for index in 0..self.pending_count {
            let (from, to) = (
                self.offset(index),
                usize::from(self.order[index]) * slot_bytes,
            );
            memory[to..to + self.slot_bytes]
                .copy_from_slice(&self.memory[from..from + self.slot_bytes]);
        }
        self.memory = memory;
        self.slot_bytes = slot_bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_slots_come_first_unchanged() {
        let mut memory = SlotMemory::new();
        for (index, slot) in memory.reserve(5, 60).unwrap().iter_mut().enumerate() {
            slot.bytes.fill(index as u8);
            slot.length = 10 + index;
            slot.time_ns = index as i64;
        }
        // The fifth slot was not submitted.
        memory.commit(1, 4);
        let slots = memory.reserve(6, 100).unwrap();
        assert_eq!(slots.len(), 6);
        for (slot, index) in slots.iter().zip(1u8..4) {
            assert_eq!(slot.length, 10 + usize::from(index));
            assert_eq!(slot.time_ns, i64::from(index));
            assert_eq!(slot.bytes[..60], [index; 60]);
        }
        assert!(slots[3].bytes.len() >= 100 && slots[3].length == slots[3].bytes.len());
        slots[5].bytes.fill(9);
        assert_eq!(slots[0].bytes[0], 1);
        // All pending slots are returned even if fewer are requested.
        memory.commit(0, 3);
        assert_eq!(memory.reserve(1, 60).unwrap().len(), 3);
        memory.discard();
        assert_eq!(memory.reserve(1, 60).unwrap().len(), 1);
    }

    #[test]
    fn slot_length_is_clamped() {
        let mut memory = SlotMemory::new();
        memory.reserve(1, 64).unwrap()[0].length = usize::MAX;
        assert_eq!(memory.length(0), 64);
        assert_eq!(memory.frame(0).0.len(), 64);
        assert_eq!(memory.reserve(1000, 1).unwrap().len(), BURST);
    }

    #[test]
    fn oversized_slots_are_rejected_and_pending_slots_kept() {
        let mut memory = SlotMemory::new();
        memory.reserve(1, 60).unwrap()[0].bytes[..60].fill(7);
        memory.commit(0, 1);
        // The others overflow when multiplied by a burst or rounded up to a cache line.
        for slot_bytes in [
            SLOT_BYTES_MAX + 1,
            1 << 56,
            usize::MAX / BURST + 1,
            usize::MAX - 1,
            usize::MAX,
        ] {
            let error = memory
                .reserve(1, slot_bytes)
                .err()
                .map(|error| error.to_string());
            let error = error.unwrap_or_default();
            assert!(
                error.contains(&format!("{slot_bytes} bytes cannot be sent")),
                "{error}"
            );
        }
        let slots = memory.reserve(1, 1).unwrap();
        assert_eq!((slots[0].bytes.len(), slots[0].bytes[59]), (64, 7));
    }

    #[test]
    fn links_reject_oversized_slots() {
        use crate::{NullSink, Transmit, memory_link};
        assert!(NullSink::new().reserve(1, 1 << 56).is_err());
        let (mut sender, _receiver) = memory_link(1, wire::LinkType::Ethernet);
        assert!(sender.reserve(1, 1 << 56).is_err());
        assert_eq!(sender.reserve(1, 100).unwrap().len(), 1);
    }
}
