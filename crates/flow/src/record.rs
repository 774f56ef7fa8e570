//! Flow records: the result of metering a flow.

use crate::batch::BURST;
use crate::ended::EndedFlows;
use crate::meter::RECORDS_PER_BATCH;
use analysis::{Analyses, Level};
use hw::tags::TAGS;
use wire::FlowKey;

/// Which packets form a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowDefinition {
    /// Same addresses, ports and protocol, one direction.
    #[default]
    FiveTuple,
    /// The same, both directions in one flow.
    Bidirectional,
    /// Same source address.
    Source,
    /// Same destination address.
    Destination,
    /// Same source and destination address.
    SourceDestination,
    /// Same RSS hash: the device's, or a computed one if the device gives none. The headers of frames
    /// with a hash are not parsed, and two flows with the same hash merge.
    Rss,
}

impl FlowDefinition {
    /// Returns whether the source and the destination address are part of a flow's key.
    #[must_use]
    pub const fn addresses(self) -> [bool; 2] {
        match self {
            Self::FiveTuple | Self::Bidirectional | Self::SourceDestination => [true, true],
            Self::Source => [true, false],
            Self::Destination => [false, true],
            Self::Rss => [false, false],
        }
    }

    /// Returns whether ports and protocol are part of a flow's key.
    #[must_use]
    pub const fn has_ports(self) -> bool {
        matches!(self, Self::FiveTuple | Self::Bidirectional)
    }
}

/// Why a flow ended: IPFIX flowEndReason, with separate values for TCP FIN and RST.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndReason {
    /// No packet for longer than the idle timeout (flowEndReason 1).
    #[default]
    IdleTimeout,
    /// The flow lasted for the active timeout; its next packet starts another record (flowEndReason 2).
    ActiveTimeout,
    /// Both sides of a TCP connection sent FIN (flowEndReason 3).
    TcpFin,
    /// A TCP RST (flowEndReason 3).
    TcpReset,
    /// The input ended, or the meter was stopped (flowEndReason 4).
    EndOfInput,
    /// Evicted in favour of another flow because the table was full (flowEndReason 5).
    LackOfResources,
}

impl EndReason {
    /// Returns the value of the IPFIX element flowEndReason (136).
    #[must_use]
    pub const fn ipfix(self) -> u8 {
        match self {
            Self::IdleTimeout => 1,
            Self::ActiveTimeout => 2,
            Self::TcpFin | Self::TcpReset => 3,
            Self::EndOfInput => 4,
            Self::LackOfResources => 5,
        }
    }
}

/// An ended flow. Index 0 of each array is the direction of the first packet, index 1 the reverse
/// direction (always 0 except for [`FlowDefinition::Bidirectional`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The key in the direction of the first packet: its source is the initiator.
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

/// A batch of records on its way out of the meter, with the values of their statistics.
#[derive(Clone, Debug, Default)]
pub struct RecordBatch {
    /// The records, in the order in which their flows ended.
    pub records: Vec<Record>,
    /// Flows that ended after those in `records`. [`RecordBatch::complete`] turns them into records.
    pub ended: EndedFlows,
    /// One value per column of [`Schema::statistics`] for each record, row by row. NaN if there is no
    /// value (the inter-arrival time of a flow of one packet).
    pub values: Vec<f64>,
    /// The analysis of each record's flow; empty if no analysis is selected.
    pub analyses: Analyses,
}

/// The maximum number of flows in a batch. A batch is handed over at [`RECORDS_PER_BATCH`]; before
/// that, one burst may add a flow per packet, and eviction works on whole buckets.
pub(crate) const BATCH_RECORDS_MAX: usize = RECORDS_PER_BATCH + BURST + TAGS;

impl RecordBatch {
    /// Creates an empty batch with memory for a full one, already mapped.
    #[must_use]
    pub fn populated(schema: &Schema) -> Self {
        let analysed = schema.analysis.map_or(0, |_| BATCH_RECORDS_MAX);
        let mut batch = Self {
            records: vec![Record::default(); BATCH_RECORDS_MAX],
            ended: EndedFlows::populated(BATCH_RECORDS_MAX),
            values: vec![f64::NAN; BATCH_RECORDS_MAX * schema.statistics.len()],
            analyses: Analyses::populated(analysed),
        };
        batch.clear();
        batch
    }

    /// Turns [`RecordBatch::ended`] into records. The packet path avoids it unless an analysis needs
    /// the records.
    pub fn complete(&mut self) {
        self.ended.complete(&mut self.records);
    }

    /// Returns the number of flows, including those that are not records yet.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.records.len() + self.ended.len()
    }

    /// Returns whether the batch has no flows.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all flows.
    pub fn clear(&mut self) {
        self.records.clear();
        self.ended.clear();
        self.values.clear();
        self.analyses.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::Analysis;

    #[test]
    fn a_populated_batch_is_empty_and_does_not_reallocate_until_full() {
        let schema = Schema {
            analysis: Some(Level::Full),
            ..Schema::default()
        };
        let mut batch = RecordBatch::populated(&schema);
        assert!(batch.records.is_empty() && batch.values.is_empty() && batch.analyses.is_empty());
        let pointers = (batch.records.as_ptr(), batch.analyses.as_ptr());
        for _ in 0..BATCH_RECORDS_MAX - 1 {
            batch.records.push(Record::default());
            batch.analyses.push(Analysis::default());
        }
        assert_eq!((batch.records.as_ptr(), batch.analyses.as_ptr()), pointers);
        // Without an analysis, none of them takes memory.
        let counted = RecordBatch::populated(&Schema::default());
        assert_eq!(counted.analyses.capacity(), 0);
    }
}
