//! A packet as the meter counts it.

/// The properties of one packet that the meter counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Nanoseconds since the Unix epoch.
    pub time_ns: i64,
    /// Number of the packet on its link. The interleaving gap is the difference of two numbers, minus
    /// one.
    pub number: u64,
    /// The meter's packet clock, in milliseconds.
    pub clock_ms: u32,
    /// Length on the wire in bytes.
    pub length: u32,
    /// ICMP type and code.
    pub icmp_type_code: u16,
    /// TCP control bits.
    pub tcp_flags: u8,
    /// 1 if the key has the packet's endpoints in reverse order, otherwise 0.
    pub direction: u8,
    /// Index of the full key among the batch's wide keys, counted from 1; 0 if the key is compact.
    pub wide: u16,
}
