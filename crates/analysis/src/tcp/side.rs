//! State of one side of a TCP flow, and what records show of it.

use super::flag;
use super::rtt::{RttStats, SmoothedRtt};
use super::sent::SentList;
use super::span::Nanos48;

/// State of one side of a TCP flow.
///
/// It takes four cache lines, the most used first: the counters of every packet, the segments in
/// flight, the end of that list with timestamps, and round trips. Minima are stored as complements (the
/// type's maximum minus the value), so that zero means that there is none yet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(64))]
pub struct TcpSide {
    /// The sequence number after the highest byte seen.
    pub(super) next: u32,
    /// The highest acknowledgement number of the peer.
    pub(super) acknowledged: u32,
    /// The sequence number of the first data byte.
    pub(super) start: u32,
    /// Bits of [`flag`].
    pub flags: u16,
    /// Duplicate ACKs that the peer has sent since it last acknowledged new data.
    pub(super) duplicate_acks: u8,
    /// Window scale of the SYN in the upper four bits, the one in use in the lower four.
    pub(super) window_scales: u8,
    pub(super) window_min_complement: u32,
    pub(super) window_max: u32,
    /// Maximum number of bytes in flight: seen by the probe, not acknowledged yet.
    pub(super) in_flight_max: u32,
    /// Bytes sent before the first of them was acknowledged.
    pub(super) in_flight_initial: u32,
    /// Packets with ACK.
    pub acks: u32,
    /// Packets with ACK and without payload, SYN, FIN and RST.
    pub pure_acks: u32,
    /// Packets with PSH.
    pub pushes: u32,
    /// Payload bytes of the largest segment in sequence, at most 65,535.
    pub segment_max: u16,
    /// Payload bytes of the smallest segment in sequence that has payload.
    pub(super) segment_min_complement: u16,
    /// The last window, not scaled.
    pub(super) window: u16,
    /// Maximum segment size option of the SYN, 0 if it has none.
    pub mss: u16,
    /// Handle of the cold state.
    pub cold: u32,
    pub(super) sent: SentList,
    /// The timestamp that waits for its echo, with [`flag::TIMESTAMP_PENDING`].
    pub(super) pending_timestamp: u32,
    pub(super) last_timestamp: u32,
    pub(super) pending_timestamp_time: Nanos48,
    /// Time of the last SYN or SYN-ACK or, with [`flag::HANDSHAKE_TIMED`], the time until it was answered.
    pub(super) handshake: Nanos48,
    /// Bits of [`limit`](super::limit).
    pub limits: u8,
    /// TCP flags that the side has sent at least once.
    pub(super) tcp_flags_seen: u8,
    /// Packets with SYN.
    pub syns: u16,
    pub(super) srtt: SmoothedRtt,
    /// Round trips from the probe to the peer and back, measured by acknowledgements.
    pub rtt: RttStats,
    /// Round trips from the probe to the peer and back, measured by timestamps.
    pub timestamp_rtt: RttStats,
}

/// Bytes of a cache line.
pub(super) const CACHE_LINE: usize = 64;

// `Tcp::LINE_OFFSETS` relies on this layout.
const _: () = {
    assert!(size_of::<TcpSide>() == 4 * CACHE_LINE);
    assert!(std::mem::offset_of!(TcpSide, rtt) == 3 * CACHE_LINE);
};

/// Number of bits of a window scale in [`TcpSide::window_scales`].
pub(super) const SCALE_BITS: u32 = 4;

/// Mask of the window scale in use in [`TcpSide::window_scales`].
pub(super) const SCALE_IN_USE: u8 = (1 << SCALE_BITS) - 1;

impl TcpSide {
    /// Returns the window scale in the side's SYN.
    #[must_use]
    pub const fn window_scale(&self) -> u8 {
        self.window_scales >> SCALE_BITS
    }

    /// Returns whether the side advertised a window in this record.
    const fn has_window(&self) -> bool {
        self.flags & flag::WINDOW_SEEN != 0
            && u32::MAX - self.window_min_complement <= self.window_max
    }

    /// Returns whether the side's window is closed.
    pub(super) fn has_zero_window(&self) -> bool {
        self.flags & flag::WINDOW_SEEN != 0 && self.window == 0
    }

    /// Returns the smallest window in bytes, if the side advertised any.
    #[must_use]
    pub fn window_min(&self) -> Option<u32> {
        self.has_window()
            .then_some(u32::MAX - self.window_min_complement)
    }

    /// Returns the largest window in bytes, if the side advertised any.
    #[must_use]
    pub fn window_max(&self) -> Option<u32> {
        self.has_window().then_some(self.window_max)
    }

    /// Returns the payload bytes of the smallest segment in sequence that has payload, if there is one.
    #[must_use]
    pub fn segment_min(&self) -> Option<u16> {
        (self.segment_max > 0).then(|| u16::MAX - self.segment_min_complement)
    }

    /// Returns the maximum number of bytes in flight. `None` if the probe saw no acknowledgement: then
    /// the probe cannot know which bytes were in flight.
    #[must_use]
    pub fn in_flight_max(&self) -> Option<u32> {
        (self.flags & flag::ACKNOWLEDGED != 0).then_some(self.in_flight_max)
    }

    /// Returns the bytes sent before the first of them was acknowledged. `None` if the probe saw no
    /// acknowledgement.
    #[must_use]
    pub fn in_flight_initial(&self) -> Option<u32> {
        (self.flags & flag::ACKNOWLEDGED != 0).then_some(self.in_flight_initial)
    }

    /// Returns the round trips measured by acknowledgements.
    #[must_use]
    pub const fn round_trips(&self) -> &RttStats {
        &self.rtt
    }
}
