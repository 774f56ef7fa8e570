//! The trait of frame sources.

use port::{PortError, Slot};

/// The result of [`Source::fill`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// Slots written, starting with the first. Fewer than requested only if the source ended.
    pub frames: usize,
    /// Bytes of these frames, without frame check sequences.
    pub bytes: u64,
}

/// The flow number of a frame that belongs to no flow.
pub const NO_FLOW: u32 = u32::MAX;

/// A source of frames: [`Traffic`](crate::Traffic) or [`Replay`](crate::Replay).
pub trait Source {
    /// The minimum size of a slot in bytes. It can exceed the longest frame, because frames may be
    /// written by copying whole templates.
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

    /// Mean frame length in bytes, without the frame check sequence.
    fn mean_length(&self) -> f64;

    /// When the next frame is due by the source's own timestamps, in nanoseconds after its first
    /// frame. `None` if the source has no timestamps or has ended.
    fn next_due_ns(&self) -> Option<u64> {
        None
    }

    /// Names of the classes of frames, if the source distinguishes several.
    fn classes(&self) -> &[String] {
        &[]
    }

    /// The index in [`Source::classes`] of the frames of `flow`.
    fn class_of(&self, flow: u32) -> usize {
        let _ = flow;
        0
    }
}
