//! What few media sessions need: both DTLS and RTP, or several sources in one direction.

use crate::protocols::dtls::state::DtlsState;
use crate::protocols::rtp::source::RtpSource;
use hw::pool::FreeListNode;

/// The most media sessions of a table that can have more than one protocol or source.
pub(crate) const EXTRAS_MAX: usize = 1 << 13;

/// Number of sources of a session beside the first one of each direction. A call with audio, video and
/// retransmissions of it has six in all.
pub(crate) const SOURCES: usize = 6;

/// Further state of a media session, in a pool of its own, so that it does not enlarge the state of
/// every flow.
#[derive(Debug, Default)]
pub(crate) struct MediaExtra {
    next_free: u32,
    /// The handshake, if the flow has one.
    pub(crate) dtls: DtlsState,
    /// Further sources, in both directions.
    pub(crate) sources: [RtpSource; SOURCES],
}

impl FreeListNode for MediaExtra {
    fn next_free(&mut self) -> &mut u32 {
        &mut self.next_free
    }
}
