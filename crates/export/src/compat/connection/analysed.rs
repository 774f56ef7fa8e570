//! Adds the results of the analyser, in Tstat's terms.

use super::{Application, Connection, Rtt, Side};
use analysis::tcp::flag;
use analysis::volume::{self, Volume};
use analysis::{Analysis, Tcp, TcpCold};
use app::AppRecord;
use wire::tcp::flag::{FIN, RST};

/// Tstat's connection type bits.
mod connection_type {
    pub(super) const HTTP: u32 = 1;
    pub(super) const RTSP: u32 = 2;
    pub(super) const SMTP: u32 = 1024;
    pub(super) const POP3: u32 = 2048;
    pub(super) const IMAP: u32 = 4096;
    pub(super) const TLS: u32 = 8192;
    pub(super) const SSH: u32 = 32768;
    pub(super) const RTMP: u32 = 65536;
}

/// Tstat's UDP types.
mod udp_type {
    pub(super) const RTP: u8 = 3;
    pub(super) const RTCP: u8 = 4;
    pub(super) const DNS: u8 = 19;
    pub(super) const QUIC: u8 = 27;
}

/// Tstat's session status bits.
mod tls_session {
    /// The client offers to resume a session.
    pub(super) const OFFERED: u8 = 1;
    /// The server resumes it.
    pub(super) const RESUMED: u8 = 8;
}

impl<'a> Connection<'a> {
    /// Adds the results of the analyser.
    pub(super) fn add_analysis(&mut self, analysis: &'a Analysis) {
        for (which, side) in self.sides.iter_mut().enumerate() {
            add_volume(side, &analysis.volume, which);
            if let Some(tcp) = &analysis.tcp {
                add_tcp(side, tcp, &analysis.cold, which);
            }
        }
        if let Some(names) = &analysis.app {
            self.application = application(names, self.start_ns);
            self.connection_type = connection_type(names);
            self.udp_type = udp_type(names);
        }
    }
}

fn add_volume(side: &mut Side, volume: &Volume, which: usize) {
    let found: &volume::VolumeSide = &volume.sides[which];
    if found.packets == 0 {
        return;
    }
    side.first_ns = Some(found.first_ns);
    side.last_ns = Some(found.last_ns);
    side.data_packets = found.data_packets.into();
    side.payload_bytes = found.payload_bytes;
    // Without TCP, retransmissions are unknown.
    side.unique_bytes = found.payload_bytes;
    if found.data_packets > 0 {
        side.first_payload_ns = Some(found.first_payload_ns);
        side.last_payload_ns = Some(found.last_payload_ns);
    }
    side.ttl_min = found.ttl_min;
    side.ttl_max = found.ttl_max;
}

fn add_tcp(side: &mut Side, tcp: &Tcp, rare: &[TcpCold; 2], which: usize) {
    let connections = tcp.connections(rare);
    let (found, rare) = (&tcp.sides[which], &rare[which]);
    let anomalies = &rare.anomalies;
    side.acks = found.acks.into();
    side.pure_acks = found.pure_acks.into();
    side.syns = found.syns.into();
    side.fins = found.flag_count(FIN, rare).into();
    side.resets = found.flag_count(RST, rare).into();
    side.pushes = found.pushes.into();
    side.unique_bytes = side.payload_bytes.saturating_sub(anomalies.repeated_bytes);
    side.retransmitted_packets = anomalies.retransmitted.into();
    side.retransmitted_bytes = anomalies.retransmitted_bytes;
    side.out_of_order = anomalies.out_of_order.into();
    let [
        timeout,
        fast,
        reordering,
        duplicate,
        flow_control,
        unneeded_timeout,
        unneeded_fast,
        unknown,
    ] = anomalies.classes.map(u64::from);
    side.anomalies = [
        timeout,
        fast,
        reordering,
        duplicate,
        unknown,
        flow_control,
        unneeded_timeout,
        unneeded_fast,
    ];
    let marked = |mark: u16| found.flags & mark != 0;
    side.window_scale = marked(flag::WINDOW_SCALE).then_some(found.window_scale());
    side.timestamps = marked(flag::TIMESTAMPS);
    side.sack = marked(flag::SACK_PERMITTED);
    side.sacks = rare.sack_blocks.into();
    side.mss = found.mss.into();
    side.segment_max = found.segment_max.into();
    side.segment_min = found.segment_min().map_or(0, u64::from);
    side.window_max = found.window_max().map_or(0, u64::from);
    side.window_min = found.window_min().map_or(0, u64::from);
    side.window_zeros = rare.zero_windows.into();
    side.flight_max = found.in_flight_max().map_or(0, u64::from);
    side.flight_initial = found.in_flight_initial().map_or(0, u64::from);
    // A SYN with another sequence number opens another connection on the same ports.
    side.other_syn = connections > 1 && side.syns > 1;
    if let (Some(min_ns), Some(max_ns)) = (found.rtt.min_ns(), found.rtt.max_ns()) {
        side.rtt = Rtt {
            mean_ns: found.rtt.mean_ns(),
            min_ns,
            max_ns,
            deviation_ns: found.rtt.standard_deviation_ns(),
            count: found.rtt.count().into(),
        };
    }
}

fn application(found: &AppRecord, start_ns: i64) -> Application<'_> {
    let mut names = Application::default();
    // These formats have no field that says who said the name.
    if let Some(resolved) = found.resolved.as_ref().filter(|name| name.is_asked) {
        names.resolved = Some(&resolved.name);
        let age_ns = i64::try_from(resolved.age_ns).unwrap_or(i64::MAX);
        names.resolved_ns = Some(start_ns.saturating_sub(age_ns));
    }
    if let Some(http) = &found.http {
        names.http_requests = http.requests.into();
        names.http_responses = http.responses.into();
        names.http_status = http.status.unwrap_or(0);
        names.http_post = http.method.as_deref() == Some("POST");
        names.http_host = http.host.as_deref();
    }
    if let Some(tls) = &found.tls {
        names.server_name = tls.server_name.as_deref();
        names.certificate_name = tls.subject.as_deref();
        names.alpn = [tls.alpn_offered.as_deref(), tls.alpn_chosen.as_deref()];
        let bit = |is: bool, bit: u8| if is { bit } else { 0 };
        names.tls_session = bit(tls.resumption_offered == Some(true), tls_session::OFFERED)
            | bit(tls.resumed == Some(true), tls_session::RESUMED);
        names.tls_offered = tls.versions_offered.as_deref();
        names.tls_chosen = tls.version;
    }
    if let Some(quic) = &found.quic {
        names.quic_version = Some(quic.version);
        names.quic_zero_rtt = quic.zero_rtt == Some(true);
    }
    names
}

fn connection_type(names: &AppRecord) -> u32 {
    if names.http.is_some() {
        return connection_type::HTTP;
    }
    if names.tls.is_some() {
        return connection_type::TLS;
    }
    match names.application.as_ref().map(|class| &*class.name) {
        Some("RTSP") => connection_type::RTSP,
        Some("SMTP") => connection_type::SMTP,
        Some("POP3") => connection_type::POP3,
        Some("IMAP") => connection_type::IMAP,
        Some("SSH") => connection_type::SSH,
        Some("RTMP") => connection_type::RTMP,
        _ => 0,
    }
}

fn udp_type(names: &AppRecord) -> u8 {
    let rtp = names.rtp.iter().flatten();
    let (media, control) = rtp.fold((0_u64, 0_u64), |(media, control), side| {
        (
            media + u64::from(side.packets),
            control + u64::from(side.rtcp_packets),
        )
    });
    if names.quic.is_some() {
        udp_type::QUIC
    } else if names.dns.is_some() {
        udp_type::DNS
    } else if media > 0 {
        udp_type::RTP
    } else if control > 0 {
        udp_type::RTCP
    } else {
        0
    }
}
