//! Flow records: what is known of a flow when it ends.

use crate::batch::BURST;
use crate::ended::EndedFlows;
use crate::meter::RECORDS;
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
    /// Same hash for receive-side scaling: the device's, or one made in its place. Headers that have
    /// one are not read, and two flows of one hash are one.
    Rss,
}

impl FlowDefinition {
    /// Whether the source address, and the destination address, is part of a flow's key.
    #[must_use]
    pub const fn addresses(self) -> [bool; 2] {
        match self {
            Self::FiveTuple | Self::Bidirectional | Self::SourceDestination => [true, true],
            Self::Source => [true, false],
            Self::Destination => [false, true],
            Self::Rss => [false, false],
        }
    }

    /// Whether ports and protocol are.
    #[must_use]
    pub const fn has_ports(self) -> bool {
        matches!(self, Self::FiveTuple | Self::Bidirectional)
    }
}

/// Why a flow ended: IPFIX flowEndReason, with TCP's two ways told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndReason {
    /// No packet for the idle time-out (flowEndReason 1).
    #[default]
    IdleTimeout,
    /// Longer than the active time-out; the flow goes on in another record (flowEndReason 2).
    ActiveTimeout,
    /// Both sides of a TCP connection sent FIN (flowEndReason 3).
    TcpFin,
    /// A TCP RST (flowEndReason 3).
    TcpReset,
    /// The input ended, or the meter was stopped (flowEndReason 4).
    EndOfInput,
    /// Made to leave for another flow, the table being full (flowEndReason 5).
    LackOfResources,
}

impl EndReason {
    /// The value of the IPFIX element flowEndReason (136).
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

/// One flow, ended. Index 0 is the direction of the first packet, 1 the other one
/// (always 0 but for [`FlowDefinition::Bidirectional`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The key as the first packet had it: its source is the initiator.
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

/// A statistic's column: every record has one value in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Stable name, as it stands in every output (camelCase with the unit last, as in IPFIX).
    pub name: String,
    /// Unit, for documentation: `bytes`, `seconds`, `packets`.
    pub unit: &'static str,
    /// What it is and where it comes from, in a sentence.
    pub definition: String,
}

/// What the records of a run hold.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// Which packets form a flow.
    pub flow: FlowDefinition,
    /// Whether VLAN tags are part of the key.
    pub vlan: bool,
    /// The columns of the chosen statistics.
    pub statistics: Vec<Column>,
    /// What is analysed of every flow, if anything.
    pub analysis: Option<Level>,
}

/// Records that leave the meter together, with the values of their statistics.
#[derive(Clone, Debug, Default)]
pub struct RecordBatch {
    /// The records, in the order in which their flows ended.
    pub records: Vec<Record>,
    /// Flows that ended after them, and are no records before the batch is
    /// [complete](RecordBatch::complete).
    pub ended: EndedFlows,
    /// For each record, one value for each of [`Schema::statistics`]: row after row. NaN where
    /// there is none (the inter-arrival time of a flow of one packet).
    pub values: Vec<f64>,
    /// For each record, what an analysis found of its flow; empty where none was asked for.
    pub analyses: Analyses,
}

/// The most flows in a batch: who is handed on when there are [`RECORDS`] has those besides that one
/// burst ends, or that leave for it, by whole buckets.
pub(crate) const FULL: usize = RECORDS + BURST + TAGS;

impl RecordBatch {
    /// An empty batch that has the memory of a full one, taken from the machine.
    #[must_use]
    pub fn populated(schema: &Schema) -> Self {
        let analysed = schema.analysis.map_or(0, |_| FULL);
        let mut batch = Self {
            records: vec![Record::default(); FULL],
            ended: EndedFlows::populated(FULL),
            values: vec![f64::NAN; FULL * schema.statistics.len()],
            analyses: Analyses::populated(analysed),
        };
        batch.clear();
        batch
    }

    /// Makes records of all flows that have ended. (Not on the packet path, unless an analysis needs them
    /// there.)
    pub fn complete(&mut self) {
        self.ended.complete(&mut self.records);
    }

    /// How many flows it is of, records or not yet.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.records.len() + self.ended.len()
    }

    /// Whether it is of none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes all records out.
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
    fn a_populated_batch_is_empty_and_moves_nothing_until_it_is_full() {
        let schema = Schema {
            analysis: Some(Level::Full),
            ..Schema::default()
        };
        let mut batch = RecordBatch::populated(&schema);
        assert!(batch.records.is_empty() && batch.values.is_empty() && batch.analyses.is_empty());
        let places = (batch.records.as_ptr(), batch.analyses.as_ptr());
        for _ in 0..FULL - 1 {
            batch.records.push(Record::default());
            batch.analyses.push(Analysis::default());
        }
        assert_eq!((batch.records.as_ptr(), batch.analyses.as_ptr()), places);
        // Without an analysis none has memory for one.
        let counted = RecordBatch::populated(&Schema::default());
        assert_eq!(counted.analyses.capacity(), 0);
    }
}
