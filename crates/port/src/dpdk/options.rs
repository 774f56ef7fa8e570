//! Options of ports and senders.

use std::time::Duration;

use crate::frame::{BURST, BURST_COUNT_MAX};

/// Which queues share a buffer pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pools {
    /// A pool for each queue.
    #[default]
    PerQueue,
    /// One pool for all queues of the device.
    Shared,
}

/// The fields that the RSS hash covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RssFields {
    /// Source and destination addresses and ports.
    #[default]
    FiveTuple,
    /// Source and destination addresses.
    Addresses,
    /// Source address.
    Source,
    /// Destination address.
    Destination,
}

/// RSS configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RssOptions {
    /// The fields to hash.
    pub fields: RssFields,
    /// Whether both directions must have the same hash. Such a hash has 16 bits of entropy: enough to
    /// choose a queue, not to identify a flow.
    pub symmetric: bool,
}

/// Maximum number of frames to request from a device at a time.
pub const BATCH_MAX: usize = BURST_COUNT_MAX;

/// Options of a port. The defaults are the fastest settings of the FloWatcher paper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Number of receive queues.
    pub queues: u16,
    /// Frames to request from the device at a time, at most [`BATCH_MAX`]. A batch larger than
    /// [`BURST`] is delivered in several bursts.
    pub batch: usize,
    /// Descriptors of each receive queue: its capacity in frames. The device may adjust it.
    pub receive_ring: u16,
    /// Which queues share a pool.
    pub pools: Pools,
    /// Buffers of each pool; `None`: twice the descriptors of its queues, plus caches.
    pub pool_size: Option<u32>,
    /// RSS configuration. pub rss
    pub rss: RssOptions,
    /// How long [`receive`](crate::Port::receive) polls an empty queue before it returns `Idle`; zero:
    /// once.
    pub poll_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            queues: 1,
            batch: BURST,
            receive_ring: 4096,
            pools: Pools::PerQueue,
            pool_size: None,
            rss: RssOptions::default(),
            poll_timeout: Duration::from_micros(200),
        }
    }
}

impl Options {
    /// The valid batch size.
    pub(super) fn batch_size(&self) -> usize {
        self.batch.clamp(1, BATCH_MAX)
    }

    /// Number of queues per pool.
    pub(super) fn queues_per_pool(&self) -> u32 {
        match self.pools {
            Pools::PerQueue => 1,
            Pools::Shared => u32::from(self.queues),
        }
    }

    /// Number of buffers of each pool.
    pub(super) fn buffers(&self, cache: u32) -> u32 {
        self.pool_size.unwrap_or_else(|| {
            // A mempool cache is flushed at 1.5 times its size.
            let batch = self.batch_size().max(BURST) as u32;
            let queue = u32::from(self.receive_ring) * 2 + cache * 3 / 2 + batch;
            queue * self.queues_per_pool()
        })
    }
}

/// Options of a sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendOptions {
    /// Number of transmit queues; each is a sender.
    pub queues: u16,
    /// Descriptors of each transmit queue. The device may adjust it.
    pub ring: u16,
    /// Buffers of each sender's pool; `None`: twice the descriptors, plus caches.
    pub pool_size: Option<u32>,
}

impl Default for SendOptions {
    fn default() -> Self {
        Self {
            queues: 1,
            ring: 1024,
            pool_size: None,
        }
    }
}

impl SendOptions {
    /// Number of buffers of each pool. Zero-copy devices hold the buffers of frames that the peer has
    /// not read: up to a peer's ring, whatever the number of descriptors.
    pub(super) fn buffers(&self, cache: u32) -> u32 {
        self.pool_size
            .unwrap_or_else(|| u32::from(self.ring).max(2048) * 2 + cache * 3 / 2 + BURST as u32)
    }
}
