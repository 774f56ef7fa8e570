//! A large buffer between the thread that empties the device's queue and those that look at what came
//! (DPDKStat's acquisition and processing): frames are copied once, into blocks that go round on two
//! lock-free rings. What reads the buffer is a port again, so any model runs behind it.

mod block;
mod reader;
mod sort;
#[cfg(test)]
mod tests;
mod writer;

pub use reader::BufferPort;
pub use writer::BufferWriter;

use crate::frame::{Counters, PortError};
use block::Block;
use rtrb::RingBuffer;
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// What the two sides tell each other besides frames; never asked for a packet.
#[derive(Debug, Default)]
struct Shared {
    /// Those of the port that is emptied, and what the buffer had no room for.
    counters: Mutex<Counters>,
    faults: Mutex<VecDeque<String>>,
    /// Why the port could not go on.
    error: Mutex<Option<PortError>>,
    /// Nothing more will be written.
    ended: AtomicBool,
    /// The reader wants no more.
    stop: AtomicBool,
}

impl Shared {
    fn fault(&self) -> Option<String> {
        let faults = self.faults.lock();
        faults.unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// How a buffer is made.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Memory of all blocks together, in bytes.
    pub bytes: usize,
    /// Bytes within which frames are sorted by flow before they are handed on; 0: not at all. At most
    /// half of the buffer, since what is sorted is not free.
    pub sort_bytes: usize,
    /// Whether the memory is taken now, as a link needs, or as frames come.
    pub populate: bool,
}

/// A buffer for the frames of a port called `name` whose device's key is `rss_key`: the end that is
/// written, and the one that is read.
///
/// # Errors
/// When the machine has not so much memory.
pub fn buffer(
    options: &Options,
    name: &str,
    rss_key: Option<&[u8]>,
) -> Result<(BufferWriter, BufferPort), PortError> {
    let blocks = blocks_of(options.bytes);
    let (full, full_end) = RingBuffer::new(blocks);
    let (mut empty_end, empty) = RingBuffer::new(blocks);
    for _ in 0..blocks {
        let block = Block::new(options.populate).map_err(|error| {
            PortError::Failed(format!(
                "no memory for a buffer of {} bytes: {error}; give a smaller --buffer",
                options.bytes
            ))
        })?;
        // The ring holds them all.
        let _ = empty_end.push(block);
    }
    let shared = Arc::<Shared>::default();
    let writer = BufferWriter::new(full, empty, Arc::clone(&shared), blocks);
    let sort_bytes = options.sort_bytes.min(options.bytes / 2);
    let reader = BufferPort::new(full_end, empty_end, shared, name, rss_key, sort_bytes);
    Ok((writer, reader))
}

/// Blocks of a buffer of so many bytes; at least four, so that both sides have one and one waits.
#[must_use]
pub fn blocks_of(bytes: usize) -> usize {
    (bytes / Block::BYTES).max(4)
}
