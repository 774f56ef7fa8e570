//! Bounds of the memory that names take.

/// What [`Names`](super::Names) may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamesLimits {
    /// Handshakes that span packets and are put together at a time, at most: one for
    /// [`ASSEMBLY_SHARE`](Self::ASSEMBLY_SHARE) flows of the table, and
    /// [`ASSEMBLIES_LEAST`](Self::ASSEMBLIES_LEAST) in a small one.
    pub assemblies_max: u16,
    /// Bytes of one such handshake, in each direction, up to 65,535; all have 32 MiB together.
    pub assembly_bytes: u32,
    /// Bytes of the texts of all flows, with their index; 0: [`TEXT_BYTES`](Self::TEXT_BYTES) for
    /// each flow of the table, and no less than [`TEXT_BYTES_LEAST`](Self::TEXT_BYTES_LEAST).
    pub text_bytes: usize,
    /// Pairs of client and server address whose name is remembered from DNS.
    pub resolved_max: usize,
}

impl NamesLimits {
    /// Bytes of texts for a flow of the table, on average: a text that several flows have is kept
    /// once.
    pub const TEXT_BYTES: usize = 24;
    /// Bytes of texts for a small table.
    pub const TEXT_BYTES_LEAST: usize = 8 << 20;

    /// Flows of the table for which there is one buffer for a handshake.
    pub const ASSEMBLY_SHARE: usize = 4;
    /// Buffers for handshakes for a small table.
    pub const ASSEMBLIES_LEAST: usize = 1024;

    /// Buffers for handshakes for a table of so many flows.
    pub fn assemblies(&self, flows: usize) -> u16 {
        let share = (flows / Self::ASSEMBLY_SHARE).max(Self::ASSEMBLIES_LEAST);
        share.min(usize::from(self.assemblies_max)) as u16
    }

    /// Bytes of texts for a table of so many flows.
    pub fn text_bytes(&self, flows: usize) -> usize {
        match self.text_bytes {
            0 => flows
                .saturating_mul(Self::TEXT_BYTES)
                .max(Self::TEXT_BYTES_LEAST),
            bytes => bytes,
        }
    }
}

impl Default for NamesLimits {
    fn default() -> Self {
        Self {
            assemblies_max: 16 << 10,
            assembly_bytes: 16 << 10,
            text_bytes: 0,
            resolved_max: 1 << 16,
        }
    }
}
