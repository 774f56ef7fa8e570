//! The trait that every source of frames implements, and the frames it delivers.

use std::num::NonZeroU32;
use std::ops::AddAssign;
use wire::LinkType;

/// The maximum number of frames of one [`Port::receive`].
pub const BURST: usize = 256;

/// The maximum number of frames of one [`Port::receive_count`].
pub const BURST_COUNT_MAX: usize = 4096;

/// One captured frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The captured bytes, from the link-layer header on.
    pub bytes: &'a [u8],
    /// Timestamp in nanoseconds since the Unix epoch.
    pub time_ns: i64,
    /// Length on the wire in bytes; more than `bytes.len()` if the snaplen cut the frame.
    pub wire_length: u32,
    /// The RSS hash that the device computed, if it reports one. (A hash of 0 counts as none; a hash
    /// computed from the packet then takes its place.)
    pub rss_hash: Option<NonZeroU32>,
}

impl wire::fast::RawFrame for Frame<'_> {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.bytes
    }

    #[inline]
    fn wire_length(&self) -> u32 {
        self.wire_length
    }
}

impl<'a> Frame<'a> {
    /// A frame without an RSS hash.
    #[inline]
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
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.bytes
    }
}

/// Frames received together: 1 to [`BURST`], all of one link type.
#[derive(Clone, Copy, Debug)]
pub struct Burst<'a> {
    /// Link type of all frames.
    pub link: LinkType,
    /// The frames, in the order of arrival.
    pub frames: &'a [Frame<'a>],
}

/// Number and size of frames received together, without the frames themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BurstCount {
    /// Frames, 1 to [`BURST_COUNT_MAX`].
    pub frames: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
}

impl From<Burst<'_>> for BurstCount {
    fn from(burst: Burst<'_>) -> Self {
        let lengths = burst.frames.iter();
        Self {
            frames: burst.frames.len() as u64,
            bytes: lengths.map(|frame| u64::from(frame.wire_length)).sum(),
        }
    }
}

/// The result of one [`Port::receive`] or [`Port::receive_count`].
#[derive(Debug)]
pub enum Received<B> {
    /// Frames, valid until the next call.
    Burst(B),
    /// No frames arrived within the port's wait time.
    Idle,
    /// A part of the input is unreadable; the message is one line. All frames before it have been
    /// delivered and [`Counters::faults`] has counted it. The port continues with what follows (the
    /// next file, for example) or returns [`Received::End`].
    Fault(String),
    /// No more frames will come.
    End,
}

impl<B> Received<B> {
    /// Converts the frames with `change` and leaves the other variants as they are.
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

/// The packet accounting of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames delivered by [`Port::receive`] or [`Port::receive_count`].
    pub frames: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Frames that the kernel dropped because the receive ring was full.
    pub dropped: u64,
    /// Frames that the device dropped because its receive queue was full.
    pub missed: u64,
    /// Frames that the device dropped because no buffer was free.
    pub no_buffer: u64,
    /// Frames with receive errors, which the device discarded.
    pub errors: u64,
    /// Frames dropped because the capture buffer after the port was full.
    pub overflow: u64,
    /// Their bytes on the wire.
    pub overflow_bytes: u64,
    /// The device's own count of the frames it delivered, if it keeps one.
    pub device: Option<DeviceCounters>,
    /// Bytes of `size` read so far, for a progress bar (files only; compressed bytes if the file is
    /// compressed).
    pub position: u64,
    /// Size of the input in bytes, 0 if unknown.
    pub size: u64,
    /// Unreadable parts of the input: an invalid length, a truncated packet, a file of a sequence that
    /// could not be opened.
    pub faults: u64,
    /// Invalid snaplens in headers of the input, and frames longer than their snaplen.
    pub snaplen_errors: SnaplenErrors,
    /// Frames that a filter rejected; not in `frames`.
    pub filtered: u64,
    /// Their bytes on the wire.
    pub filtered_bytes: u64,
}

/// The packet accounting of one of several joined inputs (see [`Joined`](crate::Joined)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputCounters {
    /// Name of the input.
    pub name: String,
    /// Frames that the input delivered.
    pub received: u64,
    /// Frames of these that were passed on, in time order. The others were still held when the run
    /// ended.
    pub delivered: u64,
    /// Bytes on the wire of the frames passed on.
    pub bytes: u64,
    /// Frames that the kernel or the device dropped, for any reason.
    pub dropped: u64,
    /// Unreadable parts of the input.
    pub faults: u64,
    /// Frames before which the same input had delivered one with a later timestamp.
    pub out_of_order: u64,
    /// Frames that came after a frame of another input with a later timestamp had been passed on.
    pub late: u64,
}

/// Snaplens in capture file headers that are wrong. Frames are read by their own lengths all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnaplenErrors {
    /// Headers of files or interfaces with a snaplen greater than any frame; it is treated as no limit.
    pub invalid: u64,
    /// The largest invalid snaplen, in bytes.
    pub invalid_max: u32,
    /// Frames with more captured bytes than the snaplen in their header.
    pub exceeded: u64,
}

impl AddAssign<Self> for SnaplenErrors {
    fn add_assign(&mut self, other: Self) {
        self.invalid += other.invalid;
        self.invalid_max = self.invalid_max.max(other.invalid_max);
        self.exceeded += other.exceeded;
    }
}

/// A device's own count of the frames it delivered, to compare with the port's count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Frames.
    pub frames: u64,
    /// Their bytes, as the device counts them (with or without the frame check sequence).
    pub bytes: u64,
}

/// Whether a device distributes frames to its queues by a hash (receive-side scaling, RSS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rss {
    /// The device does not support RSS.
    NotOffered,
    /// The device supports RSS, but not over the requested fields.
    Offered,
    /// RSS is configured over the requested fields.
    Configured {
        /// Whether both directions of a flow have the same hash. Such a hash has 16 bits of entropy.
        symmetric: bool,
    },
}

impl Rss {
    /// The name in summaries.
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

/// Why a port cannot be opened or cannot continue. Messages are one line.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// A permission is missing; the message ends with the command that grants it.
    #[error("{0}")]
    Permission(String),
    /// The reader of a pipe has closed it. Not a failure: `| head` does so.
    #[error("{0}: broken pipe, its reader has closed it")]
    BrokenPipe(String),
    /// Any other failure: the message says what failed and what to do.
    #[error("{0}")]
    Failed(String),
}

/// A source of frames. A port around another port implements [`Wrapper`](crate::Wrapper) instead.
pub trait Port: Send {
    /// Returns the next frames; waits a short time if there are none yet.
    ///
    /// # Errors
    /// If the port cannot continue. All frames before the error have been delivered.
    fn receive(&mut self) -> Result<Received<Burst<'_>>, PortError>;

    /// Receives and counts the next frames without describing each of them. Faster than
    /// [`Port::receive`] where only the totals are needed.
    ///
    /// # Errors
    /// As [`Port::receive`].
    fn receive_count(&mut self) -> Result<Received<BurstCount>, PortError> {
        Ok(self.receive()?.map(BurstCount::from))
    }

    /// Returns the counters since the port was opened.
    fn counters(&mut self) -> Counters;

    /// The name of the input for messages: a file's path, an interface's name.
    fn name(&self) -> &str;

    /// The RSS key, if [`Frame::rss_hash`] of every unfragmented TCP or UDP packet over IPv4 that has a
    /// hash is known to be the Toeplitz hash of addresses and ports under this key.
    fn rss_key(&self) -> Option<&[u8]> {
        None
    }

    /// Frames in the device's receive queue now, if the port knows.
    fn occupancy(&mut self) -> Option<usize> {
        None
    }

    /// Capacity of the device's receive queue in frames, if the port knows. If it depends on their
    /// lengths, an estimate from the frames received so far.
    fn queue_size(&self) -> Option<usize> {
        None
    }

    /// Memory of the receive queue that this process maps, in bytes; 0 if the port has none.
    fn memory_bytes(&self) -> usize {
        0
    }

    /// Whether all frames of a burst have one timestamp, the time at which the burst was read, because
    /// the source does not timestamp each frame on arrival.
    fn has_burst_timestamps(&self) -> bool {
        false
    }

    /// Stops a live source: frames that arrive after this call are neither delivered nor counted; those
    /// that arrived before it are still delivered, then [`Received::End`] follows. A file ends at once.
    fn stop(&mut self) {}

    /// The RSS configuration of the device, if known.
    fn rss(&self) -> Option<Rss> {
        None
    }

    /// The accounting of each input, if the port joins several.
    fn inputs(&mut self) -> Vec<InputCounters> {
        Vec::new()
    }
}
