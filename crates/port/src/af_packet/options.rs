//! What can be chosen when an interface is opened.

use std::time::Duration;

use super::interface;
use crate::PortError;

/// How [`AfPacket::receive`](super::AfPacket) waits where the ring holds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Sleeps in poll(2) for at most this long, then says `Idle`.
    Sleep(Duration),
    /// Looks once and says `Idle` at once: the caller spins, and owns a core for it.
    Spin,
}

/// An interface, and how to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The interface's name, as `ip link` shows it (without `@peer`).
    pub interface: String,
    /// Only what this receive queue of the device received (numbered from 0), and nothing that
    /// is sent. `None`: all queues.
    pub queue: Option<u16>,
    /// Whether the device shall pass on frames that are addressed to others. The request ends with
    /// the socket.
    pub promiscuous: bool,
    /// Leaves out what this machine sends. On a loopback device it is always left out, since each
    /// frame comes back as received.
    pub ignore_outgoing: bool,
    /// At most this many bytes of each frame are kept; `None`: all.
    pub snap_bytes: Option<u32>,
    /// Size of one block of the ring, rounded up to whole pages. A frame lies within one block, so
    /// that a block under 68 KiB cuts the longest frames.
    pub block_bytes: usize,
    /// Number of blocks; at least 2, since one is being read while another fills.
    pub block_count: usize,
    /// A block that is not full is handed over after about this long (the kernel takes up to
    /// twice as long). At least a millisecond.
    pub retire: Duration,
    /// What `receive` does where there is nothing.
    pub wait: Wait,
    /// Fan-out only: IPv4 fragments are put together before they are hashed, so that all
    /// fragments of a packet meet at the same socket. What is handed over is then no longer what was on
    /// the wire, hence off by default.
    pub defragment: bool,
}

impl Options {
    /// Default of [`Options::block_bytes`]: frames of 64 KiB fit, and one block fits the
    /// second-level cache.
    pub const BLOCK_BYTES: usize = 256 << 10;
    /// Default of [`Options::block_count`]; with the default block 64 MiB, which holds
    /// 420,000 frames of 64 bytes: 0.3 s at the 1.4 Mpps that the kernel's path delivers.
    pub const BLOCK_COUNT: usize = 256;

    /// The whole interface with the defaults: not promiscuous, both directions, whole frames.
    #[must_use]
    pub fn new(interface: &str) -> Self {
        Self {
            interface: interface.to_owned(),
            queue: None,
            promiscuous: false,
            ignore_outgoing: false,
            snap_bytes: None,
            block_bytes: Self::BLOCK_BYTES,
            block_count: Self::BLOCK_COUNT,
            retire: Duration::from_millis(10),
            wait: Wait::Sleep(Duration::from_millis(50)),
            defragment: false,
        }
    }

    /// `eth0`, or `eth0@2` for its receive queue 2 alone, with the defaults.
    ///
    /// A name may hold an `@` itself: what exists as a whole is taken as a whole.
    ///
    /// # Errors
    /// When what stands behind the last `@` is not the number of a queue.
    pub fn from_source(source: &str) -> Result<Self, PortError> {
        let Some((name, queue)) = source.rsplit_once('@') else {
            return Ok(Self::new(source));
        };
        if interface::index(source).is_some() {
            return Ok(Self::new(source));
        }
        let queue = queue.parse().map_err(|_| {
            PortError::Failed(format!(
                "{source}: what follows the @ must be the number of a receive queue, as in {name}@0"
            ))
        })?;
        Ok(Self {
            queue: Some(queue),
            ..Self::new(name)
        })
    }

    /// Memory of the ring in bytes; it is the kernel's, cannot be swapped, and each socket has its own.
    #[must_use]
    pub fn ring_bytes(&self) -> usize {
        self.whole_block_bytes().saturating_mul(self.block_count)
    }

    /// The size of a block in whole pages.
    pub(super) fn whole_block_bytes(&self) -> usize {
        let page = interface::page_bytes();
        self.block_bytes.max(1).div_ceil(page).saturating_mul(page)
    }

    /// The retire time-out in whole milliseconds, as the kernel takes it.
    pub(super) fn retire_ms(&self) -> u32 {
        u32::try_from(self.retire.as_millis()).map_or(1000, |ms| ms.clamp(1, 1000))
    }
}
