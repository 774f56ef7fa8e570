//! How far the inspection of a flow is.

use crate::parser::UDP_PROBE_PACKETS;
use core::num::NonZeroU32;
use wire::tcp::flag;

/// How far the inspection of a flow is. The flow table keeps it in the flow's entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InspectState(pub(crate) Stage);

/// The stages of an inspection. Those up to `Tracked` need more packets; their order makes that one
/// comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Stage {
    /// No packet yet.
    New {
        /// The hash of the flow's addresses, if it was computed.
        hash: Option<NonZeroU32>,
    },
    /// No packet yet since the active timeout split the flow. The resolved name is not looked up
    /// again: it must be the one that the initiator had when it opened the flow.
    Resumed {
        /// Whether the data of the previous record could not be kept.
        with_loss: bool,
    },
    /// Only a SYN so far.
    SynSeen {
        /// The sequence number after it.
        next_sequence: u32,
    },
    /// Has a state and needs more packets, also those without payload: part of a message is in a
    /// buffer, and they may say that the rest is lost or will not come.
    Waiting {
        /// Handle of the state.
        handle: u32,
    },
    /// A few packets, none of a known protocol.
    Probing {
        /// Their number.
        packets: u8,
    },
    /// Has a state and needs more packets.
    Tracked {
        /// Handle of the state.
        handle: u32,
    },
    /// Needs no more packets.
    Done {
        /// Handle of the state, 0 if there is none.
        handle: u32,
    },
    /// Not inspected, because the pool had no free state.
    NoState,
}

impl Default for Stage {
    fn default() -> Self {
        Self::New { hash: None }
    }
}

/// The table has one in the entry of each flow.
const _: () = assert!(size_of::<InspectState>() == 8);

impl InspectState {
    /// The flow needs no inspection.
    pub const DONE: Self = Self(Stage::Done { handle: 0 });

    /// After this number of packets of no known protocol.
    pub(crate) const fn probing(packets: u8) -> Self {
        if packets < UDP_PROBE_PACKETS {
            Self(Stage::Probing { packets })
        } else {
            Self::DONE
        }
    }

    /// Whether [`Inspector::observe`](crate::Inspector::observe) needs a packet with this payload
    /// length and these TCP control bits. For other packets it would do nothing.
    #[inline]
    #[must_use]
    pub const fn needs_packet(self, payload_length: u32, tcp_flags: u8) -> bool {
        let is_done = matches!(self.0, Stage::Done { .. } | Stage::NoState);
        // If the compiler knows whether there is payload, each branch is a single comparison.
        if payload_length > 0 {
            return !is_done;
        }
        let is_probed = matches!(self.0, Stage::Probing { .. } | Stage::Tracked { .. });
        !is_done && (!is_probed || tcp_flags & flag::SYN != 0)
    }

    /// Handle of the flow's state, 0 if it has none.
    pub(crate) const fn handle(self) -> u32 {
        match self.0 {
            Stage::Tracked { handle } | Stage::Waiting { handle } | Stage::Done { handle } => {
                handle
            }
            _ => 0,
        }
    }
}
