//! Where frames come from: files and interfaces, behind one small trait.

pub mod frame;

pub use frame::{Burst, Counters, Frame, Port, PortError, Received};
