//! Sources and sinks of frames: capture files, interfaces and memory. A source implements [`Port`], a
//! sink [`Transmit`].

#[cfg(target_os = "linux")]
pub mod af_packet;
pub mod buffer;
#[cfg(all(target_os = "linux", feature = "dpdk"))]
pub mod dpdk;
pub mod file;
pub mod filter;
pub mod frame;
mod frame_list;
pub mod frame_pool;
pub mod impairment;
pub mod join;
pub mod limit;
mod link_watch;
pub mod memory;
pub mod memory_link;
pub mod null;
pub mod pcap_writer;
pub mod shared_conversations;
mod slot_memory;
pub mod transmit;
pub mod wrapper;

#[cfg(target_os = "linux")]
pub use af_packet::{AfPacket, AfPacketSender};
pub use file::{CaptureFile, CaptureFiles, Input, permission_hint, uncompressed_size};
pub use filter::Filtered;
pub use frame::{
    BURST_COUNT_MAX, Burst, BurstCount, Counters, DeviceCounters, Frame, InputCounters, Port,
    PortError, Received, Rss, SnaplenErrors,
};
pub use frame_pool::FramePool;
pub use impairment::{Impaired, Impairment, ImpairmentLog, Impairments};
pub use join::Joined;
pub use limit::{Limit, Limited};
pub use memory::MemoryPort;
pub use memory_link::{MemoryReceiver, MemorySender, memory_link};
pub use null::NullSink;
pub use pcap_writer::PcapWriter;
pub use shared_conversations::{Observed, SharedConversations, SharedInputs};
pub use transmit::{Slot, Transmit};
pub use wrapper::Wrapper;
