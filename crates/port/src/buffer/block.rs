//! A block of frames: their bytes, and the metadata of each.

use crate::frame::Frame;
use std::collections::TryReserveError;
use std::num::NonZeroU32;
use wire::LinkType;

/// Bytes of frames in a block. A larger frame gets a block of its own.
const BLOCK_BYTES: usize = 256 * 1024;

/// Maximum number of frames in a block.
pub(super) const BLOCK_FRAMES: usize = 4096;

/// Metadata of a frame in a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredFrame {
    pub(super) time_ns: i64,
    offset: u32,
    length: u32,
    wire_length: u32,
    rss_hash: Option<NonZeroU32>,
}

/// Frames of one link type.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) link: LinkType,
    bytes: Vec<u8>,
    pub(super) frames: Vec<StoredFrame>,
}

impl Block {
    /// Memory of a block in bytes.
    pub(super) const BYTES: usize = BLOCK_BYTES + BLOCK_FRAMES * size_of::<StoredFrame>();

    /// Creates an empty block. `populate`: fault in its memory now.
    pub(super) fn new(populate: bool) -> Result<Self, TryReserveError> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(BLOCK_BYTES)?;
        let mut frames = Vec::new();
        frames.try_reserve_exact(BLOCK_FRAMES)?;
        if populate {
            bytes.resize(BLOCK_BYTES, 1);
            let stored = StoredFrame {
                time_ns: 0,
                offset: 0,
                length: 0,
                wire_length: 0,
                rss_hash: None,
            };
            frames.resize(BLOCK_FRAMES, stored);
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

    /// Whether a frame of `length` bytes fits.
    pub(super) fn has_room(&self, length: usize) -> bool {
        self.frames.is_empty()
            || (self.frames.len() < BLOCK_FRAMES && self.bytes.len() + length <= BLOCK_BYTES)
    }

    /// Appends a copy of a frame.
    pub(super) fn push(&mut self, frame: &Frame<'_>) {
        self.frames.push(StoredFrame {
            time_ns: frame.time_ns,
            offset: self.bytes.len() as u32,
            length: frame.bytes.len() as u32,
            wire_length: frame.wire_length,
            rss_hash: frame.rss_hash,
        });
        self.bytes.extend_from_slice(frame.bytes);
    }

    /// Bytes of all frames.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns a frame by its index.
    pub(super) fn frame(&self, index: usize) -> Frame<'_> {
        let stored = &self.frames[index];
        let offset = stored.offset as usize;
        Frame {
            bytes: &self.bytes[offset..offset + stored.length as usize],
            time_ns: stored.time_ns,
            wire_length: stored.wire_length,
            rss_hash: stored.rss_hash,
        }
    }
}
