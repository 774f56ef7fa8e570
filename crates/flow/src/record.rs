//! Flow records: the result of metering a flow.

use crate::definition::FlowDefinition;
use crate::end_reason::EndReason;
use analysis::Level;
use wire::FlowKey;

/// An ended flow. Index 0 of each array is the direction of the initiator, index 1 the reverse direction
/// (always 0 except for [`FlowDefinition::Bidirectional`]).
///
/// The initiator is the sender of the first packet. If that is a SYN-ACK of a bidirectional flow, its
/// sender answers a SYN that was not seen, and the initiator is its receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The key in the direction of the initiator, which is its source.
    pub key: FlowKey,
    /// Time of the first packet, nanoseconds since the Unix epoch.
    pub start_ns: i64,
    /// Time of the last packet.
    pub end_ns: i64,
    /// Packets in each direction.
    pub packets: [u64; 2],
    /// Bytes on the wire (whole frames) in each direction.
    pub bytes: [u64; 2],
    /// All TCP control bits seen, in each direction.
    pub tcp_flags: [u8; 2],
    /// ICMP type and code of the first packet.
    pub icmp_type_code: u16,
    /// Why it ended.
    pub end_reason: EndReason,
}

/// A statistic's column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Stable name, the same in every output (camelCase with the unit last, as in IPFIX).
    pub name: String,
    /// Unit, for documentation: `bytes`, `seconds`, `packets`.
    pub unit: &'static str,
    /// A sentence that defines the column and names its source.
    pub definition: String,
}

/// The contents of a run's records.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// Which packets form a flow.
    pub flow: FlowDefinition,
    /// Whether VLAN tags are part of the key.
    pub vlan: bool,
    /// The columns of the selected statistics.
    pub statistics: Vec<Column>,
    /// The level of flow analysis, if any.
    pub analysis: Option<Level>,
}
