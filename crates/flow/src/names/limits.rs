//! Bounds of the memory that names take.

/// What [`Names`](super::Names) may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamesLimits {
    /// Handshakes that span packets and are put together at a time, in all.
    pub assemblies_max: u16,
    /// Bytes of one such handshake, in each direction.
    pub assembly_bytes: u32,
    /// Blocks of 28 bytes of text for a TCP flow.
    pub tcp_text_blocks: u8,
    /// Blocks of 28 bytes of text for a UDP flow.
    pub udp_text_blocks: u8,
    /// Blocks of text for all flows; 0: four for each flow of the table.
    pub text_blocks_max: usize,
    /// Pairs of client and server address whose name is remembered from DNS.
    pub resolved_max: usize,
}

impl Default for NamesLimits {
    fn default() -> Self {
        Self {
            assemblies_max: 1024,
            assembly_bytes: 16 << 10,
            tcp_text_blocks: 18,
            udp_text_blocks: 6,
            text_blocks_max: 0,
            resolved_max: 1 << 16,
        }
    }
}
