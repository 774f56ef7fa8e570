//! The virtual clock: a link whose time goes by only as fast as its receiver works.
//!
//! On a machine whose cores stall for milliseconds at anybody's will, packets are lost in real
//! time whatever the code does. Here the wire moves on by the time-stamp counter's ticks between
//! two polls of the receiver; a poll that the machine stalled is clipped and reported. So the loss
//! is that of a receiver alone on its core, and it repeats.
//!
//! What it cannot say: the device's receive function does not run (each packet is charged a fixed
//! cost instead), frames are nearer than a device puts them ([`Frames::Cold`] is the other
//! extreme), and threads that talk over a ring do so in real time, so that a pipeline's rate means
//! nothing here.

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
