//! The trait that every way of sending implements.

use crate::frame::PortError;
use std::time::{Duration, Instant};

/// Room for one frame, in the memory that the link will send from.
#[derive(Debug)]
pub struct Slot<'a> {
    /// Where the frame is written, from the link-layer header on; its length is the frame's length
    /// (without the frame check sequence) unless [`Slot::length`] is set to less.
    pub bytes: &'a mut [u8],
    /// How much of `bytes` is the frame.
    pub length: usize,
    /// When the frame is to be sent or says it was, nanoseconds since the Unix epoch: for files.
    pub time_ns: i64,
    /// A device's hash of the frame, for a link that hands one on (a software NIC).
    pub rss_hash: u32,
}

/// A sink of frames, written where they are sent from.
///
/// ```text
/// reserve(n) -> up to n slots; write them; submit(k) -> how many of the first k the link took.
/// ```
/// What the link did not take stays reserved, at the front: it is submitted again, or given up with
/// [`Transmit::discard`]. One call a burst, so that a link behind a `dyn` costs nothing a frame.
///
/// Safe code can put another link's slot in the place of one of these: an implementation with unsafe
/// code remembers on its own where it lent memory, and reads back nothing but lengths, times and
/// hashes, each length checked against the room.
pub trait Transmit: Send {
    /// Up to `count` slots of `room` bytes each (or of more), of which those left over from before come
    /// first, as they were written; fewer, or none, when there is no room now. A new slot's length
    /// is its room; what its bytes hold is not said.
    ///
    /// # Errors
    /// When the link cannot go on, or sends no frame of `room` bytes.
    fn reserve(&mut self, count: usize, room: usize) -> Result<&mut [Slot<'_>], PortError>;

    /// Sends the first `count` of the reserved slots, in their order; tells how many the link took.
    /// Slots reserved and not among the `count` need not be written, and are free again.
    ///
    /// # Errors
    /// When the link cannot go on.
    fn submit(&mut self, count: usize) -> Result<usize, PortError>;

    /// Gives up the slots that were submitted and not taken.
    fn discard(&mut self);

    /// Sees to it that all that was submitted leaves this machine's memory (files: is written).
    ///
    /// # Errors
    /// When it cannot be.
    fn flush(&mut self) -> Result<(), PortError>;

    /// Waits until the other end has left, for so long at most, where it might not survive that this
    /// one leaves first, or would lose what it has not read yet; whether this one may leave now.
    /// Nothing may be received any more: it is the end that still receives that does not survive.
    ///
    /// # Errors
    /// When the link has gone.
    fn see_off(&mut self, patience: Duration) -> Result<bool, PortError> {
        let _ = patience;
        Ok(true)
    }

    /// Since when the link has been down, where it tells: looked at now and then while it takes no
    /// frames.
    fn down_since(&self) -> Option<Instant> {
        None
    }

    /// Something that a person should be told, once each.
    fn notice(&mut self) -> Option<String> {
        None
    }

    /// Frames and bytes that the link took, by its own count.
    fn sent(&self) -> (u64, u64);

    /// Where frames go, for messages.
    fn name(&self) -> &str;
}

impl<T: Transmit + ?Sized> Transmit for Box<T> {
    fn reserve(&mut self, count: usize, room: usize) -> Result<&mut [Slot<'_>], PortError> {
        (**self).reserve(count, room)
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

    fn see_off(&mut self, patience: Duration) -> Result<bool, PortError> {
        (**self).see_off(patience)
    }

    fn down_since(&self) -> Option<Instant> {
        (**self).down_since()
    }

    fn notice(&mut self) -> Option<String> {
        (**self).notice()
    }

    fn sent(&self) -> (u64, u64) {
        (**self).sent()
    }

    fn name(&self) -> &str {
        (**self).name()
    }
}
