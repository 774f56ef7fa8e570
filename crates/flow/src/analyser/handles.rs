//! Handles of the flows of a batch's packets.

use crate::batch::BURST;
use hw::pool::NO_HANDLE;

/// How many packets ahead to prefetch a flow's volume state.
pub(super) const VOLUME_PREFETCH_PACKETS: usize = 12;

/// Handles of the flows of a batch's packets, with padding to look ahead past the end.
pub(super) type Handles = [u32; BURST + VOLUME_PREFETCH_PACKETS];

/// No flow for any packet.
pub(super) const NO_HANDLES: Handles = [NO_HANDLE; BURST + VOLUME_PREFETCH_PACKETS];
