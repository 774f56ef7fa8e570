//! Reading capture files.
//!
//! ```text
//! source ─► decompress ─► block_buffer ─► walk (pcap, pcapng) ─► frame_list ─► Burst
//! bytes,    gzip, zstd    256 KiB that    no copy, no call,      256 frames,
//! counted   or neither    stay in cache   no check twice         used again
//! ```
//! A frame is a slice of the block that the last reading brought: what is copied is the tail of a
//! block whose last record is incomplete, once a block.
//!
//! What is wrong in the middle of a file ([`Received::Fault`](crate::Received::Fault)) comes after
//! the packets before it, and is the same however the bytes happen to arrive.

mod block_buffer;
mod byte_order;
mod capture_file;
mod decompress;
mod fault;
mod gzip_stream;
mod limits;
mod missing_right;
mod pcap;
mod pcapng;
#[cfg(test)]
mod sample;
mod sequence;
mod source;
#[cfg(test)]
mod tests;
mod tick;
mod unrecognised;
mod walk;
mod zstd_stream;

pub use capture_file::CaptureFile;
pub use missing_right::missing_right;
pub use sequence::CaptureFiles;
pub use source::Input;
