//! Datagrams of a UDP flow.

use crate::message::media::is_companion;
use crate::message::rtp::is_rtcp;
use crate::parser::{Context, UDP_PROBE_PACKETS, Verdict};
use crate::payload::L4Payload;
use crate::protocols::{DatagramState, Detected};
use crate::services::Services;

/// Whether a datagram of a flow of no known protocol may be of one, or its first bytes are in the
/// table of applications.
pub(crate) fn may_match(services: &Services, datagram: &L4Payload<'_>) -> bool {
    match DatagramState::probe(datagram, datagram.payload, true, 0) {
        Detected::Protocol(_) | Detected::NeedMore => true,
        Detected::Reserved => false,
        Detected::None => services.applications.by_bytes(datagram.payload).is_some(),
    }
}

/// Whether a datagram counts as one of those that are probed. STUN, DTLS and RTCP do not: any number of
/// them may come before RTP, and they cost little.
pub(crate) fn is_probed(datagram: &L4Payload<'_>) -> bool {
    let length = datagram.payload_length as usize;
    length > 0 && !is_companion(datagram.payload, length) && !is_rtcp(datagram.payload, length)
}

/// Reads a datagram. Returns false if the flow needs no more packets.
pub(crate) fn read(state: &mut DatagramState, cx: &mut Context<'_>) -> bool {
    if cx.packet.payload_length == 0 {
        return true;
    }
    // With 255, nothing depends on the number.
    if cx.common.packets < u8::MAX && is_probed(cx.packet) {
        cx.common.packets += 1;
    }
    let is_known = !state.is_unknown();
    if is_known && let Some(needs_more) = read_known(state, cx) {
        return needs_more;
    }
    match DatagramState::probe(cx.packet, cx.packet.payload, true, 0) {
        Detected::Protocol(start) => *state = start(cx.services),
        Detected::None => cx.classify_by_bytes(cx.packet.payload),
        Detected::NeedMore | Detected::Reserved => {}
    }
    let is_known = !state.is_unknown();
    if is_known && let Some(needs_more) = read_known(state, cx) {
        return needs_more;
    }
    cx.common.packets < UDP_PROBE_PACKETS
}

/// Reads a datagram of a known protocol. Returns whether the flow needs more packets, or `None` if the
/// datagram must be probed again.
fn read_known(state: &mut DatagramState, cx: &mut Context<'_>) -> Option<bool> {
    match state.segment(cx, cx.packet.payload) {
        Verdict::NeedMore | Verdict::Consumed(_) => Some(true),
        Verdict::Done | Verdict::StartTls => Some(false),
        Verdict::Forget => {
            *state = DatagramState::Unknown;
            Some(cx.common.packets < UDP_PROBE_PACKETS)
        }
        Verdict::Reprobe => {
            *state = DatagramState::Unknown;
            None
        }
    }
}
