//! Options of an emulated link and its receive queues.

use serde::{Deserialize, Serialize};

/// When the receiver polls its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Acquisition {
    /// Continuously; it waits, in virtual time, while the queue is empty.
    #[default]
    Polled,
    /// Once per period in nanoseconds, and then until the queue is empty.
    Periodic(u64),
}

/// Where the receiver's frames are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Frames {
    /// In the receiver's caches: better than a device, which writes to the last-level cache at best.
    #[default]
    Hot,
    /// In memory, flushed from every cache: worse than a device that writes to the last-level cache.
    Cold,
}

/// An emulated link.
#[derive(Clone, Debug, PartialEq)]
pub struct VirtualOptions {
    /// Packets per second of all queues; infinite for a wire that waits for the receiver, so that every
    /// burst is full and no packet is lost ([`Self::timestamp_pps`] then sets the timestamps).
    pub rate_pps: f64,
    /// Packets per second of the timestamps if the wire waits.
    pub timestamp_pps: f64,
    /// Total packets.
    pub packets: u64,
    /// Receive queues; the device's hash selects the queue of a packet.
    pub queues: u32,
    /// Descriptors per queue.
    pub ring: usize,
    /// The most packets per poll (1 to 256).
    pub batch: usize,
    /// Where the frames are.
    pub frames: Frames,
    /// When the receiver polls.
    pub acquisition: Acquisition,
    /// Charge per packet for the device's receive function, which does not run here, in nanoseconds.
    pub receive_ns: f64,
    /// The shortest stall of the machine, in nanoseconds.
    pub stall_ns: u64,
    /// Packets at the start that count as warm-up.
    pub warm_up: u64,
    /// Whether the device reports its hash with each packet.
    pub reports_hash: bool,
    /// Compare each flow's count with the truth, if records have 5-tuples.
    pub truth: bool,
    /// Record the duration of each poll.
    pub trace: bool,
    /// Timestamp of the first packet, in nanoseconds since the epoch.
    pub begin_ns: i64,
}

impl VirtualOptions {
    /// The packets per second of 10 Gigabit Ethernet with frames of 64 bytes: 10^10 / (84 × 8).
    pub const LINE_10G: f64 = 1e10 / 672.0;

    /// The papers' receive ring.
    pub const RING: usize = 4096;

    /// The cost of a packet of a port of DPDK rings (102 Mpps on one core).
    pub const RECEIVE_NS: f64 = 9.8;

    /// The shortest stall: several times the longest burst of ordinary work.
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
