//! Reads capture files: pcap and pcapng, uncompressed or compressed with gzip,
//! zstd, xz, bzip2 or lz4.
//!
//! ```text
//! source ─► decompress ─► block_buffer ─► walk (pcap, pcapng) ─► frame_list ─► Burst
//! bytes,    gzip, zstd,   256 KiB that    no copy, no call,      256 frames,
//! counted   xz, … or not  stay in cache   no check twice         reused
//! ```
//! A frame is a slice of the block read last. Only the incomplete record at the end of a block is
//! copied, once per block.
//!
//! A fault in the middle of a file ([`Received::Fault`](crate::Received::Fault)) is delivered after the
//! packets before it, and does not depend on how the bytes arrive.

mod block_buffer;
mod byte_order;
mod capture_file;
mod codec_stream;
mod decompress;
mod fault;
mod gzip_stream;
mod limits;
mod lz4_stream;
mod on_demand;
mod pcap;
mod pcapng;
mod permission_hint;
#[cfg(test)]
mod sample;
mod sequence;
mod source;
#[cfg(test)]
mod tests;
mod timestamp;
mod unrecognised;
mod walk;
mod zstd_stream;

pub use capture_file::CaptureFile;
pub use decompress::uncompressed_size;
pub use on_demand::OnDemandFile;
pub use permission_hint::permission_hint;
pub use sequence::CaptureFiles;
pub use source::Input;
