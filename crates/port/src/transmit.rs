//! The trait that every sink of frames implements.

use crate::frame::PortError;
use std::time::{Duration, Instant};

/// Memory for one frame, from which the link will send it.
#[derive(Debug)]
pub struct Slot<'a> {
    /// The frame is written here, from the link-layer header on, without the frame check sequence. It
    /// fills the slice unless [`Slot::length`] is set to less.
    pub bytes: &'a mut [u8],
    /// Length of the frame in `bytes`.
    pub length: usize,
    /// Timestamp in nanoseconds since the Unix epoch, for capture files.
    pub time_ns: i64,
    /// RSS hash, for a link that passes one on (the software NIC).
    pub rss_hash: u32,
}

/// A sink of frames. The caller writes frames directly into the memory that they are sent from.
///
/// ```text
/// reserve(n) -> up to n slots; write them; submit(k) -> how many of the first k the link accepted.
/// ```
/// Slots that the link did not accept stay reserved and come first: submit them again, or release them
/// with [`Transmit::discard`]. One call per burst, so that dynamic dispatch costs nothing per frame.
///
/// Safe code can swap a slot for one of another link. An implementation with unsafe code must therefore
/// keep its own record of the memory it lent, and read back from slots only lengths (checked against
/// the slot size), timestamps and hashes.
pub trait Transmit: Send {
    /// Returns up to `count` slots of at least `slot_bytes` bytes each. Slots left over from the last
    /// submit come first, as they were written. Fewer or no slots are returned if no memory is free
    /// now. The length of a new slot is its size; the content of its bytes is unspecified.
    ///
    /// # Errors
    /// If the link cannot continue, or cannot send a frame of `slot_bytes` bytes.
    fn reserve(&mut self, count: usize, slot_bytes: usize) -> Result<&mut [Slot<'_>], PortError>;

    /// Sends the first `count` reserved slots in order and returns how many the link accepted. Reserved
    /// slots beyond `count` are released; they need not be written.
    ///
    /// # Errors
    /// If the link cannot continue.
    fn submit(&mut self, count: usize) -> Result<usize, PortError>;

    /// Releases the slots that were submitted and not accepted.
    fn discard(&mut self);

    /// Flushes everything submitted: to the wire, or to the file.
    ///
    /// # Errors
    /// If it cannot be flushed.
    fn flush(&mut self) -> Result<(), PortError>;

    /// Waits at most `timeout` until the peer has closed the link, where closing this end first could
    /// crash the peer or lose frames that it has not read. Returns whether this end may close now. Call
    /// it only after the last receive on this link: an end that still receives is the one at risk.
    ///
    /// # Errors
    /// If the link was removed.
    fn wait_for_peer_close(&mut self, timeout: Duration) -> Result<bool, PortError> {
        let _ = timeout;
        Ok(true)
    }

    /// When the link went down, if it is down and reports it. Checked periodically while the link
    /// accepts no frames.
    fn down_since(&self) -> Option<Instant> {
        None
    }

    /// Returns the next notice for the user, each once.
    fn next_notice(&mut self) -> Option<String> {
        None
    }

    /// Frames and bytes that the link accepted.
    fn sent(&self) -> (u64, u64);

    /// The name of the link for messages.
    fn name(&self) -> &str;
}

impl<T: Transmit + ?Sized> Transmit for Box<T> {
    fn reserve(&mut self, count: usize, slot_bytes: usize) -> Result<&mut [Slot<'_>], PortError> {
        (**self).reserve(count, slot_bytes)
    }

    fn submit(&mut self, count: usize) -> Result<usize, PortError> {
        (**self).submit(count)
    }

    fn discard(&mut self) {
        (**self).discard();
    }

    fn flush(&mut self) -> Result<(), PortError> {
        (**self).flush()
    }

    fn wait_for_peer_close(&mut self, timeout: Duration) -> Result<bool, PortError> {
        (**self).wait_for_peer_close(timeout)
    }

    fn down_since(&self) -> Option<Instant> {
        (**self).down_since()
    }

    fn next_notice(&mut self) -> Option<String> {
        (**self).next_notice()
    }

    fn sent(&self) -> (u64, u64) {
        (**self).sent()
    }

    fn name(&self) -> &str {
        (**self).name()
    }
}
