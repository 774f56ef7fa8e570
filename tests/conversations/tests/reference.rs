//! The reference reader agrees with the simulation.

use conversations::{Conversation, Faults, Frames, Random, ReferenceReader};

/// Without further faults on their way, the frames have the truth of the simulation.
#[test]
fn the_reference_reader_finds_the_truth_of_the_simulation() {
    let mut random = Random::new(0xabad_1dea);
    for faults in Faults::examples() {
        for _ in 0..10 {
            let conversation = Conversation {
                keep_alives: 3,
                window_probes: 3,
                ..Conversation::random(&mut random, faults, true)
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
