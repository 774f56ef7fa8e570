//! Where frames come from: files and interfaces, behind one small trait.

#[cfg(target_os = "linux")]
pub mod af_packet;
pub mod file;
pub mod filter;
pub mod frame;
mod frame_list;
pub mod limit;
pub mod memory;

#[cfg(target_os = "linux")]
pub use af_packet::AfPacket;
pub use file::{CaptureFile, CaptureFiles, Input};
pub use filter::Filtered;
pub use frame::{Burst, Counters, Frame, Port, PortError, Received};
pub use limit::Limited;
pub use memory::MemoryPort;
