//! The counters of an interval, and the series computed from them.

use crate::compat::connection::Connection;
use flow::Schema;

/// A counter. Order does not matter, so late records need no special handling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Counter {
    Packets,
    Bytes,
    FlowsStarted,
    FlowsEnded,
    /// Packets and bytes of whole flows, counted where the flow ended: for mean flow sizes.
    EndedPackets,
    EndedBytes,
    TcpBytes,
    UdpBytes,
    IcmpBytes,
    OtherBytes,
    HttpBytes,
    HttpsBytes,
    QuicBytes,
    DnsBytes,
    SshBytes,
    MailBytes,
    OtherPortBytes,
    ClientTtl,
    ClientTtlCount,
    ServerTtl,
    ServerTtlCount,
    /// Milliseconds.
    ClientRtt,
    ClientRttCount,
    ServerRtt,
    ServerRttCount,
    /// The eight anomalies, in the order of the record.
    ByTimeout,
    ByFastRetransmit,
    Reordered,
    Duplicates,
    Unknown,
    FlowControl,
    UnneededTimeout,
    UnneededFastRetransmit,
    /// Number of counters.
    Count,
}

const COUNT: usize = Counter::Count as usize;

/// The counters of an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sums([f64; COUNT]);

impl Default for Sums {
    fn default() -> Self {
        Self([0.0; COUNT])
    }
}

impl Sums {
    pub(super) const fn get(&self, measure: Counter) -> f64 {
        self.0[measure as usize]
    }

    pub(super) fn add(&mut self, measure: Counter, value: f64) {
        self.0[measure as usize] += value;
    }

    pub(super) fn add_all(&mut self, other: &Self) {
        for (sum, value) in self.0.iter_mut().zip(&other.0) {
            *sum += value;
        }
    }

    pub(super) fn scale(&mut self, share: f64) {
        for sum in &mut self.0 {
            *sum *= share;
        }
    }

    /// Counters that are spread over the lifetime of a flow.
    pub(super) fn over_lifetime(connection: &Connection<'_>) -> Self {
        let mut sums = Self::default();
        let bytes = connection.frame_bytes() as f64;
        sums.add(Counter::Packets, connection.packets() as f64);
        sums.add(Counter::Bytes, bytes);
        let key = &connection.key;
        sums.add(
            match key.protocol {
                wire::ip_protocol::TCP => Counter::TcpBytes,
                wire::ip_protocol::UDP => Counter::UdpBytes,
                1 | 58 => Counter::IcmpBytes,
                _ => Counter::OtherBytes,
            },
            bytes,
        );
        // The server's port determines the class; the client's only if the first packet was lost.
        let class = |port: u16| match (key.protocol, port) {
            (wire::ip_protocol::TCP, 80 | 8080) => Some(Counter::HttpBytes),
            (wire::ip_protocol::TCP, 443) => Some(Counter::HttpsBytes),
            (wire::ip_protocol::UDP, 443) => Some(Counter::QuicBytes),
            (wire::ip_protocol::TCP | wire::ip_protocol::UDP, 53) => Some(Counter::DnsBytes),
            (wire::ip_protocol::TCP, 22) => Some(Counter::SshBytes),
            (wire::ip_protocol::TCP, 25 | 110 | 143 | 465 | 587 | 993 | 995) => {
                Some(Counter::MailBytes)
            }
            _ => None,
        };
        let port = class(key.destination_port).or_else(|| class(key.source_port));
        sums.add(port.unwrap_or(Counter::OtherPortBytes), bytes);
        sums
    }

    /// Counters that are added when a flow ends.
    pub(super) fn at_end(connection: &Connection<'_>) -> Self {
        const ANOMALIES: [Counter; 8] = [
            Counter::ByTimeout,
            Counter::ByFastRetransmit,
            Counter::Reordered,
            Counter::Duplicates,
            Counter::Unknown,
            Counter::FlowControl,
            Counter::UnneededTimeout,
            Counter::UnneededFastRetransmit,
        ];
        const TTL: [[Counter; 2]; 2] = [
            [Counter::ClientTtl, Counter::ClientTtlCount],
            [Counter::ServerTtl, Counter::ServerTtlCount],
        ];
        const RTT: [[Counter; 2]; 2] = [
            [Counter::ClientRtt, Counter::ClientRttCount],
            [Counter::ServerRtt, Counter::ServerRttCount],
        ];
        let mut sums = Self::default();
        sums.add(Counter::FlowsEnded, 1.0);
        sums.add(Counter::EndedPackets, connection.packets() as f64);
        sums.add(Counter::EndedBytes, connection.frame_bytes() as f64);
        for (which, side) in connection.sides.iter().enumerate() {
            if side.ttl_max > 0 {
                let [ttl, count] = TTL[which];
                sums.add(ttl, side.ttl_max.into());
                sums.add(count, 1.0);
            }
            if side.rtt.count > 0 {
                let [rtt, count] = RTT[which];
                sums.add(rtt, side.rtt.mean_ns / 1e6 * side.rtt.count as f64);
                sums.add(count, side.rtt.count as f64);
            }
            for (measure, &number) in ANOMALIES.iter().zip(&side.anomalies) {
                sums.add(*measure, number as f64);
            }
        }
        sums
    }
}

/// How a series is computed from counters.
#[derive(Clone, Copy, Debug)]
pub(super) enum SeriesKind {
    /// A counter times a factor, per second.
    Rate(Counter, f64),
    /// The quotient of two counters; unknown if the divisor is 0.
    Mean(Counter, Counter),
}

impl SeriesKind {
    /// Returns the value for an interval of `seconds`.
    pub(super) fn value(self, sums: &Sums, seconds: f64) -> f64 {
        match self {
            Self::Rate(measure, factor) => sums.get(measure) * factor / seconds,
            Self::Mean(sum, count) if sums.get(count) > 0.0 => sums.get(sum) / sums.get(count),
            Self::Mean(..) => f64::NAN,
        }
    }
}

impl SeriesKind {
    /// Merges the values of an interval that two runs share: rates add up, and of two means the
    /// later one wins.
    pub(super) fn merge(self, earlier: f64, current: f64) -> f64 {
        match self {
            _ if earlier.is_nan() => current,
            _ if current.is_nan() => earlier,
            Self::Rate(..) => earlier + current,
            Self::Mean(..) => current,
        }
    }
}

/// The data sources of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Series {
    pub(super) name: &'static str,
    /// Names of at most 19 characters.
    pub(super) sources: &'static [(&'static str, SeriesKind)],
}

/// Returns the files of a run of `schema`.
pub(super) fn files(schema: &Schema) -> Vec<Series> {
    use Counter as M;
    use SeriesKind::{Mean, Rate};
    let mut files = vec![
        Series {
            name: "rates",
            sources: &[
                ("packets", Rate(M::Packets, 1.0)),
                ("bits", Rate(M::Bytes, 8.0)),
                ("flows_started", Rate(M::FlowsStarted, 1.0)),
                ("flows_ended", Rate(M::FlowsEnded, 1.0)),
            ],
        },
        Series {
            name: "sizes",
            sources: &[
                ("packet", Mean(M::Bytes, M::Packets)),
                ("flow_packets", Mean(M::EndedPackets, M::FlowsEnded)),
                ("flow_bytes", Mean(M::EndedBytes, M::FlowsEnded)),
            ],
        },
        Series {
            name: "protocols",
            sources: &[
                ("tcp", Rate(M::TcpBytes, 8.0)),
                ("udp", Rate(M::UdpBytes, 8.0)),
                ("icmp", Rate(M::IcmpBytes, 8.0)),
                ("other", Rate(M::OtherBytes, 8.0)),
            ],
        },
        Series {
            name: "ports",
            sources: &[
                ("http", Rate(M::HttpBytes, 8.0)),
                ("https", Rate(M::HttpsBytes, 8.0)),
                ("quic", Rate(M::QuicBytes, 8.0)),
                ("dns", Rate(M::DnsBytes, 8.0)),
                ("ssh", Rate(M::SshBytes, 8.0)),
                ("mail", Rate(M::MailBytes, 8.0)),
                ("other", Rate(M::OtherPortBytes, 8.0)),
            ],
        },
    ];
    if crate::compat::connection::has_analysis(schema) {
        files.push(Series {
            name: "ttl",
            sources: &[
                ("client", Mean(M::ClientTtl, M::ClientTtlCount)),
                ("server", Mean(M::ServerTtl, M::ServerTtlCount)),
            ],
        });
    }
    if crate::compat::connection::has_tcp(schema) {
        files.push(Series {
            name: "rtt",
            sources: &[
                ("client", Mean(M::ClientRtt, M::ClientRttCount)),
                ("server", Mean(M::ServerRtt, M::ServerRttCount)),
            ],
        });
        files.push(Series {
            name: "anomalies",
            sources: &[
                ("rto", Rate(M::ByTimeout, 1.0)),
                ("fast_retransmit", Rate(M::ByFastRetransmit, 1.0)),
                ("reordered", Rate(M::Reordered, 1.0)),
                ("duplicate", Rate(M::Duplicates, 1.0)),
                ("unknown", Rate(M::Unknown, 1.0)),
                ("flow_control", Rate(M::FlowControl, 1.0)),
                ("unneeded_rto", Rate(M::UnneededTimeout, 1.0)),
                ("unneeded_fast", Rate(M::UnneededFastRetransmit, 1.0)),
            ],
        });
    }
    files
}
