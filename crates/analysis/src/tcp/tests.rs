//! TCP analysis packet by packet.

mod close;
mod edges;
mod fast_path;
mod holes;

use super::{Anomalies, Class, Tcp, TcpCold, TcpColdPool, flag, limit};
use wire::PacketInfo;
use wire::packet_info::present;
use wire::tcp::flag::{ACK, FIN, RST, SYN};

/// A millisecond in nanoseconds.
const MS: i64 = 1_000_000;

/// Returns the cold state of each side.
fn cold_of(tcp: &Tcp, pool: &TcpColdPool) -> [TcpCold; 2] {
    let mut cold = Default::default();
    tcp.copy_cold(pool, &mut cold);
    cold
}

fn segment(
    sequence: u32,
    acknowledgement: u32,
    tcp_flags: u8,
    payload_length: u32,
    window: u16,
) -> PacketInfo {
    PacketInfo {
        sequence,
        acknowledgement,
        tcp_flags,
        payload_length,
        window,
        transport: 6,
        ..PacketInfo::default()
    }
}

#[test]
fn probes_of_a_closed_window_and_keep_alives_are_flow_control() {
    let mut pool = TcpColdPool::new(2).unwrap();
    let mut tcp = Tcp::default();
    let packets = [
        (0, 0, segment(9, 0, SYN, 0, 1000)),
        (1, 1, segment(49, 10, SYN | ACK, 0, 1000)),
        (0, 2, segment(10, 50, ACK, 0, 1000)),
        (0, 3, segment(10, 50, ACK, 100, 1000)),
        (1, 4, segment(50, 110, ACK, 0, 0)),
        (0, 5, segment(110, 50, ACK, 1, 1000)),
        (1, 6, segment(50, 110, ACK, 0, 0)),
        (0, 500, segment(110, 50, ACK, 1, 1000)),
        (1, 501, segment(50, 111, ACK, 0, 1000)),
        (0, 9000, segment(110, 50, ACK, 0, 1000)),
    ];
    for (side, at_ms, segment) in packets {
        tcp.count(side, at_ms * MS, &segment, &mut pool);
    }
    let [TcpCold { anomalies, .. }, cold] = cold_of(&tcp, &pool);
    assert_eq!(anomalies.classes[Class::FlowControl as usize], 2);
    assert_eq!((anomalies.retransmitted, anomalies.repeated_bytes), (0, 1));
    assert_eq!(cold.zero_windows, 2);
    assert_eq!(tcp.sides[1].window_min(), Some(0));
    assert_eq!(tcp.sides[0].in_flight_max, 100);
}

#[test]
fn a_window_closed_in_one_record_is_probed_in_the_next() {
    let mut pool = TcpColdPool::new(2).unwrap();
    let mut tcp = Tcp::default();
    let packets = [
        (0, 0, segment(9, 0, SYN, 0, 1000)),
        (1, 1, segment(49, 10, SYN | ACK, 0, 1000)),
        (0, 2, segment(10, 50, ACK, 100, 1000)),
        (1, 3, segment(50, 110, ACK, 0, 0)),
        (0, 4, segment(110, 50, ACK, 1, 1000)),
    ];
    for (side, at_ms, segment) in packets {
        tcp.count(side, at_ms * MS, &segment, &mut pool);
    }
    tcp.next_record(&mut pool);
    assert_eq!(tcp.sides[1].window_max(), None);
    let probe = segment(110, 50, ACK, 1, 1000);
    tcp.count(0, 5000 * MS, &probe, &mut pool);
    let [TcpCold { anomalies, .. }, _] = cold_of(&tcp, &pool);
    assert_eq!(anomalies.classes[Class::FlowControl as usize], 1);
    tcp.count(1, 5001 * MS, &segment(50, 111, ACK, 0, 700), &mut pool);
    let server = &tcp.sides[1];
    assert_eq!(
        (server.window_min(), server.window_max()),
        (Some(700), Some(700))
    );
}

/// Of two holes, one is missed in the first record. The other is still open and belongs to the second.
#[test]
fn an_open_hole_is_filled_or_missed_in_the_next_record() {
    for is_filled in [true, false] {
        let mut pool = TcpColdPool::new(2).unwrap();
        let mut tcp = Tcp::default();
        for (side, at_ms, segment) in [
            (0, 0, segment(0, 0, SYN, 0, 1000)),
            (1, 1, segment(49, 1, SYN | ACK, 0, 1000)),
            (0, 2, segment(101, 50, ACK, 100, 1000)),
            (1, 3, segment(50, 201, ACK, 0, 1000)),
            (0, 4, segment(201, 50, ACK, 100, 1000)),
            (0, 5, segment(401, 50, ACK, 100, 1000)),
        ] {
            tcp.count(side, at_ms * MS, &segment, &mut pool);
        }
        let [cold, _] = cold_of(&tcp, &pool);
        assert_eq!(tcp.missed_bytes(0, &cold), 100);
        tcp.next_record(&mut pool);
        if is_filled {
            let late = segment(301, 50, ACK, 100, 1000);
            tcp.count(0, 800 * MS, &late, &mut pool);
        }
        let acknowledgement = segment(50, 501, ACK, 0, 1000);
        tcp.count(1, 801 * MS, &acknowledgement, &mut pool);
        let [cold, _] = cold_of(&tcp, &pool);
        let anomalies = cold.anomalies;
        assert_eq!(anomalies.out_of_order, u32::from(is_filled));
        assert_eq!((anomalies.retransmitted, anomalies.repeated_bytes), (0, 0));
        let missed = if is_filled { 0 } else { 100 };
        assert_eq!(tcp.missed_bytes(0, &cold), missed);
        assert_eq!(tcp.limits(), 0);
    }
}

/// More segments in flight than are kept mark the record, and the next one while it still has merged
/// segments.
#[test]
fn merged_segments_are_marked_until_they_leave_the_list() {
    let (mut tcp, mut pool) = count([]);
    let mut next = 1;
    let mut send = |tcp: &mut Tcp, pool: &mut TcpColdPool, segments: u32| {
        for _ in 0..segments {
            tcp.count(0, 0, &segment(next, 1, ACK, 100, 1000), pool);
            next += 100;
        }
        tcp.count(1, MS, &segment(1, next, ACK, 0, 1000), pool);
    };
    send(&mut tcp, &mut pool, 12);
    assert_eq!(tcp.limits(), limit::SEGMENTS);
    // The merged segment may still be retransmitted.
    tcp.next_record(&mut pool);
    assert_eq!(tcp.limits(), limit::SEGMENTS);
    send(&mut tcp, &mut pool, 8);
    assert_eq!(tcp.limits(), limit::SEGMENTS);
    tcp.next_record(&mut pool);
    send(&mut tcp, &mut pool, 8);
    assert_eq!(tcp.limits(), 0);
}

#[test]
fn another_connection_on_the_same_ports_starts_anew() {
    let mut pool = TcpColdPool::new(2).unwrap();
    let mut tcp = Tcp::default();
    for start in [1000u32, 3_000_000_000] {
        for (side, at_ms, segment) in [
            (0, 0, segment(start, 0, SYN, 0, 1000)),
            (1, 1, segment(start / 2, start + 1, SYN | ACK, 0, 1000)),
            (0, 2, segment(start + 1, start / 2 + 1, ACK, 0, 1000)),
            (0, 3, segment(start + 1, start / 2 + 1, ACK, 100, 1000)),
            (1, 4, segment(start / 2 + 1, start + 101, ACK, 0, 1000)),
        ] {
            tcp.count(
                side,
                (at_ms + i64::from(start >> 8)) * MS,
                &segment,
                &mut pool,
            );
        }
    }
    let cold = cold_of(&tcp, &pool);
    assert_eq!(tcp.connections(&cold), 2);
    assert_eq!(cold[0].anomalies, Anomalies::default());
    let side = &tcp.sides[0];
    assert_eq!((tcp.limits(), side.rtt.count(), side.syns), (0, 2, 2));
}

#[test]
fn closing_a_connection_leaves_no_missed_bytes() {
    let mut pool = TcpColdPool::new(2).unwrap();
    let mut tcp = Tcp::default();
    for (side, at_ms, segment) in [
        (0, 0, segment(9, 0, SYN, 0, 1000)),
        (1, 1, segment(49, 10, SYN | ACK, 0, 1000)),
        (0, 2, segment(10, 50, ACK, 100, 1000)),
        (1, 3, segment(50, 110, ACK, 20, 1000)),
        (0, 4, segment(110, 70, ACK | FIN, 0, 1000)),
        (1, 5, segment(70, 111, ACK | FIN, 30, 1000)),
        (0, 6, segment(111, 101, ACK, 0, 1000)),
        (0, 7, segment(110, 101, ACK | FIN, 0, 1000)),
    ] {
        tcp.count(side, at_ms * MS, &segment, &mut pool);
    }
    for (side, cold) in cold_of(&tcp, &pool).iter().enumerate() {
        assert_eq!(cold.anomalies, Anomalies::default());
        assert_eq!(tcp.missed_bytes(side, cold), 0);
        assert!(tcp.sides[side].rtt.count() > 0);
    }
}

/// Counts packets, given with their side and their time in milliseconds.
fn count<const N: usize>(packets: [(usize, i64, PacketInfo); N]) -> (Tcp, TcpColdPool) {
    let mut pool = TcpColdPool::new(2).unwrap();
    let mut tcp = Tcp::default();
    for (side, at_ms, segment) in packets {
        tcp.count(side, at_ms * MS, &segment, &mut pool);
    }
    (tcp, pool)
}

#[test]
fn an_acknowledgement_of_a_fin_without_data_gives_no_round_trip() {
    let rtt = |is_retransmitted: bool, fin_payload: u32| {
        let fin = segment(110 - fin_payload, 50, ACK | FIN, fin_payload, 1000);
        let next_ms = if is_retransmitted { 900 } else { 501 };
        count([
            (0, 0, segment(9, 0, SYN, 0, 1000)),
            (1, 1, segment(49, 10, SYN | ACK, 0, 1000)),
            (0, 2, segment(10, 50, ACK, 100 - fin_payload, 1000)),
            (0, 500, fin),
            (
                0,
                next_ms,
                if is_retransmitted {
                    fin
                } else {
                    segment(111, 50, ACK, 0, 1000)
                },
            ),
            (1, 1000, segment(50, 111, ACK, 0, 1000)),
        ])
        .0
        .sides[0]
            .rtt
    };
    assert_eq!(rtt(false, 0).count(), 0);
    assert_eq!(rtt(true, 0).count(), 0);
    assert_eq!(rtt(true, 10).count(), 0);
    let with_data = rtt(false, 10);
    assert_eq!(
        (with_data.count(), with_data.max_ns()),
        (1, Some(500_000_000))
    );
}

#[test]
fn syn_options_survive_a_jump_of_sequence_numbers() {
    let options = present::SEGMENT_SIZE | present::WINDOW_SCALE | present::SACK_PERMITTED;
    let syn = |segment: PacketInfo, window_scale| PacketInfo {
        present: options,
        segment_size: 1300,
        window_scale,
        ..segment
    };
    let (tcp, _) = count([
        (0, 0, syn(segment(9, 0, SYN, 0, 1000), 3)),
        (1, 1, syn(segment(49, 10, SYN | ACK, 0, 1000), 5)),
        (1, 2, segment(2_000_000_000, 10, ACK, 5, 100)),
        (0, 3, segment(10, 50, ACK, 10, 100)),
    ]);
    let [client, server] = &tcp.sides;
    assert_eq!(server.limits, limit::JUMP);
    assert_eq!((server.mss, server.window_scale()), (1300, 5));
    let from_syn = flag::SYN | flag::WINDOW_SCALE | flag::SACK_PERMITTED;
    assert_eq!(server.flags & from_syn, from_syn);
    assert_eq!(
        (client.window_min(), server.window_max()),
        (Some(800), Some(3200))
    );
}

#[test]
fn a_simultaneous_open_is_one_connection() {
    let (tcp, pool) = count([
        (0, 0, segment(9, 0, SYN, 0, 1000)),
        (1, 1, segment(49, 0, SYN, 0, 1000)),
        (0, 2, segment(9, 50, SYN | ACK, 0, 1000)),
        (1, 3, segment(49, 10, SYN | ACK, 0, 1000)),
        (0, 4, segment(10, 50, ACK, 100, 1000)),
        (1, 5, segment(50, 110, ACK, 0, 1000)),
    ]);
    let cold = cold_of(&tcp, &pool);
    assert_eq!(tcp.connections(&cold), 1);
    assert_eq!((tcp.sides[0].rtt.count(), tcp.limits()), (1, 0));
    assert_eq!(cold.map(|cold| cold.anomalies), [Anomalies::default(); 2]);
}

#[test]
fn options_cut_by_the_snaplen_are_marked() {
    let cut = PacketInfo {
        present: present::OPTIONS_CUT,
        ..segment(9, 0, SYN, 0, 1000)
    };
    let (tcp, _) = count([(0, 0, cut), (1, 1, segment(49, 10, SYN | ACK, 0, 1000))]);
    assert_eq!(tcp.limits(), limit::OPTIONS);
    assert_ne!(tcp.sides[0].flags & flag::OPTIONS_CUT, 0);
}

/// The acknowledgement of the last two of three segments echoes the timestamp of the second. The third
/// one's timestamp, which is pending, is never echoed, and the fourth segment is timed again.
#[test]
fn a_timestamp_that_is_never_echoed_is_given_up() {
    let stamped = |segment: PacketInfo, timestamps| PacketInfo {
        present: present::TIMESTAMPS,
        timestamps,
        ..segment
    };
    let data = |sequence, value| stamped(segment(sequence, 50, ACK, 100, 1000), [value, 7]);
    let echo = |number, value| stamped(segment(50, number, ACK, 0, 1000), [8, value]);
    let (tcp, _) = count([
        (0, 0, data(10, 100)),
        (0, 5, data(110, 105)),
        (1, 10, echo(110, 100)),
        (0, 12, data(210, 112)),
        (1, 20, echo(310, 105)),
        (1, 25, echo(310, 113)),
        (0, 30, data(310, 130)),
        (1, 42, echo(410, 130)),
    ]);
    let rtt = &tcp.sides[0].timestamp_rtt;
    let milliseconds = |ns| (ns as i64) / MS;
    assert_eq!((rtt.count(), milliseconds(rtt.sum_ns())), (2, 10 + 12));
}
