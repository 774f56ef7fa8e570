//! The part of the state that all flows have.

use crate::record::Incomplete;
use crate::text_pool::TextId;

/// The part of the state that all flows have.
#[derive(Debug, Default)]
pub(crate) struct BaseState {
    /// Name that the initiator had resolved.
    pub(crate) resolved: TextId,
    /// Age of that name, in microseconds.
    pub(crate) resolved_age_us: u32,
    /// Whether no query was seen that asked for it.
    pub(crate) is_resolved_unasked: bool,
    /// Application class by the first bytes, plus 1; 0 if there is none.
    pub(crate) class: u16,
    /// Number of packets with payload, up to 255.
    pub(crate) packets: u8,
    /// Why the results are incomplete.
    pub(crate) incomplete: Incomplete,
}
