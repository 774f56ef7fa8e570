//! What the application layer of one flow said, as its record holds it.

/// A text of a record. Up to 24 bytes, as most have, lie in the record: memory is asked for by the
/// meter, and given back by who writes records, for the longer ones alone.
pub type NameText = compact_str::CompactString;

/// How the class of application was found; the surer ways come later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FoundBy {
    /// By a well-known port.
    Port,
    /// By the name that the client resolved before it opened the flow.
    Dns,
    /// By the first bytes of the payload, or because the whole protocol was read.
    Bytes,
    /// By the host that an HTTP request names.
    Host,
    /// By the server name of a TLS or QUIC handshake.
    Sni,
}

impl FoundBy {
    /// As records write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Port => "port",
            Self::Dns => "dns",
            Self::Bytes => "bytes",
            Self::Host => "host",
            Self::Sni => "sni",
        }
    }
}

/// The class of application of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    /// Its name in the table of applications.
    pub name: NameText,
    /// How it was found.
    pub found_by: FoundBy,
}

/// The name that the flow's initiator had last resolved to the responder's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedName {
    /// The name that was asked for.
    pub name: NameText,
    /// Time from the answer to the flow's first packet, in nanoseconds.
    pub age_ns: u64,
}

/// A TLS handshake, over TCP or inside QUIC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsRecord {
    /// Server name of the ClientHello (RFC 6066 section 3).
    pub server_name: Option<NameText>,
    /// Protocols that the client offers (RFC 7301), a comma between two.
    pub alpn_offered: Option<NameText>,
    /// The protocol that the server chose, where it is not encrypted (up to TLS 1.2).
    pub alpn_chosen: Option<NameText>,
    /// Versions that the client offers, best first, a comma between two; GREASE left out.
    pub versions_offered: Option<NameText>,
    /// The version that the server chose, as on the wire (0x0303 is TLS 1.2).
    pub version: Option<u16>,
    /// The cipher suite that the server chose.
    pub cipher: Option<u16>,
    /// JA4 fingerprint of the ClientHello.
    pub ja4: Option<NameText>,
    /// Whether the client offers Encrypted Client Hello (or GREASE of it: the two look alike);
    /// nothing where the end of its hello is missing and may offer it.
    pub ech_offered: Option<bool>,
    /// Whether the client offers to resume a session; nothing in the same case.
    pub resumption_offered: Option<bool>,
    /// Whether the server took the session up; nothing where the hellos that tell were not seen.
    pub resumed: Option<bool>,
    /// From the ClientHello to the client's first application data after the ServerHello.
    pub setup_ns: Option<u64>,
    /// Subject of the server's certificate (up to TLS 1.2).
    pub subject: Option<NameText>,
    /// Issuer of the server's certificate.
    pub issuer: Option<NameText>,
}

/// A QUIC connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuicRecord {
    /// Version of the last Initial packet of the client.
    pub version: u32,
    /// Destination connection id of the client's first Initial packet, in hexadecimal.
    pub original_destination_id: NameText,
    /// Connection id that the client chose for itself.
    pub client_id: NameText,
    /// Connection id that the server chose for itself.
    pub server_id: NameText,
    /// Whether the client sent 0-RTT packets; nothing where none of its handshake was seen.
    pub zero_rtt: Option<bool>,
    /// Whether the server asked for address validation by a Retry packet; nothing where no answer of
    /// the server was seen.
    pub retry: Option<bool>,
    /// Whether the server answered with Version Negotiation; nothing in the same case.
    pub version_negotiation: Option<bool>,
    /// From the client's Initial packet to the server's first packet that answers it.
    pub handshake_rtt_ns: Option<u64>,
    /// Round trips seen by the spin bit (RFC 9000 section 17.4).
    pub spin_count: u32,
    /// The least of them.
    pub spin_min_ns: u64,
    /// Their mean.
    pub spin_mean_ns: u64,
}

/// A DNS message whose other half may be in another record of the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DnsHalf {
    /// Its id.
    pub id: u16,
    /// The direction of the query.
    pub asked_by: u8,
    /// Its time, nanoseconds since the Unix epoch.
    pub time_ns: i64,
}

/// DNS messages of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsRecord {
    /// Name of the first question.
    pub query: Option<NameText>,
    /// Its type.
    pub query_type: Option<u16>,
    /// Response code of the response to it (with the bits of EDNS); none where the capture may lack
    /// these bits.
    pub response_code: Option<u16>,
    /// Answers in that response; none where it was not seen.
    pub answers: Option<u16>,
    /// Addresses in that response, a comma between two.
    pub addresses: Option<NameText>,
    /// The least time to live of its answers, in seconds.
    pub ttl_s: Option<u32>,
    /// From the first query to the response to it.
    pub latency_ns: Option<u64>,
    /// Queries in the flow.
    pub queries: u32,
    /// Responses in the flow.
    pub responses: u32,
    /// The first query, where it was not answered, or the response, where no query was seen.
    pub half: Option<DnsHalf>,
}

impl DnsRecord {
    /// The query without an answer, if that is what there is.
    pub fn open_query(&self) -> Option<DnsHalf> {
        self.half.filter(|_| self.answers.is_none())
    }

    /// Takes the time from a query in an earlier record to the response here, if it is the answer.
    pub fn complete(&mut self, before: &Self) {
        let (Some(query), Some(response)) = (before.open_query(), self.half) else {
            return;
        };
        let is_same = |here: &NameText, before: &NameText| here.eq_ignore_ascii_case(before);
        let is_answer = self.queries == 0
            && self.answers.is_some()
            && query.id == response.id
            && query.asked_by == response.asked_by
            && (self.query_type.is_none() || self.query_type == before.query_type)
            && match (&self.query, &before.query) {
                (Some(here), Some(before)) => is_same(here, before),
                _ => true,
            };
        if is_answer {
            let latency = response.time_ns.saturating_sub(query.time_ns).max(0);
            self.latency_ns = Some(latency.cast_unsigned());
        }
    }

    /// Memory that it takes with its texts, in bytes.
    pub fn bytes(&self) -> usize {
        let texts = [&self.query, &self.addresses];
        size_of::<Self>() + texts.into_iter().flatten().map(besides).sum::<usize>()
    }
}

/// HTTP/1 messages of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpRecord {
    /// Method of the first request.
    pub method: Option<NameText>,
    /// Host of the first request.
    pub host: Option<NameText>,
    /// Target of the first request.
    pub target: Option<NameText>,
    /// User agent of the first request.
    pub user_agent: Option<NameText>,
    /// Status of the first response.
    pub status: Option<u16>,
    /// Content type of the first response.
    pub content_type: Option<NameText>,
    /// Requests in the flow.
    pub requests: u32,
    /// Responses in the flow.
    pub responses: u32,
    /// From the first request to the first byte of the first response.
    pub first_byte_ns: Option<u64>,
}

/// One direction of an RTP session (RFC 3550).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RtpRecord {
    /// Synchronization source.
    pub ssrc: u32,
    /// Payload type.
    pub payload_type: u8,
    /// RTP packets of this source.
    pub packets: u32,
    /// Packets that the sequence numbers say should have come and did not.
    pub lost: u32,
    /// Packets that came after one with a later sequence number.
    pub out_of_order: u32,
    /// Interarrival jitter (RFC 3550 section 6.4.1) at the end, in nanoseconds; none where the
    /// payload type does not tell the clock rate.
    pub jitter_ns: Option<f64>,
    /// RTCP packets in this direction, on the same ports.
    pub rtcp_packets: u32,
}

impl RtpRecord {
    /// Name of the codec that the payload type stands for (RFC 3551 section 6).
    #[must_use]
    pub const fn codec(&self) -> &'static str {
        crate::message::rtp::codec(self.payload_type)
    }
}

/// Memory that a text takes besides its place in a record.
fn besides(text: &NameText) -> usize {
    match text.is_heap_allocated() {
        true => text.capacity(),
        false => 0,
    }
}

impl ResolvedName {
    /// Memory that it takes besides its own place, in bytes.
    pub fn bytes_besides(&self) -> usize {
        besides(&self.name)
    }
}

impl TlsRecord {
    /// Takes the ClientHello from an earlier record, where this one has but the ServerHello that answers
    /// it.
    pub fn complete(&mut self, before: Self) {
        let has_client_hello = self.versions_offered.is_some() || self.server_name.is_some();
        if has_client_hello || before.version.is_some() {
            return;
        }
        self.server_name = before.server_name;
        self.alpn_offered = before.alpn_offered;
        self.versions_offered = before.versions_offered;
        self.ja4 = before.ja4;
        self.ech_offered = before.ech_offered;
        self.resumption_offered = before.resumption_offered;
    }

    /// Memory that it takes with its texts, in bytes.
    pub fn bytes(&self) -> usize {
        let texts = [
            &self.server_name,
            &self.alpn_offered,
            &self.alpn_chosen,
            &self.versions_offered,
            &self.ja4,
            &self.subject,
            &self.issuer,
        ];
        size_of::<Self>() + texts.into_iter().flatten().map(besides).sum::<usize>()
    }
}

impl QuicRecord {
    /// Takes what an earlier record knew of the same connection and this one has not seen.
    pub fn complete(&mut self, before: Self) {
        let first = &self.original_destination_id;
        if !first.is_empty() && *first != before.original_destination_id {
            return;
        }
        let ids = [
            (
                &mut self.original_destination_id,
                before.original_destination_id,
            ),
            (&mut self.client_id, before.client_id),
            (&mut self.server_id, before.server_id),
        ];
        for (id, before) in ids {
            if id.is_empty() {
                *id = before;
            }
        }
        // What was sent once, was sent.
        self.zero_rtt = self.zero_rtt.max(before.zero_rtt);
        self.retry = self.retry.max(before.retry);
        self.version_negotiation = self.version_negotiation.max(before.version_negotiation);
        self.handshake_rtt_ns = self.handshake_rtt_ns.or(before.handshake_rtt_ns);
    }

    /// What holds of the connection in later records too: what was counted does not.
    pub fn lasting(&self) -> Self {
        Self {
            spin_count: 0,
            spin_min_ns: 0,
            spin_mean_ns: 0,
            ..self.clone()
        }
    }

    /// Memory that it takes with its texts, in bytes.
    pub fn bytes(&self) -> usize {
        let texts = [
            &self.original_destination_id,
            &self.client_id,
            &self.server_id,
        ];
        size_of::<Self>() + texts.into_iter().map(besides).sum::<usize>()
    }
}

/// What a limit cut short; the parts of a record that are missing may be missing for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut(u8);

impl Cut {
    /// No buffer was free, or a handshake was longer than one.
    pub const ASSEMBLY: Self = Self(1);
    /// A text was longer than the flow's share of memory for texts.
    pub const TEXT: Self = Self(2);
    /// The capture cut packets short where a name was looked for.
    pub const SNAP_LENGTH: Self = Self(4);
    /// The pool of states was full: the flow was not looked at.
    pub const STATES: Self = Self(8);
    /// Bytes of a handshake were lost before the capture.
    pub const GAP: Self = Self(16);

    /// Adds what `other` holds.
    pub fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Whether all of `other` is in it.
    #[must_use]
    pub const fn holds(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits: 1 assembly, 2 text, 4 snap length, 8 states, 16 gap.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }
}

/// What the application layer of a flow said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamesRecord {
    /// Class of application.
    pub application: Option<Application>,
    /// Name that the client had resolved.
    pub resolved: Option<ResolvedName>,
    /// TLS, over TCP or inside QUIC.
    pub tls: Option<Box<TlsRecord>>,
    /// QUIC.
    pub quic: Option<Box<QuicRecord>>,
    /// DNS.
    pub dns: Option<Box<DnsRecord>>,
    /// HTTP/1.
    pub http: Option<Box<HttpRecord>>,
    /// RTP, of the initiator and of the responder.
    pub rtp: [Option<Box<RtpRecord>>; 2],
    /// What a limit cut.
    pub cut: Cut,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(original_destination_id: &str, marks: Option<bool>) -> QuicRecord {
        QuicRecord {
            version: 1,
            original_destination_id: original_destination_id.into(),
            retry: marks,
            zero_rtt: marks,
            ..QuicRecord::default()
        }
    }

    #[test]
    fn a_later_record_of_a_quic_connection_keeps_what_it_has_not_seen() {
        let before = QuicRecord {
            server_id: "5e".into(),
            handshake_rtt_ns: Some(7),
            ..record("0d", Some(true))
        };
        // A Handshake packet that was late, and the client's Initial packet sent again.
        for mut later in [record("", None), record("0d", Some(false))] {
            later.complete(before.clone());
            assert_eq!(later, before);
        }
        // Another connection between the same ports.
        let mut other = record("07", Some(false));
        other.complete(before);
        assert_eq!(other, record("07", Some(false)));
    }
}
