//! A packet as the meter counts it.

/// What is counted of one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Nanoseconds since the Unix epoch.
    pub time_ns: i64,
    /// Number of the packet on its link: the interleaving gap is the difference of two, less one.
    pub number: u64,
    /// Time by the meter's packet clock, milliseconds.
    pub clock_ms: u32,
    /// Length on the wire in bytes.
    pub length: u32,
    /// ICMP type and code.
    pub icmp_type_code: u16,
    /// TCP control bits.
    pub tcp_flags: u8,
    /// 1 where the key's endpoints stand in the other order than in the packet.
    pub direction: u8,
    /// Place of the whole key among the wide ones of the batch, counted from 1; 0 for none.
    pub wide: u16,
}
