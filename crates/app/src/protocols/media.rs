//! Media sessions: RTP, and the DTLS handshake that may come before it on the same ports. They are
//! distinguished by their first byte (RFC 7983), packet by packet, because either may come first, and
//! any number of STUN packets before and between them.

pub(crate) mod extra;

use crate::parser::{Context, Parser, Probe, Verdict};
use crate::payload::L4Payload;
use crate::protocols::dtls::{self, state::DtlsState};
use crate::protocols::rtp::{RtpState, RtpVerdict, may_be_rtp, source::RtpSource};
use crate::record::{AppRecord, Incomplete};
use crate::services::Services;

/// A media session, or a flow with only one of its protocols. A flow with both has the handshake in an
/// [`MediaExtra`](extra::MediaExtra).
#[derive(Debug)]
pub(crate) enum MediaState {
    /// Nothing yet.
    New,
    /// DTLS only.
    Dtls(DtlsState),
    /// RTP, or what may be RTP.
    Rtp {
        /// Its sources.
        rtp: RtpState,
        /// Handle of further state, 0 if there is none.
        extra: u32,
        /// Whether the further state has a handshake that is not complete.
        is_partial: bool,
    },
}

/// Whether a datagram is RTP or RTCP by its first byte (RFC 7983 section 7).
fn is_rtp_byte(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first >> 6 == 2)
}

impl Parser for MediaState {
    fn probe(packet: &L4Payload<'_>, bytes: &[u8], _is_start: bool) -> Probe {
        match dtls::is_hello(bytes) || may_be_rtp(bytes, packet.payload_length as usize) {
            true => Probe::Yes,
            false => Probe::No,
        }
    }

    fn start(_: &mut Services) -> Self {
        Self::New
    }

    fn segment(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Verdict {
        let is_rtp = is_rtp_byte(bytes);
        match self {
            Self::New if is_rtp => *self = Self::rtp(),
            Self::New => *self = Self::Dtls(DtlsState::default()),
            Self::Dtls(_) if is_rtp => {
                if !may_be_rtp(bytes, cx.packet.payload_length as usize) {
                    return Verdict::Consumed(bytes.len());
                }
                if !self.add_rtp(cx) {
                    cx.common.incomplete.add(Incomplete::STATES);
                    return Verdict::Consumed(bytes.len());
                }
            }
            Self::Dtls(_) => {}
            Self::Rtp { rtp, extra, .. } => {
                let has_handshake = *extra != 0;
                let is_long_quic = bytes.first().is_some_and(|first| first >> 6 == 3);
                if is_long_quic && !has_handshake && !rtp.is_confirmed() {
                    // A long header of QUIC, for example, behind a packet that looked like RTP.
                    return self.forget(cx, Verdict::Reprobe);
                }
            }
        }
        match self {
            Self::Dtls(dtls) => dtls.read(cx, bytes),
            _ if dtls::has_record_byte(bytes) => self.read_dtls(cx, bytes),
            _ => return self.read_rtp(cx, bytes),
        }
        Verdict::Consumed(bytes.len())
    }

    fn evict(&mut self, cx: &mut Context<'_>, bytes: &[u8]) {
        self.with_dtls(cx, |dtls, cx| dtls.evict(cx, bytes));
    }

    fn release(&mut self, services: &mut Services) {
        match self {
            Self::New => {}
            Self::Dtls(dtls) => dtls.release(services),
            Self::Rtp { extra, .. } => {
                let Some(state) = services.media.get_mut(*extra) else {
                    return;
                };
                let mut dtls = std::mem::take(&mut state.dtls);
                dtls.release(services);
                if let Some(state) = services.media.get_mut(*extra) {
                    state.dtls = dtls;
                }
            }
        }
    }

    fn is_partial(&self) -> bool {
        match self {
            Self::New => false,
            Self::Dtls(dtls) => dtls.is_partial(),
            Self::Rtp { is_partial, .. } => *is_partial,
        }
    }

    /// Keeps the handshake for the next record, and identifies the sources anew.
    fn snapshot(&mut self, cx: &mut Context<'_>, record: &mut AppRecord) {
        self.write_rtp(cx, record);
        self.with_dtls(cx, |dtls, cx| dtls.snapshot(cx, record));
        self.keep_dtls(cx.services);
    }

    fn finish(&mut self, cx: &mut Context<'_>, record: &mut AppRecord) {
        self.write_rtp(cx, record);
        self.with_dtls(cx, |dtls, cx| dtls.finish(cx, record));
        self.keep_dtls(cx.services);
    }
}

impl MediaState {
    fn rtp() -> Self {
        Self::Rtp {
            rtp: RtpState::default(),
            extra: 0,
            is_partial: false,
        }
    }

    /// Adds RTP to a flow of DTLS. Returns false if there is no memory for both.
    #[inline(never)]
    fn add_rtp(&mut self, cx: &mut Context<'_>) -> bool {
        let handle = cx.services.media.allocate();
        let Some(state) = cx.services.media.get_mut(handle) else {
            return false;
        };
        if let Self::Dtls(dtls) = std::mem::replace(self, Self::rtp()) {
            let partial = dtls.is_partial();
            state.dtls = dtls;
            if let Self::Rtp {
                extra, is_partial, ..
            } = self
            {
                (*extra, *is_partial) = (handle, partial);
            }
        }
        true
    }

    /// Reads a datagram of DTLS in a flow that has RTP.
    #[inline(never)]
    fn read_dtls(&mut self, cx: &mut Context<'_>, bytes: &[u8]) {
        let Self::Rtp { extra, .. } = self else {
            return;
        };
        let is_started = cx
            .services
            .media
            .get(*extra)
            .is_some_and(|state| state.dtls.is_started());
        if !is_started {
            if !dtls::is_hello(bytes) {
                return;
            }
            if *extra == 0 {
                *extra = cx.services.media.allocate();
            }
            if *extra == 0 {
                cx.common.incomplete.add(Incomplete::STATES);
                return;
            }
        }
        self.with_dtls(cx, |dtls, cx| dtls.read(cx, bytes));
    }

    /// Reads a datagram of RTP or RTCP, or one of an unknown protocol between them.
    fn read_rtp(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Verdict {
        let Self::Rtp { rtp, extra, .. } = self else {
            return Verdict::Consumed(bytes.len());
        };
        let packets = cx.common.packets;
        let pool = &mut cx.services.media;
        let sources: &mut [RtpSource] = match pool.get_mut(*extra) {
            Some(state) => &mut state.sources,
            None => &mut [],
        };
        let mut verdict = rtp.read(sources, true, packets, cx.packet);
        if verdict == RtpVerdict::NeedsExtra {
            *extra = pool.allocate();
            let sources: &mut [RtpSource] = match pool.get_mut(*extra) {
                Some(state) => &mut state.sources,
                None => &mut [],
            };
            verdict = rtp.read(sources, false, packets, cx.packet);
            if *extra == 0 && rtp.is_confirmed() {
                cx.common.incomplete.add(Incomplete::STATES);
            }
        }
        match verdict {
            RtpVerdict::Full => cx.common.incomplete.add(Incomplete::WORK),
            RtpVerdict::NotRtp => return self.forget(cx, Verdict::Forget),
            RtpVerdict::Read | RtpVerdict::NeedsExtra => {}
        }
        Verdict::Consumed(bytes.len())
    }

    /// Forgets RTP, which the flow does not have. Returns `otherwise` if it has no handshake either.
    #[inline(never)]
    fn forget(&mut self, cx: &mut Context<'_>, otherwise: Verdict) -> Verdict {
        self.keep_dtls(cx.services);
        match self {
            Self::Dtls(_) => Verdict::Consumed(cx.packet.payload.len()),
            _ => otherwise,
        }
    }

    /// Releases the further state. The handshake in it remains.
    fn keep_dtls(&mut self, services: &mut Services) {
        let Self::Rtp { extra, .. } = self else {
            return;
        };
        let handle = *extra;
        *self = Self::New;
        if let Some(state) = services.media.get_mut(handle) {
            let dtls = std::mem::take(&mut state.dtls);
            if dtls.is_started() {
                *self = Self::Dtls(dtls);
            }
            services.media.free(handle);
        }
    }

    /// Calls `work` with the handshake, if there is one.
    fn with_dtls(
        &mut self,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut DtlsState, &mut Context<'_>),
    ) {
        match self {
            Self::New => {}
            Self::Dtls(dtls) => work(dtls, cx),
            Self::Rtp {
                extra, is_partial, ..
            } => {
                let Some(state) = cx.services.media.get_mut(*extra) else {
                    return;
                };
                let mut dtls = std::mem::take(&mut state.dtls);
                work(&mut dtls, cx);
                *is_partial = dtls.is_partial();
                if let Some(state) = cx.services.media.get_mut(*extra) {
                    state.dtls = dtls;
                }
            }
        }
    }

    fn write_rtp(&self, cx: &Context<'_>, record: &mut AppRecord) {
        if let Self::Rtp { rtp, extra, .. } = self {
            let sources: &[RtpSource] = match cx.services.media.get(*extra) {
                Some(state) => &state.sources,
                None => &[],
            };
            record.rtp = [0, 1].map(|direction| rtp.record(sources, direction));
        }
    }
}
