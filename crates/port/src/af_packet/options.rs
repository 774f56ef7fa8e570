//! Options of a packet socket.

use std::time::Duration;

use super::interface;
use crate::PortError;

/// How [`AfPacket::receive`](super::AfPacket) waits while the ring is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Sleeps in poll(2) for at most this long, then returns `Idle`.
    Sleep(Duration),
    /// Polls once and returns `Idle`: the caller spins on a core of its own.
    Spin,
}

/// An interface and how to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The interface's name, as `ip link` shows it (without `@peer`), or [`Options::ANY`].
    pub interface: String,
    /// Only frames of this receive queue (numbered from 0), without outgoing ones. `None`: all queues.
    pub queue: Option<u16>,
    /// Whether to enable promiscuous mode for the lifetime of the socket.
    pub promiscuous: bool,
    /// Whether to ignore outgoing frames. On a loopback device they are always ignored, since each is
    /// also received.
    pub ignore_outgoing: bool,
    /// Maximum bytes to keep of each frame; `None`: all.
    pub snaplen: Option<u32>,
    /// Size of a ring block in bytes, rounded up to whole pages. A frame lies within one block, so that
    /// a block under 68 KiB truncates the longest frames.
    pub block_bytes: usize,
    /// Number of blocks; at least 2, since one is read while another fills.
    pub block_count: usize,
    /// Time after which the kernel passes on a block that is not full (`tp_retire_blk_tov`; it may take
    /// twice as long). At least a millisecond.
    pub block_timeout: Duration,
    /// How `receive` waits for frames.
    pub wait: Wait,
    /// Fan-out only: reassemble IPv4 fragments before hashing, so that all fragments of a packet reach
    /// the same socket. The frames are then no longer as on the wire, hence off by default.
    pub defragment: bool,
}

impl Options {
    /// All interfaces of the network namespace, also those that appear later. Bursts have the link
    /// types of the interfaces. Outgoing frames are received too, except those of the loopback
    /// interface, each of which is also received. It has no queues and cannot be promiscuous.
    pub const ANY: &str = "any";

    /// Default of [`Options::block_bytes`]: fits frames of 64 KiB, and fits into the L2 cache.
    pub const BLOCK_BYTES: usize = 256 << 10;
    /// Default of [`Options::block_count`]; with the default block size 64 MiB, which holds 420,000
    /// frames of 64 bytes: 0.3 s at the 1.4 Mpps that the kernel delivers.
    pub const BLOCK_COUNT: usize = 256;

    /// Defaults for all queues of an interface: not promiscuous, both directions, whole frames.
    #[must_use]
    pub fn new(interface: &str) -> Self {
        Self {
            interface: interface.to_owned(),
            queue: None,
            promiscuous: false,
            ignore_outgoing: false,
            snaplen: None,
            block_bytes: Self::BLOCK_BYTES,
            block_count: Self::BLOCK_COUNT,
            block_timeout: Duration::from_millis(10),
            wait: Wait::Sleep(Duration::from_millis(50)),
            defragment: false,
        }
    }

    /// Parses `eth0`, or `eth0@2` for its receive queue 2 only, with the defaults.
    ///
    /// An interface name may contain an `@`: if the whole of `source` is an interface, it has no queue.
    ///
    /// # Errors
    /// If the part after the last `@` is not a queue number.
    pub fn from_source(source: &str) -> Result<Self, PortError> {
        let Some((name, queue)) = source.rsplit_once('@') else {
            return Ok(Self::new(source));
        };
        if interface::index(source).is_some() {
            return Ok(Self::new(source));
        }
        let queue = queue.parse().map_err(|_| {
            PortError::Failed(format!(
                "{source}: the part after @ must be the number of a receive queue, as in {name}@0"
            ))
        })?;
        Ok(Self {
            queue: Some(queue),
            ..Self::new(name)
        })
    }

    /// Whether these are the options of [`Options::ANY`].
    pub(super) fn is_any(&self) -> bool {
        self.interface == Self::ANY
    }

    /// Memory of the ring of each socket in bytes. It is kernel memory, which cannot be swapped out.
    #[must_use]
    pub fn ring_bytes(&self) -> usize {
        self.block_bytes_in_pages().saturating_mul(self.block_count)
    }

    /// Size of a block in bytes, rounded up to whole pages.
    pub(super) fn block_bytes_in_pages(&self) -> usize {
        let page = interface::page_size();
        self.block_bytes.max(1).div_ceil(page).saturating_mul(page)
    }

    /// The block timeout in whole milliseconds, as the kernel expects it.
    pub(super) fn block_timeout_ms(&self) -> u32 {
        u32::try_from(self.block_timeout.as_millis()).map_or(1000, |ms| ms.clamp(1, 1000))
    }
}
