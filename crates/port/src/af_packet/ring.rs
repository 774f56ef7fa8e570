//! The ring of blocks that the kernel fills and this side reads, and the only place that touches
//! its memory.
//!
//! A block belongs to the kernel or to us, as its status word says. While it is ours nothing else
//! writes to it. Frames are handed over as slices of the ring itself; they are forgotten before
//! their block goes back.

use std::os::fd::{AsFd, AsRawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{io, mem, slice};

use libc::{tpacket_block_desc, tpacket_hdr_v1, tpacket_req3, tpacket3_hdr};

use super::options::Options;
use super::socket::{Socket, VLAN_TAG_BYTES};
use crate::frame::{BURST, Frame};

/// Where the part that all versions share starts within a block, behind two words.
const BLOCK_HEADER: usize = mem::offset_of!(tpacket_block_desc, hdr);
/// Where the number of frames stands within a block.
const FRAMES: usize = BLOCK_HEADER + mem::offset_of!(tpacket_hdr_v1, num_pkts);
/// Where the status word stands within a block.
const STATUS: usize = BLOCK_HEADER + mem::offset_of!(tpacket_hdr_v1, block_status);
/// The two Ethernet addresses, behind which a VLAN tag stands.
const ADDRESSES_BYTES: usize = 12;
/// Tag protocol identifier of a customer VLAN tag (IEEE 802.1Q, section 9.6).
const CUSTOMER_TAG: u16 = 0x8100;
/// What the kernel wants as the size of a frame slot; version 3 packs frames without slots, so it
/// only has to divide a page.
const SLOT_BYTES: usize = 2048;

/// How far ahead of the frame being read memory is asked for. The next header is found only through
/// the one before it, so without this each frame waits for a miss of its own. Reading a filled ring
/// of 64 MiB took 8 instead of 16 ns a frame with 64-byte frames, 20 instead of 250 with real traffic.
const AHEAD_BYTES: usize = 4096;
/// Lines asked for at each frame: as many as the frame takes, so that what is asked for moves on as
/// the reading does, up to those of a whole Ethernet frame.
const AHEAD_LINES: usize = 26;
const LINE_BYTES: usize = 64;

/// The block being read.
#[derive(Clone, Copy)]
struct Held {
    /// Frames in it that have not been handed over.
    left: usize,
    /// Where the next of them starts within the block.
    next: usize,
}

/// A receive ring in memory that is shared with the kernel.
pub(super) struct Ring {
    memory: Mapping,
    block_bytes: usize,
    block_count: usize,
    /// The block that is held, or else the one that the kernel fills next.
    block: usize,
    held: Option<Held>,
    /// The last burst. The lifetime is not true: the slices live until their block is released,
    /// so they leave this module only with the lifetime of a borrow of the ring, and the list is
    /// emptied before any block is released.
    frames: Vec<Frame<'static>>,
    snap_bytes: usize,
    /// Whether VLAN tags can be put back: an Ethernet header to put them in.
    ethernet: bool,
    /// Blocks read.
    pub(super) blocks: u64,
    /// Frames of the blocks taken so far, and the bytes that they took of them.
    frames_taken: u64,
    bytes_taken: u64,
    /// Frames that a block announced and that do not lie within it.
    pub(super) misplaced: u64,
}

impl Ring {
    /// Has the kernel make the ring, and maps it.
    pub(super) fn new(socket: &Socket, options: &Options, ethernet: bool) -> io::Result<Self> {
        let block_bytes = options.whole_block_bytes();
        let block_count = options.block_count.max(2);
        let number = |value: usize| {
            u32::try_from(value).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
        };
        let total = block_bytes
            .checked_mul(block_count)
            .ok_or(io::ErrorKind::InvalidInput)?;
        socket.request_ring(&tpacket_req3 {
            tp_block_size: number(block_bytes)?,
            tp_block_nr: number(block_count)?,
            tp_frame_size: number(SLOT_BYTES)?,
            tp_frame_nr: number(total / SLOT_BYTES)?,
            tp_retire_blk_tov: options.retire_ms(),
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        })?;
        Ok(Self {
            memory: Mapping::new(socket, total)?,
            block_bytes,
            block_count,
            block: 0,
            held: None,
            frames: Vec::with_capacity(BURST),
            snap_bytes: options
                .snap_bytes
                .map_or(usize::MAX, |bytes| bytes as usize),
            ethernet,
            blocks: 0,
            frames_taken: 0,
            bytes_taken: 0,
            misplaced: 0,
        })
    }

    /// Gives back the frames of the last burst and takes the next, at most [`BURST`] of them.
    /// Whether there are any.
    pub(super) fn advance(&mut self) -> bool {
        self.frames.clear();
        loop {
            let Some(held) = self.held else {
                if self.take() {
                    continue;
                }
                return false;
            };
            if held.left == 0 {
                self.release();
                continue;
            }
            self.read(held);
            if !self.frames.is_empty() {
                return true;
            }
        }
    }

    /// Whether the kernel has passed on the block after the one whose frames were handed over.
    pub(super) fn is_ready(&self) -> bool {
        self.is_ours(self.block)
    }

    /// Whether the kernel has passed this block on.
    fn is_ours(&self, block: usize) -> bool {
        // Acquire: what the kernel wrote before it passed the block on is seen after this.
        self.status(block).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Frames that wait in the blocks that the kernel has passed on.
    pub(super) fn waiting(&self) -> usize {
        let (held, behind) = self.held.map_or((0, 0), |held| (held.left, 1));
        let blocks = (behind..self.block_count)
            .map(|distance| (self.block + distance) % self.block_count)
            .take_while(|&block| self.is_ours(block));
        // SAFETY: the word lies within the block, which is ours; it is one of whole pages, so the word
        // is aligned.
        let frames = blocks.map(|block| unsafe { *self.start(block).add(FRAMES).cast::<u32>() });
        held + frames.map(|frames| frames as usize).sum::<usize>()
    }

    /// How many frames like those that came so far the ring holds; none as long as there were none.
    pub(super) fn holds(&self) -> Option<usize> {
        let bytes = (self.block_bytes * self.block_count) as u128;
        let frames = bytes * u128::from(self.frames_taken);
        let frames = frames.checked_div(u128::from(self.bytes_taken))?;
        usize::try_from(frames).ok()
    }

    /// The frames of the last burst.
    pub(super) fn frames(&self) -> &[Frame<'_>] {
        &self.frames
    }

    /// Takes the next block if the kernel has passed it on.
    fn take(&mut self) -> bool {
        if !self.is_ready() {
            return false;
        }
        // SAFETY: the block is ours and at least a page long, so that its header lies within it.
        let header = unsafe {
            self.start(self.block)
                .add(BLOCK_HEADER)
                .cast::<tpacket_hdr_v1>()
        };
        // These numbers alone: the header holds the status word too, which is read atomically or not
        // at all.
        // SAFETY: blocks are whole pages, so that the header is aligned; the kernel wrote the numbers
        // before it passed the block on, and does not write again while the block is ours.
        let (left, next, bytes) = unsafe {
            (
                (&raw const (*header).num_pkts).read(),
                (&raw const (*header).offset_to_first_pkt).read(),
                (&raw const (*header).blk_len).read(),
            )
        };
        self.frames_taken += u64::from(left);
        self.bytes_taken += u64::from(bytes);
        self.held = Some(Held {
            left: left as usize,
            next: next as usize,
        });
        self.blocks += 1;
        true
    }

    /// Gives the held block back to the kernel.
    fn release(&mut self) {
        // No slice into the block may outlive this.
        self.frames.clear();
        self.held = None;
        // Release: the kernel writes only after we have read.
        self.status(self.block)
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.block += 1;
        if self.block == self.block_count {
            self.block = 0;
        }
    }

    /// Fills the list with the next frames of the held block.
    fn read(&mut self, held: Held) {
        let Held { mut left, mut next } = held;
        for _ in 0..left.min(BURST) {
            // SAFETY: the block is held, and the list is emptied before it is released.
            let Some((frame, step)) = (unsafe { self.frame(next) }) else {
                // The kernel does not do this; if it did, the rest of the block could not be found.
                self.misplaced += left as u64;
                left = 0;
                break;
            };
            for line in 0..(step / LINE_BYTES + 1).min(AHEAD_LINES) {
                hw::prefetch::ahead(frame.bytes, AHEAD_BYTES + line * LINE_BYTES);
            }
            self.frames.push(frame);
            left -= 1;
            next = next.saturating_add(step);
            if step == 0 {
                self.misplaced += left as u64;
                left = 0;
                break;
            }
        }
        self.held = Some(Held { left, next });
    }

    /// The frame whose header stands at `at` in the held block, and the distance to the next
    /// header; `None` where it does not lie within the block.
    ///
    /// # Safety
    /// A block must be held, and the frame must be forgotten before it is released.
    #[inline]
    unsafe fn frame(&self, at: usize) -> Option<(Frame<'static>, usize)> {
        let headers_end = at.checked_add(size_of::<tpacket3_hdr>())?;
        if headers_end > self.block_bytes {
            return None;
        }
        let block = self.start(self.block);
        // SAFETY: the header lies within the block, which is ours; any bits are a value of it.
        let header = unsafe { block.add(at).cast::<tpacket3_hdr>().read_unaligned() };
        let mut start = at.checked_add(usize::from(header.tp_mac))?;
        let mut length = header.tp_snaplen as usize;
        let mut wire_length = header.tp_len;
        if start < headers_end || start.checked_add(length)? > self.block_bytes {
            return None;
        }
        if header.tp_status & libc::TP_STATUS_VLAN_VALID != 0 && self.ethernet {
            wire_length = wire_length.saturating_add(VLAN_TAG_BYTES as u32);
            // A snap length may have cut off the place where the tag belongs.
            if length >= ADDRESSES_BYTES && start - headers_end >= VLAN_TAG_BYTES {
                let identifier = if header.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0 {
                    header.hv1.tp_vlan_tpid
                } else {
                    CUSTOMER_TAG
                };
                start -= VLAN_TAG_BYTES;
                length += VLAN_TAG_BYTES;
                // SAFETY: from `start` on there are `length` bytes within the block, at least
                // the two addresses and a tag, behind the frame's header; the block is ours, and
                // no slice of this frame exists yet.
                unsafe { insert_tag(block.add(start), identifier, header.hv1.tp_vlan_tci as u16) };
            }
        }
        // SAFETY: the bytes lie within the block, which was checked above, and inserting the tag
        // moved the start down by what it added to the length. Nothing writes to them until the
        // block is released, before which the frame is forgotten.
        let bytes = unsafe { slice::from_raw_parts(block.add(start), length.min(self.snap_bytes)) };
        let time_ns = i64::from(header.tp_sec) * 1_000_000_000 + i64::from(header.tp_nsec);
        let frame = Frame::new(bytes, time_ns, wire_length);
        Some((frame, header.tp_next_offset as usize))
    }

    /// The status word of a block, by its number in the ring.
    fn status(&self, block: usize) -> &AtomicU32 {
        // SAFETY: the word lies within the block, blocks are whole pages so that it is aligned, it
        // is mapped as long as the ring lives, and it is only ever accessed atomically.
        unsafe { AtomicU32::from_ptr(self.start(block).add(STATUS).cast()) }
    }

    /// Start of a block, by its number in the ring.
    fn start(&self, block: usize) -> *mut u8 {
        assert!(block < self.block_count);
        // SAFETY: the mapping holds `block_count` blocks.
        unsafe { self.memory.start.as_ptr().add(block * self.block_bytes) }
    }
}

/// Moves the two addresses, which stand `VLAN_TAG_BYTES` after `start`, to `start`, and writes the
/// tag behind them.
///
/// # Safety
/// The addresses and the tag together must lie within memory that may be written.
unsafe fn insert_tag(start: *mut u8, identifier: u16, control: u16) {
    let mut tag = [0; VLAN_TAG_BYTES];
    tag[..2].copy_from_slice(&identifier.to_be_bytes());
    tag[2..].copy_from_slice(&control.to_be_bytes());
    // SAFETY: the caller vouches for the addresses and the tag from `start` on; `copy` allows the
    // two places of the addresses to overlap.
    unsafe {
        ptr::copy(start.add(VLAN_TAG_BYTES), start, ADDRESSES_BYTES);
        ptr::copy_nonoverlapping(tag.as_ptr(), start.add(ADDRESSES_BYTES), VLAN_TAG_BYTES);
    }
}

/// The memory of a ring.
struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to its owner alone, and does not depend on the thread.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(socket: &Socket, length: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_fd().as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the one that was mapped, and no slice into it is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}
