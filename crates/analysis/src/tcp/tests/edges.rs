//! The beginning and the end of a connection at the probe: sequence numbers that are not data, and bytes
//! before the first packet seen, are not missed.

use super::*;

/// Returns the state of a flow after these packets, given with side and time in milliseconds.
fn after(packets: &[(usize, i64, PacketInfo)]) -> (Tcp, [TcpCold; 2]) {
    let mut pool = TcpColdPool::new(2).unwrap();
    let mut tcp = Tcp::default();
    for (side, at_ms, segment) in packets {
        tcp.count(*side, at_ms * MS, segment, &mut pool);
    }
    let cold = cold_of(&tcp, &pool);
    (tcp, cold)
}

/// Returns the missed bytes of each side.
fn missed(tcp: &Tcp, cold: &[TcpCold; 2]) -> [u64; 2] {
    [0, 1].map(|side| tcp.missed_bytes(side, &cold[side]))
}

fn ack(sequence: u32, acknowledgement: u32, payload_length: u32) -> PacketInfo {
    segment(sequence, acknowledgement, ACK, payload_length, 1000)
}

fn fin(sequence: u32, acknowledgement: u32, payload_length: u32) -> PacketInfo {
    segment(sequence, acknowledgement, ACK | FIN, payload_length, 1000)
}

#[test]
fn a_keep_alive_as_first_packet_leaves_no_missed_byte() {
    let (tcp, cold) = after(&[
        (0, 0, ack(999, 5000, 0)),
        (1, 20, ack(5000, 1000, 0)),
        (0, 75_000, ack(999, 5000, 0)),
        (1, 75_020, ack(5000, 1000, 0)),
        (0, 75_100, ack(1000, 5000, 100)),
        (1, 75_120, ack(5000, 1100, 0)),
    ]);
    assert_eq!((missed(&tcp, &cold), tcp.limits()), ([0, 0], 0));
    assert_eq!(cold[0].anomalies.classes[Class::FlowControl as usize], 2);
    assert_eq!(tcp.sides[0].rtt.count(), 1);
    // Bytes after data seen are missed.
    let (tcp, cold) = after(&[(0, 0, ack(900, 5000, 100)), (1, 20, ack(5000, 1002, 0))]);
    assert_eq!(missed(&tcp, &cold), [2, 0]);
}

#[test]
fn a_fin_out_of_order_leaves_no_missed_byte() {
    for length in [0, 100] {
        let (tcp, cold) = after(&[
            (0, 0, ack(1000, 5000, 100)),
            (1, 10, fin(5000, 1100, 0)),
            (0, 20, ack(1101 + length, 5001, 0)),
            (0, 21, fin(1100, 5000, length)),
            (1, 30, ack(5001, 1101 + length, 0)),
            // A retransmission.
            (0, 40, fin(1100, 5000, length)),
        ]);
        assert_eq!((missed(&tcp, &cold), tcp.limits()), ([0, 0], 0), "{length}");
    }
}

#[test]
fn a_fin_that_is_never_seen_is_no_missed_byte() {
    let data = (0, 0, ack(1000, 5000, 100));
    let acknowledged = (1, 30, ack(5001, 1101, 0));
    let is = |expected, packets: &[(usize, i64, PacketInfo)]| {
        for is_swapped in [0, 1] {
            let swapped = packets
                .iter()
                .map(|&(side, at, it)| (side ^ is_swapped, at, it));
            let (tcp, cold) = after(&swapped.collect::<Vec<_>>());
            let mut missed = missed(&tcp, &cold);
            missed.rotate_left(is_swapped);
            assert_eq!((missed, tcp.limits()), ([expected, 0], 0), "{packets:?}");
        }
    };
    is(0, &[data, acknowledged]);
    is(0, &[data, (0, 20, ack(1101, 5001, 0)), acknowledged]);
    is(0, &[data, acknowledged, (0, 40, ack(1101, 5001, 0))]);
    let reset = segment(1101, 5001, RST | ACK, 0, 0);
    is(0, &[data, acknowledged, (0, 40, reset)]);
    // Data before it was acknowledged, and the FIN is acknowledged alone.
    let data_only = (1, 20, ack(5000, 1100, 0));
    is(0, &[data, data_only, acknowledged]);
    // If data or the FIN is behind it, it was a byte.
    let behind = (0, 40, ack(1101, 5001, 10));
    is(
        1,
        &[data, acknowledged, behind, (1, 50, ack(5001, 1111, 0))],
    );
    let fin_behind = (0, 40, fin(1101, 5001, 0));
    let end = (1, 50, ack(5001, 1102, 0));
    is(1, &[data, acknowledged, fin_behind, end]);
    // More than one is data.
    is(2, &[data, (1, 30, ack(5001, 1102, 0))]);
}

/// The peer closed too, and nothing was seen of the end of the side.
#[test]
fn a_fin_that_is_missed_with_data_is_no_missed_byte() {
    let is = |expected, packets: &[(usize, i64, PacketInfo)]| {
        let (tcp, cold) = after(packets);
        assert_eq!((missed(&tcp, &cold), tcp.limits()), (expected, 0));
    };
    let data = (0, 0, ack(1000, 5000, 100));
    let acknowledged = (1, 30, ack(5000, 1151, 0));
    let peer_fin = (1, 40, fin(5000, 1151, 0));
    is([51, 0], &[data, acknowledged]);
    is([50, 0], &[data, acknowledged, peer_fin]);
    is([50, 0], &[data, peer_fin]);
    is([50, 0], &[data, peer_fin, (0, 50, ack(1151, 5001, 0))]);
    // Of the side, only the acknowledgements are known.
    let first = (1, 0, ack(5000, 1000, 0));
    is([150, 0], &[first, acknowledged, peer_fin]);
    // The side still sends, or ends otherwise.
    is([51, 0], &[data, peer_fin, (0, 50, ack(1151, 5001, 9))]);
    is([51, 0], &[data, peer_fin, (0, 50, fin(1151, 5001, 0))]);
    let reset = segment(1151, 5001, RST, 0, 0);
    is([51, 0], &[data, peer_fin, (0, 50, reset)]);
    // A hole within the data.
    let later = (0, 20, ack(1150, 5000, 10));
    is([50, 0], &[data, later, (1, 40, fin(5000, 1160, 0))]);
}

#[test]
fn what_looked_like_a_fin_is_missed_in_the_record_that_shows_it() {
    let mut pool = TcpColdPool::new(2).unwrap();
    let mut tcp = Tcp::default();
    tcp.count(0, 0, &ack(1000, 5000, 100), &mut pool);
    tcp.count(1, MS, &ack(5000, 1101, 0), &mut pool);
    assert_eq!(missed(&tcp, &cold_of(&tcp, &pool)), [0, 0]);
    tcp.next_record(&mut pool);
    assert_eq!(missed(&tcp, &cold_of(&tcp, &pool)), [0, 0]);
    tcp.count(0, 2 * MS, &ack(1101, 5000, 10), &mut pool);
    assert_eq!(missed(&tcp, &cold_of(&tcp, &pool)), [1, 0]);
    tcp.next_record(&mut pool);
    assert_eq!(missed(&tcp, &cold_of(&tcp, &pool)), [0, 0]);
}

#[test]
fn bytes_in_flight_are_unknown_without_acknowledgements() {
    let mut packets = vec![(0, 0, segment(999, 0, SYN, 0, 1000))];
    packets.extend((0..5).map(|at| (0, 10 + i64::from(at), ack(1000 + at * 100, 5000, 100))));
    let (tcp, _) = after(&packets);
    let in_flight = |tcp: &Tcp| {
        (
            tcp.sides[0].in_flight_max(),
            tcp.sides[0].in_flight_initial(),
        )
    };
    assert_eq!(in_flight(&tcp), (None, None));
    packets.push((1, 30, ack(5000, 1500, 0)));
    let (tcp, _) = after(&packets);
    assert_eq!(in_flight(&tcp), (Some(500), Some(500)));
}

#[test]
fn bytes_in_flight_when_the_capture_began_are_not_missed() {
    let (tcp, cold) = after(&[
        (0, 0, ack(1000, 100_000, 0)),
        (0, 1, ack(1000, 101_000, 0)),
        (1, 2, ack(150_000, 1000, 1000)),
        (0, 3, ack(1000, 110_000, 0)),
        (1, 4, ack(151_000, 1000, 1000)),
        (0, 5, ack(1000, 152_000, 0)),
    ]);
    assert_eq!((missed(&tcp, &cold), tcp.limits()), ([0, 0], 0));
    // All acknowledged bytes of a side that is never seen are missed.
    let (tcp, cold) = after(&[(0, 0, ack(1000, 100_000, 0)), (0, 1, ack(1000, 101_000, 0))]);
    assert_eq!(missed(&tcp, &cold), [0, 1000]);
    // So are bytes lost after a side's first packet.
    let (tcp, cold) = after(&[
        (0, 0, ack(1000, 100_000, 0)),
        (1, 2, ack(100_000, 1000, 0)),
        (1, 3, ack(100_500, 1000, 500)),
        (0, 4, ack(1000, 101_000, 0)),
    ]);
    assert_eq!(missed(&tcp, &cold), [0, 500]);
}

#[test]
fn an_acknowledgement_of_an_earlier_connection_is_ignored() {
    const STALE: u32 = 1000 + 500_000_000;
    let (tcp, cold) = after(&[
        (0, 0, segment(1000, 0, SYN, 0, 1000)),
        (1, 10, ack(77_777, STALE, 0)),
        (0, 20, segment(STALE, 0, RST, 0, 0)),
        (0, 1000, segment(1000, 0, SYN, 0, 1000)),
        (1, 1010, segment(5000, 1001, SYN | ACK, 0, 1000)),
        (0, 1020, ack(1001, 5001, 0)),
        (0, 1021, ack(1001, 5001, 100)),
        (1, 1031, ack(5001, 1101, 0)),
    ]);
    assert_eq!((missed(&tcp, &cold), tcp.limits()), ([0, 0], 0));
    assert_eq!(cold[0].anomalies.out_of_order, 0);
    assert_eq!(tcp.sides[0].rtt.count(), 1);
    assert_eq!(tcp.connections(&cold), 1);
    assert_eq!(tcp.server_handshake_ns(), Some(10_000_000));
}

#[test]
fn the_first_sack_block_reports_a_duplicate_below_the_acknowledgement_or_within_the_second() {
    let with = |sack, present| PacketInfo {
        sack,
        sack_blocks: 2,
        present,
        ..ack(5000, 1000, 0)
    };
    let reported = |segment| {
        let (_, cold) = after(&[(0, 0, ack(1000, 5000, 400)), (1, 10, segment)]);
        cold[1].duplicates_reported
    };
    assert_eq!(reported(with([900, 1000], 0)), 1);
    assert_eq!(reported(with([1200, 1300], 0)), 0);
    assert_eq!(reported(with([1200, 1300], present::SACK_WITHIN_SECOND)), 1);
}
