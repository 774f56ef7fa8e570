//! The pcap format: a header of 24 bytes, then records of 16 and the packet's bytes
//! (draft-ietf-opsawg-pcap, sections 4 and 5).

use super::byte_order::{read_u16, read_u32};
use super::fault::Fault;
use super::limits::{most_captured_bytes, pseudo_header_bytes, snap_length};
use super::walk::{Next, PREFETCH_BYTES, Walked};
use crate::frame::{Frame, SnapLengths};
use wire::LinkType;

/// Bytes of the file header.
pub(super) const FILE_HEADER_BYTES: usize = 24;

mod file_header {
    pub(super) const VERSION_MAJOR: usize = 4;
    pub(super) const VERSION_MINOR: usize = 6;
    pub(super) const SNAP_LENGTH: usize = 16;
    pub(super) const NETWORK: usize = 20;
}

mod record_header {
    pub(super) const SECONDS: usize = 0;
    pub(super) const FRACTION: usize = 4;
    pub(super) const CAPTURED: usize = 8;
    pub(super) const ORIGINAL: usize = 12;
    pub(super) const BYTES: usize = 16;
    /// With the interface's index, the protocol, the packet's type and padding after it: what the
    /// kernel patches of A. Kuznetsov wrote.
    pub(super) const MODIFIED_BYTES: usize = 24;
}

/// Microseconds.
const MAGIC: u32 = 0xa1b2_c3d4;
/// Nanoseconds.
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Microseconds, longer record headers.
const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;

/// The only major version there has been in thirty years.
const VERSION_MAJOR: u16 = 2;
/// Until then the two lengths of a record stood the other way round; in the version itself some
/// programs did it this way and some the other.
const VERSION_MINOR_MIXED: u16 = 3;

/// Which length of a record header comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lengths {
    CapturedFirst,
    OriginalFirst,
    /// The smaller one is the captured length.
    Mixed,
}

/// What the file header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pcap {
    big_endian: bool,
    modified: bool,
    lengths: Lengths,
    /// Nanoseconds of one unit of a time's fraction.
    unit_ns: i64,
    link: LinkType,
    most_captured: u32,
    /// The most captured bytes by the header.
    snap_length: u32,
    pseudo_header: u32,
}

/// Why a file header is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HeaderError {
    /// Another magic number: not a pcap file.
    #[error("its magic number is unknown")]
    Magic,
    /// A version that nobody has defined.
    #[error("version {major}.{minor}, of which 2.x can be read")]
    Version {
        /// The major version.
        major: u16,
        /// The minor version.
        minor: u16,
    },
}

impl Pcap {
    /// Whether `bytes` start as a pcap file does.
    pub(super) fn recognises(bytes: &[u8]) -> bool {
        magic(bytes).is_some()
    }

    /// Reads the file header. What matters is how long each packet is, not the snap length: there are
    /// programs that write 0, or nonsense.
    pub(super) fn new(
        bytes: &[u8; FILE_HEADER_BYTES],
        odd: &mut SnapLengths,
    ) -> Result<Self, HeaderError> {
        let (magic, big_endian) = magic(bytes).ok_or(HeaderError::Magic)?;
        if big_endian {
            Self::read::<true>(bytes, magic, odd)
        } else {
            Self::read::<false>(bytes, magic, odd)
        }
    }

    fn read<const BIG: bool>(
        bytes: &[u8; FILE_HEADER_BYTES],
        magic: u32,
        odd: &mut SnapLengths,
    ) -> Result<Self, HeaderError> {
        let major = read_u16::<BIG>(bytes, file_header::VERSION_MAJOR);
        let minor = read_u16::<BIG>(bytes, file_header::VERSION_MINOR);
        if major != VERSION_MAJOR {
            return Err(HeaderError::Version { major, minor });
        }
        let network = read_u32::<BIG>(bytes, file_header::NETWORK);
        let linktype = network as u16;
        Ok(Self {
            big_endian: BIG,
            modified: magic == MAGIC_MODIFIED,
            lengths: match minor {
                ..VERSION_MINOR_MIXED => Lengths::OriginalFirst,
                VERSION_MINOR_MIXED => Lengths::Mixed,
                _ => Lengths::CapturedFirst,
            },
            unit_ns: if magic == MAGIC_NANOSECONDS { 1 } else { 1000 },
            link: link_type(network),
            most_captured: most_captured_bytes(linktype),
            snap_length: snap_length(read_u32::<BIG>(bytes, file_header::SNAP_LENGTH), odd),
            pseudo_header: pseudo_header_bytes(linktype),
        })
    }

    /// Puts the packets at the start of `bytes` into `frames`.
    pub(super) fn walk<'a>(&self, bytes: &'a [u8], frames: &mut [Frame<'a>]) -> Walked {
        const PLAIN: usize = record_header::BYTES;
        const LONG: usize = record_header::MODIFIED_BYTES;
        let usual = self.lengths == Lengths::CapturedFirst && self.pseudo_header == 0;
        match (self.big_endian, self.modified, usual) {
            (false, false, true) => self.walk_as::<false, PLAIN, true>(bytes, frames),
            (false, false, false) => self.walk_as::<false, PLAIN, false>(bytes, frames),
            (false, true, _) => self.walk_as::<false, LONG, false>(bytes, frames),
            (true, false, true) => self.walk_as::<true, PLAIN, true>(bytes, frames),
            (true, false, false) => self.walk_as::<true, PLAIN, false>(bytes, frames),
            (true, true, _) => self.walk_as::<true, LONG, false>(bytes, frames),
        }
    }

    /// A function of its own: within a larger one there are not enough registers for it.
    #[inline(never)]
    fn walk_as<'a, const BIG: bool, const HEADER: usize, const USUAL: bool>(
        &self,
        bytes: &'a [u8],
        frames: &mut [Frame<'a>],
    ) -> Walked {
        let mut rest = bytes;
        let mut wire_bytes = 0;
        let mut next = Next::Walk;
        let mut snap_lengths = SnapLengths::default();
        // One look at a length is enough, as long as it is nothing special.
        let usually_captured = self.most_captured.min(self.snap_length);
        let room = frames.len();
        let mut frames = frames.iter_mut();
        while !frames.as_slice().is_empty() {
            let Some((header, body)) = rest.split_first_chunk::<HEADER>() else {
                next = Next::Need(HEADER);
                break;
            };
            let mut captured = read_u32::<BIG>(header, record_header::CAPTURED);
            let mut original = read_u32::<BIG>(header, record_header::ORIGINAL);
            if !USUAL {
                (captured, original) = self.usual(captured, original);
            }
            if captured > usually_captured {
                if captured > self.most_captured {
                    next = Next::GiveUp(Fault::AbsurdPacket {
                        captured,
                        most: self.most_captured,
                    });
                    break;
                }
                snap_lengths.exceeded += u64::from(captured as usize <= body.len());
            }
            let Some((packet, after)) = body.split_at_checked(captured as usize) else {
                next = Next::Need(HEADER + captured as usize);
                break;
            };
            let Some(frame) = frames.next() else {
                break;
            };
            hw::prefetch::ahead(after, PREFETCH_BYTES);
            let seconds = read_u32::<BIG>(header, record_header::SECONDS);
            let fraction = read_u32::<BIG>(header, record_header::FRACTION);
            // At most 2^32 s and as many units: below 2^63 ns.
            let time_ns = i64::from(seconds) * 1_000_000_000 + i64::from(fraction) * self.unit_ns;
            *frame = Frame::new(packet, time_ns, original);
            wire_bytes += u64::from(original);
            rest = after;
        }
        Walked {
            frames: room - frames.len(),
            wire_bytes,
            link: self.link,
            consumed: bytes.len() - rest.len(),
            snap_lengths,
            more_faults: 0,
            next,
        }
    }

    /// The lengths of an unusual file as a usual one would say them.
    fn usual(&self, first: u32, second: u32) -> (u32, u32) {
        let (captured, original) = match self.lengths {
            Lengths::CapturedFirst => (first, second),
            Lengths::OriginalFirst => (second, first),
            Lengths::Mixed => (first.min(second), first.max(second)),
        };
        (captured, original.saturating_sub(self.pseudo_header))
    }
}

/// The magic number, and whether it is written in big-endian.
fn magic(bytes: &[u8]) -> Option<(u32, bool)> {
    let first = *bytes.first_chunk::<4>()?;
    [
        (u32::from_le_bytes(first), false),
        (u32::from_be_bytes(first), true),
    ]
    .into_iter()
    .find(|(magic, _)| matches!(*magic, MAGIC | MAGIC_NANOSECONDS | MAGIC_MODIFIED))
}

/// The link type in the network field (section 4: 16 bits of it; then a flag and the length of a
/// frame check sequence at the top). A number that needs more bits is nobody's.
fn link_type(network: u32) -> LinkType {
    const RESERVED: u32 = 0x03ff_0000;
    if network & RESERVED == 0 {
        LinkType::from_linktype(network as u16)
    } else {
        LinkType::Other(network as u16)
    }
}

#[cfg(test)]
mod tests;
