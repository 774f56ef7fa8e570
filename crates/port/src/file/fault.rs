//! What can be wrong in the middle of a capture file.

use super::limits::MAX_INTERFACES;

/// Something that cannot be read. [`super::CaptureFile`] adds where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    /// A packet that claims more bytes than a packet of its link type can have.
    #[error("a packet of {captured} captured bytes is not possible, the limit is {most}")]
    AbsurdPacket {
        /// What it claims.
        captured: u32,
        /// The most that is possible.
        most: u32,
    },
    /// A pcapng block whose length cannot be.
    #[error("a block of type {kind:#010x} cannot be {length} bytes long")]
    BlockLength {
        /// The block's type.
        kind: u32,
        /// What it claims.
        length: u32,
    },
    /// A pcapng block whose two lengths differ.
    #[error(
        "a block of type {kind:#010x} says {length} bytes at its start and {trailer} at its end"
    )]
    BlockTrailer {
        /// The block's type.
        kind: u32,
        /// The length at its start.
        length: u32,
        /// The length at its end.
        trailer: u32,
    },
    /// A pcapng packet whose captured bytes are more than its block holds.
    #[error("a packet of {captured} captured bytes in a block with room for {room}")]
    PacketPastBlock {
        /// What it claims.
        captured: u32,
        /// What the block has.
        room: u32,
    },
    /// A pcapng packet of an interface that no block has described.
    #[error("a packet of interface {interface}, of {described} described so far")]
    UnknownInterface {
        /// The interface's number in its section.
        interface: u32,
        /// Interfaces of the section.
        described: u32,
    },
    /// A pcapng option that does not end within its block.
    #[error("an option of an interface runs past the end of its block")]
    OptionPastBlock,
    /// A section header whose byte-order magic is neither of the two.
    #[error("a section header with the byte-order magic {magic:#010x}")]
    ByteOrderMagic {
        /// What stands there, read as big-endian.
        magic: u32,
    },
    /// A section of a pcapng version that nobody has defined yet.
    #[error("a section of pcapng version {major}.{minor}, of which 1.x can be read")]
    Version {
        /// The major version.
        major: u16,
        /// The minor version.
        minor: u16,
    },
    /// More interfaces in a section than flowatch keeps.
    #[error("more than {MAX_INTERFACES} interfaces in a section")]
    TooManyInterfaces,
}
