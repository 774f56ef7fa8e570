//! The pcapng format: sections of blocks, each block with its length at both ends
//! (draft-ietf-opsawg-pcapng, sections 3 and 4).
//!
//! Packets, sections and interfaces are read; every other block is thrown away unseen, however
//! long it is.

use super::byte_order::{read_u16, read_u32, read_u64};
use super::fault::Fault;
use super::limits::{
    MAX_BLOCK_OVERHEAD_BYTES, MAX_DESCRIPTION_BYTES, MAX_INTERFACES, most_captured_bytes,
    pseudo_header_bytes, snap_length,
};
use super::tick::{DEFAULT_RESOLUTION, Tick};
use super::walk::{Next, PREFETCH_BYTES, Walked};
use crate::frame::{Frame, SnapLengths};
use wire::LinkType;

/// Bytes that tell whether a section can be read: up to its version.
pub(super) const SECTION_START_BYTES: usize = 16;

/// Bytes of a block's type and length before its body.
const BLOCK_HEADER_BYTES: usize = 8;
/// Bytes of the length after its body.
const TRAILER_BYTES: usize = 4;
/// The shortest block.
const EMPTY_BLOCK_BYTES: u32 = 12;

/// The same in both byte orders.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const VERSION_MAJOR: u16 = 1;

mod kind {
    pub(super) const INTERFACE: u32 = 1;
    /// Obsolete; appendix A.
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
    pub(super) const SNAP_LENGTH: usize = 12;
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

/// What the blocks so far have said.
#[derive(Debug, Default)]
pub(super) struct Pcapng {
    big_endian: bool,
    /// Of the section at hand.
    interfaces: Vec<Interface>,
    /// Of the last packet, for the packets that have none.
    time_ns: i64,
    /// Whether a fault has been told: what a hostile file could repeat for ever is told once.
    complained: bool,
}

/// An interface description.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: LinkType,
    /// The number of `link`, quicker to compare.
    linktype: u16,
    tick: Tick,
    most_captured: u32,
    pseudo_header: u32,
    /// The most captured bytes by the description; how many of a simple packet nothing else says.
    snap_length: u32,
}

/// Where a packet block says what.
struct PacketBlock {
    interface: u32,
    /// Absent in a simple packet block.
    ticks: Option<u64>,
    captured: Option<u32>,
    original: u32,
    /// Where its bytes start.
    data: usize,
}

/// Why a block gives no packet.
enum Obstacle {
    Need(usize),
    /// The block can be told apart, and left out.
    Unusable(Fault),
    Fatal(Fault),
}

impl Pcapng {
    /// Whether `bytes` start as a pcapng file does.
    pub(super) fn recognises(bytes: &[u8]) -> bool {
        bytes.starts_with(&SECTION_HEADER.to_be_bytes())
    }

    /// Whether the section header at the start of `bytes`, of which at least
    /// [`SECTION_START_BYTES`] are there, can be read.
    pub(super) fn check(bytes: &[u8]) -> Result<(), Fault> {
        section_start(bytes).map(|_| ())
    }

    /// Puts the packets at the start of `bytes` into `frames`.
    pub(super) fn walk<'a>(&mut self, bytes: &'a [u8], frames: &mut [Frame<'a>]) -> Walked {
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
    ) -> Walked {
        let mut rest = bytes;
        let mut walked = Walked {
            frames: 0,
            wire_bytes: 0,
            link: LinkType::Other(0),
            consumed: 0,
            snap_lengths: SnapLengths::default(),
            more_faults: 0,
            next: Next::Walk,
        };
        // What the frames so far have as their link type; none has this.
        let mut linktype = u32::MAX;
        while let Some(slot) = frames.get_mut(walked.frames) {
            if let Some((frame, after, interface)) = self.plain_packet::<BIG>(rest)
                && u32::from(interface.linktype) == linktype
            {
                hw::prefetch::ahead(after, PREFETCH_BYTES);
                rest = after;
                walked.wire_bytes += u64::from(frame.wire_length);
                walked.frames += 1;
                walked.snap_lengths.exceeded += u64::from(interface.is_exceeded(&frame));
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
                // The byte order may be another from here on.
                match self.start_section(rest) {
                    Ok(length) => rest = rest.get(length..).unwrap_or_default(),
                    Err(obstacle) => walked.next = obstacle.next(0),
                }
                break;
            }
            let length = read_u32::<BIG>(rest, 4);
            if length < EMPTY_BLOCK_BYTES || !length.is_multiple_of(4) {
                walked.next = Next::GiveUp(Fault::BlockLength { kind, length });
                break;
            }
            let found = match kind {
                kind::ENHANCED_PACKET | kind::PACKET | kind::SIMPLE_PACKET => {
                    self.read_packet::<BIG>(kind, length, rest).map(Some)
                }
                kind::INTERFACE => self
                    .add_interface::<BIG>(length, rest, &mut walked.snap_lengths)
                    .map(|()| None),
                _ => Ok(None),
            };
            match found {
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
                    walked.snap_lengths.exceeded += u64::from(interface.is_exceeded(&frame));
                    self.time_ns = frame.time_ns;
                    *slot = frame;
                }
                Ok(None) => {}
                Err(Obstacle::Unusable(_)) if self.complained => walked.more_faults += 1,
                Err(obstacle) => {
                    self.complained |= matches!(obstacle, Obstacle::Unusable(_));
                    walked.next = obstacle.next(length);
                    break;
                }
            }
            let Some(after) = rest.get(length as usize..) else {
                walked.next = Next::Skip(u64::from(length));
                break;
            };
            rest = after;
            hw::prefetch::ahead(rest, PREFETCH_BYTES);
        }
        walked.consumed = bytes.len() - rest.len();
        walked
    }

    /// The packet at the start of `rest` and what comes after it, if it is an enhanced packet block
    /// that is all there and has nothing wrong with it: nearly every block is one. Of any other
    /// [`Pcapng::read_packet`] says what it is.
    #[inline(always)]
    fn plain_packet<'a, const BIG: bool>(
        &self,
        rest: &'a [u8],
    ) -> Option<(Frame<'a>, &'a [u8], &Interface)> {
        let header = rest.first_chunk::<{ enhanced::DATA }>()?;
        let length = read_u32::<BIG>(header, 4);
        let captured = read_u32::<BIG>(header, enhanced::CAPTURED);
        let interface = read_u32::<BIG>(header, enhanced::INTERFACE);
        let interface = self.interfaces.get(interface as usize)?;
        // With both of these, no sum below can overflow.
        if read_u32::<BIG>(header, 0) != kind::ENHANCED_PACKET
            || captured > interface.most_captured
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
    fn start_section(&mut self, rest: &[u8]) -> Result<usize, Obstacle> {
        if rest.len() < SECTION_START_BYTES {
            return Err(Obstacle::Need(SECTION_START_BYTES));
        }
        let (big_endian, length) = section_start(rest).map_err(Obstacle::Fatal)?;
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
        odd: &mut SnapLengths,
    ) -> Result<(), Obstacle> {
        if !(interface::SHORTEST..=MAX_DESCRIPTION_BYTES).contains(&length) {
            let kind = kind::INTERFACE;
            return Err(Obstacle::Fatal(Fault::BlockLength { kind, length }));
        }
        let block = whole_block::<BIG>(kind::INTERFACE, length, rest)?;
        if self.interfaces.len() >= MAX_INTERFACES {
            return Err(Obstacle::Fatal(Fault::TooManyInterfaces));
        }
        let linktype = read_u16::<BIG>(block, interface::LINK_TYPE);
        let options = block.get(interface::OPTIONS..).unwrap_or_default();
        let (tick, complete) = read_options::<BIG>(options);
        let snap_length = snap_length(read_u32::<BIG>(block, interface::SNAP_LENGTH), odd);
        let link = LinkType::from_linktype(linktype);
        self.interfaces.push(Interface {
            link,
            linktype: link.linktype(),
            tick,
            most_captured: most_captured_bytes(linktype),
            pseudo_header: pseudo_header_bytes(linktype),
            snap_length,
        });
        if complete {
            Ok(())
        } else {
            Err(Obstacle::Unusable(Fault::OptionPastBlock))
        }
    }

    /// Reads the packet block at the start of `rest`, whatever it is.
    fn read_packet<'a, const BIG: bool>(
        &self,
        kind: u32,
        length: u32,
        rest: &'a [u8],
    ) -> Result<(Frame<'a>, &Interface), Obstacle> {
        let shortest = match kind {
            kind::SIMPLE_PACKET => simple::DATA,
            _ => enhanced::DATA,
        };
        if (length as usize) < shortest + TRAILER_BYTES {
            return Err(Obstacle::Fatal(Fault::BlockLength { kind, length }));
        }
        if rest.len() < shortest {
            return Err(Obstacle::Need(shortest));
        }
        let said = match kind {
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
                    // After it, 16 bits of drops; the rest is where it is in an enhanced one.
                    _ => u32::from(read_u16::<BIG>(rest, enhanced::INTERFACE)),
                },
                ticks: Some(read_ticks::<BIG>(rest, enhanced::TICKS)),
                captured: Some(read_u32::<BIG>(rest, enhanced::CAPTURED)),
                original: read_u32::<BIG>(rest, enhanced::ORIGINAL),
                data: enhanced::DATA,
            },
        };
        let Some(interface) = self.interfaces.get(said.interface as usize) else {
            return Err(Obstacle::Unusable(Fault::UnknownInterface {
                interface: said.interface,
                described: self.interfaces.len() as u32,
            }));
        };
        if length > interface.most_captured + MAX_BLOCK_OVERHEAD_BYTES {
            return Err(Obstacle::Fatal(Fault::BlockLength { kind, length }));
        }
        let body = whole_block::<BIG>(kind, length, rest)?
            .get(said.data..)
            .unwrap_or_default();
        let captured = match said.captured {
            Some(captured) => captured,
            None => said.original.min(interface.snap_length),
        };
        let Some(bytes) = body.get(..captured as usize) else {
            return Err(Obstacle::Unusable(Fault::PacketPastBlock {
                captured,
                room: body.len() as u32,
            }));
        };
        if captured > interface.most_captured {
            return Err(Obstacle::Unusable(Fault::AbsurdPacket {
                captured,
                most: interface.most_captured,
            }));
        }
        let time_ns = match said.ticks {
            Some(ticks) => interface.tick.nanoseconds(ticks),
            None => self.time_ns,
        };
        let wire_length = said.original.saturating_sub(interface.pseudo_header);
        let frame = Frame::new(bytes, time_ns, wire_length);
        Ok((frame, interface))
    }
}

impl Interface {
    /// Whether a packet has more bytes than the description allows.
    #[inline(always)]
    fn is_exceeded(&self, frame: &Frame<'_>) -> bool {
        frame.bytes.len() > self.snap_length as usize
    }
}

impl Obstacle {
    /// What the walk does about it; `length` is the block's.
    fn next(self, length: u32) -> Next {
        match self {
            Self::Need(bytes) => Next::Need(bytes),
            Self::Unusable(fault) => Next::Complain(fault, u64::from(length)),
            Self::Fatal(fault) => Next::GiveUp(fault),
        }
    }
}

/// The byte order and the length of the section header at the start of `bytes`.
fn section_start(bytes: &[u8]) -> Result<(bool, u32), Fault> {
    if read_u32::<false>(bytes, section::BYTE_ORDER) == BYTE_ORDER_MAGIC {
        section_length::<false>(bytes).map(|length| (false, length))
    } else {
        section_length::<true>(bytes).map(|length| (true, length))
    }
}

fn section_length<const BIG: bool>(bytes: &[u8]) -> Result<u32, Fault> {
    let magic = read_u32::<BIG>(bytes, section::BYTE_ORDER);
    if magic != BYTE_ORDER_MAGIC {
        return Err(Fault::ByteOrderMagic { magic });
    }
    // Minor versions add nothing that a reader must know (section 4.1).
    let major = read_u16::<BIG>(bytes, section::VERSION_MAJOR);
    if major != VERSION_MAJOR {
        let minor = read_u16::<BIG>(bytes, section::VERSION_MINOR);
        return Err(Fault::Version { major, minor });
    }
    let length = read_u32::<BIG>(bytes, 4);
    if !(section::SHORTEST..=MAX_DESCRIPTION_BYTES).contains(&length) || !length.is_multiple_of(4) {
        let kind = SECTION_HEADER;
        return Err(Fault::BlockLength { kind, length });
    }
    Ok(length)
}

/// The block of `length` bytes at the start of `rest`, without its trailer, which must agree.
#[inline(always)]
fn whole_block<const BIG: bool>(kind: u32, length: u32, rest: &[u8]) -> Result<&[u8], Obstacle> {
    let Some((block, trailer)) = rest
        .get(..length as usize)
        .and_then(<[u8]>::split_last_chunk::<TRAILER_BYTES>)
    else {
        return Err(Obstacle::Need(length as usize));
    };
    let trailer = read_u32::<BIG>(trailer, 0);
    if trailer != length {
        return Err(Obstacle::Fatal(Fault::BlockTrailer {
            kind,
            length,
            trailer,
        }));
    }
    Ok(block)
}

/// A time stamp: the upper 32 bits come first, in either byte order.
#[inline(always)]
fn read_ticks<const BIG: bool>(rest: &[u8], offset: usize) -> u64 {
    let both = read_u64::<BIG>(rest, offset);
    if BIG { both } else { both.rotate_left(32) }
}

/// The options of an interface that matter, and whether the list of them was sound.
fn read_options<const BIG: bool>(mut options: &[u8]) -> (Tick, bool) {
    let mut resolution = DEFAULT_RESOLUTION;
    let mut offset_s = 0;
    let mut sound = true;
    while !options.is_empty() {
        let code = read_u16::<BIG>(options, 0);
        let length = usize::from(read_u16::<BIG>(options, 2));
        if options.len() >= 4 && code == option::END {
            break;
        }
        let Some(value) = options.get(4..4 + length) else {
            sound = false;
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
    (Tick::new(resolution, offset_s), sound)
}

#[cfg(test)]
mod tests;
