//! The laboratory: the experiments of the papers, with instruments whose results repeat even on a machine
//! that other programs use.

pub mod experiments;
pub mod fair_dropper;
pub mod ledger;
pub mod machine;
pub mod monitor;
pub mod outcome;
pub mod paper_tables;
pub mod plot;
pub mod report;
pub mod results;
pub mod search;
#[cfg(feature = "dpdk")]
pub mod software_link;
pub mod statistics;
pub mod traffic;
pub mod trial;
pub mod virtual_clock;

pub use ledger::Ledger;
pub use monitor::Monitor;
pub use search::{Goal, Search};
pub use trial::{Trial, TrialError, Validity};
