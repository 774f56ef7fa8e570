//! The analyser: what is known of a flow beyond its counts, for `--statistics tcp`, `app` and `full`.
//!
//! State lies apart from the table's entries, in pools by handle: a slot of the table keeps its
//! flow's handle alone, so a flow that moves takes four bytes with it. Of each packet of a batch the
//! handle is looked up and the state asked for, then all are counted in their order.

mod analyses;
pub mod column;
pub mod continued;
mod level;
mod packet;
pub mod tcp;
pub mod volume;

pub use analyses::Analyses;
pub use column::{
    About, AnalysisColumn, AnalysisKind, AnalysisValue, COLUMNS, Chosen, Filling, Part, Table,
    describe,
};
pub use level::Level;
pub use packet::Packet;
pub use tcp::{Rare, Tcp};
pub use volume::{FIRST_PACKETS, Volume};

use app::NamesRecord;

/// What an analysis found of a flow: of each pair, index 0 is the initiator's side.
#[derive(Clone, Debug, Default)]
pub struct Analysis {
    /// The same in all records of one flow: 53 bits, so that readers that keep numbers as doubles
    /// lose nothing.
    pub flow_id: u64,
    /// Volume and timing.
    pub volume: Volume,
    /// TCP, if the flow is that and it was asked for.
    pub tcp: Option<Tcp>,
    /// What is rare in TCP, on each side.
    pub rare: [Rare; 2],
    /// What the application layer said, if that was asked for.
    pub names: Option<NamesRecord>,
}

/// Bytes of state of a flow that is not TCP, names left out.
pub const FLOW_BYTES: usize = size_of::<Volume>();

/// Bytes of state that a TCP flow has besides.
pub const TCP_BYTES: usize = size_of::<Tcp>();

/// Bytes of what is rare of a side, once it was seen.
pub const RARE_BYTES: usize = size_of::<Rare>();

/// For so many flows there is a place for what is rare of a side.
pub const RARE_SHARE: usize = 5;
