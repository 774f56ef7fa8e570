//! Resets, and SYNs of a known connection.

use super::*;

/// Sequence numbers that wrap, and some that do not.
const STARTS: [u32; 3] = [9, u32::MAX - 40, u32::MAX / 2];

/// Returns the packets of a connection with 100 bytes of the client, of which 60 are acknowledged with a
/// window of 1000.
fn opened(start: u32) -> Vec<(usize, PacketInfo)> {
    let client = |offset| start.wrapping_add(offset);
    vec![
        (0, segment(start, 0, SYN, 0, 1000)),
        (1, segment(49, client(1), SYN | ACK, 0, 1000)),
        (0, segment(client(1), 50, ACK, 60, 1000)),
        (0, segment(client(61), 50, ACK, 40, 1000)),
        (1, segment(50, client(61), ACK, 0, 1000)),
    ]
}

/// Returns the state after these packets, the sides swapped or not.
fn state(packets: &[(usize, PacketInfo)], is_swapped: bool) -> Tcp {
    let mut pool = TcpColdPool::new(2).unwrap();
    let mut tcp = Tcp::default();
    for (at, &(side, segment)) in packets.iter().enumerate() {
        let side = side ^ usize::from(is_swapped);
        tcp.count(side, at as i64 * MS, &segment, &mut pool);
    }
    tcp
}

/// Asserts whether a connection is reset by the last packet of each list, whichever side comes first.
fn assert_reset(expected: bool, packets: &[(usize, PacketInfo)]) {
    for is_swapped in [false, true] {
        let tcp = state(packets, is_swapped);
        assert_eq!(tcp.was_reset(), expected, "{:?}", packets.last());
        assert_eq!(tcp.limits(), 0);
    }
}

#[test]
fn only_a_reset_in_the_window_ends_a_connection() {
    for start in STARTS {
        for flags in [RST, RST | ACK] {
            for (offset, expected) in [
                (0u32, false),
                (60, false),
                (61, true),
                (101, true),
                (102, true),
                (1061, true),
                (1063, false),
                (100_000, false),
                (1 << 31, false),
            ] {
                let mut packets = opened(start);
                let sequence = start.wrapping_add(offset);
                packets.push((0, segment(sequence, 50, flags, 0, 0)));
                assert_reset(expected, &packets);
                // One that is accepted still ends it.
                packets.push((0, segment(start.wrapping_add(101), 50, flags, 0, 0)));
                assert_reset(true, &packets);
            }
            // The server has sent nothing since its SYN-ACK.
            for (sequence, expected) in [(48, false), (50, true), (51, true), (5000, false)] {
                let mut packets = opened(start);
                packets.push((1, segment(sequence, start, flags, 0, 0)));
                assert_reset(expected, &packets);
            }
        }
    }
}

#[test]
fn a_reset_that_answers_a_syn_acknowledges_it() {
    for start in STARTS {
        let syn = (0, segment(start, 0, SYN, 0, 1000));
        let refused = |acknowledgement| (1, segment(0, acknowledgement, RST | ACK, 0, 0));
        assert_reset(true, &[syn, refused(start.wrapping_add(1))]);
        assert_reset(false, &[syn, refused(start.wrapping_add(1000))]);
        assert_reset(false, &[syn, refused(start.wrapping_sub(1000))]);
        // RFC 9293 section 3.10.7.3: without ACK it is dropped.
        assert_reset(false, &[syn, (1, segment(0, 0, RST, 0, 0))]);
        assert_reset(false, &[syn, (1, segment(start, 0, RST, 0, 0))]);
        // The client gives up.
        let own = (0, segment(start.wrapping_add(1), 0, RST, 0, 0));
        assert_reset(true, &[syn, own]);
    }
    // Nothing is known of the connection.
    assert_reset(true, &[(0, segment(77, 0, RST, 0, 0))]);
    assert_reset(true, &[(1, segment(77, 99, RST | ACK, 0, 0))]);
}

#[test]
fn a_reset_after_a_fin_is_accepted_with_and_without_its_number() {
    for start in STARTS {
        for (offset, expected) in [(101, true), (102, true), (60, false)] {
            let mut packets = opened(start);
            let fin = segment(start.wrapping_add(101), 50, FIN | ACK, 0, 1000);
            let all = segment(50, start.wrapping_add(102), ACK, 0, 1000);
            let reset = segment(start.wrapping_add(offset), 50, RST, 0, 0);
            packets.extend([(0, fin), (1, all), (0, reset)]);
            assert_reset(expected, &packets);
        }
    }
}

#[test]
fn the_window_of_a_reset_is_scaled() {
    let scaled = |segment| PacketInfo {
        present: present::WINDOW_SCALE,
        window_scale: 4,
        ..segment
    };
    for (sequence, expected) in [(10 + 16_000, true), (10 + 16_002, false)] {
        let packets = [
            (0, scaled(segment(9, 0, SYN, 0, 1000))),
            (1, scaled(segment(49, 10, SYN | ACK, 0, 1000))),
            (0, segment(10, 50, ACK, 0, 1000)),
            (1, segment(50, 10, ACK, 0, 1000)),
            (0, segment(sequence, 50, RST, 0, 0)),
        ];
        assert_reset(expected, &packets);
    }
}

#[test]
fn a_reset_of_a_side_whose_peer_is_not_seen_is_judged_by_its_own_numbers() {
    for (sequence, expected) in [(8, false), (10, true), (110, true), (500_000, false)] {
        let packets = [
            (0, segment(9, 0, SYN, 0, 1000)),
            (0, segment(10, 50, ACK, 100, 1000)),
            (0, segment(sequence, 50, RST, 0, 0)),
        ];
        assert_eq!(state(&packets, false).was_reset(), expected, "{sequence}");
    }
}

/// A host without a listener refuses the SYN, and listens before it is retransmitted.
#[test]
fn a_connection_that_opens_after_a_reset_is_not_reset() {
    for start in STARTS {
        let client = |offset| start.wrapping_add(offset);
        let mut packets = vec![
            (0, segment(start, 0, SYN, 0, 1000)),
            (1, segment(0, client(1), RST | ACK, 0, 0)),
        ];
        assert_reset(true, &packets);
        // A copy of the SYN does not open the connection again.
        packets.push((0, segment(start, 0, SYN, 0, 1000)));
        assert_reset(true, &packets);
        packets.push((1, segment(49, client(1), SYN | ACK, 0, 1000)));
        assert_reset(false, &packets);
        packets.push((0, segment(client(1), 50, ACK, 10, 1000)));
        assert_reset(false, &packets);
        packets.push((0, segment(client(11), 50, RST, 0, 0)));
        assert_reset(true, &packets);
        // Another connection on the same ports.
        packets.push((0, segment(client(77_000), 0, SYN, 0, 1000)));
        assert_reset(false, &packets);
    }
}

/// The capture began within the connection, so the scale of the window is not known.
#[test]
fn a_window_without_a_known_scale_is_at_least_the_largest_without_one() {
    for (sequence, expected) in [(10 + 65_000, true), (10 + 66_000, false)] {
        let packets = [
            (0, segment(10, 50, ACK, 0, 500)),
            (1, segment(50, 10, ACK, 0, 500)),
            (0, segment(sequence, 50, RST, 0, 0)),
        ];
        assert_reset(expected, &packets);
    }
}

#[test]
fn a_connection_knows_its_syn() {
    for start in STARTS {
        let packets = opened(start);
        for length in 1..=packets.len() {
            // With and without the first SYN: the SYN-ACK acknowledges it, and data follows it.
            for first in [0, 1, 2] {
                let Some(seen) = packets.get(first..length).filter(|seen| !seen.is_empty()) else {
                    continue;
                };
                let tcp = state(seen, false);
                assert!(tcp.is_known_syn(0, start), "{first}..{length}");
                assert!(!tcp.is_known_syn(0, start.wrapping_add(1)));
                assert!(!tcp.is_known_syn(0, start.wrapping_sub(1)));
                let has_server = first > 0 || length > 1;
                assert_eq!(tcp.is_known_syn(1, 49), has_server);
            }
        }
    }
    assert!(!Tcp::default().is_known_syn(0, u32::MAX));
}
