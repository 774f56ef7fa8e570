//! What is kept of a flow while it may still tell something.

use super::Segment;
use super::record::Cut;
use super::text_pool::Text;
use wire::ip_protocol;
use wire::tcp::flag;

/// What a flow is read as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Not known yet.
    #[default]
    Unknown,
    /// TLS over TCP, from the start or after another protocol.
    Tls,
    /// HTTP/1.
    Http,
    /// DNS.
    Dns,
    /// QUIC.
    Quic,
    /// RTP, perhaps.
    Rtp,
}

/// One direction of a TCP stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Side {
    /// Sequence number of the next byte to read.
    pub(super) expected: u32,
    /// Bytes from there on that are of no interest.
    pub(super) skip: u32,
    /// Stream that is put together, 0 for none.
    pub(super) assembly: u16,
    /// Packets for which a gap has been waited out.
    pub(super) waited: u8,
    /// Whether `expected` is known.
    pub(super) known: bool,
    /// Whether it is known from a SYN.
    pub(super) from_syn: bool,
    /// Whether nothing more is to be read.
    pub(super) closed: bool,
    /// Whether the first bytes have been compared with the table of applications.
    pub(super) compared: bool,
}

/// A flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    /// Name that the initiator had resolved, and its age.
    pub(super) resolved: Text,
    pub(super) resolved_age_us: u32,
    /// State of TLS, 0 for none.
    pub(super) tls: u32,
    /// State of the protocol that `kind` names, 0 for none.
    pub(super) other: u32,
    pub(super) sides: [Side; 2],
    /// What its next bytes are read as.
    pub(super) protocol: Protocol,
    /// What `other` is the state of.
    pub(super) kind: Protocol,
    /// Packets with payload, up to 255.
    pub(super) packets: u8,
    /// Blocks of text that it may still take.
    pub(super) blocks: u8,
    /// What a limit cut.
    pub(super) cut: Cut,
    /// Class of application by the first bytes, counted from 1; 0 for none.
    pub(super) class: u16,
}

impl Flow {
    /// Counts a segment with payload none of which is to be read; false if some may be.
    #[inline]
    pub(super) fn pass_over(&mut self, segment: &Segment<'_>) -> bool {
        if segment.protocol != ip_protocol::TCP
            || segment.tcp_flags & flag::SYN != 0
            || self.protocol == Protocol::Unknown
        {
            return false;
        }
        let side = &mut self.sides[usize::from(segment.direction & 1)];
        if !side.closed {
            let skipped = side.known
                && side.assembly == 0
                && side.expected == segment.sequence
                && side.skip >= segment.payload_length;
            if !skipped {
                return false;
            }
            side.expected = side.expected.wrapping_add(segment.payload_length);
            side.skip -= segment.payload_length;
        }
        self.packets = self.packets.saturating_add(1);
        true
    }
}

/// A TLS handshake.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TlsState {
    pub(super) server_name: Text,
    pub(super) alpn_offered: Text,
    pub(super) alpn_chosen: Text,
    pub(super) subject: Text,
    pub(super) issuer: Text,
    /// Time of the ClientHello, then, with `has_setup`, how long the set-up took.
    pub(super) time_ns: i64,
    /// Versions offered, 0 behind the last.
    pub(super) versions: [u16; 6],
    /// The first part of JA4, and the bytes of the two others; zeroes without.
    pub(super) ja4: [u8; 22],
    pub(super) version: u16,
    pub(super) cipher: u16,
    /// Digest of the session id that the client offers, 0 for none.
    pub(super) session: u32,
    pub(super) client: u8,
    pub(super) has_client_hello: bool,
    pub(super) has_server_hello: bool,
    pub(super) has_setup: bool,
    pub(super) ech_offered: bool,
    pub(super) resumption_offered: bool,
    pub(super) resumed: bool,
}

/// HTTP/1 messages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HttpState {
    pub(super) method: Text,
    pub(super) host: Text,
    pub(super) target: Text,
    pub(super) user_agent: Text,
    pub(super) content_type: Text,
    /// Time of the first request, then, with `has_first_byte`, how long the response took.
    pub(super) time_ns: i64,
    pub(super) requests: u32,
    pub(super) responses: u32,
    pub(super) status: u16,
    pub(super) has_first_byte: bool,
    /// Whether the last request was HEAD or CONNECT, whose response has no body.
    pub(super) bodiless: bool,
}

/// DNS messages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DnsState {
    pub(super) query: Text,
    pub(super) addresses: Text,
    /// Time of the first query, then, with `has_latency`, how long its response took.
    pub(super) time_ns: i64,
    pub(super) queries: u32,
    pub(super) responses: u32,
    pub(super) ttl_s: u32,
    pub(super) query_type: u16,
    pub(super) response_code: u16,
    pub(super) answers: u16,
    pub(super) id: u16,
    pub(super) has_query: bool,
    pub(super) has_ttl: bool,
    pub(super) has_latency: bool,
}

/// A connection id of QUIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ConnectionId {
    length: u8,
    bytes: [u8; wire::app::quic::CONNECTION_ID_MAX],
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
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QuicState {
    /// Destination connection id of the client's first Initial packet.
    pub(super) original: ConnectionId,
    pub(super) client_id: ConnectionId,
    pub(super) server_id: ConnectionId,
    pub(super) version: u32,
    /// Time of the client's last Initial packet, then, with `has_rtt`, the handshake's round trip.
    pub(super) time_ns: i64,
    /// Time of the last edge of the spin bit.
    pub(super) edge_ns: i64,
    pub(super) spin_sum_ns: u64,
    pub(super) spin_min_ns: u32,
    pub(super) spin_count: u32,
    /// Connection id from which the keys are derived, where it is not the original one.
    pub(super) retried: bool,
    /// Direction of the client's packets, once one was opened.
    pub(super) client: u8,
    pub(super) has_client: bool,
    pub(super) has_hello: bool,
    pub(super) has_rtt: bool,
    pub(super) zero_rtt: bool,
    pub(super) retry: bool,
    pub(super) negotiation: bool,
    /// Packets that could not be opened.
    pub(super) failures: u8,
    /// Direction whose spin bit is followed, and the last value of the bit, each plus one.
    pub(super) spin_direction: u8,
    pub(super) spin_value: u8,
    /// Edges seen, up to 2.
    pub(super) edges: u8,
}

/// One direction of RTP.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RtpSide {
    pub(super) ssrc: u32,
    pub(super) packets: u32,
    /// Highest sequence number, with the number of times that it wrapped in the upper half.
    pub(super) highest: u32,
    /// The first sequence number.
    pub(super) first: u16,
    pub(super) out_of_order: u16,
    /// Jitter in nanoseconds, times 16.
    pub(super) jitter_16_ns: u32,
    pub(super) timestamp: u32,
    pub(super) arrival_ns: i64,
    pub(super) payload_type: u8,
    pub(super) rtcp: u16,
    /// Consecutive packets so far, up to the number that makes it RTP.
    pub(super) run: u8,
}

/// RTP in both directions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RtpState {
    pub(super) sides: [RtpSide; 2],
}
