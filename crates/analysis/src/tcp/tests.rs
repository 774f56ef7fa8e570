//! The analysis of TCP against conversations with known truth.

mod edges;
mod gaps;
mod short_path;

use super::anomaly::CLASSES;
use super::conversation::{Conversation, Faults, Frames, Judges, MS, Random, Reading};
use super::{Anomalies, Class, Rare, RarePool, Tcp, limit, mark};
use wire::Segment;
use wire::segment::seen;
use wire::tcp::flag::{ACK, FIN, RST, SYN};

/// Classes as they are (rows) and as they were judged, of packets that are out of sequence.
type Confusion = [[u64; CLASSES]; CLASSES];

struct Judged {
    tcp: Tcp,
    rare: Rare,
    confusion: Confusion,
    payload_bytes: u64,
}

fn conversation(random: &mut Random, faults: Faults, identified: bool) -> Conversation {
    let to_probe_ns = (1 + random.below(20) as i64) * MS;
    let to_receiver_ns = (1 + random.below(20) as i64) * MS;
    Conversation {
        segments: 200,
        window: 1 + random.below(8) as u32,
        to_probe_ns,
        to_receiver_ns,
        timeout_ns: 2 * (to_probe_ns + to_receiver_ns) + 250 * MS,
        start: random.below(1 << 32) as u32,
        identified,
        keep_alives: 0,
        window_probes: 0,
        faults,
    }
}

/// What is rare, of each side.
fn rare_of(tcp: &Tcp, pool: &RarePool) -> [Rare; 2] {
    let mut told = Default::default();
    tcp.tell_rare(pool, &mut told);
    told
}

fn judge(conversation: &Conversation, random: &mut Random) -> (Judged, super::conversation::Truth) {
    let (seen, truth) = conversation.run(random);
    let mut judges = Judges::new(1).unwrap();
    let (mut confusion, mut payload_bytes) = (Confusion::default(), 0);
    for packet in &seen {
        let class = judges.judge(0, packet.side, packet.time_ns, &packet.segment);
        if packet.side == 0 {
            payload_bytes += u64::from(packet.segment.payload_length);
        }
        assert_eq!(class.is_some(), packet.class.is_some(), "{packet:?}");
        if let (Some(is), Some(as_judged)) = (packet.class, class) {
            confusion[is as usize][as_judged as usize] += 1;
        }
    }
    let (tcp, [rare, _]) = judges.state(0);
    let judged = Judged {
        tcp,
        rare,
        confusion,
        payload_bytes,
    };
    (judged, truth)
}

fn all_faults() -> Vec<Faults> {
    vec![
        Faults::default(),
        Faults {
            lost_behind: 20,
            ..Faults::default()
        },
        Faults {
            lost_before: 20,
            ..Faults::default()
        },
        Faults {
            copied: 20,
            ..Faults::default()
        },
        Faults {
            overtaken: 20,
            ..Faults::default()
        },
        Faults {
            acknowledgement_lost: 300,
            ..Faults::default()
        },
        Faults {
            held: 10,
            ..Faults::default()
        },
        Faults {
            lost_before: 10,
            lost_behind: 10,
            copied: 10,
            overtaken: 10,
            acknowledgement_lost: 20,
            held: 3,
            missed: 0,
        },
    ]
}

/// Counts, bytes and round trips are exactly those that are true, wherever sequence numbers begin.
#[test]
fn counts_bytes_and_round_trips_are_exact() {
    let mut random = Random::new(0x1234_5678_9abc);
    for faults in all_faults() {
        for number in 0..30 {
            let conversation = conversation(&mut random, faults, number % 3 != 0);
            let (judged, truth) = judge(&conversation, &mut random);
            let anomalies = &judged.rare.anomalies;
            let unique_bytes = judged.payload_bytes - anomalies.repeated_bytes;
            // Without identifications copies are told by time, which may fail: then they count as
            // sent again.
            if conversation.identified {
                assert_eq!(anomalies.retransmitted, truth.retransmitted, "{faults:?}");
                assert_eq!(anomalies.retransmitted_bytes, truth.retransmitted_bytes);
            }
            assert_eq!(anomalies.out_of_order, truth.out_of_order, "{faults:?}");
            assert_eq!(unique_bytes, truth.unique_bytes, "{faults:?}");
            if judged.tcp.limits() == 0 && conversation.identified {
                let rtt = &judged.tcp.sides[0].rtt;
                assert_eq!(rtt.count() as usize, truth.rtt_ns.len(), "{faults:?}");
                assert_eq!(rtt.sum_ns(), truth.rtt_ns.iter().sum::<u64>());
                assert_eq!(rtt.min_ns(), truth.rtt_ns.iter().copied().min());
                assert_eq!(rtt.max_ns(), truth.rtt_ns.iter().copied().max());
            }
            assert_eq!(
                judged.tcp.server_handshake_ns(),
                Some(2 * conversation.to_receiver_ns as u64)
            );
            assert_eq!(
                judged.tcp.client_handshake_ns(),
                Some(2 * conversation.to_probe_ns as u64)
            );
        }
    }
}

/// Without a place for what is rare only that is not known.
#[test]
fn a_full_pool_is_told_and_changes_nothing_else() {
    let faults = Faults {
        lost_behind: 50,
        ..Faults::default()
    };
    let conversation = conversation(&mut Random::new(5), faults, true);
    let (seen, _) = conversation.run(&mut Random::new(6));
    let [with, without] = [2, 0].map(|places| {
        let mut pool = RarePool::new(places).unwrap();
        let mut tcp = Tcp::default();
        for packet in &seen {
            tcp.count(packet.side, packet.time_ns, &packet.segment, &mut pool);
        }
        assert_eq!(pool.taken() > 0, places > 0);
        tcp
    });
    assert_eq!([with.limits(), without.limits()], [0, limit::RARE]);
    assert_eq!(with.server_handshake_ns(), without.server_handshake_ns());
    for (with, without) in with.sides.iter().zip(&without.sides) {
        assert_eq!(with.acks, without.acks);
        assert_eq!(with.in_flight_max, without.in_flight_max);
        assert_eq!(with.window_max(), without.window_max());
    }
}

#[test]
fn bytes_that_the_probe_missed_are_known_from_their_acknowledgement() {
    let mut random = Random::new(77);
    for _ in 0..40 {
        let faults = Faults {
            missed: 30,
            ..Faults::default()
        };
        let conversation = conversation(&mut random, faults, true);
        let (judged, truth) = judge(&conversation, &mut random);
        let missed = judged.tcp.sides[0].missed_bytes(&judged.rare);
        assert_eq!(missed, truth.missed_bytes);
    }
}

/// At least 95 of 100 packets out of sequence are in their class, and docs/analysis.md has the table
/// of that.
#[test]
fn classes_are_right_and_docs_analysis_has_their_table() {
    let mut random = Random::new(0xfeed_beef);
    let mut confusion = Confusion::default();
    for faults in all_faults() {
        for number in 0..60 {
            // Of the class that is told by its form a few are enough.
            let probes = u32::from(number % 6 == 0);
            let conversation = Conversation {
                keep_alives: probes,
                window_probes: 2 * probes,
                ..conversation(&mut random, faults, true)
            };
            let (judged, _) = judge(&conversation, &mut random);
            for (sum, row) in confusion
                .iter_mut()
                .flatten()
                .zip(judged.confusion.iter().flatten())
            {
                *sum += row;
            }
        }
    }
    let all: u64 = confusion.iter().flatten().sum();
    let right: u64 = (0..CLASSES).map(|class| confusion[class][class]).sum();
    let mut table = String::from("| is \\ judged |");
    for class in Class::ALL {
        table.push_str(&format!(" {} |", class.name()));
    }
    table.push_str(&format!("\n|---|{}\n", "---|".repeat(CLASSES)));
    for (class, row) in Class::ALL.into_iter().zip(&confusion) {
        if row.iter().sum::<u64>() > 0 {
            let cells: Vec<String> = row.iter().map(u64::to_string).collect();
            table.push_str(&format!("| {} | {} |\n", class.name(), cells.join(" | ")));
        }
    }
    table.push_str(&format!(
        "\n{right} of {all} packets, {:.1} %, are in their class.\n",
        100.0 * right as f64 / all as f64
    ));
    assert!(right * 100 >= all * 95, "{table}");
    tables::assert_in_page("analysis.md", "confusion", &table);
}

/// Where nothing happens behind the frames, reading them tells the classes that they were made with.
#[test]
fn reading_the_frames_of_a_conversation_tells_its_truth() {
    let mut random = Random::new(0xabad_1dea);
    for faults in all_faults() {
        for _ in 0..10 {
            let conversation = Conversation {
                keep_alives: 3,
                window_probes: 3,
                ..conversation(&mut random, faults, true)
            };
            let (seen, truth) = conversation.run(&mut random.clone());
            let mut frames = Frames::default();
            frames.add(&conversation, 0, &mut random);
            let in_order = frames.take();
            let mut reading = Reading::new(&frames);
            for ((time_ns, _, frame), packet) in in_order.iter().zip(&seen) {
                let at_probe = reading.read(*time_ns, frame);
                assert_eq!((at_probe.side, at_probe.class), (packet.side, packet.class));
            }
            let read = &reading.end()[&0];
            assert_eq!(read.unique_bytes, truth.unique_bytes);
            assert_eq!(read.retransmitted, u64::from(truth.retransmitted));
            assert_eq!(read.out_of_order, u64::from(truth.out_of_order));
            assert_eq!(read.missed_bytes, truth.missed_bytes);
        }
    }
}

fn segment(
    sequence: u32,
    acknowledgement: u32,
    tcp_flags: u8,
    payload_length: u32,
    window: u16,
) -> Segment {
    Segment {
        sequence,
        acknowledgement,
        tcp_flags,
        payload_length,
        window,
        transport: 6,
        ..Segment::default()
    }
}

#[test]
fn probes_of_a_closed_window_and_keep_alives_are_flow_control() {
    let mut pool = RarePool::new(2).unwrap();
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
    let [Rare { anomalies, .. }, rare] = rare_of(&tcp, &pool);
    assert_eq!(anomalies.classes[Class::FlowControl as usize], 2);
    assert_eq!((anomalies.retransmitted, anomalies.repeated_bytes), (0, 1));
    assert_eq!(rare.zero_windows, 2);
    assert_eq!(tcp.sides[1].window_min(), Some(0));
    assert_eq!(tcp.sides[0].in_flight_max, 100);
}

#[test]
fn a_window_that_was_closed_in_one_record_is_probed_in_the_next() {
    let mut pool = RarePool::new(2).unwrap();
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
    let [Rare { anomalies, .. }, _] = rare_of(&tcp, &pool);
    assert_eq!(anomalies.classes[Class::FlowControl as usize], 1);
    tcp.count(1, 5001 * MS, &segment(50, 111, ACK, 0, 700), &mut pool);
    let server = &tcp.sides[1];
    assert_eq!(
        (server.window_min(), server.window_max()),
        (Some(700), Some(700))
    );
}

/// Of two gaps, one is missed in the first record; what comes for the other belongs to the second.
#[test]
fn a_gap_that_is_open_between_two_records_is_filled_or_missed_in_the_second() {
    for is_filled in [true, false] {
        let mut pool = RarePool::new(2).unwrap();
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
        let [rare, _] = rare_of(&tcp, &pool);
        assert_eq!(tcp.sides[0].missed_bytes(&rare), 100);
        tcp.next_record(&mut pool);
        if is_filled {
            let late = segment(301, 50, ACK, 100, 1000);
            tcp.count(0, 800 * MS, &late, &mut pool);
        }
        let acknowledgement = segment(50, 501, ACK, 0, 1000);
        tcp.count(1, 801 * MS, &acknowledgement, &mut pool);
        let [rare, _] = rare_of(&tcp, &pool);
        let anomalies = rare.anomalies;
        assert_eq!(anomalies.out_of_order, u32::from(is_filled));
        assert_eq!((anomalies.retransmitted, anomalies.repeated_bytes), (0, 0));
        let missed = if is_filled { 0 } else { 100 };
        assert_eq!(tcp.sides[0].missed_bytes(&rare), missed);
        assert_eq!(tcp.limits(), 0);
    }
}

/// More segments under way than are kept mark the record, and the next while it has them.
#[test]
fn segments_that_shared_a_place_are_told_until_they_are_gone() {
    let (mut tcp, mut pool) = count([]);
    let mut next = 1;
    let mut send = |tcp: &mut Tcp, pool: &mut RarePool, segments: u32| {
        for _ in 0..segments {
            tcp.count(0, 0, &segment(next, 1, ACK, 100, 1000), pool);
            next += 100;
        }
        tcp.count(1, MS, &segment(1, next, ACK, 0, 1000), pool);
    };
    send(&mut tcp, &mut pool, 12);
    assert_eq!(tcp.limits(), limit::SEGMENTS);
    // The last ones could still come again.
    tcp.next_record(&mut pool);
    assert_eq!(tcp.limits(), limit::SEGMENTS);
    send(&mut tcp, &mut pool, 8);
    assert_eq!(tcp.limits(), limit::SEGMENTS);
    tcp.next_record(&mut pool);
    send(&mut tcp, &mut pool, 8);
    assert_eq!(tcp.limits(), 0);
}

#[test]
fn another_connection_on_the_same_ports_begins_anew() {
    let mut pool = RarePool::new(2).unwrap();
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
    let rare = rare_of(&tcp, &pool);
    assert_eq!(tcp.connections(&rare), 2);
    assert_eq!(rare[0].anomalies, Anomalies::default());
    let side = &tcp.sides[0];
    assert_eq!((tcp.limits(), side.rtt.count(), side.syns), (0, 2, 2));
}

#[test]
fn a_closed_connection_has_missed_nothing() {
    let mut pool = RarePool::new(2).unwrap();
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
    for (side, rare) in tcp.sides.iter().zip(rare_of(&tcp, &pool)) {
        assert_eq!(rare.anomalies, Anomalies::default());
        assert_eq!(side.missed_bytes(&rare), 0);
        assert!(side.rtt.count() > 0);
    }
}

/// Counts packets, each of a side at so many milliseconds.
fn count<const N: usize>(packets: [(usize, i64, Segment); N]) -> (Tcp, RarePool) {
    let mut pool = RarePool::new(2).unwrap();
    let mut tcp = Tcp::default();
    for (side, at_ms, segment) in packets {
        tcp.count(side, at_ms * MS, &segment, &mut pool);
    }
    (tcp, pool)
}

#[test]
fn an_acknowledgement_of_a_fin_alone_times_no_data() {
    let ending = |sent_again: bool, carried: u32| {
        let fin = segment(110 - carried, 50, ACK | FIN, carried, 1000);
        let again_ms = if sent_again { 900 } else { 501 };
        count([
            (0, 0, segment(9, 0, SYN, 0, 1000)),
            (1, 1, segment(49, 10, SYN | ACK, 0, 1000)),
            (0, 2, segment(10, 50, ACK, 100 - carried, 1000)),
            (0, 500, fin),
            (
                0,
                again_ms,
                if sent_again {
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
    assert_eq!(ending(false, 0).count(), 0);
    assert_eq!(ending(true, 0).count(), 0);
    assert_eq!(ending(true, 10).count(), 0);
    let with_data = ending(false, 10);
    assert_eq!(
        (with_data.count(), with_data.max_ns()),
        (1, Some(500_000_000))
    );
}

#[test]
fn what_a_syn_told_outlives_a_number_that_is_far_away() {
    let options = seen::SEGMENT_SIZE | seen::WINDOW_SCALE | seen::SACK_PERMITTED;
    let syn = |segment: Segment, window_scale| Segment {
        seen: options,
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
    assert_eq!((server.segment_size, server.window_scale()), (1300, 5));
    let told = mark::SYN | mark::WINDOW_SCALE | mark::SACK_PERMITTED;
    assert_eq!(server.marks & told, told);
    assert_eq!(
        (client.window_min(), server.window_max()),
        (Some(800), Some(3200))
    );
}

#[test]
fn two_syns_that_cross_open_one_connection() {
    let (tcp, pool) = count([
        (0, 0, segment(9, 0, SYN, 0, 1000)),
        (1, 1, segment(49, 0, SYN, 0, 1000)),
        (0, 2, segment(9, 50, SYN | ACK, 0, 1000)),
        (1, 3, segment(49, 10, SYN | ACK, 0, 1000)),
        (0, 4, segment(10, 50, ACK, 100, 1000)),
        (1, 5, segment(50, 110, ACK, 0, 1000)),
    ]);
    let rare = rare_of(&tcp, &pool);
    assert_eq!(tcp.connections(&rare), 1);
    assert_eq!((tcp.sides[0].rtt.count(), tcp.limits()), (1, 0));
    assert_eq!(rare.map(|rare| rare.anomalies), [Anomalies::default(); 2]);
}

#[test]
fn options_that_the_snap_length_cut_are_told() {
    let cut = Segment {
        seen: seen::OPTIONS_CUT,
        ..segment(9, 0, SYN, 0, 1000)
    };
    let (tcp, _) = count([(0, 0, cut), (1, 1, segment(49, 10, SYN | ACK, 0, 1000))]);
    assert_eq!(tcp.limits(), limit::OPTIONS);
    assert_ne!(tcp.sides[0].marks & mark::OPTIONS_CUT, 0);
}

/// Of three segments the acknowledgement of the last two echoes the second: the value of the third,
/// which came while none was waited for, is not echoed, and the fourth is timed again.
#[test]
fn a_time_stamp_that_is_passed_over_is_waited_for_no_more() {
    let stamped = |segment: Segment, timestamps| Segment {
        seen: seen::TIMESTAMPS,
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
