//! Faults in the middle of a capture file.

use super::limits::MAX_INTERFACES;

/// An unreadable part of a capture file. [`super::CaptureFile`] adds its position to the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FileFault {
    /// A captured length greater than any packet of the link type.
    #[error("invalid captured length of {captured} bytes (limit: {max})")]
    CapturedLength {
        /// Captured length in the header.
        captured: u32,
        /// Limit of the link type.
        max: u32,
    },
    /// A pcapng block with an invalid length.
    #[error("block of type {kind:#010x} with an invalid length of {length} bytes")]
    BlockLength {
        /// Block type.
        kind: u32,
        /// Block length in the header.
        length: u32,
    },
    /// A pcapng block whose two length fields differ.
    #[error(
        "block of type {kind:#010x} whose length is {length} bytes at its start and {trailer} at its end"
    )]
    BlockLengthMismatch {
        /// Block type.
        kind: u32,
        /// Length at its start.
        length: u32,
        /// Length at its end.
        trailer: u32,
    },
    /// A pcapng packet with a captured length greater than its block.
    #[error("captured length of {captured} bytes in a block that holds {capacity}")]
    PacketExceedsBlock {
        /// Captured length in the header.
        captured: u32,
        /// Bytes of packet data in the block.
        capacity: u32,
    },
    /// A pcapng packet of an undefined interface.
    #[error("packet of undefined interface {interface} ({defined} defined so far)")]
    UnknownInterface {
        /// Interface ID in the section.
        interface: u32,
        /// Interfaces defined in the section.
        defined: u32,
    },
    /// A pcapng interface option that extends past the end of its block.
    #[error("interface option extends past the end of its block")]
    OptionExceedsBlock,
    /// A section header with an invalid byte-order magic.
    #[error("section header with an invalid byte-order magic {magic:#010x}")]
    ByteOrderMagic {
        /// The magic, read as big-endian.
        magic: u32,
    },
    /// A section of an unsupported pcapng version.
    #[error("unsupported pcapng version {major}.{minor} (supported: 1.x)")]
    Version {
        /// The major version.
        major: u16,
        /// The minor version.
        minor: u16,
    },
    /// Too many interfaces in a section.
    #[error("more than {MAX_INTERFACES} interfaces in a section")]
    TooManyInterfaces,
}
