//! Where the frames to be sent come from.

use port::{PortError, Slot};

/// What a [`Source::fill`] came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// Slots that were written, from the first on; fewer than there were where the source ends.
    pub frames: usize,
    /// Their bytes, without frame check sequences.
    pub bytes: u64,
}

/// No flow: what a source says of a frame that belongs to none.
pub const NO_FLOW: u32 = u32::MAX;

/// A source of frames: [`Traffic`](crate::Traffic), or a [`Replay`](crate::Replay).
pub trait Source {
    /// The room that a slot must have.
    fn slot_bytes(&self) -> usize;

    /// Writes the next frames into `slots`: bytes, length, and the hash of a device. `flows`, as long
    /// as `slots`, gets the number of the flow of each ([`NO_FLOW`] where it has none).
    /// [`Slot::time_ns`] is the caller's: a time stamp in the payload takes it from there.
    ///
    /// # Errors
    /// When the source cannot go on.
    ///
    /// # Panics
    /// When a slot has less room than [`Source::room`].
    fn fill(&mut self, slots: &mut [Slot<'_>], flows: &mut [u32]) -> Result<Filled, PortError>;

    /// Mean length of a frame, without the frame check sequence.
    fn mean_length(&self) -> f64;

    /// When the next frame is due by the source's own times, nanoseconds after its first; `None` where
    /// it has none of its own, or ends.
    fn next_due_ns(&self) -> Option<u64> {
        None
    }

    /// Names of the kinds of frames that it sends, where there are several.
    fn classes(&self) -> &[String] {
        &[]
    }

    /// Which of them a flow's frames are of.
    fn class_of(&self, flow: u32) -> usize {
        let _ = flow;
        0
    }
}
