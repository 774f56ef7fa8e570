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

    /// Writes the next frames into `slots`: bytes, length and RSS hash. `flows`, as long as `slots`,
    /// receives the flow number of each frame, or [`NO_FLOW`]. The caller sets [`Slot::time_ns`]
    /// before the call; a timestamp in the payload is copied from it.
    ///
    /// # Errors
    /// If the source cannot continue.
    ///
    /// # Panics
    /// If a slot is smaller than [`Source::slot_bytes`].
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
