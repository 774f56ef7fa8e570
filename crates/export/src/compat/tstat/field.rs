//! The contents of the columns in Tstat's logs, and how they are written.
//!
//! Times are in milliseconds, since the Unix epoch or since the first packet of the flow. Names are
//! never empty and contain no spaces, because spaces separate the columns: `-` means no name. Nor do
//! they contain anything that acts on a terminal or begins a formula.

use crate::column::measure::needs_care;
use crate::compat::connection::{Connection, Side};
use crate::printable;
use crate::text::{ASCII_ZEROES, Cursor, TextBuffer, eight_digits};

/// The contents of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Address,
    Port,
    Packets,
    Resets,
    Acks,
    PureAcks,
    UniqueBytes,
    DataPackets,
    PayloadBytes,
    RetransmittedPackets,
    RetransmittedBytes,
    OutOfOrder,
    Syns,
    Fins,
    First,
    Last,
    Duration,
    FirstPayload,
    LastPayload,
    FirstAck,
    Internal,
    Anonymised,
    ConnectionType,
    HttpType,
    RttMean,
    RttMin,
    RttMax,
    RttDeviation,
    RttCount,
    TtlMin,
    TtlMax,
    WindowScaleOffered,
    TimestampsOffered,
    WindowScale,
    SackOffered,
    Sacks,
    Mss,
    SegmentMax,
    SegmentMin,
    WindowMax,
    WindowMin,
    WindowZeros,
    FlightMax,
    FlightMin,
    FlightInitial,
    ByTimeout,
    ByFastRetransmit,
    Reordered,
    Duplicates,
    Unknown,
    FlowControl,
    UnneededTimeout,
    UnneededFastRetransmit,
    OtherSyn,
    HttpRequests,
    HttpResponses,
    HttpStatus,
    HttpHost,
    Pushes,
    ServerName,
    CertificateName,
    Alpn,
    TlsSession,
    TlsVersion,
    ResolvedName,
    ResolvedTime,
    SideFirst,
    SideSeconds,
    UdpType,
    QuicVersion,
    QuicServerVersion,
    QuicZeroRtt,
    /// Always zero.
    Obsolete,
    /// A name that is never known here.
    NoText,
}

/// Which `--statistics` fill a column.
const ALL: &str = "always";
const TCP: &str = "tcp, full";
const ANALYSED: &str = "tcp, app, full";
const NAMES: &str = "app, full";
const NEVER: &str = "";

impl Field {
    /// Returns what the column contains, and which `--statistics` fill it.
    pub(super) const fn description(self) -> (&'static str, &'static str) {
        match self {
            Self::Address => ("address; anonymised on request", ALL),
            Self::Port => ("port", ALL),
            Self::Packets => ("packets", ALL),
            Self::Resets => ("1 if there was a RST (also 0 or 1 in Tstat)", ALL),
            Self::Acks => (
                "segments with ACK; without the analyser, 1 if there was one",
                TCP,
            ),
            Self::PureAcks => (
                "segments with ACK and without payload, SYN, FIN or RST",
                TCP,
            ),
            Self::UniqueBytes => ("bytes of payload without retransmissions", TCP),
            Self::DataPackets => ("segments with payload", ANALYSED),
            Self::PayloadBytes => ("bytes of payload including retransmissions", ANALYSED),
            Self::RetransmittedPackets => ("retransmitted segments", TCP),
            Self::RetransmittedBytes => ("retransmitted bytes", TCP),
            Self::OutOfOrder => ("segments out of order", TCP),
            Self::Syns => (
                "segments with SYN; without the analyser, 1 if there was one",
                TCP,
            ),
            Self::Fins => (
                "segments with FIN; without the analyser, 1 if there was one",
                TCP,
            ),
            Self::First => ("first packet, ms since the Unix epoch", ALL),
            Self::Last => ("last packet, ms since the Unix epoch", ALL),
            Self::Duration => ("from the first packet to the last, ms", ALL),
            Self::FirstPayload => (
                "first segment with payload, ms since the first packet",
                ANALYSED,
            ),
            Self::LastPayload => (
                "last segment with payload, ms since the first packet",
                ANALYSED,
            ),
            Self::FirstAck => ("0: not measured", NEVER),
            Self::Internal => (
                "0: internal networks are not known; use the addresses",
                NEVER,
            ),
            Self::Anonymised => ("1 with --anonymise crypto-pan", ALL),
            Self::ConnectionType => (
                "Tstat's bits: 1 HTTP, 2 RTSP, 1024 SMTP, 2048 POP3, 4096 IMAP, 8192 TLS, 32768 SSH, 65536 RTMP; 0 unknown",
                NAMES,
            ),
            Self::HttpType => ("1 for HTTP, 2 if the first request was a POST", NAMES),
            Self::RttMean => ("mean round-trip time of segments and their ACKs, ms", TCP),
            Self::RttMin => ("minimum round-trip time, ms", TCP),
            Self::RttMax => ("maximum round-trip time, ms", TCP),
            Self::RttDeviation => ("standard deviation of round-trip times, ms", TCP),
            Self::RttCount => ("number of round-trip times", TCP),
            Self::TtlMin => ("minimum time to live", ANALYSED),
            Self::TtlMax => ("maximum time to live", ANALYSED),
            Self::WindowScaleOffered => ("1 if the SYN had the window scale option", TCP),
            Self::TimestampsOffered => ("1 if the SYN had the timestamps option", TCP),
            Self::WindowScale => ("window scale in the SYN", TCP),
            Self::SackOffered => ("1 if the SYN had the SACK permitted option", TCP),
            Self::Sacks => ("SACK blocks (Tstat: segments with SACK blocks)", TCP),
            Self::Mss => ("maximum segment size in the SYN, bytes", TCP),
            Self::SegmentMax => ("longest segment payload, bytes", TCP),
            Self::SegmentMin => ("shortest non-empty segment payload, bytes", TCP),
            Self::WindowMax => ("largest advertised window, scaled, bytes", TCP),
            Self::WindowMin => ("smallest advertised window, scaled, bytes", TCP),
            Self::WindowZeros => ("segments that advertised a zero window", TCP),
            Self::FlightMax => ("maximum bytes in flight", TCP),
            Self::FlightMin => ("0: not measured", NEVER),
            Self::FlightInitial => ("bytes in flight before the first ACK", TCP),
            Self::ByTimeout => ("retransmissions by timeout", TCP),
            Self::ByFastRetransmit => ("fast retransmissions", TCP),
            Self::Reordered => ("segments reordered by the network", TCP),
            Self::Duplicates => ("segments duplicated by the network", TCP),
            Self::Unknown => ("anomalies of unknown cause", TCP),
            Self::FlowControl => ("zero-window probes", TCP),
            Self::UnneededTimeout => ("unneeded retransmissions by timeout", TCP),
            Self::UnneededFastRetransmit => ("unneeded fast retransmissions", TCP),
            Self::OtherSyn => (
                "1 if SYNs opened more than one connection on these ports",
                TCP,
            ),
            Self::HttpRequests => ("HTTP/1 requests", NAMES),
            Self::HttpResponses => ("HTTP/1 responses", NAMES),
            Self::HttpStatus => ("status of the first HTTP response", NAMES),
            Self::HttpHost => ("host of the first HTTP request, or -", NAMES),
            Self::Pushes => (
                "segments with PSH; without the analyser, 1 if there was one",
                TCP,
            ),
            Self::ServerName => ("server name of the ClientHello, or -", NAMES),
            Self::CertificateName => (
                "subject of the server's certificate (Tstat: its common name only), or -",
                NAMES,
            ),
            Self::Alpn => (
                "Tstat's bits of the protocols offered and chosen by ALPN: 32 HTTP/1, 64 SPDY, 128 HTTP/2, 16 other; NPN (1 to 8) is obsolete",
                NAMES,
            ),
            Self::TlsSession => (
                "Tstat's bits: 1 the client offers to resume a session, 8 the server resumes it with a pre-shared key",
                NAMES,
            ),
            Self::TlsVersion => (
                "versions offered by the client, and version chosen by the server, in hexadecimal, or -",
                NAMES,
            ),
            Self::ResolvedName => ("name that the client resolved, or -", NAMES),
            Self::ResolvedTime => ("time of that resolution, ms since the Unix epoch", NAMES),
            Self::SideFirst => (
                "first packet of this side, ms since the Unix epoch",
                ANALYSED,
            ),
            Self::SideSeconds => (
                "from the first packet of this side to its last, seconds as in Tstat",
                ANALYSED,
            ),
            Self::UdpType => (
                "Tstat's number: 3 RTP, 4 RTCP, 19 DNS, 27 QUIC; 0 unknown (without names, DNS by port)",
                NAMES,
            ),
            Self::QuicVersion => (
                "version of the client's Initial packets, in hexadecimal, or -",
                NAMES,
            ),
            Self::QuicServerVersion => (
                "the same if the server answered, which accepts the version",
                NAMES,
            ),
            Self::QuicZeroRtt => ("1 if the client sent 0-RTT packets", NAMES),
            Self::Obsolete => ("0", NEVER),
            Self::NoText => ("-", NEVER),
        }
    }

    /// Writes the value for one side of a connection, followed by a space. `anonymised` tells
    /// whether addresses are anonymised with Crypto-PAn.
    pub(super) fn write(
        self,
        text: &mut TextBuffer,
        connection: &Connection<'_>,
        side: usize,
        anonymised: bool,
    ) {
        let key = &connection.key;
        let state = &connection.sides[side & 1];
        let names = &connection.application;
        match self {
            Self::Obsolete => text.append(2, |cursor| cursor.put(b"0 ", 2)),
            Self::Address => address(text, connection, side),
            Self::Port => number(
                text,
                if side == 0 {
                    key.source_port
                } else {
                    key.destination_port
                }
                .into(),
            ),
            Self::First => epoch_ms(text, Some(connection.start_ns)),
            Self::Last => epoch_ms(text, Some(connection.end_ns)),
            Self::Duration => since_ms(text, connection, Some(connection.end_ns)),
            Self::FirstPayload => since_ms(text, connection, state.first_payload_ns),
            Self::LastPayload => since_ms(text, connection, state.last_payload_ns),
            Self::FirstAck => since_ms(text, connection, state.first_ack_ns),
            Self::RttMean => precise_ms(text, nanoseconds(state.rtt.mean_ns)),
            Self::RttMin => precise_ms(text, state.rtt.min_ns),
            Self::RttMax => precise_ms(text, state.rtt.max_ns),
            Self::RttDeviation => precise_ms(text, nanoseconds(state.rtt.deviation_ns)),
            Self::ResolvedTime => epoch_ms(text, names.resolved_ns),
            Self::SideFirst => epoch_ms(text, state.first_ns),
            Self::SideSeconds => seconds(text, state),
            Self::HttpHost => name(text, names.http_host),
            Self::ServerName => name(text, names.server_name),
            Self::CertificateName => name(text, names.certificate_name),
            Self::ResolvedName => name(text, names.resolved),
            Self::TlsVersion if side == 0 => name(text, names.tls_offered),
            Self::TlsVersion => match names.tls_chosen {
                Some(version) => name(text, Some(&format!("{version:04x}"))),
                None => name(text, None),
            },
            Self::QuicVersion | Self::QuicServerVersion => match names.quic_version {
                Some(version) if self == Self::QuicVersion || state.packets > 0 => {
                    name(text, Some(&format!("{version:08x}")));
                }
                _ => name(text, None),
            },
            Self::NoText => name(text, None),
            _ => number(text, self.count(connection, state, side, anonymised)),
        }
    }

    /// Returns the value of an integer column.
    fn count(
        self,
        connection: &Connection<'_>,
        state: &Side,
        side: usize,
        anonymised: bool,
    ) -> u64 {
        let names = &connection.application;
        match self {
            Self::Packets => state.packets,
            Self::Resets => state.resets.min(1),
            Self::Acks => state.acks,
            Self::PureAcks => state.pure_acks,
            Self::UniqueBytes => state.unique_bytes,
            Self::DataPackets => state.data_packets,
            Self::PayloadBytes => state.payload_bytes,
            Self::RetransmittedPackets => state.retransmitted_packets,
            Self::RetransmittedBytes => state.retransmitted_bytes,
            Self::OutOfOrder => state.out_of_order,
            Self::Syns => state.syns,
            Self::Fins => state.fins,
            Self::Anonymised => anonymised.into(),
            Self::ConnectionType => connection.connection_type.into(),
            Self::HttpType if names.http_requests == 0 => 0,
            Self::HttpType => 1 + u64::from(names.http_post),
            Self::RttCount => state.rtt.count,
            Self::TtlMin => state.ttl_min.into(),
            Self::TtlMax => state.ttl_max.into(),
            Self::WindowScaleOffered => state.window_scale.is_some().into(),
            Self::WindowScale => state.window_scale.unwrap_or(0).into(),
            Self::TimestampsOffered => state.timestamps.into(),
            Self::SackOffered => state.sack.into(),
            Self::Sacks => state.sacks,
            Self::Mss => state.mss,
            Self::SegmentMax => state.segment_max,
            Self::SegmentMin => state.segment_min,
            Self::WindowMax => state.window_max,
            Self::WindowMin => state.window_min,
            Self::WindowZeros => state.window_zeros,
            Self::FlightMax => state.flight_max,
            Self::FlightMin => state.flight_min,
            Self::FlightInitial => state.flight_initial,
            Self::ByTimeout => state.anomalies[0],
            Self::ByFastRetransmit => state.anomalies[1],
            Self::Reordered => state.anomalies[2],
            Self::Duplicates => state.anomalies[3],
            Self::Unknown => state.anomalies[4],
            Self::FlowControl => state.anomalies[5],
            Self::UnneededTimeout => state.anomalies[6],
            Self::UnneededFastRetransmit => state.anomalies[7],
            Self::OtherSyn => state.other_syn.into(),
            Self::HttpRequests => names.http_requests,
            Self::HttpResponses => names.http_responses,
            Self::HttpStatus => names.http_status.into(),
            Self::Pushes => state.pushes,
            Self::Alpn => names.alpn[side & 1].map_or(0, alpn_bits),
            Self::TlsSession => names.tls_session.into(),
            Self::UdpType => connection.udp_type.into(),
            Self::QuicZeroRtt => names.quic_zero_rtt.into(),
            _ => 0,
        }
    }
}

/// Returns Tstat's bits for a comma-separated list of protocols.
fn alpn_bits(protocols: &str) -> u64 {
    let bits = protocols.split(',').map(|protocol| match protocol {
        "http/1.0" | "http/1.1" => 0x20,
        "h2" | "h2c" => 0x80,
        spdy if spdy.starts_with("spdy/") => 0x40,
        _ => 0x10,
    });
    bits.fold(0, |all, bit| all | bit)
}

fn number(text: &mut TextBuffer, value: u64) {
    text.append(Cursor::VALUE_BYTES_MAX + 1, |cursor| {
        cursor.unsigned_then(value, b' ');
    });
}

fn address(text: &mut TextBuffer, connection: &Connection<'_>, side: usize) {
    let key = &connection.key;
    let bytes = if side == 0 {
        &key.source
    } else {
        &key.destination
    };
    text.append(Cursor::VALUE_BYTES_MAX + 1, |cursor| {
        match (key.version, bytes) {
            (4, [a, b, c, d, ..]) => cursor.ipv4([*a, *b, *c, *d]),
            _ => cursor.ipv6(bytes),
        }
        cursor.byte(b' ');
    });
}

/// Writes milliseconds since the Unix epoch with three decimals; 0 if there is no time.
fn epoch_ms(text: &mut TextBuffer, time_ns: Option<i64>) {
    let time_ns = time_ns.unwrap_or(0);
    if time_ns < 0 {
        text.push_bytes(b"-");
    }
    decimals::<3>(text, time_ns.unsigned_abs() / 1000);
}

/// Writes milliseconds since the first packet of the flow with three decimals.
fn since_ms(text: &mut TextBuffer, connection: &Connection<'_>, time_ns: Option<i64>) {
    let since = time_ns.map_or(0, |time_ns| time_ns.saturating_sub(connection.start_ns));
    decimals::<3>(text, since.max(0).unsigned_abs() / 1000);
}

/// Writes milliseconds with six decimals.
fn precise_ms(text: &mut TextBuffer, time_ns: u64) {
    decimals::<6>(text, time_ns);
}

/// Writes the seconds from a side's first packet to its last with six decimals.
fn seconds(text: &mut TextBuffer, side: &Side) {
    let time_ns = match (side.first_ns, side.last_ns) {
        (Some(first), Some(last)) => last.saturating_sub(first).max(0).unsigned_abs(),
        _ => 0,
    };
    decimals::<6>(text, time_ns / 1000);
}

/// Writes `value` as a decimal fraction with `COUNT` decimals, at most seven.
#[inline]
fn decimals<const COUNT: usize>(text: &mut TextBuffer, value: u64) {
    let unit = const { 10_u64.pow(COUNT as u32) };
    text.append(2 * Cursor::VALUE_BYTES_MAX, |cursor| {
        if value == 0 {
            // Most columns were not measured.
            cursor.put(b"0.0000000", COUNT + 2);
            return cursor.byte(b' ');
        }
        cursor.unsigned(value / unit);
        // The dot takes the place of the digit before the decimals.
        let digits = (eight_digits((value % unit) as u32) | ASCII_ZEROES) >> (8 * (7 - COUNT));
        let decimals = digits & !0xff | u64::from(b'.');
        cursor.put(&decimals.to_le_bytes(), COUNT + 1);
        cursor.byte(b' ');
    });
}

/// Rounds a computed number of nanoseconds.
fn nanoseconds(value: f64) -> u64 {
    // NaN and negative values become 0.
    value.round() as u64
}

fn name(text: &mut TextBuffer, name: Option<&str>) {
    match name {
        None | Some("") => text.append(2, |cursor| cursor.put(b"- ", 2)),
        Some(name) => {
            if printable::starts_formula(name) || needs_care(name, [b' ']) {
                printable::append_word(text, name);
            } else {
                text.push_bytes(name.as_bytes());
            }
            text.push_bytes(b" ");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut TextBuffer)) -> String {
        let mut text = TextBuffer::default();
        write(&mut text);
        let value = text.as_bytes().strip_suffix(b" ").unwrap();
        String::from_utf8(value.to_vec()).unwrap()
    }

    #[test]
    fn times_have_fixed_decimals() {
        let epoch = |time_ns| written(|text| epoch_ms(text, time_ns));
        assert_eq!(epoch(Some(1_642_204_803_117_595_999)), "1642204803117.595");
        assert_eq!(epoch(Some(-1_500_000)), "-1.500");
        assert_eq!(epoch(Some(i64::MIN)), "-9223372036854.775");
        assert_eq!(epoch(None), "0.000");
        assert_eq!(written(|text| precise_ms(text, 12_345_678)), "12.345678");
        assert_eq!(written(|text| precise_ms(text, 7)), "0.000007");
        assert_eq!([nanoseconds(f64::NAN), nanoseconds(2.6)], [0, 3]);
    }

    #[test]
    fn names_contain_no_separators() {
        let clean = |text: &str| written(|out| name(out, Some(text)));
        assert_eq!(clean("example.com"), "example.com");
        assert_eq!(clean("CN=A b,O=x\ty\n"), "CN=A_b,O=x_y_");
        assert_eq!(clean("a\u{3000}b\u{a0}\u{9b}2J\u{202e}é"), "a_b__2J_é");
        assert_eq!([clean("=1"), clean("-")], ["_1", "_"]);
        assert_eq!(clean(""), "-");
        assert_eq!(written(|out| name(out, None)), "-");
    }

    #[test]
    fn alpn_bits_match_tstat() {
        assert_eq!(alpn_bits("h2,http/1.1"), 0xa0);
        assert_eq!(alpn_bits("spdy/3.1"), 0x40);
        assert_eq!(alpn_bits("h3,dot"), 0x10);
    }
}
