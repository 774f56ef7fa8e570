//! A large capture buffer between the thread that empties the device's queue and the threads that
//! process the frames (acquisition and processing of DPDKStat). Frames are copied once, into blocks
//! that circulate on two lock-free rings. The reading end is a port, so that any execution model can
//! use it.

mod block;
mod reader;
mod shared;
mod sort;
#[cfg(test)]
mod tests;
mod writer;

pub use reader::BufferPort;
pub use writer::BufferWriter;

use crate::frame::PortError;
use block::Block;
use rtrb::RingBuffer;
use shared::Shared;
use std::sync::Arc;

/// Configuration of a capture buffer.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Memory of all blocks in bytes.
    pub bytes: usize,
    /// Bytes of frames that are sorted by flow at a time; 0: no sorting. At most half of the buffer is
    /// used, since blocks being sorted are not free.
    pub sort_bytes: usize,
    /// Whether to fault in the memory now (for a live source) instead of as frames arrive.
    pub populate: bool,
}

/// Creates a buffer for the frames of a port with this name and RSS key; returns its writing and its
/// reading end.
///
/// # Errors
/// If memory is exhausted.
pub fn buffer(
    options: &Options,
    name: &str,
    rss_key: Option<&[u8]>,
) -> Result<(BufferWriter, BufferPort), PortError> {
    let blocks = block_count(options.bytes);
    let (full, full_end) = RingBuffer::new(blocks);
    let (mut empty_end, empty) = RingBuffer::new(blocks);
    for _ in 0..blocks {
        let block = Block::new(options.populate).map_err(|error| {
            PortError::Failed(format!(
                "no memory for a buffer of {} bytes: {error}; use a smaller --buffer",
                options.bytes
            ))
        })?;
        // Cannot fail: the ring holds all blocks.
        let _ = empty_end.push(block);
    }
    let shared = Arc::<Shared>::default();
    let writer = BufferWriter::new(full, empty, Arc::clone(&shared), blocks);
    let sort_bytes = options.sort_bytes.min(options.bytes / 2);
    let reader = BufferPort::new(full_end, empty_end, shared, name, rss_key, sort_bytes);
    Ok((writer, reader))
}

/// Number of blocks of a buffer of `bytes` bytes; at least four, so that each end has one and others
/// wait.
#[must_use]
pub fn block_count(bytes: usize) -> usize {
    (bytes / Block::BYTES).max(4)
}
