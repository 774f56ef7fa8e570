//! The receive ring of blocks shared with the kernel. Only this module accesses its memory.
//!
//! The status word of a block says whether it belongs to the kernel or to user space. The kernel does
//! not write to a block of user space. Frames are slices of the ring; they are dropped before their
//! block is returned.

use std::os::fd::{AsFd, AsRawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{io, mem, slice};

use libc::{sockaddr_ll, tpacket_block_desc, tpacket_hdr_v1, tpacket_req3, tpacket3_hdr};

use super::interface;
use super::options::Options;
use super::socket::{Socket, VLAN_TAG_BYTES};
use crate::frame::{BURST, Frame};
use wire::LinkType;

/// Offset of the version 1 header in a block, after two words.
const BLOCK_HEADER: usize = mem::offset_of!(tpacket_block_desc, hdr);
/// Offset of the number of frames in a block.
const FRAMES_OFFSET: usize = BLOCK_HEADER + mem::offset_of!(tpacket_hdr_v1, num_pkts);
/// Offset of the status word in a block.
const STATUS_OFFSET: usize = BLOCK_HEADER + mem::offset_of!(tpacket_hdr_v1, block_status);
/// The two Ethernet addresses, which precede a VLAN tag.
const ADDRESSES_BYTES: usize = 12;
/// Tag protocol identifier of a C-VLAN tag (IEEE 802.1Q, section 9.6).
const TPID_8021Q: u16 = 0x8100;
/// Size of a frame slot as the kernel requires it. Version 3 packs frames without slots, so it only has
/// to divide a page.
const FRAME_SLOT_BYTES: usize = 2048;

/// Prefetch distance ahead of the current frame. A header is found only through the previous one, so
/// that without prefetching every frame is a cache miss. Reading a full ring of 64 MiB took 8 instead
/// of 16 ns per frame with 64-byte frames, 20 instead of 250 ns with real traffic.
const PREFETCH_DISTANCE: usize = 4096;
/// Maximum cache lines to prefetch per frame: those of a full Ethernet frame. Each frame prefetches as
/// many lines as it occupies, so that prefetching advances as fast as reading.
const PREFETCH_LINES_MAX: usize = 26;
const LINE_BYTES: usize = 64;

/// Offset of a frame's hardware type from its header: in its address, which follows the header
/// (`TPACKET_ALIGN`).
const HARDWARE_OFFSET: usize = size_of::<tpacket3_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT)
    + mem::offset_of!(sockaddr_ll, sll_hatype);

/// The link type of the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Links {
    /// All frames are of one interface.
    One(LinkType),
    /// Frames are of several interfaces: the kernel stores the hardware type of each.
    PerFrame,
}

/// A VLAN tag that the kernel has stripped.
#[derive(Clone, Copy)]
struct VlanTag {
    identifier: u16,
    control: u16,
}

/// The block being read.
#[derive(Clone, Copy)]
struct CurrentBlock {
    /// Frames in it that have not been delivered.
    remaining: usize,
    /// Offset of the next frame in the block.
    next: usize,
}

/// A receive ring in memory shared with the kernel.
pub(super) struct Ring {
    memory: Mapping,
    block_bytes: usize,
    block_count: usize,
    /// The current block, or else the next one that the kernel will pass on.
    block: usize,
    current: Option<CurrentBlock>,
    /// The last burst. The slices live only until their block is released, not for `'static`: they
    /// leave this module only with the lifetime of a borrow of the ring, and the list is cleared before
    /// any block is released.
    frames: Vec<Frame<'static>>,
    snaplen: usize,
    links: Links,
    /// Link type of the last burst.
    link: LinkType,
    /// Blocks read.
    pub(super) blocks: u64,
    /// Frames of all blocks so far, and the bytes that they occupied.
    frames_taken: u64,
    bytes_taken: u64,
    /// Frames that a block header counts and that do not lie within the block.
    pub(super) out_of_block: u64,
}

impl Ring {
    /// Returns the memory of the ring, in bytes.
    pub(super) const fn memory_bytes(&self) -> usize {
        self.memory.length
    }

    /// Requests the ring from the kernel and maps it.
    pub(super) fn new(socket: &Socket, options: &Options, links: Links) -> io::Result<Self> {
        let block_bytes = options.block_bytes_in_pages();
        let block_count = options.block_count.max(2);
        let number = |value: usize| {
            u32::try_from(value).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
        };
        let total = block_bytes
            .checked_mul(block_count)
            .ok_or(io::ErrorKind::InvalidInput)?;
        socket.set_up_ring(&tpacket_req3 {
            tp_block_size: number(block_bytes)?,
            tp_block_nr: number(block_count)?,
            tp_frame_size: number(FRAME_SLOT_BYTES)?,
            tp_frame_nr: number(total / FRAME_SLOT_BYTES)?,
            tp_retire_blk_tov: options.block_timeout_ms(),
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        })?;
        Ok(Self {
            memory: Mapping::new(socket, total)?,
            block_bytes,
            block_count,
            block: 0,
            current: None,
            frames: Vec::with_capacity(BURST),
            snaplen: options.snaplen.map_or(usize::MAX, |bytes| bytes as usize),
            links,
            link: match links {
                Links::One(link) => link,
                Links::PerFrame => LinkType::Ethernet,
            },
            blocks: 0,
            frames_taken: 0,
            bytes_taken: 0,
            out_of_block: 0,
        })
    }

    /// Drops the last burst and reads the next, at most [`BURST`] frames. Returns whether there are
    /// any.
    pub(super) fn advance(&mut self) -> bool {
        self.frames.clear();
        loop {
            let Some(current) = self.current else {
                if self.take_block() {
                    continue;
                }
                return false;
            };
            if current.remaining == 0 {
                self.release_block();
                continue;
            }
            self.read_frames(current);
            if !self.frames.is_empty() {
                return true;
            }
        }
    }

    /// Whether the kernel has passed on the next block.
    pub(super) fn is_ready(&self) -> bool {
        self.is_user_block(self.block)
    }

    /// Whether the kernel has passed on this block.
    fn is_user_block(&self, block: usize) -> bool {
        // Acquire: makes the kernel's writes to the block visible.
        self.status(block).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Number of frames in the blocks that the kernel has passed on.
    pub(super) fn waiting_frames(&self) -> usize {
        let (in_current, first) = self
            .current
            .map_or((0, 0), |current| (current.remaining, 1));
        let blocks = (first..self.block_count)
            .map(|distance| (self.block + distance) % self.block_count)
            .take_while(|&block| self.is_user_block(block));
        // SAFETY: the word lies within the block, which belongs to user space; blocks are page-aligned,
        // so the word is aligned.
        let frames = blocks
            .map(|block| unsafe { *self.block_start(block).add(FRAMES_OFFSET).cast::<u32>() });
        in_current + frames.map(|frames| frames as usize).sum::<usize>()
    }

    /// Estimates the capacity of the ring from the size of the frames so far; `None` before the first
    /// frame.
    pub(super) fn capacity_frames(&self) -> Option<usize> {
        let bytes = (self.block_bytes * self.block_count) as u128;
        let frames = bytes * u128::from(self.frames_taken);
        let frames = frames.checked_div(u128::from(self.bytes_taken))?;
        usize::try_from(frames).ok()
    }

    /// The link type of the last burst.
    pub(super) fn link(&self) -> LinkType {
        self.link
    }

    /// The frames of the last burst.
    pub(super) fn frames(&self) -> &[Frame<'_>] {
        &self.frames
    }

    /// Makes the next block current if the kernel has passed it on.
    fn take_block(&mut self) -> bool {
        if !self.is_ready() {
            return false;
        }
        // SAFETY: the block belongs to user space and is at least a page long, so that it contains its
        // header.
        let header = unsafe {
            self.block_start(self.block)
                .add(BLOCK_HEADER)
                .cast::<tpacket_hdr_v1>()
        };
        // Read single fields: the header also contains the status word, which must only be accessed
        // atomically.
        // SAFETY: blocks are page-aligned, so that the header is aligned; the kernel wrote the fields
        // before it passed on the block, and does not write to a block of user space.
        let (left, next, bytes) = unsafe {
            (
                (&raw const (*header).num_pkts).read(),
                (&raw const (*header).offset_to_first_pkt).read(),
                (&raw const (*header).blk_len).read(),
            )
        };
        self.frames_taken += u64::from(left);
        self.bytes_taken += u64::from(bytes);
        self.current = Some(CurrentBlock {
            remaining: left as usize,
            next: next as usize,
        });
        self.blocks += 1;
        true
    }

    /// Returns the current block to the kernel.
    fn release_block(&mut self) {
        // Required by the safety contract of `frames`: no slice of the block may outlive this.
        self.frames.clear();
        self.current = None;
        // Release: the kernel writes only after all reads of the block.
        self.status(self.block)
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.block += 1;
        if self.block == self.block_count {
            self.block = 0;
        }
    }

    /// Fills the list with the next frames of the current block.
    fn read_frames(&mut self, current: CurrentBlock) {
        let CurrentBlock {
            mut remaining,
            mut next,
        } = current;
        for index in 0..remaining.min(BURST) {
            if let Links::PerFrame = self.links {
                let link = self.frame_link(next).unwrap_or(self.link);
                if index > 0 && link != self.link {
                    // A burst has one link type: the next one begins here.
                    break;
                }
                self.link = link;
            }
            // SAFETY: there is a current block, and the list is cleared before it is released.
            let Some((frame, step)) = (unsafe { self.parse_frame(next) }) else {
                // A kernel bug: the rest of the block cannot be located.
                self.out_of_block += remaining as u64;
                remaining = 0;
                break;
            };
            for line in 0..(step / LINE_BYTES + 1).min(PREFETCH_LINES_MAX) {
                hw::prefetch::offset(frame.bytes, PREFETCH_DISTANCE + line * LINE_BYTES);
            }
            self.frames.push(frame);
            remaining -= 1;
            next = next.saturating_add(step);
            if step == 0 {
                self.out_of_block += remaining as u64;
                remaining = 0;
                break;
            }
        }
        self.current = Some(CurrentBlock { remaining, next });
    }

    /// Returns the link type of the frame with its header at offset `at` in the current block; `None` if
    /// it does not lie within the block.
    fn frame_link(&self, at: usize) -> Option<LinkType> {
        let offset = at.checked_add(HARDWARE_OFFSET)?;
        if offset.checked_add(size_of::<u16>())? > self.block_bytes {
            return None;
        }
        let block = self.block_start(self.block);
        // SAFETY: the number lies within the current block, which belongs to user space.
        let hardware = unsafe { block.add(offset).cast::<u16>().read_unaligned() };
        Some(interface::link_type(hardware))
    }

    /// Parses the frame with its header at offset `at` in the current block; returns it with the
    /// distance to the next header, or `None` if it does not lie within the block.
    ///
    /// # Safety
    /// There must be a current block, and the frame must be dropped before the block is released.
    #[inline]
    unsafe fn parse_frame(&self, at: usize) -> Option<(Frame<'static>, usize)> {
        let headers_end = at.checked_add(size_of::<tpacket3_hdr>())?;
        if headers_end > self.block_bytes {
            return None;
        }
        let block = self.block_start(self.block);
        // SAFETY: the header lies within the block, which belongs to user space; any bit pattern is
        // valid for it.
        let header = unsafe { block.add(at).cast::<tpacket3_hdr>().read_unaligned() };
        let mut start = at.checked_add(usize::from(header.tp_mac))?;
        let mut length = header.tp_snaplen as usize;
        let mut wire_length = header.tp_len;
        if start < headers_end || start.checked_add(length)? > self.block_bytes {
            return None;
        }
        if let Some(tag) = stripped_tag(&header)
            && self.link == LinkType::Ethernet
        {
            wire_length = wire_length.saturating_add(VLAN_TAG_BYTES as u32);
            // A snaplen may have cut the frame before the position of the tag.
            if length >= ADDRESSES_BYTES && start - headers_end >= VLAN_TAG_BYTES {
                start -= VLAN_TAG_BYTES;
                length += VLAN_TAG_BYTES;
                // SAFETY: `length` bytes from `start` lie within the block, after the frame's header;
                // they cover at least the two addresses and a tag. The block belongs to user space, and
                // no slice of this frame exists yet.
                unsafe { insert_tag(block.add(start), tag) };
            }
        }
        // SAFETY: the bytes lie within the block: checked above, and inserting the tag moved `start`
        // down by as much as it increased `length`. Nothing writes to them until the block is released,
        // and the frame is dropped before.
        let bytes = unsafe { slice::from_raw_parts(block.add(start), length.min(self.snaplen)) };
        let time_ns = i64::from(header.tp_sec) * 1_000_000_000 + i64::from(header.tp_nsec);
        let frame = Frame::new(bytes, time_ns, wire_length);
        Some((frame, header.tp_next_offset as usize))
    }

    /// Returns the status word of a block, by its index in the ring.
    fn status(&self, block: usize) -> &AtomicU32 {
        // SAFETY: the word lies within the block and is aligned, since blocks are page-aligned; it is
        // mapped while the ring lives and only accessed atomically.
        unsafe { AtomicU32::from_ptr(self.block_start(block).add(STATUS_OFFSET).cast()) }
    }

    /// Returns the start of a block, by its index in the ring.
    fn block_start(&self, block: usize) -> *mut u8 {
        assert!(block < self.block_count);
        // SAFETY: the mapping holds `block_count` blocks.
        unsafe { self.memory.start.as_ptr().add(block * self.block_bytes) }
    }
}

/// Returns the VLAN tag that the kernel has stripped from a frame, if any.
fn stripped_tag(header: &tpacket3_hdr) -> Option<VlanTag> {
    let has = |bit: u32| header.tp_status & bit != 0;
    has(libc::TP_STATUS_VLAN_VALID).then(|| VlanTag {
        identifier: if has(libc::TP_STATUS_VLAN_TPID_VALID) {
            header.hv1.tp_vlan_tpid
        } else {
            TPID_8021Q
        },
        control: header.hv1.tp_vlan_tci as u16,
    })
}

/// Moves the two addresses from `VLAN_TAG_BYTES` after `start` to `start`, and writes the tag after
/// them.
///
/// # Safety
/// The addresses and the tag from `start` on must be writable memory.
unsafe fn insert_tag(start: *mut u8, tag: VlanTag) {
    let VlanTag {
        identifier,
        control,
    } = tag;
    let mut tag = [0; VLAN_TAG_BYTES];
    tag[..2].copy_from_slice(&identifier.to_be_bytes());
    tag[2..].copy_from_slice(&control.to_be_bytes());
    // SAFETY: the caller guarantees writable memory for the addresses and the tag; `copy` permits
    // overlap.
    unsafe {
        ptr::copy(start.add(VLAN_TAG_BYTES), start, ADDRESSES_BYTES);
        ptr::copy_nonoverlapping(tag.as_ptr(), start.add(ADDRESSES_BYTES), VLAN_TAG_BYTES);
    }
}

/// The memory mapping of a ring.
struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping has one owner and is not tied to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(socket: &Socket, length: usize) -> io::Result<Self> {
        // SAFETY: creates a new mapping at an address chosen by the kernel.
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
        // SAFETY: this is the range that was mapped, and no slice of it is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}
