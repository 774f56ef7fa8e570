//! A list of frames whose bytes are in a buffer of the same port.

use crate::frame::{BURST, Frame};
use std::ops::Range;

/// Placeholder of an unused entry.
const EMPTY_FRAME: Frame<'static> = Frame::new(&[], 0, 0);

/// A list for a burst of frames, reused for each burst.
///
/// A port that owns a buffer and returns frames in it would have to borrow from itself. So the list
/// erases the lifetime of its frames: [`FrameList::slots`] gives access for one burst, and the caller
/// guarantees that the bytes stay in place while the frames are read.
pub(crate) struct FrameList {
    frames: Box<[Frame<'static>]>,
}

impl Default for FrameList {
    fn default() -> Self {
        Self {
            frames: vec![EMPTY_FRAME; BURST].into_boxed_slice(),
        }
    }
}

impl FrameList {
    /// Returns the [`BURST`] entries, to write frames whose bytes live for `'a`.
    ///
    /// Old entries must not be read, only overwritten.
    ///
    /// # Safety
    /// After `'a` has ended, the frames may be read through [`FrameList::first`] only while their bytes
    /// have neither moved nor changed.
    pub(crate) unsafe fn slots<'a>(&mut self) -> &mut [Frame<'a>] {
        // SAFETY: the types differ in a lifetime only, so the layout is the same, and the result
        // borrows `self`. Frames of the shorter lifetime remain in the list; the caller guarantees that
        // they are read only while their bytes are valid.
        unsafe { std::mem::transmute::<&mut [Frame<'static>], &mut [Frame<'a>]>(&mut self.frames) }
    }

    /// Copies entries of `other`, numbers `range`, to the entries from `at` on, which must exist.
    ///
    /// # Safety
    /// As for [`FrameList::slots`], where `'a` ends when the bytes of `other` move or change.
    pub(crate) unsafe fn copy(&mut self, at: usize, other: &Self, range: Range<usize>) {
        self.frames[at..at + range.len()].copy_from_slice(&other.frames[range]);
    }

    /// Returns the first `count` frames.
    pub(crate) fn first(&self, count: usize) -> &[Frame<'_>] {
        &self.frames[..count.min(self.frames.len())]
    }
}
