//! The columns of [`NamesRecord`]: names, units, definitions, and how a value is got.

use super::record::{NameText, NamesRecord, QuicRecord, RtpRecord};

/// A value of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NameValue<'a> {
    /// There is none.
    None,
    /// A text.
    Text(&'a str),
    /// A whole number.
    Number(u64),
    /// A number with a fraction.
    Real(f64),
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// [`NameValue::Text`].
    Text,
    /// [`NameValue::Number`].
    Number,
    /// [`NameValue::Real`].
    Real,
}

/// Columns that have values together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamePart {
    /// Of any flow.
    Any,
    /// Of flows whose initiator had resolved the responder's name.
    Resolved,
    /// Of TLS, over TCP or in QUIC.
    Tls,
    /// Of QUIC.
    Quic,
    /// Of DNS.
    Dns,
    /// Of HTTP/1.
    Http,
    /// Of RTP that the initiator sent.
    Rtp,
    /// Of RTP that the responder sent.
    ReverseRtp,
}

impl NamesRecord {
    /// Whether it may have values in the columns of `part`.
    #[inline]
    #[must_use]
    pub const fn has(&self, part: NamePart) -> bool {
        match part {
            NamePart::Any => true,
            NamePart::Resolved => self.resolved.is_some(),
            NamePart::Tls => self.tls.is_some(),
            NamePart::Quic => self.quic.is_some(),
            NamePart::Dns => self.dns.is_some(),
            NamePart::Http => self.http.is_some(),
            NamePart::Rtp => self.rtp[0].is_some(),
            NamePart::ReverseRtp => self.rtp[1].is_some(),
        }
    }
}

/// A column of the application layer.
#[derive(Clone, Copy, Debug)]
pub struct NameColumn {
    /// Stable name, camelCase, the unit last.
    pub name: &'static str,
    /// Type of its values.
    pub kind: NameKind,
    /// Unit, or nothing.
    pub unit: &'static str,
    /// Number of the IPFIX Information Element, where there is one.
    pub ipfix: Option<u16>,
    /// Tstat's column, or nothing.
    pub tstat: &'static str,
    /// What it is and where it comes from.
    pub definition: &'static str,
    /// Which part of a record it belongs to.
    pub part: NamePart,
    /// Its value in a record.
    pub value: for<'a> fn(&'a NamesRecord) -> NameValue<'a>,
}

fn text<'a>(value: Option<&'a Option<NameText>>) -> NameValue<'a> {
    match value {
        Some(Some(text)) => NameValue::Text(text),
        _ => NameValue::None,
    }
}

fn number<N: Into<u64>>(value: Option<N>) -> NameValue<'static> {
    value.map_or(NameValue::None, |value| NameValue::Number(value.into()))
}

fn seconds(nanoseconds: Option<u64>) -> NameValue<'static> {
    nanoseconds.map_or(NameValue::None, |ns| NameValue::Real(ns as f64 / 1e9))
}

fn filled(value: &str) -> NameValue<'_> {
    if value.is_empty() {
        NameValue::None
    } else {
        NameValue::Text(value)
    }
}

fn spin(record: &NamesRecord) -> Option<&QuicRecord> {
    record.quic.as_deref().filter(|quic| quic.spin_count > 0)
}

fn rtp(record: &NamesRecord, side: usize) -> Option<&RtpRecord> {
    record.rtp[side].as_deref()
}

fn jitter(record: &NamesRecord, side: usize) -> NameValue<'static> {
    rtp(record, side)
        .and_then(|rtp| rtp.jitter_ns)
        .map_or(NameValue::None, |ns| NameValue::Real(ns / 1e9))
}

/// The table, part by part. Of a part of both sides, first the initiator's columns, then those of the
/// responder, whose value is the same with its side.
macro_rules! columns {
    (
        $($part:ident { $($name:literal $kind:ident $unit:literal [$($ipfix:literal)?] $tstat:literal $definition:literal = |$record:ident| $value:expr;)* })*
        [$initiator:ident, $responder:ident] { $($forth:literal, $back:literal $side_kind:ident $side_unit:literal $side_definition:literal = |$side_record:ident, $side:ident| $side_value:expr;)* }
        $($last:ident { $($last_name:literal $last_kind:ident $last_unit:literal [$($last_ipfix:literal)?] $last_tstat:literal $last_definition:literal = |$last_record:ident| $last_value:expr;)* })*
    ) => {
        /// Every column, in the order in which formats write them.
        pub static COLUMNS: &[NameColumn] = &[
            $($(columns!(@column $part, $name, $kind, $unit, [$($ipfix)?], $tstat, $definition, |$record| $value),)*)*
            $(columns!(@column $initiator, $forth, $side_kind, $side_unit, [], "", $side_definition, |$side_record| { let $side = 0; $side_value }),)*
            $(columns!(@column $responder, $back, $side_kind, $side_unit, [], "", concat!("As ", $forth, ", of the responder."), |$side_record| { let $side = 1; $side_value }),)*
            $($(columns!(@column $last, $last_name, $last_kind, $last_unit, [$($last_ipfix)?], $last_tstat, $last_definition, |$last_record| $last_value),)*)*
        ];
    };
    (@column $part:ident, $name:literal, $kind:ident, $unit:literal, [$($ipfix:literal)?], $tstat:literal, $definition:expr, |$record:ident| $value:expr) => {
        NameColumn {
            name: $name,
            kind: NameKind::$kind,
            unit: $unit,
            ipfix: columns!(@ipfix $($ipfix)?),
            tstat: $tstat,
            definition: $definition,
            part: NamePart::$part,
            value: |$record| $value,
        }
    };
    (@ipfix $number:literal) => { Some($number) };
    (@ipfix) => { None };
}

columns! {
    Any {
        "applicationName" Text "" [96] "" "Class of application, by the table of names, first bytes and ports; empty where nothing in it fits."
            = |r| r.application.as_ref().map_or(NameValue::None, |a| NameValue::Text(&a.name));
        "applicationFoundBy" Text "" [] "" "How the class was found, the surest way that told something: `sni` (TLS or QUIC), `host` (HTTP), `bytes` (of the payload), `dns` (the name resolved before), `port`."
            = |r| r.application.as_ref().map_or(NameValue::None, |a| NameValue::Text(a.found_by.name()));
    }
    Resolved {
        "resolvedName" Text "" [] "fqdn" "Name that the initiator had last resolved to the responder's address when it opened the flow, as DNS responses in the same traffic said."
            = |r| r.resolved.as_ref().map_or(NameValue::None, |n| NameValue::Text(&n.name));
        "resolvedNameAgeSeconds" Real "seconds" [] "dns_rslv" "Time from that DNS response to the flow's first packet (of all its records, where its active time-out cuts it), in whole microseconds; 0 where the clock went back, and 4294.967295 where it is longer."
            = |r| seconds(r.resolved.as_ref().map(|n| n.age_ns));
    }
    Tls {
        "tlsServerName" Text "" [] "c_tls_SNI" "Server name in the ClientHello (RFC 6066 section 3), of TLS over TCP or inside QUIC."
            = |r| text(r.tls.as_ref().map(|t| &t.server_name));
        "tlsAlpnOffered" Text "" [] "c_npnalpn" "Protocols that the client offers (RFC 7301), a comma between two; GREASE (RFC 8701) left out."
            = |r| text(r.tls.as_ref().map(|t| &t.alpn_offered));
        "tlsAlpnChosen" Text "" [] "s_npnalpn" "Protocol that the server chose (RFC 7301 section 3.1), where it is not encrypted (up to TLS 1.2)."
            = |r| text(r.tls.as_ref().map(|t| &t.alpn_chosen));
        "tlsVersionsOffered" Text "" [] "" "Versions that the client offers in its supported_versions (RFC 8446 section 4.2.1), in its order, in hexadecimal as on the wire, a comma between two; GREASE (RFC 8701) left out. Without that extension its legacy_version alone, the highest that it offers. Empty where the ClientHello was not seen as far as tells it."
            = |r| text(r.tls.as_ref().map(|t| &t.versions_offered));
        "tlsVersion" Number "" [] "" "Version that the server chose in its ServerHello (RFC 8446 sections 4.1.3 and 4.2.1), as on the wire: 769 TLS 1.0, 770 TLS 1.1, 771 TLS 1.2, 772 TLS 1.3."
            = |r| number(r.tls.as_ref().and_then(|t| t.version));
        "tlsCipherSuite" Number "" [] "" "Cipher suite that the server chose in its ServerHello (RFC 8446 section 4.1.3; IANA TLS Cipher Suites)."
            = |r| number(r.tls.as_ref().and_then(|t| t.cipher));
        "tlsJa4" Text "" [] "" "JA4 fingerprint of the ClientHello, as FoxIO defines it: three parts of 10, 12 and 12 characters, beginning with t for TCP, q for QUIC. Empty where the end of the ClientHello is missing."
            = |r| text(r.tls.as_ref().map(|t| &t.ja4));
        "tlsEchOffered" Number "" [] "" "1 where the client offers Encrypted Client Hello (RFC 9849) or a GREASE of it, which looks the same; else 0. Empty where the end of the ClientHello is missing and may offer it."
            = |r| number(r.tls.as_ref().and_then(|t| t.ech_offered));
        "tlsResumptionOffered" Number "" [] "" "1 where the client offers to resume a session: by session id (RFC 5246 section 7.4.1.2, where TLS 1.3 is not offered), ticket (RFC 5077) or pre-shared key (RFC 8446 section 4.2.11); else 0. Empty where the end of the ClientHello is missing and may offer it."
            = |r| number(r.tls.as_ref().and_then(|t| t.resumption_offered));
        "tlsResumed" Number "" [] "" "1 where the server took the session up: it echoes the session id (up to TLS 1.2) or chooses a pre-shared key (TLS 1.3); else 0. Empty where no ServerHello was seen, or one up to TLS 1.2 without its ClientHello."
            = |r| number(r.tls.as_ref().and_then(|t| t.resumed));
        "tlsSetupSeconds" Real "seconds" [] "" "From the packet that completes the ClientHello to the client's first record of application data (in TLS 1.3: its Finished) after the ServerHello."
            = |r| seconds(r.tls.as_ref().and_then(|t| t.setup_ns));
        "tlsCertificateSubject" Text "" [] "s_tls_SCN" "Subject of the server's certificate (RFC 5280 section 4.1.2.6), written as in RFC 4514 but in the certificate's order, where it is not encrypted (up to TLS 1.2). Tstat has the common name alone."
            = |r| text(r.tls.as_ref().map(|t| &t.subject));
        "tlsCertificateIssuer" Text "" [] "" "Issuer of the server's certificate (RFC 5280 section 4.1.2.4), written in the same way."
            = |r| text(r.tls.as_ref().map(|t| &t.issuer));
    }
    Quic {
        "quicVersion" Number "" [] "" "Version in the client's Initial packets (RFC 9000 section 17.2), the last one's after Version Negotiation: 1 is RFC 9000, 1798521807 is RFC 9369."
            = |r| number(r.quic.as_ref().map(|q| q.version));
        "quicOriginalDestinationId" Text "" [] "" "Destination connection id of the client's first Initial packet (RFC 9000 section 7.2), in hexadecimal."
            = |r| r.quic.as_ref().map_or(NameValue::None, |q| filled(&q.original_destination_id));
        "quicClientId" Text "" [] "" "Connection id that the client chose for itself in its first Initial packet, in hexadecimal; empty where it has no bytes."
            = |r| r.quic.as_ref().map_or(NameValue::None, |q| filled(&q.client_id));
        "quicServerId" Text "" [] "" "Connection id that the server chose for itself in its last long header of the handshake, in hexadecimal; empty where it has no bytes."
            = |r| r.quic.as_ref().map_or(NameValue::None, |q| filled(&q.server_id));
        "quicZeroRtt" Number "" [] "" "1 where the client sent 0-RTT packets (RFC 9000 section 17.2.3); else 0. Empty where no Initial packet of the client could be read."
            = |r| number(r.quic.as_ref().and_then(|q| q.zero_rtt));
        "quicRetry" Number "" [] "" "1 where the server sent a Retry packet (RFC 9000 section 17.2.5); else 0. Empty where no answer of the server in a long header was seen, or no Initial packet of the client could be read."
            = |r| number(r.quic.as_ref().and_then(|q| q.retry));
        "quicVersionNegotiation" Number "" [] "" "1 where the server sent Version Negotiation (RFC 9000 section 17.2.1); else 0. Empty in the same case."
            = |r| number(r.quic.as_ref().and_then(|q| q.version_negotiation));
        "quicHandshakeRttSeconds" Real "seconds" [] "" "From the client's last Initial packet before the answer to the server's first Initial or Handshake packet; seen where the capture was made."
            = |r| seconds(r.quic.as_ref().and_then(|q| q.handshake_rtt_ns));
        "quicSpinRttCount" Number "" [] "" "Round trips seen by the spin bit (RFC 9000 section 17.4)."
            = |r| number(spin(r).map(|q| q.spin_count));
        "quicSpinRttMinimumSeconds" Real "seconds" [] "" "The least of them, from one edge of the bit to the next; a longer one than 4.294967295 s counts as that."
            = |r| seconds(spin(r).map(|q| q.spin_min_ns));
        "quicSpinRttMeanSeconds" Real "seconds" [] "" "Their mean."
            = |r| seconds(spin(r).map(|q| q.spin_mean_ns));
    }
    Dns {
        "dnsQueryName" Text "" [] "" "Name of the flow's first DNS question (RFC 1035 section 4.1.2), escaped as in RFC 4343 section 2.1."
            = |r| text(r.dns.as_ref().map(|d| &d.query));
        "dnsQueryType" Number "" [] "" "Type of that question (IANA Resource Record TYPEs)."
            = |r| number(r.dns.as_ref().and_then(|d| d.query_type));
        "dnsResponseCode" Number "" [] "" "Response code of the response to that question (where no query was seen, of the flow's first response), with the upper bits of EDNS (RFC 1035 section 4.1.1, RFC 6891 section 6.1.3); 0 is NOERROR, 3 NXDOMAIN. Without these bits where their record is in a part of the response that was not captured."
            = |r| number(r.dns.as_ref().and_then(|d| d.response_code));
        "dnsAnswerCount" Number "records" [] "" "Answers in that response, as its header counts them (ANCOUNT, RFC 1035 section 4.1.1); 0 of an update (RFC 2136)."
            = |r| number(r.dns.as_ref().and_then(|d| d.answers));
        "dnsAnswerAddresses" Text "" [] "" "IPv4 and IPv6 addresses among these answers (A, RFC 1035 section 3.4.1; AAAA, RFC 3596 section 2.2), a comma between two; of more than 32, or than fit into 320 bytes or were captured, the first ones, marked in namesCut."
            = |r| text(r.dns.as_ref().map(|d| &d.addresses));
        "dnsTtlMinimumSeconds" Number "seconds" [] "" "The least time to live of these answers (RFC 1035 section 4.1.3); empty where one could not be read."
            = |r| number(r.dns.as_ref().and_then(|d| d.ttl_s));
        "dnsLatencySeconds" Real "seconds" [] "" "From the flow's first query, which may be in the record before, to that response."
            = |r| seconds(r.dns.as_ref().and_then(|d| d.latency_ns));
        "dnsQueryCount" Number "messages" [] "" "DNS queries in the flow."
            = |r| number(r.dns.as_ref().map(|d| d.queries));
        "dnsResponseCount" Number "messages" [] "" "DNS responses in the flow."
            = |r| number(r.dns.as_ref().map(|d| d.responses));
    }
    Http {
        "httpRequestMethod" Text "" [459] "" "Method of the flow's first HTTP/1 request (RFC 9112 section 3.1)."
            = |r| text(r.http.as_ref().map(|h| &h.method));
        "httpRequestHost" Text "" [460] "" "Host field of that request (RFC 9110 section 7.2)."
            = |r| text(r.http.as_ref().map(|h| &h.host));
        "httpRequestTarget" Text "" [461] "" "Target of that request as it was sent (RFC 9112 section 3.2), up to 255 bytes."
            = |r| text(r.http.as_ref().map(|h| &h.target));
        "httpUserAgent" Text "" [468] "" "User-Agent field of that request (RFC 9110 section 10.1.5)."
            = |r| text(r.http.as_ref().map(|h| &h.user_agent));
        "httpStatusCode" Number "" [457] "http_res" "Status code of the flow's first HTTP/1 response (RFC 9112 section 4)."
            = |r| number(r.http.as_ref().and_then(|h| h.status));
        "httpContentType" Text "" [469] "" "Content-Type field of that response (RFC 9110 section 8.3)."
            = |r| text(r.http.as_ref().map(|h| &h.content_type));
        "httpRequestCount" Number "messages" [] "http_req_cnt" "HTTP/1 requests in the flow."
            = |r| number(r.http.as_ref().map(|h| h.requests));
        "httpResponseCount" Number "messages" [] "http_res_cnt" "HTTP/1 responses in the flow."
            = |r| number(r.http.as_ref().map(|h| h.responses));
        "httpFirstByteSeconds" Real "seconds" [] "" "From the packet that completes the first request's head to the first byte of the first response; empty where that response came before."
            = |r| seconds(r.http.as_ref().and_then(|h| h.first_byte_ns));
    }
    [Rtp, ReverseRtp] {
        "rtpSsrc", "reverseRtpSsrc" Number "" "Synchronization source of the initiator's RTP packets (RFC 3550 section 5.1)."
            = |r, side| number(rtp(r, side).map(|p| p.ssrc));
        "rtpPayloadType", "reverseRtpPayloadType" Number "" "Payload type of these packets (RFC 3550 section 5.1)."
            = |r, side| number(rtp(r, side).map(|p| p.payload_type));
        "rtpCodec", "reverseRtpCodec" Text "" "Codec that this payload type stands for (RFC 3551 section 6); `dynamic` for 96 to 127."
            = |r, side| rtp(r, side).map_or(NameValue::None, |p| NameValue::Text(p.codec()));
        "rtpPacketCount", "reverseRtpPacketCount" Number "packets" "RTP packets of this source, those before it was known to be RTP among them."
            = |r, side| number(rtp(r, side).map(|p| p.packets));
        "rtpLostCount", "reverseRtpLostCount" Number "packets" "Packets that the sequence numbers say should have come and did not (RFC 3550 section 6.4.1 and appendix A.3): from the first packet counted to the highest number, less the packets counted, copies among them, and those that the first one overtook not; at least 0. Numbers between the end and the beginning of a source that counts anew are not among them."
            = |r, side| number(rtp(r, side).map(|p| p.lost));
        "rtpOutOfOrderCount", "reverseRtpOutOfOrderCount" Number "packets" "Packets that came after one with a later sequence number, up to 65535."
            = |r, side| number(rtp(r, side).map(|p| p.out_of_order));
        "rtpJitterSeconds", "reverseRtpJitterSeconds" Real "seconds" "Interarrival jitter (RFC 3550 section 6.4.1) of the packets with the clock rate of rtpPayloadType, at the end of the flow; empty where that rate is not known."
            = |r, side| jitter(r, side);
        "rtcpPacketCount", "reverseRtcpPacketCount" Number "packets" "RTCP packets of the initiator on the same ports (RFC 5761), up to 65535."
            = |r, side| number(rtp(r, side).map(|p| p.rtcp_packets));
    }
    Any {
        "namesCut" Number "" [] "" "What a limit cut short, in this record of the flow or one before, a sum of: 1 no reassembly buffer or one too short, 2 a text that was too long or found no room, 4 the capture's snap length, 8 no state free, 16 bytes missing before the capture."
            = |r| NameValue::Number(u64::from(r.cut.bits()));
    }
}
