//! TCP analysis of simulated conversations with known truth.

use analysis::tcp::{CLASSES, Class, TcpColdPool, limit};
use analysis::{Tcp, TcpCold};
use conversations::{Classifier, Conversation, Faults, Random, Truth};

/// Confusion matrix of packets out of sequence: true classes are rows, assigned ones columns.
type Confusion = [[u64; CLASSES]; CLASSES];

struct Analysed {
    tcp: Tcp,
    cold: TcpCold,
    confusion: Confusion,
    payload_bytes: u64,
}

fn analyse(conversation: &Conversation, random: &mut Random) -> (Analysed, Truth) {
    let (packets, truth) = conversation.run(random);
    let mut classifier = Classifier::new(1).expect("one conversation needs little memory");
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

#[test]
fn counts_bytes_and_round_trips_are_exact() {
    let mut random = Random::new(0x1234_5678_9abc);
    for faults in Faults::examples() {
        for number in 0..30 {
            let conversation = Conversation::random(&mut random, faults, number % 3 != 0);
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
    let conversation = Conversation::random(&mut Random::new(5), faults, true);
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
        assert_eq!(with.in_flight_max(), without.in_flight_max());
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
        let conversation = Conversation::random(&mut random, faults, true);
        let (analysed, truth) = analyse(&conversation, &mut random);
        let missed = analysed.tcp.missed_bytes(0, &analysed.cold);
        assert_eq!(missed, truth.missed_bytes);
    }
}

/// At least 95 % of packets out of sequence get their true class, and docs/analysis.md has the
/// confusion matrix.
#[test]
fn classes_are_right_and_docs_analysis_has_their_table() {
    let mut random = Random::new(0xfeed_beef);
    let mut confusion = Confusion::default();
    for faults in Faults::examples() {
        for number in 0..60 {
            // A few are enough of the class that is recognised by the form of the packet.
            let probes = u32::from(number % 6 == 0);
            let conversation = Conversation {
                keep_alives: probes,
                window_probes: 2 * probes,
                ..Conversation::random(&mut random, faults, true)
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
