//! The truth that a simulation knows.

/// The truth about the sender's data.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// Distinct bytes that passed the probe.
    pub unique_bytes: u64,
    /// Segments whose bytes had passed the probe before, except copies.
    pub retransmitted: u32,
    /// Bytes of these segments.
    pub retransmitted_bytes: u64,
    /// Segments that passed the probe for the first time after segments with higher sequence numbers.
    pub out_of_order: u32,
    /// Bytes that were delivered but never seen by the probe.
    pub missed_bytes: u64,
    /// Round trips from the probe to the receiver and back, selected by Karn's algorithm.
    pub rtt_ns: Vec<u64>,
}
