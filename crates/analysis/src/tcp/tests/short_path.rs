//! The short path that most packets take against the one for any packet.

use super::super::{count_any, mark};
use super::{Faults, Random, RarePool, Tcp, conversation, rare_of};
use wire::Segment;
use wire::segment::seen;
use wire::tcp::flag::{ACK, FIN, PSH, RST, SYN};

/// Changes what else a packet tells, now and then.
fn vary(segment: &mut Segment, number: u32, random: &mut Random) {
    match random.below(40) {
        0 => segment.tcp_flags |= FIN,
        1 => segment.tcp_flags |= SYN,
        2 => segment.tcp_flags = RST,
        3 => segment.tcp_flags &= !ACK,
        4 => segment.window = 0,
        5 => segment.sack_blocks = 1,
        6 => segment.seen |= seen::OPTIONS_CUT,
        7..15 => segment.tcp_flags |= PSH,
        15..25 => segment.window = random.below(1 << 16) as u16,
        _ => {}
    }
    if random.below(2) == 0 {
        segment.seen |= seen::TIMESTAMPS;
        segment.timestamps = [number, number.wrapping_sub(random.below(4) as u32)];
    }
    if segment.tcp_flags & SYN != 0 && random.below(2) == 0 {
        segment.seen |= seen::WINDOW_SCALE;
        segment.window_scale = random.below(16) as u8;
    }
}

#[test]
fn the_short_path_counts_what_the_long_one_does() {
    let mut random = Random::new(11);
    let (mut short, mut long) = (0, 0);
    for number in 0..300 {
        let faults = Faults {
            lost_before: 20 * (number % 3),
            lost_behind: 20 * (number % 2),
            copied: 10 * (number % 5),
            overtaken: 10 * (number % 4),
            missed: 10 * (number % 7),
            ..Faults::default()
        };
        let (packets, _) = conversation(&mut random, faults, number % 2 == 0).run(&mut random);
        let mut pools = [(); 2].map(|()| RarePool::new(2).unwrap());
        let [mut either, mut any] = [Tcp::default(); 2];
        for (number, packet) in (1..).zip(&packets) {
            let mut segment = packet.segment;
            if random.below(4) == 0 {
                vary(&mut segment, number, &mut random);
            }
            let [this, peer] = &mut any.sides;
            let (this, peer) = match packet.side {
                0 => (this, peer),
                _ => (peer, this),
            };
            match this.is_steady(&segment) {
                true => short += 1,
                false => long += 1,
            }
            either.count(packet.side, packet.time_ns, &segment, &mut pools[0]);
            count_any(this, peer, packet.time_ns, &segment, &mut pools[1]);
            assert_eq!(format!("{either:?}"), format!("{any:?}"), "{segment:?}");
            assert_eq!(rare_of(&either, &pools[0]), rare_of(&any, &pools[1]));
        }
        assert_ne!(any.sides[0].marks & mark::STARTED, 0);
    }
    assert!(short > 10_000 && long > 1_000, "{short}, {long}");
}
