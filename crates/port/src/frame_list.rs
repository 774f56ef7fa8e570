//! Frames whose bytes lie in a buffer that the same port owns.

use crate::frame::{BURST, Frame};

/// A frame that stands where there is none yet.
const NO_FRAME: Frame<'static> = Frame::new(&[], 0, 0);

/// Room for a burst of frames, used again for each burst.
///
/// A port that owns a buffer and hands over frames in it would have to borrow from itself. So the
/// room keeps no lifetime of the frames: it lends itself for one burst with [`FrameList::borrow`],
/// and whoever borrows it keeps the frames' bytes where they are as long as he hands them over.
pub(crate) struct FrameList {
    frames: Box<[Frame<'static>]>,
}

impl Default for FrameList {
    fn default() -> Self {
        Self {
            frames: vec![NO_FRAME; BURST].into_boxed_slice(),
        }
    }
}

impl FrameList {
    /// The room, [`BURST`] frames, for frames whose bytes live as long as `'a`.
    ///
    /// What stood in it before is not to be read: it is there to be written over.
    ///
    /// # Safety
    /// When `'a` has ended, the frames may be read again, through [`FrameList::first`], only as long as
    /// their bytes have neither moved nor changed.
    pub(crate) unsafe fn borrow<'a>(&mut self) -> &mut [Frame<'a>] {
        // SAFETY: the types differ in a lifetime only, so the layout is the same, and the memory is
        // borrowed from `self` for as long as the result lives. Frames of the shorter lifetime
        // stay behind in the list; the caller warrants that they are read only while they are good.
        unsafe { std::mem::transmute::<&mut [Frame<'static>], &mut [Frame<'a>]>(&mut self.frames) }
    }

    /// The first `count` frames.
    pub(crate) fn first(&self, count: usize) -> &[Frame<'_>] {
        &self.frames[..count.min(self.frames.len())]
    }
}
