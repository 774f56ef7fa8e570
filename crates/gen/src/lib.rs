//! Traffic generation: which frames to send, and when.
//!
//! ```text
//! flow_order ─► lookahead ─► population ─► frame_writer ─► Slot ─► port::Transmit
//! selects a     prefetches   has a frame   copies it, sets
//! flow          templates    template      size, sequence number
//!                            per flow      and random fields
//! ```
//! [`Traffic`] generates frames of a population of flows, [`Replay`] sends a capture; both implement
//! [`Source`]. Frames are written directly into the slots of a link, without allocation. All random
//! choices are reproducible from a seed.

mod alias;
mod arrivals;
pub mod checksum;
pub mod closed_loop;
mod error;
mod fields;
mod flow_order;
mod frame;
mod frame_writer;
mod histogram;
mod l4_packet;
mod lateness;
mod longer_payloads;
mod lookahead;
mod match_filter;
mod permutation;
mod population;
mod probe;
mod random_fields;
mod rate;
mod recording;
mod replay;
mod rewrite_addresses;
mod schedule;
mod send;
mod sequence_check;
mod sizes;
mod source;
mod traffic;
mod traffic_options;
mod truth;

pub use alias::AliasTable;
pub use arrivals::Arrivals;
pub use error::GeneratorError;
pub use fields::{AddressRange, FlowFields, PortRange, Protocol};
pub use flow_order::{FlowOrder, FlowSelector};
pub use frame::MacAddresses;
pub use histogram::Histogram;
pub use hw::random::Random;
pub use lateness::WorstWindow;
pub use match_filter::MatchFilter;
pub use permutation::Permutation;
pub use population::FLOWS_MAX;
pub use probe::Probe;
pub use random_fields::RandomFields;
pub use rate::{Layer, Rate, RateSpec};
pub use recording::Recording;
pub use replay::{Replay, ReplayOptions};
pub use schedule::Schedule;
pub use send::{
    LINK_DOWN_MAX, Pacing, SendClock, SendControl, SendOptions, SendReport, WhenFull, WhenLate,
    send,
};
pub use sequence_check::{SequenceCheck, SequenceCounts};
pub use sizes::{FCS_BYTES, FrameSizes, SIZE_MAX, SIZE_MIN, WIRE_OVERHEAD};
pub use source::{Filled, NO_FLOW, Source};
pub use traffic::Traffic;
pub use traffic_options::TrafficOptions;
pub use truth::{SentCounts, Truth};
