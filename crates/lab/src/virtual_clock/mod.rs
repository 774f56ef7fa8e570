//! The virtual clock: a link whose time passes only as fast as its receiver works.
//!
//! On a machine whose cores stall for milliseconds, real time loses packets whatever the code does.
//! Here the wire advances by the ticks of the timestamp counter between two polls of the receiver; a
//! poll that the machine stalled is clipped and reported. The loss is therefore that of a receiver alone
//! on its core, and it repeats.
//!
//! Limits: the device's receive function does not run (each packet is charged a fixed cost instead),
//! frames are in a nearer cache than a device writes to ([`Frames::Cold`] is the other extreme), and
//! threads that communicate over a ring do so in real time, so the rate of a pipeline means nothing.

#[cfg(test)]
pub(crate) mod frames;
mod options;
mod port;
mod stalls;
mod wire;

pub use options::{Acquisition, Frames, VirtualOptions};
pub use port::{Outcomes, QueueOutcome, VirtualPort};
pub use stalls::Stalled;
pub use wire::{REDIRECTIONS, Wire, WireFrame};
