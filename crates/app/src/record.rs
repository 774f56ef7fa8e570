//! The application-layer part of a flow record.

/// A text of a record. Texts up to 24 bytes, which most are, are stored inline. Only longer ones need
/// an allocation, which the meter's thread makes and the writer's thread frees.
pub type AppText = compact_str::CompactString;

/// How the application class was found, from the least to the most certain way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FoundBy {
    /// By the name in a DNS response that answers no query that was seen. Anyone may have sent it.
    DnsResponse,
    /// By a well-known port.
    Port,
    /// By the name that the client had resolved before it opened the flow.
    Dns,
    /// By the first bytes of the payload, or because the protocol was parsed.
    Bytes,
    /// By the host of an HTTP request.
    Host,
    /// By the server name of a TLS or QUIC handshake.
    Sni,
}

impl FoundBy {
    /// The name that records use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DnsResponse => "dns-response",
            Self::Port => "port",
            Self::Dns => "dns",
            Self::Bytes => "bytes",
            Self::Host => "host",
            Self::Sni => "sni",
        }
    }
}

/// The application class of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    /// Its name in the table of applications.
    pub name: AppText,
    /// How it was found.
    pub found_by: FoundBy,
}

/// The name that the flow's initiator had last resolved to the responder's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedName {
    /// The queried name.
    pub name: AppText,
    /// Time from the DNS response to the flow's first packet, in nanoseconds.
    pub age_ns: u64,
    /// Whether the query of that response was seen. Otherwise anyone may have sent the response.
    pub is_asked: bool,
}

/// A TLS handshake, over TCP or inside QUIC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsRecord {
    /// Server name of the ClientHello (RFC 6066 section 3).
    pub server_name: Option<AppText>,
    /// Protocols that the client offers (RFC 7301), separated by commas.
    pub alpn_offered: Option<AppText>,
    /// Protocol that the server chose, if it is not encrypted (up to TLS 1.2).
    pub alpn_chosen: Option<AppText>,
    /// Versions that the client offers, in its order, separated by commas, without GREASE.
    pub versions_offered: Option<AppText>,
    /// Version that the server chose, as on the wire (0x0303 is TLS 1.2).
    pub version: Option<u16>,
    /// Cipher suite that the server chose.
    pub cipher: Option<u16>,
    /// JA4 fingerprint of the ClientHello.
    pub ja4: Option<AppText>,
    /// Whether the client offers Encrypted Client Hello or a GREASE of it, which looks the same.
    /// `None` if the end of the ClientHello is missing and may offer it.
    pub ech_offered: Option<bool>,
    /// Whether the client offers to resume a session. `None` in the same case.
    pub resumption_offered: Option<bool>,
    /// Whether the server resumed the session. `None` if the hellos that show it were not seen.
    pub resumed: Option<bool>,
    /// Time from the ClientHello to the client's first application data after the ServerHello, in
    /// nanoseconds.
    pub setup_ns: Option<u64>,
    /// Subject of the server's certificate (up to TLS 1.2).
    pub subject: Option<AppText>,
    /// Issuer of the server's certificate.
    pub issuer: Option<AppText>,
}

/// A QUIC connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuicRecord {
    /// Version of the last Initial packet of the client.
    pub version: u32,
    /// Destination connection ID of the client's first Initial packet, in hexadecimal.
    pub original_destination_id: AppText,
    /// Connection ID that the client chose for itself, in hexadecimal.
    pub client_id: AppText,
    /// Connection ID that the server chose for itself, in hexadecimal.
    pub server_id: AppText,
    /// Whether the client sent 0-RTT packets. `None` if nothing of its handshake was seen.
    pub zero_rtt: Option<bool>,
    /// Whether the server validated the client's address with a Retry packet. `None` if no answer of
    /// the server was seen.
    pub retry: Option<bool>,
    /// Whether the server answered with Version Negotiation. `None` in the same case.
    pub version_negotiation: Option<bool>,
    /// Time from the client's Initial packet to the server's first answer, in nanoseconds.
    pub handshake_rtt_ns: Option<u64>,
    /// Number of RTT samples from the spin bit (RFC 9000 section 17.4).
    pub spin_count: u32,
    /// Minimum of these samples, in nanoseconds.
    pub spin_min_ns: u64,
    /// Mean of these samples, in nanoseconds.
    pub spin_mean_ns: u64,
}

/// A DNS query or response whose counterpart may be in another record of the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnmatchedDns {
    /// Transaction ID.
    pub id: u16,
    /// Direction of the query: 0 from the initiator, 1 from the responder.
    pub query_direction: u8,
    /// Time of the message, nanoseconds since the Unix epoch.
    pub time_ns: i64,
}

/// DNS messages of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsRecord {
    /// Name of the first question.
    pub query: Option<AppText>,
    /// Type of the first question.
    pub query_type: Option<u16>,
    /// Response code of the response to that question, including the upper bits from EDNS if their
    /// record was captured. `None` if the response was not seen.
    pub response_code: Option<u16>,
    /// Number of answers in that response. `None` if it was not seen.
    pub answers: Option<u16>,
    /// Addresses in that response, separated by commas.
    pub addresses: Option<AppText>,
    /// Smallest TTL of its answers, in seconds.
    pub ttl_s: Option<u32>,
    /// Time from the first query to its response, in nanoseconds.
    pub latency_ns: Option<u64>,
    /// Number of queries in the flow.
    pub queries: u32,
    /// Number of responses in the flow.
    pub responses: u32,
    /// The first query if it was not answered, or the response if no query was seen.
    pub unmatched: Option<UnmatchedDns>,
}

impl DnsRecord {
    /// The unanswered query, if there is one.
    pub fn unanswered_query(&self) -> Option<UnmatchedDns> {
        self.unmatched.filter(|_| self.answers.is_none())
    }

    /// Sets the latency if the response in this record answers the query of an earlier one.
    pub fn complete(&mut self, earlier: &Self) {
        let (Some(query), Some(response)) = (earlier.unanswered_query(), self.unmatched) else {
            return;
        };
        let is_same = |own: &AppText, earlier: &AppText| own.eq_ignore_ascii_case(earlier);
        let is_answer = self.queries == 0
            && self.answers.is_some()
            && query.id == response.id
            && query.query_direction == response.query_direction
            && (self.query_type.is_none() || self.query_type == earlier.query_type)
            && match (&self.query, &earlier.query) {
                (Some(own), Some(earlier)) => is_same(own, earlier),
                _ => true,
            };
        if is_answer {
            let latency = response.time_ns.saturating_sub(query.time_ns).max(0);
            self.latency_ns = Some(latency.cast_unsigned());
        }
    }

    /// Memory of the record and its texts, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let texts = [&self.query, &self.addresses];
        size_of::<Self>() + texts.into_iter().flatten().map(heap_bytes).sum::<usize>()
    }
}

/// HTTP/1 messages of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpRecord {
    /// Method of the first request.
    pub method: Option<AppText>,
    /// Host of the first request.
    pub host: Option<AppText>,
    /// Target of the first request.
    pub target: Option<AppText>,
    /// User agent of the first request.
    pub user_agent: Option<AppText>,
    /// Status of the first response.
    pub status: Option<u16>,
    /// Content type of the first response.
    pub content_type: Option<AppText>,
    /// Number of requests in the flow.
    pub requests: u32,
    /// Number of responses in the flow.
    pub responses: u32,
    /// Time from the first request to the first byte of the first response, in nanoseconds.
    pub first_byte_ns: Option<u64>,
}

/// An SSH connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SshRecord {
    /// Version string of the client.
    pub client_version: Option<AppText>,
    /// Version string of the server.
    pub server_version: Option<AppText>,
    /// HASSH fingerprint of the client's algorithms.
    pub hassh: Option<AppText>,
    /// HASSHServer fingerprint of the server's algorithms.
    pub hassh_server: Option<AppText>,
}

/// One direction of an RTP session (RFC 3550).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RtpRecord {
    /// Synchronization source.
    pub ssrc: u32,
    /// Payload type.
    pub payload_type: u8,
    /// Number of RTP packets of this source.
    pub packets: u32,
    /// Number of lost packets, by the sequence numbers.
    pub lost: u32,
    /// Number of packets that arrived after one with a later sequence number.
    pub out_of_order: u32,
    /// Interarrival jitter (RFC 3550 section 6.4.1) at the end, in nanoseconds. `None` if the payload
    /// type has no fixed clock rate.
    pub jitter_ns: Option<f64>,
    /// Number of RTCP packets in this direction, on the same ports.
    pub rtcp_packets: u32,
    /// Number of sources in this direction. The other fields are of the one with the most packets.
    pub sources: u32,
}

impl RtpRecord {
    /// Name of the codec of the payload type (RFC 3551 section 6).
    #[must_use]
    pub const fn codec(&self) -> &'static str {
        crate::message::rtp::codec(self.payload_type)
    }
}

/// Heap memory of a text, in bytes.
fn heap_bytes(text: &AppText) -> usize {
    match text.is_heap_allocated() {
        true => text.capacity(),
        false => 0,
    }
}

impl ResolvedName {
    /// The name of its source that records use.
    #[must_use]
    pub const fn source(&self) -> &'static str {
        if self.is_asked { "query" } else { "response" }
    }

    /// Heap memory of the name, in bytes.
    pub fn heap_bytes(&self) -> usize {
        heap_bytes(&self.name)
    }
}

impl TlsRecord {
    /// Takes the ClientHello from an earlier record if this record has only the ServerHello that
    /// answers it.
    pub fn complete(&mut self, earlier: Self) {
        let has_client_hello = self.versions_offered.is_some() || self.server_name.is_some();
        if has_client_hello || earlier.version.is_some() {
            return;
        }
        self.server_name = earlier.server_name;
        self.alpn_offered = earlier.alpn_offered;
        self.versions_offered = earlier.versions_offered;
        self.ja4 = earlier.ja4;
        self.ech_offered = earlier.ech_offered;
        self.resumption_offered = earlier.resumption_offered;
    }

    /// Memory of the record and its texts, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let texts = [
            &self.server_name,
            &self.alpn_offered,
            &self.alpn_chosen,
            &self.versions_offered,
            &self.ja4,
            &self.subject,
            &self.issuer,
        ];
        size_of::<Self>() + texts.into_iter().flatten().map(heap_bytes).sum::<usize>()
    }
}

impl QuicRecord {
    /// Fills the fields that this record lacks from an earlier record of the same connection.
    pub fn complete(&mut self, earlier: Self) {
        let first = &self.original_destination_id;
        if !first.is_empty() && *first != earlier.original_destination_id {
            return;
        }
        let ids = [
            (
                &mut self.original_destination_id,
                earlier.original_destination_id,
            ),
            (&mut self.client_id, earlier.client_id),
            (&mut self.server_id, earlier.server_id),
        ];
        for (id, earlier) in ids {
            if id.is_empty() {
                *id = earlier;
            }
        }
        // If one of the records has seen it, it was sent.
        self.zero_rtt = self.zero_rtt.max(earlier.zero_rtt);
        self.retry = self.retry.max(earlier.retry);
        self.version_negotiation = self.version_negotiation.max(earlier.version_negotiation);
        self.handshake_rtt_ns = self.handshake_rtt_ns.or(earlier.handshake_rtt_ns);
    }

    /// The fields that hold for later records of the connection too, that is, all but the counts.
    pub fn without_counts(&self) -> Self {
        Self {
            spin_count: 0,
            spin_min_ns: 0,
            spin_mean_ns: 0,
            ..self.clone()
        }
    }

    /// Memory of the record and its texts, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let texts = [
            &self.original_destination_id,
            &self.client_id,
            &self.server_id,
        ];
        size_of::<Self>() + texts.into_iter().map(heap_bytes).sum::<usize>()
    }
}

/// Why parts of a record may be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Incomplete(u8);

impl Incomplete {
    /// No reassembly buffer was free, or a handshake did not fit into one.
    pub const REASSEMBLY: Self = Self(1);
    /// A text was too long, or the pool of texts was full.
    pub const TEXT: Self = Self(2);
    /// The snaplen truncated packets that were parsed.
    pub const SNAPLEN: Self = Self(4);
    /// The pool of states was full, so the flow was not inspected.
    pub const STATES: Self = Self(8);
    /// Bytes of a handshake are missing in the capture.
    pub const GAP: Self = Self(16);
    /// The flow reached a limit of work or of sources: packets were not decrypted, fragments not
    /// read, or RTP sources not counted.
    pub const WORK: Self = Self(32);

    /// Adds the reasons in `other`.
    pub fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Whether it has all reasons in `other`.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The reasons as bits: 1 reassembly, 2 text, 4 snaplen, 8 states, 16 gap, 32 work.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }
}

/// The application-layer part of a flow record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AppRecord {
    /// Application class.
    pub application: Option<Application>,
    /// Name that the initiator had resolved.
    pub resolved: Option<ResolvedName>,
    /// TLS, over TCP or inside QUIC.
    pub tls: Option<Box<TlsRecord>>,
    /// QUIC.
    pub quic: Option<Box<QuicRecord>>,
    /// DNS.
    pub dns: Option<Box<DnsRecord>>,
    /// HTTP/1.
    pub http: Option<Box<HttpRecord>>,
    /// RTP from the initiator and from the responder.
    pub rtp: [Option<Box<RtpRecord>>; 2],
    /// SSH.
    pub ssh: Option<Box<SshRecord>>,
    /// Why the record may be incomplete.
    pub incomplete: Incomplete,
}

/// A group of columns that have values together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppGroup {
    /// Columns of all flows.
    Any,
    /// The name that the initiator had resolved.
    Resolved,
    /// TLS, over TCP or inside QUIC.
    Tls,
    /// QUIC.
    Quic,
    /// DNS.
    Dns,
    /// HTTP/1.
    Http,
    /// RTP from the initiator.
    Rtp,
    /// RTP from the responder.
    ReverseRtp,
    /// SSH.
    Ssh,
}

impl AppRecord {
    /// Whether it may have values in the columns of `group`.
    #[inline]
    #[must_use]
    pub const fn has(&self, group: AppGroup) -> bool {
        match group {
            AppGroup::Any => true,
            AppGroup::Resolved => self.resolved.is_some(),
            AppGroup::Tls => self.tls.is_some(),
            AppGroup::Quic => self.quic.is_some(),
            AppGroup::Dns => self.dns.is_some(),
            AppGroup::Http => self.http.is_some(),
            AppGroup::Rtp => self.rtp[0].is_some(),
            AppGroup::ReverseRtp => self.rtp[1].is_some(),
            AppGroup::Ssh => self.ssh.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(original_destination_id: &str, sent: Option<bool>) -> QuicRecord {
        QuicRecord {
            version: 1,
            original_destination_id: original_destination_id.into(),
            retry: sent,
            zero_rtt: sent,
            ..QuicRecord::default()
        }
    }

    #[test]
    fn quic_record_takes_missing_fields_from_earlier_record() {
        let earlier = QuicRecord {
            server_id: "5e".into(),
            handshake_rtt_ns: Some(7),
            ..record("0d", Some(true))
        };
        // A late Handshake packet, and a retransmission of the client's Initial packet.
        for mut later in [record("", None), record("0d", Some(false))] {
            later.complete(earlier.clone());
            assert_eq!(later, earlier);
        }
        // Another connection on the same ports.
        let mut other = record("07", Some(false));
        other.complete(earlier);
        assert_eq!(other, record("07", Some(false)));
    }
}
