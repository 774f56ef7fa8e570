//! What Tstat's logs contain about a connection, in Tstat's terms. Index 0 is the client, the
//! initiator of the flow; index 1 is the server.

mod analysed;

use flow::{Record, RecordBatch, Schema};
use wire::{FlowKey, tcp::flag};

/// A connection as logged. Unknown values are zero or `None`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connection<'a> {
    pub(crate) key: FlowKey,
    pub(crate) start_ns: i64,
    pub(crate) end_ns: i64,
    pub(crate) sides: [Side; 2],
    /// Tstat's connection type bits.
    pub(crate) connection_type: u32,
    /// Tstat's UDP flow type.
    pub(crate) udp_type: u8,
    pub(crate) application: Application<'a>,
    /// Both sides sent a SYN: the capture contains the handshake.
    pub(crate) opened: bool,
    /// Both sides sent a FIN, or either side sent a RST.
    pub(crate) closed: bool,
}

/// One side of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Side {
    pub(crate) packets: u64,
    pub(crate) frame_bytes: u64,
    pub(crate) resets: u64,
    pub(crate) acks: u64,
    pub(crate) pure_acks: u64,
    pub(crate) unique_bytes: u64,
    pub(crate) data_packets: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) retransmitted_packets: u64,
    pub(crate) retransmitted_bytes: u64,
    pub(crate) out_of_order: u64,
    pub(crate) syns: u64,
    pub(crate) fins: u64,
    /// Nanoseconds since the Unix epoch; `None` if there was no such packet.
    pub(crate) first_ns: Option<i64>,
    pub(crate) last_ns: Option<i64>,
    pub(crate) first_payload_ns: Option<i64>,
    pub(crate) last_payload_ns: Option<i64>,
    pub(crate) first_ack_ns: Option<i64>,
    pub(crate) rtt: Rtt,
    pub(crate) ttl_min: u8,
    pub(crate) ttl_max: u8,
    pub(crate) window_scale: Option<u8>,
    pub(crate) timestamps: bool,
    pub(crate) sack: bool,
    pub(crate) sacks: u64,
    pub(crate) mss: u64,
    pub(crate) segment_max: u64,
    pub(crate) segment_min: u64,
    pub(crate) window_max: u64,
    pub(crate) window_min: u64,
    pub(crate) window_zeros: u64,
    pub(crate) flight_max: u64,
    pub(crate) flight_min: u64,
    pub(crate) flight_initial: u64,
    /// In Tstat's order: timeout, fast retransmit, reordered, duplicate, unknown, flow control,
    /// unneeded timeout, unneeded fast retransmit.
    pub(crate) anomalies: [u64; 8],
    pub(crate) other_syn: bool,
    pub(crate) pushes: u64,
}

/// Round-trip times seen by one side, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rtt {
    pub(crate) mean_ns: f64,
    pub(crate) min_ns: u64,
    pub(crate) max_ns: u64,
    pub(crate) deviation_ns: f64,
    pub(crate) count: u64,
}

/// What application-layer inspection found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Application<'a> {
    pub(crate) http_requests: u64,
    pub(crate) http_responses: u64,
    pub(crate) http_status: u16,
    pub(crate) http_post: bool,
    pub(crate) http_host: Option<&'a str>,
    pub(crate) server_name: Option<&'a str>,
    pub(crate) certificate_name: Option<&'a str>,
    /// ALPN protocols offered and chosen.
    pub(crate) alpn: [Option<&'a str>; 2],
    /// Tstat's session status bits.
    pub(crate) tls_session: u8,
    /// Versions offered by the client; the next field is the one chosen.
    pub(crate) tls_offered: Option<&'a str>,
    pub(crate) tls_chosen: Option<u16>,
    pub(crate) resolved: Option<&'a str>,
    /// When that name was resolved, in nanoseconds since the Unix epoch.
    pub(crate) resolved_ns: Option<i64>,
    pub(crate) quic_version: Option<u32>,
    pub(crate) quic_zero_rtt: bool,
}

impl<'a> Connection<'a> {
    /// Returns the connection of the record in `row`.
    pub(crate) fn from_row(batch: &'a RecordBatch, row: usize, record: &Record) -> Self {
        let mut connection = Self::from_record(record);
        let analysis = batch.analyses.get(row);
        if let Some(analysis) = analysis {
            connection.add_analysis(analysis);
        }
        if analysis.is_none_or(|analysis| analysis.app.is_none()) {
            connection.udp_type = udp_type_by_port(&record.key);
        }
        connection
    }

    /// Packets of both sides.
    pub(crate) fn packets(&self) -> u64 {
        self.sides.iter().map(|side| side.packets).sum()
    }

    /// Bytes of whole frames of both sides.
    pub(crate) fn frame_bytes(&self) -> u64 {
        self.sides.iter().map(|side| side.frame_bytes).sum()
    }

    /// Whether it belongs in the log of complete connections: opened and closed within the capture.
    pub(crate) const fn is_complete(&self) -> bool {
        self.opened && self.closed
    }

    /// Fills in what the record itself contains.
    fn from_record(record: &Record) -> Self {
        let mut connection = Self {
            key: record.key,
            start_ns: record.start_ns,
            end_ns: record.end_ns,
            ..Self::default()
        };
        for (which, side) in connection.sides.iter_mut().enumerate() {
            let (packets, flags) = (record.packets[which], record.tcp_flags[which]);
            side.frame_bytes = record.bytes[which];
            let has = |bit: u8| u64::from(flags & bit != 0);
            side.packets = packets;
            // Counts need the analyser; the record only has the flags that occurred.
            side.resets = has(flag::RST);
            side.acks = has(flag::ACK);
            side.syns = has(flag::SYN);
            side.fins = has(flag::FIN);
            side.pushes = has(flag::PSH);
        }
        connection.sides[0].first_ns = Some(record.start_ns);
        if record.packets[1] == 0 {
            connection.sides[0].last_ns = Some(record.end_ns);
        }
        let both = |bit: u8| record.tcp_flags.iter().all(|flags| flags & bit != 0);
        let one = |bit: u8| record.tcp_flags.iter().any(|flags| flags & bit != 0);
        connection.opened = both(flag::SYN);
        connection.closed = both(flag::FIN) || one(flag::RST);
        connection
    }
}

/// Whether records have per-side volume and timing.
pub(crate) const fn has_analysis(schema: &Schema) -> bool {
    schema.analysis.is_some()
}

/// Whether records have TCP measures.
pub(crate) fn has_tcp(schema: &Schema) -> bool {
    schema.analysis.is_some_and(analysis::Level::has_tcp)
}

/// Tstat's UDP type by port: DNS only.
fn udp_type_by_port(key: &FlowKey) -> u8 {
    const DNS: u8 = 19;
    const DNS_PORT: u16 = 53;
    if key.protocol == wire::ip_protocol::UDP
        && (key.destination_port == DNS_PORT || key.source_port == DNS_PORT)
    {
        DNS
    } else {
        0
    }
}
