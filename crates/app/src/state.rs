//! What is kept of a flow while it may still tell something.

use super::TCP_TRIES;
use super::record::Cut;
use super::text_pool::Text;
use crate::message::http::Method;
use hw::pool::Linked;
use wire::tcp::flag;

/// A time or a span in nanoseconds, anywhere in memory: states are packed close.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Nanoseconds([u8; 8]);

impl Nanoseconds {
    /// A time that is not known, in nanoseconds: no packet's.
    pub(super) const UNKNOWN: i64 = i64::MIN;

    pub(super) const fn new(nanoseconds: i64) -> Self {
        Self(nanoseconds.to_ne_bytes())
    }

    pub(super) const fn get(self) -> i64 {
        i64::from_ne_bytes(self.0)
    }

    /// From this time to `later`; nothing where the clock went back, not known where this time is not.
    pub(super) fn until(self, later: i64) -> Self {
        match self.get() {
            Self::UNKNOWN => self,
            time => Self::new(later.saturating_sub(time).max(0)),
        }
    }

    /// A span from a time that may not be known.
    pub(super) fn known_span(self) -> Option<u64> {
        (self.get() != Self::UNKNOWN).then(|| self.span())
    }

    /// A span, which is never less than nothing.
    pub(super) const fn span(self) -> u64 {
        self.get().cast_unsigned()
    }
}

/// Bits that say yes or no.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks(u16);

impl Marks {
    #[inline]
    pub(super) const fn has(self, mark: u16) -> bool {
        self.0 & mark != 0
    }

    #[inline]
    pub(super) const fn set(&mut self, mark: u16) {
        self.0 |= mark;
    }

    #[inline]
    pub(super) const fn put(&mut self, mark: u16, yes: bool) {
        self.0 = self.0 & !mark | if yes { mark } else { 0 };
    }
}

/// A flow: one place for all that names keep of it.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Flow {
    pub(super) common: Common,
    pub(super) state: State,
}

impl Linked for Flow {
    fn link(&mut self) -> &mut u32 {
        &mut self.common.resolved_age_us
    }
}

/// What any flow has.
#[derive(Debug, Default)]
pub(super) struct Common {
    /// Name that the initiator had resolved, and its age.
    pub(super) resolved: Text,
    pub(super) resolved_age_us: u32,
    /// Class of application by the first bytes, counted from 1; 0 for none.
    pub(super) class: u16,
    /// Packets with payload, up to 255.
    pub(super) packets: u8,
    /// What a limit cut.
    pub(super) cut: Cut,
}

/// What a flow has besides, by what it is.
#[derive(Debug, Default)]
pub(super) enum State {
    /// Not known, and no TCP.
    #[default]
    Unknown,
    /// TCP.
    Tcp(TcpState),
    /// DNS over UDP.
    Dns(DnsState),
    /// QUIC.
    Quic(QuicState),
    /// RTP, perhaps.
    Rtp(RtpState),
}

/// A segment, as far as it must be known to pass it over.
#[derive(Clone, Copy)]
pub(super) struct Passing {
    pub(super) direction: u8,
    pub(super) tcp_flags: u8,
    pub(super) sequence: u32,
    pub(super) payload_length: u32,
}

impl Flow {
    /// Whether half of a handshake of TLS or QUIC is in a buffer, or a ClientHello of TLS waits for its
    /// answer.
    pub(super) fn is_half_read(&self) -> bool {
        match &self.state {
            State::Tcp(tcp) => {
                let is_asked = tcp.protocol == Protocol::Tls
                    && tcp.tls.marks.has(mark::CLIENT_HELLO)
                    && !tcp.tls.marks.has(mark::SERVER_HELLO);
                let is_kept = tcp.sides.iter().any(|side| side.assembly != 0);
                is_asked || is_kept && matches!(tcp.protocol, Protocol::Unknown | Protocol::Tls)
            }
            State::Quic(quic) => quic.assembly != 0,
            State::Unknown | State::Dns(_) | State::Rtp(_) => false,
        }
    }

    /// Counts a segment with payload none of which is to be read; false if some may be. `may_begin`:
    /// whether a protocol may begin with its payload.
    #[inline]
    pub(super) fn pass_over(&mut self, passing: Passing, may_begin: impl FnOnce() -> bool) -> bool {
        let State::Tcp(tcp) = &mut self.state else {
            return false;
        };
        if passing.tcp_flags & flag::SYN != 0 {
            return false;
        }
        let side = &mut tcp.sides[usize::from(passing.direction & 1)];
        if !side.is(side::CLOSED) {
            let next =
                side.is(side::KNOWN) && side.assembly == 0 && side.expected == passing.sequence;
            if !next {
                return false;
            }
            if tcp.protocol == Protocol::Unknown {
                let last_try = self.common.packets >= TCP_TRIES - 1;
                if last_try || !side.is(side::COMPARED) || may_begin() {
                    return false;
                }
            } else if side.skip < passing.payload_length {
                return false;
            } else {
                side.skip -= passing.payload_length;
            }
            side.expected = side.expected.wrapping_add(passing.payload_length);
        }
        self.common.packets = self.common.packets.saturating_add(1);
        true
    }
}

/// What a TCP stream is read as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Not known yet.
    #[default]
    Unknown,
    /// TLS, from the start or after another protocol.
    Tls,
    /// HTTP/1.
    Http,
    /// DNS.
    Dns,
}

/// Bits of a [`Side`].
pub(super) mod side {
    /// `expected` is known.
    pub(crate) const KNOWN: u8 = 1;
    /// It is known from a SYN.
    pub(crate) const FROM_SYN: u8 = 2;
    /// Nothing more is to be read.
    pub(crate) const CLOSED: u8 = 4;
    /// The first bytes have been compared with the table of applications.
    pub(crate) const COMPARED: u8 = 8;
    /// It is of another connection than the one before on the same ports, and no TLS was read of it yet.
    pub(crate) const ANOTHER: u8 = 16;
}

/// One direction of a TCP stream.
#[derive(Debug, Default)]
pub(super) struct Side {
    /// Sequence number of the next byte to read.
    pub(super) expected: u32,
    /// Bytes from there on that are of no interest.
    pub(super) skip: u32,
    /// Stream that is put together, 0 for none.
    pub(super) assembly: u16,
    /// Packets for which a gap has been waited out.
    pub(super) waited: u8,
    /// Bits of [`side`].
    marks: u8,
}

impl Side {
    #[inline]
    pub(super) const fn is(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }

    #[inline]
    pub(super) const fn set(&mut self, mark: u8) {
        self.marks |= mark;
    }

    /// Forgets the place in the stream, and the buffer: it goes on with whatever comes next.
    pub(super) const fn forget_place(&mut self) {
        self.assembly = 0;
        self.skip = 0;
        self.waited = 0;
        self.marks &= !(side::KNOWN | side::FROM_SYN);
    }

    /// It is of another connection from now on.
    pub(super) const fn leave_connection(&mut self) {
        self.marks = self.marks & !(side::COMPARED | side::CLOSED) | side::ANOTHER;
    }

    /// Whether it is of another connection than what was known of its TLS; once.
    pub(super) const fn take_another(&mut self) -> bool {
        let is_another = self.is(side::ANOTHER);
        self.marks &= !side::ANOTHER;
        is_another
    }

    /// Notes the sequence number behind a SYN.
    pub(super) const fn begin(&mut self, expected: u32) {
        self.expected = expected;
        self.marks |= side::KNOWN | side::FROM_SYN;
    }
}

/// A TCP flow: its streams, TLS, and the protocol besides (HTTP before TLS, through a proxy).
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct TcpState {
    pub(super) sides: [Side; 2],
    /// What the next bytes are read as: beside the sides, since every packet asks for both.
    pub(super) protocol: Protocol,
    /// A digest of the sequence number behind the SYN of each side.
    pub(super) starts: [u8; 2],
    pub(super) tls: TlsState,
    pub(super) messages: Messages,
}

/// Messages in a TCP stream.
#[derive(Debug, Default)]
pub(super) enum Messages {
    /// None that are read.
    #[default]
    None,
    /// HTTP/1.
    Http(HttpState),
    /// DNS.
    Dns(DnsState),
}

/// Bits of TLS and QUIC.
pub(super) mod mark {
    /// The client offers Encrypted Client Hello.
    pub(crate) const ECH_OFFERED: u16 = 1;
    /// The client offers to resume a session.
    pub(crate) const RESUMPTION_OFFERED: u16 = 1 << 1;
    /// The initiator's packets are the server's.
    pub(crate) const CLIENT_IS_1: u16 = 1 << 2;
    /// A ClientHello was read.
    pub(crate) const CLIENT_HELLO: u16 = 1 << 3;
    /// A ServerHello was read (TLS).
    pub(crate) const SERVER_HELLO: u16 = 1 << 4;
    /// The set-up time is known (TLS).
    pub(crate) const SETUP: u16 = 1 << 5;
    /// The server took a session up (TLS).
    pub(crate) const RESUMED: u16 = 1 << 6;
    /// An Initial packet of the client was opened (QUIC).
    pub(crate) const CLIENT: u16 = 1 << 7;
    /// The client's handshake message was read, whatever it was (QUIC).
    pub(crate) const HELLO: u16 = 1 << 8;
    /// The handshake's round trip is known (QUIC).
    pub(crate) const RTT: u16 = 1 << 9;
    /// 0-RTT packets (QUIC).
    pub(crate) const ZERO_RTT: u16 = 1 << 10;
    /// A Retry packet (QUIC).
    pub(crate) const RETRY: u16 = 1 << 11;
    /// Keys are derived from another connection id than the original one (QUIC).
    pub(crate) const RETRIED: u16 = 1 << 12;
    /// Version Negotiation (QUIC).
    pub(crate) const NEGOTIATION: u16 = 1 << 13;
    /// An edge of the spin bit was seen (QUIC).
    pub(crate) const SPIN: u16 = 1 << 14;
    /// The ClientHello that was read lacks its end.
    pub(crate) const HELLO_CUT: u16 = 1 << 15;
}

impl Marks {
    /// The direction of the client's packets.
    #[inline]
    pub(super) fn client(self) -> u8 {
        u8::from(self.has(mark::CLIENT_IS_1))
    }
}

/// Texts of a ClientHello.
#[derive(Debug, Default)]
pub(super) struct Hello {
    pub(super) server_name: Text,
    pub(super) alpn_offered: Text,
    pub(super) versions_offered: Text,
    pub(super) ja4: Text,
}

/// A TLS handshake.
#[derive(Debug, Default)]
pub(super) struct TlsState {
    pub(super) hello: Hello,
    pub(super) alpn_chosen: Text,
    pub(super) subject: Text,
    pub(super) issuer: Text,
    /// Digest of the session id in the hello that came first, 0 for none.
    pub(super) session: u32,
    pub(super) version: u16,
    pub(super) cipher: u16,
    /// Bits of [`mark`].
    pub(super) marks: Marks,
    /// Time of the ClientHello, then, with [`mark::SETUP`], how long the set-up took.
    pub(super) time: Nanoseconds,
}

impl TlsState {
    /// Whether there is a hello to be told, of whichever connection of the flow.
    pub(super) const fn has_hello(&self) -> bool {
        self.marks.has(mark::CLIENT_HELLO) || self.marks.has(mark::SERVER_HELLO)
    }

    pub(super) fn texts(&mut self) -> [&mut Text; 7] {
        let Hello {
            server_name,
            alpn_offered,
            versions_offered,
            ja4,
        } = &mut self.hello;
        [
            server_name,
            alpn_offered,
            versions_offered,
            ja4,
            &mut self.alpn_chosen,
            &mut self.subject,
            &mut self.issuer,
        ]
    }
}

/// HTTP/1 messages.
#[derive(Debug, Default)]
pub(super) struct HttpState {
    pub(super) method: Option<Method>,
    pub(super) host: Text,
    /// With [`Method::OTHER`], the method and a space before it.
    pub(super) target: Text,
    pub(super) user_agent: Text,
    pub(super) content_type: Text,
    pub(super) requests: u32,
    pub(super) responses: u32,
    /// Time of the first request, then, with `has_first_byte`, how long the first response took: not
    /// known where it came before.
    pub(super) time: Nanoseconds,
    pub(super) status: u16,
    pub(super) has_first_byte: bool,
    /// Whether the last request was HEAD or CONNECT, whose response has no body.
    pub(super) bodiless: bool,
}

/// DNS messages.
#[derive(Debug, Default)]
pub(super) struct DnsState {
    pub(super) query: Text,
    pub(super) addresses: Text,
    pub(super) queries: u32,
    pub(super) responses: u32,
    pub(super) ttl_s: u32,
    /// Time of the first query, then, with `has_latency`, how long its answer took; before any, of the
    /// first response.
    pub(super) time: Nanoseconds,
    pub(super) query_type: u16,
    pub(super) response_code: u16,
    pub(super) answers: u16,
    /// Of the first query, or of the first response where none was seen before it.
    pub(super) id: u16,
    /// The direction of that query.
    pub(super) asked_by: u8,
    pub(super) has_query: bool,
    /// Whether the answer to it was seen.
    pub(super) is_answered: bool,
    pub(super) has_ttl: bool,
    pub(super) has_latency: bool,
}

/// A connection id of QUIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ConnectionId {
    length: u8,
    bytes: [u8; crate::message::quic::CONNECTION_ID_MAX],
}

impl ConnectionId {
    pub(super) fn new(id: &[u8]) -> Self {
        let mut made = Self::default();
        if let Some(place) = made.bytes.get_mut(..id.len()) {
            place.copy_from_slice(id);
            made.length = id.len() as u8;
        }
        made
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// A QUIC connection.
#[derive(Debug, Default)]
pub(super) struct QuicState {
    pub(super) hello: Hello,
    pub(super) version: u32,
    /// CRYPTO frames of the client that are put together, 0 for none.
    pub(super) assembly: u16,
    /// Bits of [`mark`].
    pub(super) marks: Marks,
    /// Time of the client's last Initial packet, then, with [`mark::RTT`], the handshake's round
    /// trip.
    pub(super) time: Nanoseconds,
    pub(super) spin: Spin,
    /// Destination connection id of the client's first Initial packet.
    pub(super) original: ConnectionId,
    pub(super) client_id: ConnectionId,
    pub(super) server_id: ConnectionId,
    /// The spin bit's last value and, in the bit above it, the direction that is followed, plus
    /// one; 0 before any.
    pub(super) spin_bit: u8,
    /// Packets that could not be opened.
    pub(super) failures: u8,
    /// Where its keys are kept.
    pub(super) keys: u8,
}

impl QuicState {
    /// Whether Version Negotiation is all that was seen of it.
    pub(super) const fn has_but_negotiated(&self) -> bool {
        self.version == 0 && self.failures == 0 && !self.marks.has(mark::CLIENT)
    }
}

/// Round trips by QUIC's spin bit.
#[derive(Debug, Default)]
pub(super) struct Spin {
    pub(super) min_ns: u32,
    pub(super) count: u32,
    pub(super) sum: Nanoseconds,
    /// Time of the last edge.
    pub(super) edge: Nanoseconds,
}

impl Spin {
    /// Begins to count anew, from the last edge on.
    pub(super) fn begin_count(&mut self) {
        *self = Self {
            edge: self.edge,
            ..Self::default()
        };
    }
}

/// One direction of RTP.
#[derive(Debug, Default)]
pub(super) struct RtpSide {
    pub(super) ssrc: u32,
    pub(super) packets: u32,
    /// Highest sequence number, with the number of times that it wrapped in the upper half.
    pub(super) highest: u32,
    pub(super) timestamp: u32,
    /// Jitter, times 16.
    pub(super) jitter_16: Nanoseconds,
    pub(super) arrival: Nanoseconds,
    /// Packets that were expected before the source counted anew, and such as came behind the first
    /// although they were sent before it.
    pub(super) before: u32,
    /// Behind a number far off, the next one, with which it would count anew from there.
    pub(super) awaited: Option<u16>,
    /// The first sequence number since then.
    pub(super) first: u16,
    pub(super) out_of_order: u16,
    pub(super) rtcp: u16,
    pub(super) payload_type: u8,
    /// Consecutive packets so far, up to the number that makes it RTP.
    pub(super) run: u8,
    /// Whether the packet before has a time stamp to compare the next one's with.
    pub(super) is_timed: bool,
}

/// RTP in both directions.
#[derive(Debug, Default)]
pub(super) struct RtpState {
    pub(super) sides: [RtpSide; 2],
}

/// The most texts that one flow holds: the name resolved, and those of HTTP and TLS behind it.
pub(super) const TEXTS_MAX: usize = 1 + 4 + 3 + 4;
