//! Result of walking the records of a block, common to all formats.

use super::fault::FileFault;
use crate::frame::SnaplenErrors;
use wire::LinkType;

/// Prefetch distance in bytes ahead of the current record. The position of a record is known only from
/// the one before it, so that without prefetching every record is a cache miss. Saves about 5 % of the
/// walk over a block that was just read; 256 to 4096 bytes perform alike.
pub(super) const PREFETCH_DISTANCE: usize = 512;

/// Result of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WalkResult {
    /// Frames written to the list.
    pub(super) frames: usize,
    /// Their bytes on the wire.
    pub(super) wire_bytes: u64,
    /// Their link type.
    pub(super) link: LinkType,
    /// Bytes consumed.
    pub(super) consumed: usize,
    /// Invalid and exceeded snaplens in these records.
    pub(super) snaplen_errors: SnaplenErrors,
    /// Faults that are counted and not reported, since one was reported already.
    pub(super) suppressed_faults: u64,
    /// What to do next.
    pub(super) next: Next,
}

/// What to do after a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Walk again.
    Walk,
    /// First read until this many contiguous bytes are available.
    Need(usize),
    /// First skip this many bytes.
    Skip(u64),
    /// Report the fault, skip this many bytes, and walk again.
    Report(FileFault, u64),
    /// Report the fault and end: the next record cannot be located.
    Abort(FileFault),
}
