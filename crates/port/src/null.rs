//! A sink that discards frames: they are written, counted and dropped.

use crate::frame::PortError;
use crate::slot_memory::SlotMemory;
use crate::transmit::{Slot, Transmit};

/// Accepts every frame at once, to measure the speed of a generator alone.
pub struct NullSink {
    memory: SlotMemory,
    frames: u64,
    bytes: u64,
}

impl NullSink {
    /// Creates a sink.
    #[must_use]
    pub fn new() -> Self {
        Self {
            memory: SlotMemory::new(),
            frames: 0,
            bytes: 0,
        }
    }
}

impl Default for NullSink {
    fn default() -> Self {
        Self::new()
    }
}

impl Transmit for NullSink {
    fn reserve(&mut self, count: usize, slot_bytes: usize) -> Result<&mut [Slot<'_>], PortError> {
        self.memory.reserve(count, slot_bytes)
    }

    fn submit(&mut self, count: usize) -> Result<usize, PortError> {
        let count = count.min(self.memory.reserved());
        let bytes: usize = (0..count).map(|index| self.memory.length(index)).sum();
        self.bytes += bytes as u64;
        self.frames += count as u64;
        self.memory.commit(count, count);
        Ok(count)
    }

    fn discard(&mut self) {
        self.memory.discard();
    }

    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn sent(&self) -> (u64, u64) {
        (self.frames, self.bytes)
    }

    fn name(&self) -> &'static str {
        "null:"
    }
}
