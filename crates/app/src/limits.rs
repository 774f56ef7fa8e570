//! Limits on the memory of the inspection.

/// Memory limits of an [`Inspector`](crate::Inspector).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InspectorLimits {
    /// The most reassembly buffers, each for one direction of a handshake that spans packets. A
    /// table has one for [`FLOWS_PER_BUFFER`](Self::FLOWS_PER_BUFFER) flows, and at least
    /// [`BUFFERS_MIN`](Self::BUFFERS_MIN), up to this limit.
    pub reassembly_buffers_max: u16,
    /// The most bytes in one buffer, up to 65,535. All buffers together hold at most 32 MiB.
    pub reassembly_bytes: u32,
    /// Bytes of the texts of all flows, including their index. 0 means
    /// [`TEXT_BYTES_PER_FLOW`](Self::TEXT_BYTES_PER_FLOW) for each flow of the table, at least
    /// [`TEXT_BYTES_MIN`](Self::TEXT_BYTES_MIN).
    pub text_bytes: usize,
    /// The most pairs of client and server address whose name is cached from DNS.
    pub resolved_names_max: usize,
    /// The most DNS queries that wait for their response, to see whether one was asked for.
    pub dns_queries_max: usize,
}

impl InspectorLimits {
    /// Bytes of texts for each flow of the table, on average. Flows share equal texts.
    pub const TEXT_BYTES_PER_FLOW: usize = 24;
    /// Bytes of texts in a small table.
    pub const TEXT_BYTES_MIN: usize = 8 << 20;

    /// Number of flows of the table for each reassembly buffer.
    pub const FLOWS_PER_BUFFER: usize = 4;
    /// Number of reassembly buffers in a small table.
    pub const BUFFERS_MIN: usize = 1024;

    /// Number of reassembly buffers for a table of `flows` flows.
    pub fn reassembly_buffers(&self, flows: usize) -> u16 {
        let share = (flows / Self::FLOWS_PER_BUFFER).max(Self::BUFFERS_MIN);
        share.min(usize::from(self.reassembly_buffers_max)) as u16
    }

    /// Bytes of texts for a table of `flows` flows.
    pub fn text_bytes(&self, flows: usize) -> usize {
        match self.text_bytes {
            0 => flows
                .saturating_mul(Self::TEXT_BYTES_PER_FLOW)
                .max(Self::TEXT_BYTES_MIN),
            bytes => bytes,
        }
    }
}

impl Default for InspectorLimits {
    fn default() -> Self {
        Self {
            reassembly_buffers_max: 16 << 10,
            reassembly_bytes: 16 << 10,
            text_bytes: 0,
            resolved_names_max: 1 << 16,
            dns_queries_max: 1 << 16,
        }
    }
}
