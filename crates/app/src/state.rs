//! The state of a flow under inspection.

use super::TCP_PROBE_PACKETS;
use super::record::Incomplete;
use super::text_pool::TextId;
use crate::message::http::Method;
use hw::pool::FreeListNode;
use wire::tcp::flag;

/// A time or a duration in nanoseconds. It has no alignment, so that states need no padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Nanoseconds([u8; 8]);

impl Nanoseconds {
    /// Stands for an unknown time. No packet has this time.
    pub(super) const UNKNOWN: i64 = i64::MIN;

    pub(super) const fn new(nanoseconds: i64) -> Self {
        Self(nanoseconds.to_ne_bytes())
    }

    pub(super) const fn get(self) -> i64 {
        i64::from_ne_bytes(self.0)
    }

    /// The duration from this time to `later`: 0 if the clock went back, unknown if this time is
    /// unknown.
    pub(super) fn until(self, later: i64) -> Self {
        match self.get() {
            Self::UNKNOWN => self,
            time => Self::new(later.saturating_sub(time).max(0)),
        }
    }

    /// The duration, if it is known.
    pub(super) fn known_span(self) -> Option<u64> {
        (self.get() != Self::UNKNOWN).then(|| self.span())
    }

    /// The duration, which must be known.
    pub(super) const fn span(self) -> u64 {
        self.get().cast_unsigned()
    }
}

/// Bits of [`handshake_flag`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HandshakeFlags(u16);

impl HandshakeFlags {
    #[inline]
    pub(super) const fn has(self, flag: u16) -> bool {
        self.0 & flag != 0
    }

    #[inline]
    pub(super) const fn set(&mut self, flag: u16) {
        self.0 |= flag;
    }

    #[inline]
    pub(super) const fn put(&mut self, flag: u16, value: bool) {
        self.0 = self.0 & !flag | if value { flag } else { 0 };
    }
}

/// The state of a flow, the same size for all protocols.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct FlowState {
    pub(super) common: Common,
    pub(super) state: ProtocolState,
}

impl FreeListNode for FlowState {
    fn next_free(&mut self) -> &mut u32 {
        &mut self.common.resolved_age_us
    }
}

/// The part of the state that all flows have.
#[derive(Debug, Default)]
pub(super) struct Common {
    /// Name that the initiator had resolved.
    pub(super) resolved: TextId,
    /// Age of that name, in microseconds.
    pub(super) resolved_age_us: u32,
    /// Application class by the first bytes, plus 1; 0 if there is none.
    pub(super) class: u16,
    /// Number of packets with payload, up to 255.
    pub(super) packets: u8,
    /// Why the results are incomplete.
    pub(super) incomplete: Incomplete,
}

/// The part of the state that depends on the protocol.
#[derive(Debug, Default)]
pub(super) enum ProtocolState {
    /// No known protocol yet, and not TCP.
    #[default]
    Unknown,
    /// TCP.
    Tcp(TcpState),
    /// DNS over UDP.
    Dns(DnsState),
    /// QUIC.
    Quic(QuicState),
    /// Possibly RTP.
    Rtp(RtpState),
}

/// The header fields of a TCP segment that the fast path needs.
#[derive(Clone, Copy)]
pub(super) struct L4Header {
    pub(super) direction: u8,
    pub(super) tcp_flags: u8,
    pub(super) sequence: u32,
    pub(super) payload_length: u32,
}

impl FlowState {
    /// Whether part of a TLS or QUIC handshake is in a buffer, or a TLS ClientHello waits for its
    /// ServerHello.
    pub(super) fn has_partial_handshake(&self) -> bool {
        match &self.state {
            ProtocolState::Tcp(tcp) => {
                let is_waiting = tcp.protocol == StreamProtocol::Tls
                    && tcp.tls.flags.has(handshake_flag::CLIENT_HELLO)
                    && !tcp.tls.flags.has(handshake_flag::SERVER_HELLO);
                let is_buffered = tcp.sides.iter().any(|side| side.buffer != 0);
                is_waiting
                    || is_buffered
                        && matches!(tcp.protocol, StreamProtocol::Unknown | StreamProtocol::Tls)
            }
            ProtocolState::Quic(quic) => quic.buffer != 0,
            ProtocolState::Unknown | ProtocolState::Dns(_) | ProtocolState::Rtp(_) => false,
        }
    }

    /// Counts a segment with payload of which nothing needs to be parsed. Returns false if the
    /// segment may need parsing. `may_start` returns whether a message may start with its payload.
    #[inline]
    pub(super) fn try_skip(&mut self, header: L4Header, may_start: impl FnOnce() -> bool) -> bool {
        let ProtocolState::Tcp(tcp) = &mut self.state else {
            return false;
        };
        if header.tcp_flags & flag::SYN != 0 {
            return false;
        }
        let side = &mut tcp.sides[usize::from(header.direction & 1)];
        if !side.has(side_flag::DONE) {
            let is_next =
                side.has(side_flag::SYNCED) && side.buffer == 0 && side.expected == header.sequence;
            if !is_next {
                return false;
            }
            if tcp.protocol == StreamProtocol::Unknown {
                let last_try = self.common.packets >= TCP_PROBE_PACKETS - 1;
                if last_try || !side.has(side_flag::PROBED) || may_start() {
                    return false;
                }
            } else if side.skip < header.payload_length {
                return false;
            } else {
                side.skip -= header.payload_length;
            }
            side.expected = side.expected.wrapping_add(header.payload_length);
        }
        self.common.packets = self.common.packets.saturating_add(1);
        true
    }
}

/// The protocol of a TCP stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum StreamProtocol {
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

/// Flags of a [`Side`].
pub(super) mod side_flag {
    /// `expected` is known.
    pub(crate) const SYNCED: u8 = 1;
    /// `expected` is known from a SYN.
    pub(crate) const FROM_SYN: u8 = 2;
    /// No more segments need to be read.
    pub(crate) const DONE: u8 = 4;
    /// The first bytes were compared with the table of applications.
    pub(crate) const PROBED: u8 = 8;
    /// A new connection has started on the same ports, and no TLS of it was read yet.
    pub(crate) const NEW_CONNECTION: u8 = 16;
}

/// One direction of a TCP stream.
#[derive(Debug, Default)]
pub(super) struct Side {
    /// Sequence number of the next byte.
    pub(super) expected: u32,
    /// Number of bytes from there on that need no parsing.
    pub(super) skip: u32,
    /// Handle of the reassembly buffer, 0 if there is none.
    pub(super) buffer: u16,
    /// Number of packets since a gap opened.
    pub(super) gap_packets: u8,
    /// Flags of [`side_flag`].
    flags: u8,
}

impl Side {
    #[inline]
    pub(super) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    #[inline]
    pub(super) const fn set(&mut self, flag: u8) {
        self.flags |= flag;
    }

    /// Forgets the position in the stream and the buffer. The stream continues with the next segment
    /// that arrives.
    pub(super) const fn reset_position(&mut self) {
        self.buffer = 0;
        self.skip = 0;
        self.gap_packets = 0;
        self.flags &= !(side_flag::SYNCED | side_flag::FROM_SYN);
    }

    /// Marks that a new connection starts.
    pub(super) const fn start_new_connection(&mut self) {
        self.flags =
            self.flags & !(side_flag::PROBED | side_flag::DONE) | side_flag::NEW_CONNECTION;
    }

    /// Returns whether a new connection has started since the last call.
    pub(super) const fn take_new_connection(&mut self) -> bool {
        let is_another = self.has(side_flag::NEW_CONNECTION);
        self.flags &= !side_flag::NEW_CONNECTION;
        is_another
    }

    /// Sets the sequence number after a SYN.
    pub(super) const fn start_after_syn(&mut self, expected: u32) {
        self.expected = expected;
        self.flags |= side_flag::SYNCED | side_flag::FROM_SYN;
    }
}

/// A TCP flow: its streams, TLS, and the other protocol if it has two (HTTP before TLS, through a
/// proxy).
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct TcpState {
    pub(super) sides: [Side; 2],
    /// Protocol of the next bytes. It is next to `sides` because each packet reads both.
    pub(super) protocol: StreamProtocol,
    /// A digest of the sequence number after the SYN of each side.
    pub(super) start_digests: [u8; 2],
    pub(super) tls: TlsState,
    pub(super) messages: MessageState,
}

/// The state of the messages in a TCP stream.
#[derive(Debug, Default)]
pub(super) enum MessageState {
    /// No messages of a known protocol.
    #[default]
    None,
    /// HTTP/1.
    Http(HttpState),
    /// DNS.
    Dns(DnsState),
}

/// Flags of TLS and QUIC.
pub(super) mod handshake_flag {
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
    /// The setup time is known (TLS).
    pub(crate) const SETUP: u16 = 1 << 5;
    /// The server resumed a session (TLS).
    pub(crate) const RESUMED: u16 = 1 << 6;
    /// An Initial packet of the client was decrypted (QUIC).
    pub(crate) const CLIENT: u16 = 1 << 7;
    /// The client's first handshake message was read, whatever its type (QUIC).
    pub(crate) const HELLO: u16 = 1 << 8;
    /// The RTT of the handshake is known (QUIC).
    pub(crate) const RTT: u16 = 1 << 9;
    /// 0-RTT packets were seen (QUIC).
    pub(crate) const ZERO_RTT: u16 = 1 << 10;
    /// A Retry packet was seen (QUIC).
    pub(crate) const RETRY: u16 = 1 << 11;
    /// The keys are derived from a connection ID other than the original one (QUIC).
    pub(crate) const RETRIED: u16 = 1 << 12;
    /// A Version Negotiation packet was seen (QUIC).
    pub(crate) const NEGOTIATION: u16 = 1 << 13;
    /// An edge of the spin bit was seen (QUIC).
    pub(crate) const SPIN: u16 = 1 << 14;
    /// The end of the ClientHello is missing.
    pub(crate) const HELLO_CUT: u16 = 1 << 15;
}

impl HandshakeFlags {
    /// Direction of the client's packets.
    #[inline]
    pub(super) fn client(self) -> u8 {
        u8::from(self.has(handshake_flag::CLIENT_IS_1))
    }
}

/// Texts of a ClientHello.
#[derive(Debug, Default)]
pub(super) struct HelloTexts {
    pub(super) server_name: TextId,
    pub(super) alpn_offered: TextId,
    pub(super) versions_offered: TextId,
    pub(super) ja4: TextId,
}

/// A TLS handshake.
#[derive(Debug, Default)]
pub(super) struct TlsState {
    pub(super) hello: HelloTexts,
    pub(super) alpn_chosen: TextId,
    pub(super) subject: TextId,
    pub(super) issuer: TextId,
    /// Digest of the session ID in the first of the two hellos, 0 if it is empty.
    pub(super) session_digest: u32,
    pub(super) version: u16,
    pub(super) cipher: u16,
    /// Flags of [`handshake_flag`].
    pub(super) flags: HandshakeFlags,
    /// Time of the ClientHello; with [`handshake_flag::SETUP`], the setup time.
    pub(super) time: Nanoseconds,
}

impl TlsState {
    /// Whether a hello of any connection of the flow was read.
    pub(super) const fn has_hello(&self) -> bool {
        self.flags.has(handshake_flag::CLIENT_HELLO) || self.flags.has(handshake_flag::SERVER_HELLO)
    }

    pub(super) fn texts(&mut self) -> [&mut TextId; 7] {
        let HelloTexts {
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
    pub(super) host: TextId,
    /// With [`Method::OTHER`], it starts with the method and a space.
    pub(super) target: TextId,
    pub(super) user_agent: TextId,
    pub(super) content_type: TextId,
    pub(super) requests: u32,
    pub(super) responses: u32,
    /// Time of the first request; with `has_first_byte`, the time from there to the first response,
    /// unknown if the response came first.
    pub(super) time: Nanoseconds,
    pub(super) status: u16,
    pub(super) has_first_byte: bool,
    /// Whether the last request was HEAD or CONNECT, so that its response has no body.
    pub(super) bodiless: bool,
}

/// DNS messages.
#[derive(Debug, Default)]
pub(super) struct DnsState {
    pub(super) query: TextId,
    pub(super) addresses: TextId,
    pub(super) queries: u32,
    pub(super) responses: u32,
    pub(super) ttl_s: u32,
    /// Time of the first query, or of the first response if no query was seen. With `has_latency`,
    /// the time from the query to its response.
    pub(super) time: Nanoseconds,
    pub(super) query_type: u16,
    pub(super) response_code: u16,
    pub(super) answers: u16,
    /// ID of the first query, or of the first response if no query came before it.
    pub(super) id: u16,
    /// Direction of that query.
    pub(super) query_direction: u8,
    pub(super) has_question: bool,
    /// Whether the response to it was seen.
    pub(super) is_answered: bool,
    pub(super) has_ttl: bool,
    pub(super) has_latency: bool,
}

/// A QUIC connection ID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ConnectionId {
    length: u8,
    bytes: [u8; crate::message::quic::CONNECTION_ID_MAX],
}

impl ConnectionId {
    pub(super) fn new(id: &[u8]) -> Self {
        let mut connection_id = Self::default();
        if let Some(bytes) = connection_id.bytes.get_mut(..id.len()) {
            bytes.copy_from_slice(id);
            connection_id.length = id.len() as u8;
        }
        connection_id
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// A QUIC connection.
#[derive(Debug, Default)]
pub(super) struct QuicState {
    pub(super) hello: HelloTexts,
    pub(super) version: u32,
    /// Handle of the reassembly buffer for the client's CRYPTO frames, 0 if there is none.
    pub(super) buffer: u16,
    /// Flags of [`handshake_flag`].
    pub(super) flags: HandshakeFlags,
    /// Time of the client's last Initial packet; with [`handshake_flag::RTT`], the RTT of the
    /// handshake.
    pub(super) time: Nanoseconds,
    pub(super) spin: Spin,
    /// Destination connection ID of the client's first Initial packet.
    pub(super) original_id: ConnectionId,
    pub(super) client_id: ConnectionId,
    pub(super) server_id: ConnectionId,
    /// 1 plus the last value of the spin bit (bit 0) and the direction that is followed (bit 1); 0
    /// before the first short header.
    pub(super) spin_bit: u8,
    /// Number of packets that could not be decrypted.
    pub(super) failures: u8,
    /// Slot of its keys in the cache.
    pub(super) key_slot: u8,
}

impl QuicState {
    /// Whether nothing but Version Negotiation was seen.
    pub(super) const fn is_only_negotiation(&self) -> bool {
        self.version == 0 && self.failures == 0 && !self.flags.has(handshake_flag::CLIENT)
    }
}

/// RTT samples from QUIC's spin bit.
#[derive(Debug, Default)]
pub(super) struct Spin {
    pub(super) min_ns: u32,
    pub(super) count: u32,
    pub(super) sum: Nanoseconds,
    /// Time of the last edge.
    pub(super) last_edge: Nanoseconds,
}

impl Spin {
    /// Resets the samples. The next one starts at the last edge.
    pub(super) fn reset_counts(&mut self) {
        *self = Self {
            last_edge: self.last_edge,
            ..Self::default()
        };
    }
}

/// One direction of RTP.
#[derive(Debug, Default)]
pub(super) struct RtpSide {
    pub(super) ssrc: u32,
    pub(super) packets: u32,
    /// Highest sequence number. The upper 16 bits count the wraparounds.
    pub(super) highest_sequence: u32,
    pub(super) timestamp: u32,
    /// Interarrival jitter in nanoseconds, times 16.
    pub(super) jitter_16: Nanoseconds,
    pub(super) arrival: Nanoseconds,
    /// Number of packets that were expected before the source restarted its sequence numbers, plus
    /// the packets that arrived after the first one although they were sent before it.
    pub(super) expected_before: u32,
    /// The sequence number after one that was far off. If it arrives next, the source has restarted
    /// (RFC 3550 appendix A.1).
    pub(super) resync_sequence: Option<u16>,
    /// First sequence number since the last restart.
    pub(super) base_sequence: u16,
    pub(super) out_of_order: u16,
    pub(super) rtcp: u16,
    pub(super) payload_type: u8,
    /// Number of consecutive packets so far, up to the number that identifies RTP.
    pub(super) consecutive: u8,
    /// Whether the next timestamp can be compared with that of the previous packet.
    pub(super) has_timestamp: bool,
}

/// RTP in both directions.
#[derive(Debug, Default)]
pub(super) struct RtpState {
    pub(super) sides: [RtpSide; 2],
}

/// The most texts that one flow holds: the resolved name, and those of HTTP and of TLS after it.
pub(super) const TEXTS_MAX: usize = 1 + 4 + 3 + 4;
