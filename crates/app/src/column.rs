//! The columns of an [`AppRecord`]: name, unit, definition, and the function that returns the value.

use super::record::{AppRecord, AppText, QuicRecord, RtpRecord};

/// A value of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AppValue<'a> {
    /// No value.
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
pub enum AppType {
    /// [`AppValue::Text`].
    Text,
    /// [`AppValue::Number`].
    Number,
    /// [`AppValue::Real`].
    Real,
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
        }
    }
}

/// An application-layer column.
#[derive(Clone, Copy, Debug)]
pub struct AppColumn {
    /// Stable name in camelCase. The unit comes last.
    pub name: &'static str,
    /// Type of its values.
    pub kind: AppType,
    /// Unit; empty if there is none.
    pub unit: &'static str,
    /// Number of the IPFIX Information Element, if there is one.
    pub ipfix: Option<u16>,
    /// Name of the same column in Tstat's logs; empty if there is none.
    pub tstat: &'static str,
    /// Definition with its source.
    pub definition: &'static str,
    /// The group of the column.
    pub group: AppGroup,
    /// Returns the value from a record.
    pub value: for<'a> fn(&'a AppRecord) -> AppValue<'a>,
}

fn text<'a>(value: Option<&'a Option<AppText>>) -> AppValue<'a> {
    match value {
        Some(Some(text)) => AppValue::Text(text),
        _ => AppValue::None,
    }
}

fn number<N: Into<u64>>(value: Option<N>) -> AppValue<'static> {
    value.map_or(AppValue::None, |value| AppValue::Number(value.into()))
}

fn seconds(nanoseconds: Option<u64>) -> AppValue<'static> {
    nanoseconds.map_or(AppValue::None, |ns| AppValue::Real(ns as f64 / 1e9))
}

fn filled(value: &str) -> AppValue<'_> {
    if value.is_empty() {
        AppValue::None
    } else {
        AppValue::Text(value)
    }
}

fn spin(record: &AppRecord) -> Option<&QuicRecord> {
    record.quic.as_deref().filter(|quic| quic.spin_count > 0)
}

fn rtp(record: &AppRecord, side: usize) -> Option<&RtpRecord> {
    record.rtp[side].as_deref()
}

fn jitter(record: &AppRecord, side: usize) -> AppValue<'static> {
    rtp(record, side)
        .and_then(|rtp| rtp.jitter_ns)
        .map_or(AppValue::None, |ns| AppValue::Real(ns / 1e9))
}

/// Defines the table, group by group. A group with both directions is written once: its columns
/// become those of the initiator, followed by those of the responder.
macro_rules! columns {
    (
        $($part:ident { $($name:literal $kind:ident $unit:literal [$($ipfix:literal)?] $tstat:literal $definition:literal = |$record:ident| $value:expr;)* })*
        [$initiator:ident, $responder:ident] { $($forth:literal, $back:literal $side_kind:ident $side_unit:literal $side_definition:literal = |$side_record:ident, $side:ident| $side_value:expr;)* }
        $($last:ident { $($last_name:literal $last_kind:ident $last_unit:literal [$($last_ipfix:literal)?] $last_tstat:literal $last_definition:literal = |$last_record:ident| $last_value:expr;)* })*
    ) => {
        /// Every column, in the order in which formats write them.
        pub static COLUMNS: &[AppColumn] = &[
            $($(columns!(@column $part, $name, $kind, $unit, [$($ipfix)?], $tstat, $definition, |$record| $value),)*)*
            $(columns!(@column $initiator, $forth, $side_kind, $side_unit, [], "", $side_definition, |$side_record| { let $side = 0; $side_value }),)*
            $(columns!(@column $responder, $back, $side_kind, $side_unit, [], "", concat!("As ", $forth, ", of the responder."), |$side_record| { let $side = 1; $side_value }),)*
            $($(columns!(@column $last, $last_name, $last_kind, $last_unit, [$($last_ipfix)?], $last_tstat, $last_definition, |$last_record| $last_value),)*)*
        ];
    };
    (@column $part:ident, $name:literal, $kind:ident, $unit:literal, [$($ipfix:literal)?], $tstat:literal, $definition:expr, |$record:ident| $value:expr) => {
        AppColumn {
            name: $name,
            kind: AppType::$kind,
            unit: $unit,
            ipfix: columns!(@ipfix $($ipfix)?),
            tstat: $tstat,
            definition: $definition,
            group: AppGroup::$part,
            value: |$record| $value,
        }
    };
    (@ipfix $number:literal) => { Some($number) };
    (@ipfix) => { None };
}

columns! {
    Any {
        "applicationName" Text "" [96] "" "Application class, by the table of names, first bytes and ports. Empty if no entry matches."
            = |r| r.application.as_ref().map_or(AppValue::None, |a| AppValue::Text(&a.name));
        "applicationFoundBy" Text "" [] "" "How the class was found, the most certain way that matched: `sni` (TLS or QUIC), `host` (HTTP), `bytes` (first bytes of the payload, or a parsed protocol), `dns` (resolved name), `port`."
            = |r| r.application.as_ref().map_or(AppValue::None, |a| AppValue::Text(a.found_by.name()));
    }
    Resolved {
        "resolvedName" Text "" [] "fqdn" "Name that the initiator had most recently resolved to the responder's address when it opened the flow, from DNS responses in the same traffic."
            = |r| r.resolved.as_ref().map_or(AppValue::None, |n| AppValue::Text(&n.name));
        "resolvedNameAgeSeconds" Real "seconds" [] "dns_rslv" "Time from that DNS response to the flow's first packet (the first of all its records, if the active timeout splits it), in whole microseconds. 0 if the clock went back; at most 4294.967295."
            = |r| seconds(r.resolved.as_ref().map(|n| n.age_ns));
    }
    Tls {
        "tlsServerName" Text "" [] "c_tls_SNI" "Server name in the ClientHello (RFC 6066 section 3), of TLS over TCP or inside QUIC."
            = |r| text(r.tls.as_ref().map(|t| &t.server_name));
        "tlsAlpnOffered" Text "" [] "c_npnalpn" "Protocols that the client offers (RFC 7301), separated by commas, without GREASE (RFC 8701)."
            = |r| text(r.tls.as_ref().map(|t| &t.alpn_offered));
        "tlsAlpnChosen" Text "" [] "s_npnalpn" "Protocol that the server chose (RFC 7301 section 3.1), if it is not encrypted (up to TLS 1.2)."
            = |r| text(r.tls.as_ref().map(|t| &t.alpn_chosen));
        "tlsVersionsOffered" Text "" [] "" "Versions in the client's supported_versions extension (RFC 8446 section 4.2.1), in the client's order, in hexadecimal as on the wire, separated by commas, without GREASE (RFC 8701). Without that extension, legacy_version alone, which is then the highest version offered. Empty if the part of the ClientHello that has them was not seen."
            = |r| text(r.tls.as_ref().map(|t| &t.versions_offered));
        "tlsVersion" Number "" [] "" "Version that the server chose in its ServerHello (RFC 8446 sections 4.1.3 and 4.2.1), as on the wire: 769 TLS 1.0, 770 TLS 1.1, 771 TLS 1.2, 772 TLS 1.3."
            = |r| number(r.tls.as_ref().and_then(|t| t.version));
        "tlsCipherSuite" Number "" [] "" "Cipher suite that the server chose in its ServerHello (RFC 8446 section 4.1.3; IANA TLS Cipher Suites)."
            = |r| number(r.tls.as_ref().and_then(|t| t.cipher));
        "tlsJa4" Text "" [] "" "JA4 fingerprint of the ClientHello, as FoxIO defines it: three parts of 10, 12 and 12 characters, starting with t for TCP or q for QUIC. Empty if the end of the ClientHello is missing."
            = |r| text(r.tls.as_ref().map(|t| &t.ja4));
        "tlsEchOffered" Number "" [] "" "1 if the client offers Encrypted Client Hello (RFC 9849) or a GREASE of it, which looks the same; else 0. Empty if the end of the ClientHello is missing and may offer it."
            = |r| number(r.tls.as_ref().and_then(|t| t.ech_offered));
        "tlsResumptionOffered" Number "" [] "" "1 if the client offers to resume a session: by session ID (RFC 5246 section 7.4.1.2, if it does not offer TLS 1.3), ticket (RFC 5077) or pre-shared key (RFC 8446 section 4.2.11); else 0. Empty if the end of the ClientHello is missing and may offer it."
            = |r| number(r.tls.as_ref().and_then(|t| t.resumption_offered));
        "tlsResumed" Number "" [] "" "1 if the server resumed the session: it echoes the session ID (up to TLS 1.2) or chooses a pre-shared key (TLS 1.3); else 0. Empty if no ServerHello was seen, or one up to TLS 1.2 without its ClientHello."
            = |r| number(r.tls.as_ref().and_then(|t| t.resumed));
        "tlsSetupSeconds" Real "seconds" [] "" "Time from the packet that completes the ClientHello to the client's first record of application data (in TLS 1.3, its Finished) after the ServerHello."
            = |r| seconds(r.tls.as_ref().and_then(|t| t.setup_ns));
        "tlsCertificateSubject" Text "" [] "s_tls_SCN" "Subject of the server's certificate (RFC 5280 section 4.1.2.6), written as in RFC 4514 but in the certificate's order, if it is not encrypted (up to TLS 1.2). Tstat has the common name only."
            = |r| text(r.tls.as_ref().map(|t| &t.subject));
        "tlsCertificateIssuer" Text "" [] "" "Issuer of the server's certificate (RFC 5280 section 4.1.2.4), written in the same way."
            = |r| text(r.tls.as_ref().map(|t| &t.issuer));
    }
    Quic {
        "quicVersion" Number "" [] "" "Version in the client's Initial packets (RFC 9000 section 17.2); after Version Negotiation, that of the last one. 1 is RFC 9000, 1798521807 is RFC 9369."
            = |r| number(r.quic.as_ref().map(|q| q.version));
        "quicOriginalDestinationId" Text "" [] "" "Destination connection ID of the client's first Initial packet (RFC 9000 section 7.2), in hexadecimal."
            = |r| r.quic.as_ref().map_or(AppValue::None, |q| filled(&q.original_destination_id));
        "quicClientId" Text "" [] "" "Connection ID that the client chose for itself in its first Initial packet, in hexadecimal. Empty if it has length 0."
            = |r| r.quic.as_ref().map_or(AppValue::None, |q| filled(&q.client_id));
        "quicServerId" Text "" [] "" "Connection ID that the server chose for itself in its last long header of the handshake, in hexadecimal. Empty if it has length 0."
            = |r| r.quic.as_ref().map_or(AppValue::None, |q| filled(&q.server_id));
        "quicZeroRtt" Number "" [] "" "1 if the client sent 0-RTT packets (RFC 9000 section 17.2.3); else 0. Empty if no Initial packet of the client could be read."
            = |r| number(r.quic.as_ref().and_then(|q| q.zero_rtt));
        "quicRetry" Number "" [] "" "1 if the server sent a Retry packet (RFC 9000 section 17.2.5); else 0. Empty if no packet of the server with a long header was seen, or if no Initial packet of the client could be read."
            = |r| number(r.quic.as_ref().and_then(|q| q.retry));
        "quicVersionNegotiation" Number "" [] "" "1 if the server sent Version Negotiation (RFC 9000 section 17.2.1); else 0. Empty in the same cases as quicRetry."
            = |r| number(r.quic.as_ref().and_then(|q| q.version_negotiation));
        "quicHandshakeRttSeconds" Real "seconds" [] "" "Time from the client's last Initial packet before the server's answer to the server's first Initial or Handshake packet, as seen at the capture point."
            = |r| seconds(r.quic.as_ref().and_then(|q| q.handshake_rtt_ns));
        "quicSpinRttCount" Number "" [] "" "Number of RTT samples from the spin bit (RFC 9000 section 17.4)."
            = |r| number(spin(r).map(|q| q.spin_count));
        "quicSpinRttMinimumSeconds" Real "seconds" [] "" "Minimum of these samples. A sample is the time from one edge of the bit to the next, at most 4.294967295 s."
            = |r| seconds(spin(r).map(|q| q.spin_min_ns));
        "quicSpinRttMeanSeconds" Real "seconds" [] "" "Mean of these samples."
            = |r| seconds(spin(r).map(|q| q.spin_mean_ns));
    }
    Dns {
        "dnsQueryName" Text "" [] "" "Name of the flow's first DNS question (RFC 1035 section 4.1.2), escaped as in RFC 4343 section 2.1."
            = |r| text(r.dns.as_ref().map(|d| &d.query));
        "dnsQueryType" Number "" [] "" "Type of that question (IANA Resource Record TYPEs)."
            = |r| number(r.dns.as_ref().and_then(|d| d.query_type));
        "dnsResponseCode" Number "" [] "" "Response code of the response to that question, or of the flow's first response if no query was seen, including the upper bits from EDNS (RFC 1035 section 4.1.1, RFC 6891 section 6.1.3): 0 is NOERROR, 3 is NXDOMAIN. Without the upper bits if their record was not captured."
            = |r| number(r.dns.as_ref().and_then(|d| d.response_code));
        "dnsAnswerCount" Number "records" [] "" "Number of answers in that response, from its header (ANCOUNT, RFC 1035 section 4.1.1); 0 for an update (RFC 2136)."
            = |r| number(r.dns.as_ref().and_then(|d| d.answers));
        "dnsAnswerAddresses" Text "" [] "" "IPv4 and IPv6 addresses in these answers (A, RFC 1035 section 3.4.1; AAAA, RFC 3596 section 2.2), separated by commas. If there are more than 32, or more than fit into 320 bytes or were captured, only the first ones, and namesCut has a bit set."
            = |r| text(r.dns.as_ref().map(|d| &d.addresses));
        "dnsTtlMinimumSeconds" Number "seconds" [] "" "Smallest TTL of these answers (RFC 1035 section 4.1.3). Empty if one of them could not be read."
            = |r| number(r.dns.as_ref().and_then(|d| d.ttl_s));
        "dnsLatencySeconds" Real "seconds" [] "" "Time from the flow's first query, which may be in the previous record, to that response."
            = |r| seconds(r.dns.as_ref().and_then(|d| d.latency_ns));
        "dnsQueryCount" Number "messages" [] "" "Number of DNS queries in the flow."
            = |r| number(r.dns.as_ref().map(|d| d.queries));
        "dnsResponseCount" Number "messages" [] "" "Number of DNS responses in the flow."
            = |r| number(r.dns.as_ref().map(|d| d.responses));
    }
    Http {
        "httpRequestMethod" Text "" [459] "" "Method of the flow's first HTTP/1 request (RFC 9112 section 3.1)."
            = |r| text(r.http.as_ref().map(|h| &h.method));
        "httpRequestHost" Text "" [460] "" "Host field of that request (RFC 9110 section 7.2)."
            = |r| text(r.http.as_ref().map(|h| &h.host));
        "httpRequestTarget" Text "" [461] "" "Target of that request as sent (RFC 9112 section 3.2), up to 255 bytes."
            = |r| text(r.http.as_ref().map(|h| &h.target));
        "httpUserAgent" Text "" [468] "" "User-Agent field of that request (RFC 9110 section 10.1.5)."
            = |r| text(r.http.as_ref().map(|h| &h.user_agent));
        "httpStatusCode" Number "" [457] "http_res" "Status code of the flow's first HTTP/1 response (RFC 9112 section 4)."
            = |r| number(r.http.as_ref().and_then(|h| h.status));
        "httpContentType" Text "" [469] "" "Content-Type field of that response (RFC 9110 section 8.3)."
            = |r| text(r.http.as_ref().map(|h| &h.content_type));
        "httpRequestCount" Number "messages" [] "http_req_cnt" "Number of HTTP/1 requests in the flow."
            = |r| number(r.http.as_ref().map(|h| h.requests));
        "httpResponseCount" Number "messages" [] "http_res_cnt" "Number of HTTP/1 responses in the flow."
            = |r| number(r.http.as_ref().map(|h| h.responses));
        "httpFirstByteSeconds" Real "seconds" [] "" "Time from the packet that completes the head of the first request to the first byte of the first response. Empty if the response came first."
            = |r| seconds(r.http.as_ref().and_then(|h| h.first_byte_ns));
    }
    [Rtp, ReverseRtp] {
        "rtpSsrc", "reverseRtpSsrc" Number "" "Synchronization source of the initiator's RTP packets (RFC 3550 section 5.1)."
            = |r, side| number(rtp(r, side).map(|p| p.ssrc));
        "rtpPayloadType", "reverseRtpPayloadType" Number "" "Payload type of these packets (RFC 3550 section 5.1)."
            = |r, side| number(rtp(r, side).map(|p| p.payload_type));
        "rtpCodec", "reverseRtpCodec" Text "" "Codec of this payload type (RFC 3551 section 6); `dynamic` for 96 to 127."
            = |r, side| rtp(r, side).map_or(AppValue::None, |p| AppValue::Text(p.codec()));
        "rtpPacketCount", "reverseRtpPacketCount" Number "packets" "Number of RTP packets of this source, including those before it was identified as RTP."
            = |r, side| number(rtp(r, side).map(|p| p.packets));
        "rtpLostCount", "reverseRtpLostCount" Number "packets" "Number of lost packets (RFC 3550 section 6.4.1 and appendix A.3): the packets expected from the first one counted to the highest sequence number, minus the packets received; at least 0. Duplicates count as received; packets that the first one overtook do not. When a source restarts its sequence numbers, the jump is no loss."
            = |r, side| number(rtp(r, side).map(|p| p.lost));
        "rtpOutOfOrderCount", "reverseRtpOutOfOrderCount" Number "packets" "Number of packets that arrived after one with a later sequence number, up to 65535."
            = |r, side| number(rtp(r, side).map(|p| p.out_of_order));
        "rtpJitterSeconds", "reverseRtpJitterSeconds" Real "seconds" "Interarrival jitter (RFC 3550 section 6.4.1) at the end of the flow, from the packets with the clock rate of rtpPayloadType. Empty if that rate is not known."
            = |r, side| jitter(r, side);
        "rtcpPacketCount", "reverseRtcpPacketCount" Number "packets" "Number of RTCP packets from the initiator on the same ports (RFC 5761), up to 65535."
            = |r, side| number(rtp(r, side).map(|p| p.rtcp_packets));
    }
    Any {
        "namesCut" Number "" [] "" "Why names may be missing or truncated in this record of the flow, or were in an earlier one. The sum of: 1 reassembly (no buffer, or one too small), 2 text too long or no memory for it, 4 snaplen, 8 no free state, 16 bytes missing in the capture."
            = |r| AppValue::Number(u64::from(r.incomplete.bits()));
    }
}
