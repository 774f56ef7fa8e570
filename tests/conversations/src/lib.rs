//! Simulated TCP conversations with known truth: a sender, a probe in the middle of the path, a
//! receiver, and faults before and after the probe. Tests and the laboratory compare the analysis with
//! the truth.

mod classifier;
mod conversation;
mod frames;
mod packet;
mod probe;
mod random;
mod reference;
mod simulation;
mod truth;

pub use classifier::Classifier;
pub use conversation::{Conversation, Faults, MS};
pub use frames::{Frames, TimedFrame};
pub use packet::{ObservedPacket, PAYLOAD, SendReason};
pub use random::Random;
pub use reference::{ReferencePacket, ReferenceReader, Truth as TruthAtProbe};
pub use truth::Truth;
