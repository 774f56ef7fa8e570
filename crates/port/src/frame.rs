//! The trait that every way of capture implements, and what it hands over.

use std::num::NonZeroU32;
use std::ops::AddAssign;
use wire::LinkType;

/// The most frames that one [`Port::receive`] hands over.
pub const BURST: usize = 256;

/// The most frames that one [`Port::count`] tells.
pub const COUNTED_MAX: usize = 4096;

/// One captured frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The captured bytes, from the link-layer header on.
    pub bytes: &'a [u8],
    /// Nanoseconds since the Unix epoch.
    pub time_ns: i64,
    /// Length on the wire; more than `bytes.len()` where the snap length cut the frame.
    pub wire_length: u32,
    /// The hash by which the device chose the frame's queue, where it says that it has made one. (A
    /// hash of 0 counts as none: what takes its place is made of the same packet again.)
    pub rss_hash: Option<NonZeroU32>,
}

impl<'a> Frame<'a> {
    /// A frame without a hash of the device.
    #[inline(always)]
    #[must_use]
    pub const fn new(bytes: &'a [u8], time_ns: i64, wire_length: u32) -> Self {
        Self {
            bytes,
            time_ns,
            wire_length,
            rss_hash: None,
        }
    }
}

impl AsRef<[u8]> for Frame<'_> {
    #[inline(always)]
    fn as_ref(&self) -> &[u8] {
        self.bytes
    }
}

/// Frames received together: at least one, at most [`BURST`], all of one link type.
#[derive(Clone, Copy, Debug)]
pub struct Burst<'a> {
    /// Link type of all the frames.
    pub link: LinkType,
    /// The frames, in the order of their arrival.
    pub frames: &'a [Frame<'a>],
}

/// Frames received together of which nobody asks more than how many they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Frames, at least one, at most [`COUNTED_MAX`].
    pub frames: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
}

impl From<Burst<'_>> for Counted {
    fn from(burst: Burst<'_>) -> Self {
        let lengths = burst.frames.iter();
        Self {
            frames: burst.frames.len() as u64,
            bytes: lengths.map(|frame| u64::from(frame.wire_length)).sum(),
        }
    }
}

/// The outcome of one [`Port::receive`] or [`Port::count`].
#[derive(Debug)]
pub enum Received<B> {
    /// Frames, valid until the next call.
    Burst(B),
    /// Nothing within the port's waiting time.
    Idle,
    /// Something of the input cannot be read, said in one line. All frames before it have been
    /// handed over, [`Counters::faults`] has counted it, and the port goes on with what comes after
    /// it (the next file, say) or says [`Received::End`].
    Fault(String),
    /// There will be no more.
    End,
}

impl<B> Received<B> {
    /// The same with something else in place of the frames.
    #[inline]
    pub fn map<T>(self, change: impl FnOnce(B) -> T) -> Received<T> {
        match self {
            Self::Burst(burst) => Received::Burst(change(burst)),
            Self::Idle => Received::Idle,
            Self::Fault(message) => Received::Fault(message),
            Self::End => Received::End,
        }
    }
}

/// Counters that a port keeps besides the frames it hands over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames handed over by [`Port::receive`].
    pub frames: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Frames that the kernel dropped because nobody read them in time.
    pub dropped: u64,
    /// Frames that the device dropped because its receive queue was full.
    pub missed: u64,
    /// Frames that the device dropped because there was no buffer to put them in.
    pub no_buffer: u64,
    /// Frames that the device received damaged and did not hand over.
    pub errors: u64,
    /// Frames for which there was no room in the buffer behind the port.
    pub overflow: u64,
    /// Their bytes on the wire.
    pub overflow_bytes: u64,
    /// What the device itself says it has delivered, where it says so.
    pub device: Option<DeviceCounters>,
    /// Bytes read of `size`, for a progress bar (files; compressed bytes where compressed).
    pub position: u64,
    /// Size of the input in bytes, 0 where it is unknown.
    pub size: u64,
    /// Parts of the input that could not be read: an absurd length, an end in the middle of a packet,
    /// a file that could not be opened in its turn.
    pub faults: u64,
    /// Where the input contradicts the snap lengths in its headers, or they what is possible.
    pub snap_lengths: SnapLengths,
    /// Frames that a filter did not let through; not in `frames`.
    pub filtered: u64,
    /// Their bytes on the wire.
    pub filtered_bytes: u64,
}

/// Snap lengths in headers that are not to be believed. Frames are handed over by their own lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapLengths {
    /// Headers of files or interfaces with a snap length that no frame can have: it stands for no
    /// limit.
    pub absurd: u64,
    /// The largest of these.
    pub absurd_max: u32,
    /// Frames of more bytes than the snap length in their header allows.
    pub exceeded: u64,
}

impl AddAssign<Self> for SnapLengths {
    fn add_assign(&mut self, other: Self) {
        self.absurd += other.absurd;
        self.absurd_max = self.absurd_max.max(other.absurd_max);
        self.exceeded += other.exceeded;
    }
}

/// What a device counts of the frames that it delivered, to be set beside the port's own count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Frames.
    pub frames: u64,
    /// Their bytes, as the device counts them (with or without the frame check sequence).
    pub bytes: u64,
}

/// Whether a device hashes each frame to choose its queue (receive-side scaling), and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rss {
    /// The device has no hash.
    NotOffered,
    /// It has, but not over the fields that were wanted.
    Offered,
    /// It was set up over the fields that were wanted.
    Configured {
        /// Whether both directions of a flow have the same hash; such a hash has 16 bits of entropy.
        symmetric: bool,
    },
}

impl Rss {
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotOffered => "not offered",
            Self::Offered => "offered",
            Self::Configured { symmetric: false } => "configured",
            Self::Configured { symmetric: true } => "configured, symmetric",
        }
    }
}

/// Why a port cannot be opened, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The right is missing; the message ends with the line that grants it.
    #[error("{0}")]
    Permission(String),
    /// Whoever was to read what is written has gone: a pipe without a reader, nothing to complain of.
    #[error("{0}: nobody reads it any more")]
    ReaderGone(String),
    /// Anything else, said in one line: what, and what to do.
    #[error("{0}")]
    Failed(String),
}

/// A source of frames. One around another is a [`Wrapper`](crate::Wrapper).
pub trait Port: Send {
    /// Hands over the next frames, waiting a short time where there are none yet.
    ///
    /// # Errors
    /// When the port cannot go on. All frames before the fault have been handed over.
    fn receive(&mut self) -> Result<Received<Burst<'_>>, PortError>;

    /// [`Port::receive`] for who only counts, which need not tell anything of each frame.
    ///
    /// # Errors
    /// As there.
    fn count(&mut self) -> Result<Received<Counted>, PortError> {
        Ok(self.receive()?.map(Counted::from))
    }

    /// The counters since the port was opened.
    fn counters(&mut self) -> Counters;

    /// What the port reads, for messages: a file's path, an interface's name.
    fn name(&self) -> &str;

    /// The key, where [`Frame::rss_hash`] is known to be the Toeplitz hash under that key of addresses
    /// and ports, for every frame of TCP or UDP in IPv4 that is no fragment and has one.
    fn rss_key(&self) -> Option<&[u8]> {
        None
    }

    /// Frames that wait in the device's receive queue at the moment, where the port can tell.
    fn occupancy(&mut self) -> Option<usize> {
        None
    }

    /// Frames that the device's receive queue holds at most, where the port can tell: where their
    /// lengths decide, frames like those received so far.
    fn queue_size(&self) -> Option<usize> {
        None
    }

    /// Whether the frames of a burst all have the time at which the burst was read, because nobody
    /// took the time when each of them arrived.
    fn stamps_bursts(&self) -> bool {
        false
    }

    /// Ends a live source: what arrives from now on is neither handed over nor counted, what came
    /// before is still handed over, then [`Received::End`] follows. A file ends at once.
    fn stop(&mut self) {}

    /// What the device was set up to hash, where that is known.
    fn rss(&self) -> Option<Rss> {
        None
    }
}
