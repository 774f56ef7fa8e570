//! The pcap format: a file header of 24 bytes, then records of a 16-byte header and the packet's bytes
//! (draft-ietf-opsawg-pcap, sections 4 and 5).

use super::byte_order::{read_u16, read_u32};
use super::fault::FileFault;
use super::limits::{effective_snaplen, max_captured_bytes, pseudo_header_bytes};
use super::walk::{Next, PREFETCH_DISTANCE, WalkResult};
use crate::frame::{Frame, SnaplenErrors};
use wire::LinkType;

/// Bytes of the file header.
pub(super) const FILE_HEADER_BYTES: usize = 24;

mod file_header {
    pub(super) const VERSION_MAJOR: usize = 4;
    pub(super) const VERSION_MINOR: usize = 6;
    pub(super) const SNAPLEN: usize = 16;
    pub(super) const NETWORK: usize = 20;
}

mod record_header {
    pub(super) const SECONDS: usize = 0;
    pub(super) const FRACTION: usize = 4;
    pub(super) const CAPTURED: usize = 8;
    pub(super) const ORIGINAL: usize = 12;
    pub(super) const BYTES: usize = 16;
    /// Record header of the modified format (A. Kuznetsov's kernel patches), which adds interface
    /// index, protocol, packet type and padding.
    pub(super) const MODIFIED_BYTES: usize = 24;
}

/// Timestamps in microseconds.
const MAGIC: u32 = 0xa1b2_c3d4;
/// Timestamps in nanoseconds.
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Timestamps in microseconds, longer record headers.
const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;

/// The only major version ever published.
const VERSION_MAJOR: u16 = 2;
/// Before this minor version the original length came first in a record; in this version, programs
/// differ.
const VERSION_MINOR_MIXED: u16 = 3;

/// Order of the two lengths in a record header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LengthOrder {
    CapturedFirst,
    OriginalFirst,
    /// The smaller one is the captured length.
    Mixed,
}

/// A pcap file header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pcap {
    big_endian: bool,
    modified: bool,
    length_order: LengthOrder,
    /// Nanoseconds per unit of the fraction of a timestamp.
    unit_ns: i64,
    link: LinkType,
    max_captured: u32,
    /// The snaplen of the header; `u32::MAX` for none.
    snaplen: u32,
    pseudo_header: u32,
}

/// Why a file header is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HeaderError {
    /// Not the magic number of a pcap file.
    #[error("unknown magic number")]
    Magic,
    /// An unsupported version.
    #[error("unsupported version {major}.{minor} (supported: 2.x)")]
    Version {
        /// The major version.
        major: u16,
        /// The minor version.
        minor: u16,
    },
}

impl Pcap {
    /// Whether `bytes` start with the magic number of a pcap file.
    pub(super) fn matches(bytes: &[u8]) -> bool {
        magic(bytes).is_some()
    }

    /// Reads the file header. Packets longer than the snaplen are accepted, since some programs write 0
    /// or an arbitrary value.
    pub(super) fn new(
        bytes: &[u8; FILE_HEADER_BYTES],
        errors: &mut SnaplenErrors,
    ) -> Result<Self, HeaderError> {
        let (magic, big_endian) = magic(bytes).ok_or(HeaderError::Magic)?;
        if big_endian {
            Self::read::<true>(bytes, magic, errors)
        } else {
            Self::read::<false>(bytes, magic, errors)
        }
    }

    fn read<const BIG: bool>(
        bytes: &[u8; FILE_HEADER_BYTES],
        magic: u32,
        errors: &mut SnaplenErrors,
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
            length_order: match minor {
                ..VERSION_MINOR_MIXED => LengthOrder::OriginalFirst,
                VERSION_MINOR_MIXED => LengthOrder::Mixed,
                _ => LengthOrder::CapturedFirst,
            },
            unit_ns: if magic == MAGIC_NANOSECONDS { 1 } else { 1000 },
            link: link_type(network),
            max_captured: max_captured_bytes(linktype),
            snaplen: effective_snaplen(read_u32::<BIG>(bytes, file_header::SNAPLEN), errors),
            pseudo_header: pseudo_header_bytes(linktype),
        })
    }

    /// Reads the packets at the start of `bytes` into `frames`.
    pub(super) fn walk<'a>(&self, bytes: &'a [u8], frames: &mut [Frame<'a>]) -> WalkResult {
        const STANDARD: usize = record_header::BYTES;
        const MODIFIED: usize = record_header::MODIFIED_BYTES;
        let is_standard =
            self.length_order == LengthOrder::CapturedFirst && self.pseudo_header == 0;
        match (self.big_endian, self.modified, is_standard) {
            (false, false, true) => self.walk_as::<false, STANDARD, true>(bytes, frames),
            (false, false, false) => self.walk_as::<false, STANDARD, false>(bytes, frames),
            (false, true, _) => self.walk_as::<false, MODIFIED, false>(bytes, frames),
            (true, false, true) => self.walk_as::<true, STANDARD, true>(bytes, frames),
            (true, false, false) => self.walk_as::<true, STANDARD, false>(bytes, frames),
            (true, true, _) => self.walk_as::<true, MODIFIED, false>(bytes, frames),
        }
    }

    /// Not inlined: in a larger function its variables are spilled to the stack.
    #[inline(never)]
    fn walk_as<'a, const BIG: bool, const HEADER: usize, const IS_STANDARD: bool>(
        &self,
        bytes: &'a [u8],
        frames: &mut [Frame<'a>],
    ) -> WalkResult {
        let mut rest = bytes;
        let mut wire_bytes = 0;
        let mut next = Next::Walk;
        let mut snaplen_errors = SnaplenErrors::default();
        // One comparison per record covers both limits.
        let captured_limit = self.max_captured.min(self.snaplen);
        let capacity = frames.len();
        let mut frames = frames.iter_mut();
        while !frames.as_slice().is_empty() {
            let Some((header, body)) = rest.split_first_chunk::<HEADER>() else {
                next = Next::Need(HEADER);
                break;
            };
            let mut captured = read_u32::<BIG>(header, record_header::CAPTURED);
            let mut original = read_u32::<BIG>(header, record_header::ORIGINAL);
            if !IS_STANDARD {
                (captured, original) = self.standard_lengths(captured, original);
            }
            if captured > captured_limit {
                if captured > self.max_captured {
                    next = Next::Abort(FileFault::CapturedLength {
                        captured,
                        max: self.max_captured,
                    });
                    break;
                }
                snaplen_errors.exceeded += u64::from(captured as usize <= body.len());
            }
            let Some((packet, after)) = body.split_at_checked(captured as usize) else {
                next = Next::Need(HEADER + captured as usize);
                break;
            };
            let Some(frame) = frames.next() else {
                break;
            };
            hw::prefetch::offset(after, PREFETCH_DISTANCE);
            let seconds = read_u32::<BIG>(header, record_header::SECONDS);
            let fraction = read_u32::<BIG>(header, record_header::FRACTION);
            // Cannot overflow: at most 2^32 s and 2^32 units, below 2^63 ns.
            let time_ns = i64::from(seconds) * 1_000_000_000 + i64::from(fraction) * self.unit_ns;
            *frame = Frame::new(packet, time_ns, original);
            wire_bytes += u64::from(original);
            rest = after;
        }
        WalkResult {
            frames: capacity - frames.len(),
            wire_bytes,
            link: self.link,
            consumed: bytes.len() - rest.len(),
            snaplen_errors,
            suppressed_faults: 0,
            next,
        }
    }

    /// Converts the lengths of a nonstandard record to standard order, without the pseudo-header.
    fn standard_lengths(&self, first: u32, second: u32) -> (u32, u32) {
        let (captured, original) = match self.length_order {
            LengthOrder::CapturedFirst => (first, second),
            LengthOrder::OriginalFirst => (second, first),
            LengthOrder::Mixed => (first.min(second), first.max(second)),
        };
        (captured, original.saturating_sub(self.pseudo_header))
    }
}

/// Returns the magic number and whether the file is big-endian.
fn magic(bytes: &[u8]) -> Option<(u32, bool)> {
    let first = *bytes.first_chunk::<4>()?;
    [
        (u32::from_le_bytes(first), false),
        (u32::from_be_bytes(first), true),
    ]
    .into_iter()
    .find(|(magic, _)| matches!(*magic, MAGIC | MAGIC_NANOSECONDS | MAGIC_MODIFIED))
}

/// Extracts the link type from the network field (section 4): its low 16 bits; the top bits describe
/// the frame check sequence. With reserved bits set, the link type is unknown.
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
