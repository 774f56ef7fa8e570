//! TCP analysis of conversations with known truth.

mod edges;
mod fast_path;
mod holes;

use super::anomaly::CLASSES;
use super::conversation::{Classifier, Conversation, Faults, Frames, MS, Random, ReferenceReader};
use super::{Anomalies, Class, Tcp, TcpCold, TcpColdPool, flag, limit};
use wire::PacketInfo;
use wire::packet_info::present;
use wire::tcp::flag::{ACK, FIN, RST, SYN};

/// Confusion matrix of packets out of sequence: true classes are rows, assigned ones columns.
type Confusion = [[u64; CLASSES]; CLASSES];

struct Analysed {
    tcp: Tcp,
    cold: TcpCold,
    confusion: Confusion,
    payload_bytes: u64,
}

fn conversation(random: &mut Random, faults: Faults, has_identifications: bool) -> Conversation {
    let to_probe_ns = (1 + random.below(20) as i64) * MS;
    let to_receiver_ns = (1 + random.below(20) as i64) * MS;
    Conversation {
        segments: 200,
        window: 1 + random.below(8) as u32,
        to_probe_ns,
        to_receiver_ns,
        timeout_ns: 2 * (to_probe_ns + to_receiver_ns) + 250 * MS,
        start: random.below(1 << 32) as u32,
        has_identifications,
        keep_alives: 0,
        window_probes: 0,
        faults,
    }
}

/// Returns the cold state of each side.
fn cold_of(tcp: &Tcp, pool: &TcpColdPool) -> [TcpCold; 2] {
    let mut cold = Default::default();
    tcp.copy_cold(pool, &mut cold);
    cold
}

fn analyse(
    conversation: &Conversation,
    random: &mut Random,
) -> (Analysed, super::conversation::Truth) {
    let (packets, truth) = conversation.run(random);
    let mut classifier = Classifier::new(1).unwrap();
    let (mut confusion, mut payload_bytes) = (Confusion::default(), 0);
    for packet in &packets {
        let class = classifier.classify(0, packet.side, packet.time_ns, &packet.segment);
        if packet.side == 0 {
            payload_bytes += u64::from(packet.segment.payload_length);
        }
        assert_eq!(class.is_some(), packet.class.is_some(), "{packet:?}");
        if let (Some(truth), Some(assigned)) = (packet.class, class) {
            confusion[truth as usize][assigned as usize] += 1;
        }
    }
    let (tcp, [cold, _]) = classifier.state(0);
    let analysed = Analysed {
        tcp,
        cold,
        confusion,
        payload_bytes,
    };
    (analysed, truth)
}

fn all_faults() -> Vec<Faults> {
    vec![
        Faults::default(),
        Faults {
            lost_after: 20,
            ..Faults::default()
        },
        Faults {
            lost_before: 20,
            ..Faults::default()
        },
        Faults {
            duplicated: 20,
            ..Faults::default()
        },
        Faults {
            reordered: 20,
            ..Faults::default()
        },
        Faults {
            acks_lost: 300,
            ..Faults::default()
        },
        Faults {
            acks_delayed: 10,
            ..Faults::default()
        },
        Faults {
            lost_before: 10,
            lost_after: 10,
            duplicated: 10,
            reordered: 10,
            acks_lost: 20,
            acks_delayed: 3,
            missed: 0,
        },
    ]
}

#[test]
fn counts_bytes_and_round_trips_are_exact() {
    let mut random = Random::new(0x1234_5678_9abc);
    for faults in all_faults() {
        for number in 0..30 {
            let conversation = conversation(&mut random, faults, number % 3 != 0);
            let (analysed, truth) = analyse(&conversation, &mut random);
            let anomalies = &analysed.cold.anomalies;
            let unique_bytes = analysed.payload_bytes - anomalies.repeated_bytes;
            // Without identifications, copies are recognised by time, which may fail. They then count
            // as retransmitted.
            if conversation.has_identifications {
                assert_eq!(anomalies.retransmitted, truth.retransmitted, "{faults:?}");
                assert_eq!(anomalies.retransmitted_bytes, truth.retransmitted_bytes);
            }
            assert_eq!(anomalies.out_of_order, truth.out_of_order, "{faults:?}");
            assert_eq!(unique_bytes, truth.unique_bytes, "{faults:?}");
            if analysed.tcp.limits() == 0 && conversation.has_identifications {
                let rtt = &analysed.tcp.sides[0].rtt;
                assert_eq!(rtt.count() as usize, truth.rtt_ns.len(), "{faults:?}");
                assert_eq!(rtt.sum_ns(), truth.rtt_ns.iter().sum::<u64>());
                assert_eq!(rtt.min_ns(), truth.rtt_ns.iter().copied().min());
                assert_eq!(rtt.max_ns(), truth.rtt_ns.iter().copied().max());
            }
            assert_eq!(
                analysed.tcp.server_handshake_ns(),
                Some(2 * conversation.to_receiver_ns as u64)
            );
            assert_eq!(
                analysed.tcp.client_handshake_ns(),
                Some(2 * conversation.to_probe_ns as u64)
            );
        }
    }
}

#[test]
fn without_cold_state_other_measures_stay_exact() {
    let faults = Faults {
        lost_after: 50,
        ..Faults::default()
    };
    let conversation = conversation(&mut Random::new(5), faults, true);
    let (packets, _) = conversation.run(&mut Random::new(6));
    let [with, without] = [2, 0].map(|cold_states| {
        let mut pool = TcpColdPool::new(cold_states).unwrap();
        let mut tcp = Tcp::default();
        for packet in &packets {
            tcp.count(packet.side, packet.time_ns, &packet.segment, &mut pool);
        }
        assert_eq!(pool.allocated() > 0, cold_states > 0);
        tcp
    });
    assert_eq!([with.limits(), without.limits()], [0, limit::COLD]);
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
        let (analysed, truth) = analyse(&conversation, &mut random);
        let missed = analysed.tcp.sides[0].missed_bytes(&analysed.cold);
        assert_eq!(missed, truth.missed_bytes);
    }
}

/// At least 95 % of packets out of sequence get their true class, and docs/analysis.md has the
/// confusion matrix.
#[test]
fn classes_are_right_and_docs_analysis_has_their_table() {
    let mut random = Random::new(0xfeed_beef);
    let mut confusion = Confusion::default();
    for faults in all_faults() {
        for number in 0..60 {
            // A few are enough of the class that is recognised by the form of the packet.
            let probes = u32::from(number % 6 == 0);
            let conversation = Conversation {
                keep_alives: probes,
                window_probes: 2 * probes,
                ..conversation(&mut random, faults, true)
            };
            let (analysed, _) = analyse(&conversation, &mut random);
            for (sum, row) in confusion
                .iter_mut()
                .flatten()
                .zip(analysed.confusion.iter().flatten())
            {
                *sum += row;
            }
        }
    }
    let all: u64 = confusion.iter().flatten().sum();
    let right: u64 = (0..CLASSES).map(|class| confusion[class][class]).sum();
    let mut table = String::from("| true class \\ assigned class |");
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
        "\n{right} of {all} packets, {:.1} %, get their true class.\n",
        100.0 * right as f64 / all as f64
    ));
    assert!(right * 100 >= all * 95, "{table}");
    tables::assert_in_page("analysis.md", "confusion", &table);
}

/// Without further faults on their way, the frames have the truth of the simulation.
#[test]
fn the_reference_reader_finds_the_truth_of_the_simulation() {
    let mut random = Random::new(0xabad_1dea);
    for faults in all_faults() {
        for _ in 0..10 {
            let conversation = Conversation {
                keep_alives: 3,
                window_probes: 3,
                ..conversation(&mut random, faults, true)
            };
            let (packets, truth) = conversation.run(&mut random.clone());
            let mut frames = Frames::default();
            frames.add(&conversation, 0, &mut random);
            let in_order = frames.take();
            let mut reader = ReferenceReader::new(&frames);
            for ((time_ns, _, frame), packet) in in_order.iter().zip(&packets) {
                let reference = reader.read(*time_ns, frame);
                assert_eq!(
                    (reference.side, reference.class),
                    (packet.side, packet.class)
                );
            }
            let reference = &reader.finish()[&0];
            assert_eq!(reference.unique_bytes, truth.unique_bytes);
            assert_eq!(reference.retransmitted, u64::from(truth.retransmitted));
            assert_eq!(reference.out_of_order, u64::from(truth.out_of_order));
            assert_eq!(reference.missed_bytes, truth.missed_bytes);
        }
    }
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
        assert_eq!(tcp.sides[0].missed_bytes(&cold), 100);
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
        assert_eq!(tcp.sides[0].missed_bytes(&cold), missed);
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
    for (side, cold) in tcp.sides.iter().zip(cold_of(&tcp, &pool)) {
        assert_eq!(cold.anomalies, Anomalies::default());
        assert_eq!(side.missed_bytes(&cold), 0);
        assert!(side.rtt.count() > 0);
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
