//! What is summed up in each interval, and the series that are made of the sums.

use crate::connection::Connection;
use flow::Schema;

/// A sum. Every one can be added to in any order, so late records need no special way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Measure {
    Packets,
    Bytes,
    FlowsStarted,
    FlowsEnded,
    /// Packets and bytes of flows, where they ended: for their sizes.
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
    /// How many sums there are.
    Count,
}

const COUNT: usize = Measure::Count as usize;

/// The sums of an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sums([f64; COUNT]);

impl Default for Sums {
    fn default() -> Self {
        Self([0.0; COUNT])
    }
}

impl Sums {
    pub(super) const fn get(&self, measure: Measure) -> f64 {
        self.0[measure as usize]
    }

    pub(super) fn add(&mut self, measure: Measure, value: f64) {
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

    /// What a flow did while it lived.
    pub(super) fn of_life(connection: &Connection<'_>) -> Self {
        let mut sums = Self::default();
        let bytes = connection.frame_bytes() as f64;
        sums.add(Measure::Packets, connection.packets() as f64);
        sums.add(Measure::Bytes, bytes);
        let key = &connection.key;
        sums.add(
            match key.protocol {
                wire::ip_protocol::TCP => Measure::TcpBytes,
                wire::ip_protocol::UDP => Measure::UdpBytes,
                1 | 58 => Measure::IcmpBytes,
                _ => Measure::OtherBytes,
            },
            bytes,
        );
        // The server's port says what it is, the client's only when the first packet was lost.
        let class = |port: u16| match (key.protocol, port) {
            (wire::ip_protocol::TCP, 80 | 8080) => Some(Measure::HttpBytes),
            (wire::ip_protocol::TCP, 443) => Some(Measure::HttpsBytes),
            (wire::ip_protocol::UDP, 443) => Some(Measure::QuicBytes),
            (wire::ip_protocol::TCP | wire::ip_protocol::UDP, 53) => Some(Measure::DnsBytes),
            (wire::ip_protocol::TCP, 22) => Some(Measure::SshBytes),
            (wire::ip_protocol::TCP, 25 | 110 | 143 | 465 | 587 | 993 | 995) => {
                Some(Measure::MailBytes)
            }
            _ => None,
        };
        let port = class(key.destination_port).or_else(|| class(key.source_port));
        sums.add(port.unwrap_or(Measure::OtherPortBytes), bytes);
        sums
    }

    /// What is known of a flow when it has ended.
    pub(super) fn of_end(connection: &Connection<'_>) -> Self {
        const ANOMALIES: [Measure; 8] = [
            Measure::ByTimeout,
            Measure::ByFastRetransmit,
            Measure::Reordered,
            Measure::Duplicates,
            Measure::Unknown,
            Measure::FlowControl,
            Measure::UnneededTimeout,
            Measure::UnneededFastRetransmit,
        ];
        const TTL: [[Measure; 2]; 2] = [
            [Measure::ClientTtl, Measure::ClientTtlCount],
            [Measure::ServerTtl, Measure::ServerTtlCount],
        ];
        const RTT: [[Measure; 2]; 2] = [
            [Measure::ClientRtt, Measure::ClientRttCount],
            [Measure::ServerRtt, Measure::ServerRttCount],
        ];
        let mut sums = Self::default();
        sums.add(Measure::FlowsEnded, 1.0);
        sums.add(Measure::EndedPackets, connection.packets() as f64);
        sums.add(Measure::EndedBytes, connection.frame_bytes() as f64);
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

/// How a series is made of sums.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// The sum, times a number, a second.
    Rate(Measure, f64),
    /// One sum divided by another; unknown where that is 0.
    Mean(Measure, Measure),
}

impl Kind {
    /// The value of an interval of so many seconds.
    pub(super) fn value(self, sums: &Sums, seconds: f64) -> f64 {
        match self {
            Self::Rate(measure, factor) => sums.get(measure) * factor / seconds,
            Self::Mean(sum, count) if sums.get(count) > 0.0 => sums.get(sum) / sums.get(count),
            Self::Mean(..) => f64::NAN,
        }
    }
}

impl Kind {
    /// The value of an interval in which an earlier run ended and this one began: rates add up, of
    /// means the later one counts.
    pub(super) fn join(self, then: f64, now: f64) -> f64 {
        match self {
            _ if then.is_nan() => now,
            _ if now.is_nan() => then,
            Self::Rate(..) => then + now,
            Self::Mean(..) => now,
        }
    }
}

/// The series of a file: its name, and each data source's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Series {
    pub(super) name: &'static str,
    /// At most 19 characters each.
    pub(super) sources: &'static [(&'static str, Kind)],
}

/// The files that a run of `schema` writes.
pub(super) fn files(schema: &Schema) -> Vec<Series> {
    use Kind::{Mean, Rate};
    use Measure as M;
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
    if crate::connection::has_analysis(schema) {
        files.push(Series {
            name: "ttl",
            sources: &[
                ("client", Mean(M::ClientTtl, M::ClientTtlCount)),
                ("server", Mean(M::ServerTtl, M::ServerTtlCount)),
            ],
        });
    }
    if crate::connection::has_tcp(schema) {
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
