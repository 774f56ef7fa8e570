//! Which resets end a connection.

use super::flag;
use super::side::{SCALE_IN_USE, TcpSide};
use super::update::JUMP_MAX;
use wire::PacketInfo;
use wire::tcp::flag::ACK;

/// The window in bytes of a peer that has advertised none yet, or whose scale is unknown because its SYN
/// was not seen, at least: the largest without a scale.
const WINDOW_UNKNOWN: u32 = u16::MAX as u32;

impl TcpSide {
    /// Returns whether the peer accepts this reset of the side (RFC 9293 section 3.5.3): its sequence
    /// number is in the peer's window or, if the side has not answered the peer's SYN yet, it acknowledges
    /// that. Anyone can forge a reset, but not easily one in the window.
    ///
    /// The peer may answer a reset within the window that is not the next number with a challenge ACK
    /// (section 3.10.7.4). The probe cannot know what is next for the peer, so it accepts the whole window.
    ///
    /// A reset that cannot be judged, because nothing of the connection was seen, is accepted.
    #[cold]
    #[inline(never)]
    pub(super) fn is_reset_accepted(&self, peer: &Self, segment: &PacketInfo) -> bool {
        if self.has_start() {
            return self.is_in_window(peer, segment.sequence);
        }
        if !peer.has_start() {
            return true;
        }
        // The SYN has the number before the start, and a FIN the one after the data.
        let acknowledged = segment.acknowledgement.wrapping_sub(peer.start);
        segment.tcp_flags & ACK != 0
            && acknowledged <= peer.next.wrapping_sub(peer.start).saturating_add(1)
    }

    /// Returns whether `sequence` is in the peer's window, as far as the probe knows it: from what the
    /// peer has acknowledged to the end of the window, or of what the side has sent.
    fn is_in_window(&self, peer: &Self, sequence: u32) -> bool {
        let first = if self.flags & flag::ACKNOWLEDGED != 0 {
            self.acknowledged
        } else {
            // The peer was not seen. It may have acknowledged anything but the SYN.
            let sent = self.next.wrapping_sub(self.start);
            let sent = sent.min(JUMP_MAX.cast_unsigned());
            self.next.wrapping_sub(sent)
        };
        const KNOWN: u16 = flag::WINDOW_SEEN | flag::SYN;
        let window = match peer.flags & KNOWN {
            KNOWN => u32::from(peer.window) << (peer.window_scales & SCALE_IN_USE),
            _ => WINDOW_UNKNOWN,
        };
        let sent = self.next.wrapping_sub(first);
        // A FIN takes one number more.
        sequence.wrapping_sub(first) <= sent.max(window).saturating_add(1)
    }
}
