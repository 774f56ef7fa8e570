//! How far a parser is in a message that spans segments.

use crate::nanoseconds::Nanoseconds;

/// How far a parser is in the message at the start of the bytes that it reads (TCP).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The first bytes that it was given before, when it needed more.
    pub(crate) seen: usize,
    /// What it noted about them; 0 before the first time.
    pub(crate) note: u16,
    /// Time of the packet with the first byte.
    pub(crate) start_ns: i64,
}

impl Progress {
    /// Nothing was seen yet.
    pub(crate) const NONE: Self = Self::at(Nanoseconds::UNKNOWN);

    /// Nothing was seen before a packet of this time.
    pub(crate) const fn at(start_ns: i64) -> Self {
        Self {
            seen: 0,
            note: 0,
            start_ns,
        }
    }
}
