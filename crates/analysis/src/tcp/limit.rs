//! Limits that affected the measures of one side: bits of [`TcpSide::limits`](super::TcpSide::limits).

/// More segments were in flight than the list holds. Some round trips were not measured, and a
/// retransmission may be in the wrong class.
pub const SEGMENTS: u8 = 0x01;
/// A hole in the sequence numbers was given up before it was acknowledged, or bytes arrived that
/// may belong to an acknowledged hole that was given up. If they were new, they count as
/// retransmitted.
pub const HOLES: u8 = 0x02;
/// No cold state was free. All measures in [`TcpCold`](super::TcpCold) are unknown.
pub const COLD: u8 = 0x04;
/// A sequence number was so far from the expected one that the side was restarted.
pub const JUMP: u8 = 0x08;
/// The snaplen cut off TCP options.
pub const OPTIONS: u8 = 0x10;
/// Hidden: an acknowledged hole was given up. Its bytes count as missed, which is wrong only if
/// they arrive later.
pub(super) const MISSED: u8 = 0x80;
/// Hidden, and not a limit: the side's sequence numbers are known only from its peer's
/// acknowledgements.
pub(super) const KNOWN_BY_PEER: u8 = 0x40;
/// Hidden, and not a limit: the side sent a reset that the peer accepts.
pub(super) const RESET: u8 = 0x20;
/// Bits that records do not show.
pub(super) const HIDDEN: u8 = MISSED | KNOWN_BY_PEER | RESET;
