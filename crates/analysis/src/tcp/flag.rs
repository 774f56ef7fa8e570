//! State flags of one side: bits of [`TcpSide::flags`](super::TcpSide::flags).

/// A packet of the side, and thus a sequence number, was seen.
pub const STARTED: u16 = 0x01;
/// A SYN was seen.
pub const SYN: u16 = 0x02;
/// A FIN was seen.
pub const FIN: u16 = 0x04;
/// The side's SYN has a window scale option.
pub const WINDOW_SCALE: u16 = 0x08;
/// The side's SYN permits selective acknowledgement.
pub const SACK_PERMITTED: u16 = 0x10;
/// The side sent timestamps.
pub const TIMESTAMPS: u16 = 0x20;
/// The peer acknowledged data of the side.
pub const ACKNOWLEDGED: u16 = 0x40;
/// The side is in fast recovery: duplicate ACKs reported a loss that is not repaired yet.
pub(super) const IN_RECOVERY: u16 = 0x80;
/// The side advertised a window outside a SYN.
pub const WINDOW_SEEN: u16 = 0x100;
/// The side's SYN was answered by a SYN-ACK, which it has not acknowledged yet.
pub(super) const HANDSHAKE_ACK_PENDING: u16 = 0x200;
/// The side sent the SYN that opened the connection.
pub(super) const CLIENT: u16 = 0x400;
/// The time until the side's SYN or SYN-ACK was answered is known.
pub(super) const HANDSHAKE_TIMED: u16 = 0x800;
/// A timestamp of the side waits for its echo.
pub(super) const TIMESTAMP_PENDING: u16 = 0x1000;
/// The side opened a connection on the flow's ports.
pub(super) const OPENED_CONNECTION: u16 = 0x2000;
/// The side sent a FIN without data.
pub(super) const FIN_WITHOUT_DATA: u16 = 0x4000;
/// The snaplen cut off TCP options: options that were not seen may have been sent.
pub const OPTIONS_CUT: u16 = 0x8000;
/// Flags that do not depend on the side's sequence numbers.
pub(super) const KEPT_ON_RESTART: u16 = TIMESTAMPS
    | WINDOW_SEEN
    | HANDSHAKE_ACK_PENDING
    | CLIENT
    | HANDSHAKE_TIMED
    | OPENED_CONNECTION
    | OPTIONS_CUT;
/// Flags set by the SYN's options.
pub(super) const FROM_SYN: u16 = SYN | WINDOW_SCALE | SACK_PERMITTED;
