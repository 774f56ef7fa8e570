//! What can be chosen when a port is opened.

use std::time::Duration;

use crate::frame::{BURST, COUNTED_MAX};

/// Who shares a pool of buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pools {
    /// Each queue has its own.
    #[default]
    PerQueue,
    /// All queues of the device share one.
    Shared,
}

/// The fields of a packet that make its hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RssFields {
    /// Addresses and ports.
    #[default]
    FiveTuple,
    /// Addresses.
    Addresses,
    /// The source address.
    Source,
    /// The destination address.
    Destination,
}

/// How receive-side scaling is set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RssOptions {
    /// What is hashed.
    pub fields: RssFields,
    /// Whether both directions must have the same hash. Such a hash has 16 bits of entropy: it
    /// chooses the queue, and names no flow.
    pub symmetric: bool,
}

/// The most frames that a device is asked for at a time.
pub const BATCH_MAX: usize = COUNTED_MAX;

/// How a port is opened. The defaults are those with which the FloWatcher paper was fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Receive queues.
    pub queues: u16,
    /// Frames that the device is asked for at a time, at most [`BATCH_MAX`]; those beyond [`BURST`] are
    /// handed over next.
    pub batch: usize,
    /// Descriptors of each receive queue: frames that wait there at most. A device rounds it.
    pub receive_ring: u16,
    /// Who shares a pool.
    pub pools: Pools,
    /// Buffers of each pool; `None`: twice what the rings that it serves hold, and the caches.
    pub pool_size: Option<u32>,
    /// Receive-side scaling.
    pub rss: RssOptions,
    /// How long [`receive`](crate::Port::receive) polls an empty queue before it says that there is
    /// nothing; zero: once.
    pub patience: Duration,
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
            patience: Duration::from_micros(200),
        }
    }
}

impl Options {
    /// Frames that are asked for at a time.
    pub(super) fn batch_taken(&self) -> usize {
        self.batch.clamp(1, BATCH_MAX)
    }

    /// Queues that one pool serves.
    pub(super) fn queues_per_pool(&self) -> u32 {
        match self.pools {
            Pools::PerQueue => 1,
            Pools::Shared => u32::from(self.queues),
        }
    }

    /// Buffers of each pool.
    pub(super) fn buffers(&self, cache: u32) -> u32 {
        self.pool_size.unwrap_or_else(|| {
            // A thread's cache may keep half as many again as it is meant to.
            let batch = self.batch_taken().max(BURST) as u32;
            let queue = u32::from(self.receive_ring) * 2 + cache * 3 / 2 + batch;
            queue * self.queues_per_pool()
        })
    }
}

/// How a device is opened to send on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendOptions {
    /// Transmit queues, a sender each.
    pub queues: u16,
    /// Descriptors of each transmit queue. A device rounds it.
    pub ring: u16,
    /// Buffers of each sender's pool; `None`: twice what the ring holds, and the caches.
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
    /// Buffers of each pool. Zero-copy devices keep those of frames that the peer has not read: a
    /// ring's worth, whatever the number of descriptors.
    pub(super) fn buffers(&self, cache: u32) -> u32 {
        self.pool_size
            .unwrap_or_else(|| u32::from(self.ring).max(2048) * 2 + cache * 3 / 2 + BURST as u32)
    }
}
