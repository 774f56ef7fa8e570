//! What a format's walk over the bytes at hand gives back.

use super::fault::Fault;
use crate::frame::SnapLengths;
use wire::LinkType;

/// How far ahead of the record at hand the walk asks for a cache line. Each record's place is known only
/// from the one before it, so that without this each would be waited for in turn. From a block that
/// has just been read this saves some 5 % of the walk; 256 to 4096 are alike.
pub(super) const PREFETCH_BYTES: usize = 512;

/// What a walk did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Walked {
    /// Frames put into the list.
    pub(super) frames: usize,
    /// Their bytes on the wire.
    pub(super) wire_bytes: u64,
    /// Their link type.
    pub(super) link: LinkType,
    /// Bytes that are done with.
    pub(super) consumed: usize,
    /// Headers and frames met whose snap lengths are not to be believed.
    pub(super) snap_lengths: SnapLengths,
    /// Faults that are only counted, since one like them has been told.
    pub(super) more_faults: u64,
    /// Why it ended.
    pub(super) next: Next,
}

/// How to go on after a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Walk again.
    Walk,
    /// So many bytes together are needed first.
    Need(usize),
    /// Throw away so many bytes first.
    Skip(u64),
    /// Say what is wrong, throw away so many bytes, and walk again.
    Complain(Fault, u64),
    /// Say what is wrong; what comes after it cannot be found.
    GiveUp(Fault),
}
