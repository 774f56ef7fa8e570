//! Output for existing tools: Tstat's log files, and round-robin databases for rrdtool.
//!
//! These formats are frozen: they follow the tools that read them and get no new columns.

mod connection;
pub(crate) mod rrd;
pub mod tstat;
