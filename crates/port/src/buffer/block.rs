//! A block of frames: their bytes one after the other, and what is said of each.

use crate::frame::Frame;
use std::collections::TryReserveError;
use std::num::NonZeroU32;
use wire::LinkType;

/// Bytes of frames in a block, but for a frame that is larger: that has a block to itself.
const ROOM: usize = 256 * 1024;

/// Frames in a block.
pub(super) const FRAMES: usize = 4096;

/// A frame, as it lies in its block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored {
    pub(super) time_ns: i64,
    at: u32,
    length: u32,
    wire_length: u32,
    rss_hash: Option<NonZeroU32>,
}

/// Frames of one link type.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) link: LinkType,
    bytes: Vec<u8>,
    pub(super) frames: Vec<Stored>,
}

impl Block {
    /// Memory of a block.
    pub(super) const BYTES: usize = ROOM + FRAMES * size_of::<Stored>();

    /// An empty one. `populate`: its memory is taken from the machine now.
    pub(super) fn new(populate: bool) -> Result<Self, TryReserveError> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(ROOM)?;
        let mut frames = Vec::new();
        frames.try_reserve_exact(FRAMES)?;
        if populate {
            bytes.resize(ROOM, 1);
            let stored = Stored {
                time_ns: 0,
                at: 0,
                length: 0,
                wire_length: 0,
                rss_hash: None,
            };
            frames.resize(FRAMES, stored);
        }
        let mut block = Self {
            link: LinkType::Ethernet,
            bytes,
            frames,
        };
        block.clear();
        Ok(block)
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.frames.clear();
    }

    /// Whether a frame of `length` bytes finds room.
    pub(super) fn has_room(&self, length: usize) -> bool {
        self.frames.is_empty() || (self.frames.len() < FRAMES && self.bytes.len() + length <= ROOM)
    }

    /// Copies a frame in.
    pub(super) fn push(&mut self, frame: &Frame<'_>) {
        self.frames.push(Stored {
            time_ns: frame.time_ns,
            at: self.bytes.len() as u32,
            length: frame.bytes.len() as u32,
            wire_length: frame.wire_length,
            rss_hash: frame.rss_hash,
        });
        self.bytes.extend_from_slice(frame.bytes);
    }

    /// Bytes of its frames.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// A frame.
    pub(super) fn frame(&self, index: usize) -> Frame<'_> {
        let stored = &self.frames[index];
        let at = stored.at as usize;
        Frame {
            bytes: &self.bytes[at..at + stored.length as usize],
            time_ns: stored.time_ns,
            wire_length: stored.wire_length,
            rss_hash: stored.rss_hash,
        }
    }
}
