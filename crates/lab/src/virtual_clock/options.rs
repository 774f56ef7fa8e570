//! How an emulated link and its receive queues are set up.

use serde::{Deserialize, Serialize};

/// When the receiver looks into its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Acquisition {
    /// All the time; it waits, in virtual time, where there is nothing.
    #[default]
    Polled,
    /// Every so many nanoseconds, and then until the queue is empty.
    Periodic(u64),
}

/// Where the frames are that the receiver reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Frames {
    /// In the receiver's own caches: better than a device can do, which brings them into the last
    /// level at best.
    #[default]
    Hot,
    /// In memory, sent out of every cache: worse than a device that writes into the last level.
    Cold,
}

/// An emulated link.
#[derive(Clone, Debug, PartialEq)]
pub struct VirtualOptions {
    /// Packets a second, all queues together; infinite for a wire that waits for the receiver, so
    /// that every burst is full and none is lost (time stamps are then those of
    /// [`Self::timestamp_pps`]).
    pub rate_pps: f64,
    /// Packets a second by their time stamps, where the wire waits.
    pub timestamp_pps: f64,
    /// Packets in all.
    pub packets: u64,
    /// Receive queues; packets are steered by the device's hash.
    pub queues: u32,
    /// Descriptors of each.
    pub ring: usize,
    /// Packets that one poll takes at most (1 to 256).
    pub batch: usize,
    /// Where frames are.
    pub frames: Frames,
    /// When the receiver looks.
    pub acquisition: Acquisition,
    /// Charged for each packet in the place of the device's own receive function, which does not
    /// run here, in nanoseconds.
    pub receive_ns: f64,
    /// The least stall of the machine, in nanoseconds.
    pub stall_ns: u64,
    /// Packets at the beginning that count as warming up.
    pub warm_up: u64,
    /// Whether the device tells its hash with each packet.
    pub reports_hash: bool,
    /// Hold each flow's count against the truth, where records tell 5-tuples.
    pub truth: bool,
    /// Keep what each poll took.
    pub trace: bool,
    /// Time of the first packet, nanoseconds since the epoch.
    pub begin_ns: i64,
}

impl VirtualOptions {
    /// The packets a second of 10 Gigabit Ethernet with frames of 64 bytes: 10^10 / (84 × 8).
    pub const LINE_10G: f64 = 1e10 / 672.0;

    /// A receive ring of the papers.
    pub const RING: usize = 4096;

    /// What one packet costs over DPDK rings made into a port (102 Mpps of one core).
    pub const RECEIVE_NS: f64 = 9.8;

    /// The least stall: several times what the longest burst of usual work takes.
    pub const STALL_NS: u64 = 30_000;
}

impl Default for VirtualOptions {
    fn default() -> Self {
        Self {
            rate_pps: Self::LINE_10G,
            timestamp_pps: Self::LINE_10G,
            packets: 1 << 22,
            queues: 1,
            ring: Self::RING,
            batch: port::frame::BURST,
            frames: Frames::Hot,
            acquisition: Acquisition::Polled,
            receive_ns: Self::RECEIVE_NS,
            stall_ns: Self::STALL_NS,
            warm_up: 0,
            reports_hash: true,
            truth: true,
            trace: false,
            begin_ns: 1_600_000_000_000_000_000,
        }
    }
}
