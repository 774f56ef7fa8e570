//! Flow analysis beyond packet and byte counts, for `--statistics tcp`, `app` and `full`.
//!
//! Analysis states are kept in pools, apart from the flow table's entries. A table slot holds only the
//! handle of its flow, so moving a flow to another slot moves four bytes. For each batch, handles are
//! looked up and states prefetched before the packets are counted in order.

mod analyses;
pub mod column;
mod level;
mod packet;
pub mod suspended;
pub mod tcp;
pub mod volume;

pub use analyses::Analyses;
pub use column::{
    AnalysisColumn, AnalysisKind, AnalysisValue, COLUMNS, ColumnMetadata, ColumnSelection,
    ColumnVisitor, Part, PartState, visit_columns,
};
pub use level::Level;
pub use packet::Packet;
pub use tcp::{Tcp, TcpCold};
pub use volume::{FIRST_PACKETS, Volume};

use app::AppRecord;

/// The analysis of a flow. In each pair, index 0 is the initiator's side.
#[derive(Clone, Debug, Default)]
pub struct Analysis {
    /// The same in all records of one flow. It has 53 bits, so that readers that store numbers as
    /// doubles keep all of them.
    pub flow_id: u64,
    /// Volume and timing.
    pub volume: Volume,
    /// TCP measures, if the flow is TCP and TCP is analysed.
    pub tcp: Option<Tcp>,
    /// The cold TCP state of each side.
    pub cold: [TcpCold; 2],
    /// The application layer's record, if payloads are inspected.
    pub app: Option<AppRecord>,
}

/// Bytes of state of every flow, without the state of payload inspection.
pub const FLOW_BYTES: usize = size_of::<Volume>();

/// Bytes of additional state of a TCP flow.
pub const TCP_BYTES: usize = size_of::<Tcp>();

/// Bytes of the cold state of one side of a TCP flow.
pub const TCP_COLD_BYTES: usize = size_of::<TcpCold>();

/// The number of flows per pooled cold TCP state.
pub const FLOWS_PER_TCP_COLD: usize = 5;
