//! The pcapng format: sections of blocks, each with its length at both ends (draft-ietf-opsawg-pcapng,
//! sections 3 and 4).
//!
//! Packet, section header and interface description blocks are read; all others are skipped, whatever
//! their length.

use super::byte_order::{read_u16, read_u32, read_u64};
use super::fault::FileFault;
use super::limits::{
    MAX_BLOCK_OVERHEAD_BYTES, MAX_DESCRIPTION_BYTES, MAX_INTERFACES, effective_snaplen,
    max_captured_bytes, pseudo_header_bytes,
};
use super::timestamp::{DEFAULT_RESOLUTION, TimestampUnit};
use super::walk::{Next, PREFETCH_DISTANCE, WalkResult};
use crate::frame::{Frame, SnaplenErrors};
use wire::LinkType;

/// Bytes of a section header needed to validate it: up to the version.
pub(super) const SECTION_START_BYTES: usize = 16;

/// Block type and length before the body.
const BLOCK_HEADER_BYTES: usize = 8;
/// Length after the body.
const TRAILER_BYTES: usize = 4;
/// Length of the shortest block.
const EMPTY_BLOCK_BYTES: u32 = 12;

/// Block type of a section header, the same in both byte orders.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const VERSION_MAJOR: u16 = 1;

mod kind {
    pub(super) const INTERFACE: u32 = 1;
    /// Obsolete packet block; appendix A.
    pub(super) const PACKET: u32 = 2;
    pub(super) const SIMPLE_PACKET: u32 = 3;
    pub(super) const ENHANCED_PACKET: u32 = 6;
}

mod section {
    pub(super) const BYTE_ORDER: usize = 8;
    pub(super) const VERSION_MAJOR: usize = 12;
    pub(super) const VERSION_MINOR: usize = 14;
    pub(super) const SHORTEST: u32 = 28;
}

mod interface {
    pub(super) const LINK_TYPE: usize = 8;
    pub(super) const SNAPLEN: usize = 12;
    pub(super) const OPTIONS: usize = 16;
    pub(super) const SHORTEST: u32 = 20;
}

mod enhanced {
    pub(super) const INTERFACE: usize = 8;
    pub(super) const TICKS: usize = 12;
    pub(super) const CAPTURED: usize = 20;
    pub(super) const ORIGINAL: usize = 24;
    pub(super) const DATA: usize = 28;
}

mod simple {
    pub(super) const ORIGINAL: usize = 8;
    pub(super) const DATA: usize = 12;
}

mod option {
    pub(super) const END: u16 = 0;
    pub(super) const TIME_RESOLUTION: u16 = 9;
    pub(super) const TIME_OFFSET: u16 = 14;
}

/// State of a pcapng reader.
#[derive(Debug, Default)]
pub(super) struct Pcapng {
    big_endian: bool,
    /// Interfaces of the current section.
    interfaces: Vec<Interface>,
    /// Timestamp of the last packet, for simple packet blocks, which have none.
    time_ns: i64,
    /// Whether a skippable fault has been reported: further ones, possibly millions in a crafted file,
    /// are only counted.
    fault_reported: bool,
}

/// An interface description.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: LinkType,
    /// LINKTYPE_ value of `link`, faster to compare.
    linktype: u16,
    tick: TimestampUnit,
    max_captured: u32,
    pseudo_header: u32,
    /// Snaplen of the description; it determines the captured length of simple packet blocks.
    snaplen: u32,
}

/// The fields of a packet block.
struct PacketBlock {
    interface: u32,
    /// Absent in a simple packet block.
    ticks: Option<u64>,
    captured: Option<u32>,
    original: u32,
    /// Offset of the packet's bytes.
    data: usize,
}

/// Why a block yields no packet.
enum BlockError {
    Incomplete(usize),
    /// The length of the block is valid, so that it can be skipped.
    Skippable(FileFault),
    Fatal(FileFault),
}

impl Pcapng {
    /// Whether `bytes` start like a pcapng file.
    pub(super) fn matches(bytes: &[u8]) -> bool {
        bytes.starts_with(&SECTION_HEADER.to_be_bytes())
    }

    /// Validates the section header at the start of `bytes`, which has at least [`SECTION_START_BYTES`]
    /// bytes.
    pub(super) fn validate(bytes: &[u8]) -> Result<(), FileFault> {
        section_start(bytes).map(|_| ())
    }

    /// Reads the packets at the start of `bytes` into `frames`.
    pub(super) fn walk<'a>(&mut self, bytes: &'a [u8], frames: &mut [Frame<'a>]) -> WalkResult {
        if self.big_endian {
            self.walk_as::<true>(bytes, frames)
        } else {
            self.walk_as::<false>(bytes, frames)
        }
    }

    fn walk_as<'a, const BIG: bool>(
        &mut self,
        bytes: &'a [u8],
        frames: &mut [Frame<'a>],
    ) -> WalkResult {
        let mut rest = bytes;
        let mut walked = WalkResult {
            frames: 0,
            wire_bytes: 0,
            link: LinkType::Other(0),
            consumed: 0,
            snaplen_errors: SnaplenErrors::default(),
            suppressed_faults: 0,
            next: Next::Walk,
        };
        // Link type of the frames so far; the initial value matches none.
        let mut linktype = u32::MAX;
        while let Some(slot) = frames.get_mut(walked.frames) {
            if let Some((frame, after, interface)) = self.fast_packet::<BIG>(rest)
                && u32::from(interface.linktype) == linktype
            {
                hw::prefetch::offset(after, PREFETCH_DISTANCE);
                rest = after;
                walked.wire_bytes += u64::from(frame.wire_length);
                walked.frames += 1;
                walked.snaplen_errors.exceeded += u64::from(interface.exceeds_snaplen(&frame));
                self.time_ns = frame.time_ns;
                *slot = frame;
                continue;
            }
            if rest.len() < BLOCK_HEADER_BYTES {
                walked.next = Next::Need(BLOCK_HEADER_BYTES);
                break;
            }
            let kind = read_u32::<BIG>(rest, 0);
            if kind == SECTION_HEADER {
                // The byte order may change here.
                match self.start_section(rest) {
                    Ok(length) => rest = rest.get(length..).unwrap_or_default(),
                    Err(error) => walked.next = error.next(0),
                }
                break;
            }
            let length = read_u32::<BIG>(rest, 4);
            if length < EMPTY_BLOCK_BYTES || !length.is_multiple_of(4) {
                walked.next = Next::Abort(FileFault::BlockLength { kind, length });
                break;
            }
            let result = match kind {
                kind::ENHANCED_PACKET | kind::PACKET | kind::SIMPLE_PACKET => {
                    self.read_packet::<BIG>(kind, length, rest).map(Some)
                }
                kind::INTERFACE => self
                    .add_interface::<BIG>(length, rest, &mut walked.snaplen_errors)
                    .map(|()| None),
                _ => Ok(None),
            };
            match result {
                Ok(Some((frame, interface))) => {
                    let link = interface.link;
                    if walked.frames == 0 {
                        walked.link = link;
                        linktype = u32::from(link.linktype());
                    } else if walked.link != link {
                        break;
                    }
                    walked.wire_bytes += u64::from(frame.wire_length);
                    walked.frames += 1;
                    walked.snaplen_errors.exceeded += u64::from(interface.exceeds_snaplen(&frame));
                    self.time_ns = frame.time_ns;
                    *slot = frame;
                }
                Ok(None) => {}
                Err(BlockError::Skippable(_)) if self.fault_reported => {
                    walked.suppressed_faults += 1
                }
                Err(error) => {
                    self.fault_reported |= matches!(error, BlockError::Skippable(_));
                    walked.next = error.next(length);
                    break;
                }
            }
            let Some(after) = rest.get(length as usize..) else {
                walked.next = Next::Skip(u64::from(length));
                break;
            };
            rest = after;
            hw::prefetch::offset(rest, PREFETCH_DISTANCE);
        }
        walked.consumed = bytes.len() - rest.len();
        walked
    }

    /// Fast path: returns the packet at the start of `rest` and the bytes after it, if it is a complete
    /// and valid enhanced packet block, as nearly every block is. [`Pcapng::read_packet`] handles all
    /// others.
    #[inline]
    fn fast_packet<'a, const BIG: bool>(
        &self,
        rest: &'a [u8],
    ) -> Option<(Frame<'a>, &'a [u8], &Interface)> {
        let header = rest.first_chunk::<{ enhanced::DATA }>()?;
        let length = read_u32::<BIG>(header, 4);
        let captured = read_u32::<BIG>(header, enhanced::CAPTURED);
        let interface = read_u32::<BIG>(header, enhanced::INTERFACE);
        let interface = self.interfaces.get(interface as usize)?;
        // The limits on `captured` and `length` also prevent overflow below.
        if read_u32::<BIG>(header, 0) != kind::ENHANCED_PACKET
            || captured > interface.max_captured
            || length > captured + MAX_BLOCK_OVERHEAD_BYTES
            || !length.is_multiple_of(4)
        {
            return None;
        }
        let (block, after) = rest.split_at_checked(length as usize)?;
        let (body, trailer) = block.split_last_chunk::<TRAILER_BYTES>()?;
        let bytes = body.get(enhanced::DATA..enhanced::DATA + captured as usize)?;
        if read_u32::<BIG>(trailer, 0) != length {
            return None;
        }
        let original = read_u32::<BIG>(header, enhanced::ORIGINAL);
        let ticks = read_ticks::<BIG>(header, enhanced::TICKS);
        let frame = Frame::new(
            bytes,
            interface.tick.nanoseconds(ticks),
            original.saturating_sub(interface.pseudo_header),
        );
        Some((frame, after, interface))
    }

    /// Reads the section header at the start of `rest`, and returns its length.
    #[cold]
    fn start_section(&mut self, rest: &[u8]) -> Result<usize, BlockError> {
        if rest.len() < SECTION_START_BYTES {
            return Err(BlockError::Incomplete(SECTION_START_BYTES));
        }
        let (big_endian, length) = section_start(rest).map_err(BlockError::Fatal)?;
        if big_endian {
            whole_block::<true>(SECTION_HEADER, length, rest)?;
        } else {
            whole_block::<false>(SECTION_HEADER, length, rest)?;
        }
        self.big_endian = big_endian;
        self.interfaces.clear();
        Ok(length as usize)
    }

    /// Reads the interface description at the start of `rest`.
    #[cold]
    fn add_interface<const BIG: bool>(
        &mut self,
        length: u32,
        rest: &[u8],
        errors: &mut SnaplenErrors,
    ) -> Result<(), BlockError> {
        if !(interface::SHORTEST..=MAX_DESCRIPTION_BYTES).contains(&length) {
            let kind = kind::INTERFACE;
            return Err(BlockError::Fatal(FileFault::BlockLength { kind, length }));
        }
        let block = whole_block::<BIG>(kind::INTERFACE, length, rest)?;
        if self.interfaces.len() >= MAX_INTERFACES {
            return Err(BlockError::Fatal(FileFault::TooManyInterfaces));
        }
        let linktype = read_u16::<BIG>(block, interface::LINK_TYPE);
        let options = block.get(interface::OPTIONS..).unwrap_or_default();
        let (tick, is_complete) = read_options::<BIG>(options);
        let snaplen = effective_snaplen(read_u32::<BIG>(block, interface::SNAPLEN), errors);
        let link = LinkType::from_linktype(linktype);
        self.interfaces.push(Interface {
            link,
            linktype: link.linktype(),
            tick,
            max_captured: max_captured_bytes(linktype),
            pseudo_header: pseudo_header_bytes(linktype),
            snaplen,
        });
        if is_complete {
            Ok(())
        } else {
            Err(BlockError::Skippable(FileFault::OptionExceedsBlock))
        }
    }

    /// Reads the packet block of any kind at the start of `rest`.
    fn read_packet<'a, const BIG: bool>(
        &self,
        kind: u32,
        length: u32,
        rest: &'a [u8],
    ) -> Result<(Frame<'a>, &Interface), BlockError> {
        let shortest = match kind {
            kind::SIMPLE_PACKET => simple::DATA,
            _ => enhanced::DATA,
        };
        if (length as usize) < shortest + TRAILER_BYTES {
            return Err(BlockError::Fatal(FileFault::BlockLength { kind, length }));
        }
        if rest.len() < shortest {
            return Err(BlockError::Incomplete(shortest));
        }
        let block = match kind {
            kind::SIMPLE_PACKET => PacketBlock {
                interface: 0,
                ticks: None,
                captured: None,
                original: read_u32::<BIG>(rest, simple::ORIGINAL),
                data: simple::DATA,
            },
            _ => PacketBlock {
                interface: match kind {
                    kind::ENHANCED_PACKET => read_u32::<BIG>(rest, enhanced::INTERFACE),
                    // 16 bits, followed by a drop count; the other fields are as in an enhanced one.
                    _ => u32::from(read_u16::<BIG>(rest, enhanced::INTERFACE)),
                },
                ticks: Some(read_ticks::<BIG>(rest, enhanced::TICKS)),
                captured: Some(read_u32::<BIG>(rest, enhanced::CAPTURED)),
                original: read_u32::<BIG>(rest, enhanced::ORIGINAL),
                data: enhanced::DATA,
            },
        };
        let Some(interface) = self.interfaces.get(block.interface as usize) else {
            return Err(BlockError::Skippable(FileFault::UnknownInterface {
                interface: block.interface,
                defined: self.interfaces.len() as u32,
            }));
        };
        if length > interface.max_captured + MAX_BLOCK_OVERHEAD_BYTES {
            return Err(BlockError::Fatal(FileFault::BlockLength { kind, length }));
        }
        let body = whole_block::<BIG>(kind, length, rest)?
            .get(block.data..)
            .unwrap_or_default();
        let captured = match block.captured {
            Some(captured) => captured,
            None => block.original.min(interface.snaplen),
        };
        let Some(bytes) = body.get(..captured as usize) else {
            return Err(BlockError::Skippable(FileFault::PacketExceedsBlock {
                captured,
                capacity: body.len() as u32,
            }));
        };
        if captured > interface.max_captured {
            return Err(BlockError::Skippable(FileFault::CapturedLength {
                captured,
                max: interface.max_captured,
            }));
        }
        let time_ns = match block.ticks {
            Some(ticks) => interface.tick.nanoseconds(ticks),
            None => self.time_ns,
        };
        let wire_length = block.original.saturating_sub(interface.pseudo_header);
        let frame = Frame::new(bytes, time_ns, wire_length);
        Ok((frame, interface))
    }
}

impl Interface {
    /// Whether a packet is longer than the snaplen of its interface.
    #[inline]
    fn exceeds_snaplen(&self, frame: &Frame<'_>) -> bool {
        frame.bytes.len() > self.snaplen as usize
    }
}

impl BlockError {
    /// What the walk does next; `length` is that of the block.
    fn next(self, length: u32) -> Next {
        match self {
            Self::Incomplete(bytes) => Next::Need(bytes),
            Self::Skippable(fault) => Next::Report(fault, u64::from(length)),
            Self::Fatal(fault) => Next::Abort(fault),
        }
    }
}

/// Returns whether the section is big-endian, and the length of its header, at the start of `bytes`.
fn section_start(bytes: &[u8]) -> Result<(bool, u32), FileFault> {
    if read_u32::<false>(bytes, section::BYTE_ORDER) == BYTE_ORDER_MAGIC {
        section_length::<false>(bytes).map(|length| (false, length))
    } else {
        section_length::<true>(bytes).map(|length| (true, length))
    }
}

fn section_length<const BIG: bool>(bytes: &[u8]) -> Result<u32, FileFault> {
    let magic = read_u32::<BIG>(bytes, section::BYTE_ORDER);
    if magic != BYTE_ORDER_MAGIC {
        return Err(FileFault::ByteOrderMagic { magic });
    }
    // All minor versions are readable (section 4.1).
    let major = read_u16::<BIG>(bytes, section::VERSION_MAJOR);
    if major != VERSION_MAJOR {
        let minor = read_u16::<BIG>(bytes, section::VERSION_MINOR);
        return Err(FileFault::Version { major, minor });
    }
    let length = read_u32::<BIG>(bytes, 4);
    if !(section::SHORTEST..=MAX_DESCRIPTION_BYTES).contains(&length) || !length.is_multiple_of(4) {
        let kind = SECTION_HEADER;
        return Err(FileFault::BlockLength { kind, length });
    }
    Ok(length)
}

/// Returns the block of `length` bytes at the start of `rest` without its trailer, which must repeat
/// the length.
#[inline]
fn whole_block<const BIG: bool>(kind: u32, length: u32, rest: &[u8]) -> Result<&[u8], BlockError> {
    let Some((block, trailer)) = rest
        .get(..length as usize)
        .and_then(<[u8]>::split_last_chunk::<TRAILER_BYTES>)
    else {
        return Err(BlockError::Incomplete(length as usize));
    };
    let trailer = read_u32::<BIG>(trailer, 0);
    if trailer != length {
        return Err(BlockError::Fatal(FileFault::BlockLengthMismatch {
            kind,
            length,
            trailer,
        }));
    }
    Ok(block)
}

/// Reads a timestamp: the upper 32 bits come first, in either byte order.
#[inline]
fn read_ticks<const BIG: bool>(rest: &[u8], offset: usize) -> u64 {
    let both = read_u64::<BIG>(rest, offset);
    if BIG { both } else { both.rotate_left(32) }
}

/// Reads the timestamp options of an interface; returns also whether the option list was valid.
fn read_options<const BIG: bool>(mut options: &[u8]) -> (TimestampUnit, bool) {
    let mut resolution = DEFAULT_RESOLUTION;
    let mut offset_s = 0;
    let mut is_valid = true;
    while !options.is_empty() {
        let code = read_u16::<BIG>(options, 0);
        let length = usize::from(read_u16::<BIG>(options, 2));
        if options.len() >= 4 && code == option::END {
            break;
        }
        let Some(value) = options.get(4..4 + length) else {
            is_valid = false;
            break;
        };
        match (code, value) {
            (option::TIME_RESOLUTION, &[value]) => resolution = value,
            (option::TIME_OFFSET, value) if length == 8 => {
                offset_s = read_u64::<BIG>(value, 0).cast_signed();
            }
            _ => {}
        }
        // Values are padded to 32 bits.
        options = options
            .get(4 + length.next_multiple_of(4)..)
            .unwrap_or_default();
    }
    (TimestampUnit::new(resolution, offset_s), is_valid)
}

#[cfg(test)]
mod tests;
