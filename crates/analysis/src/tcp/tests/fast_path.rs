//! Compares the fast path with the general one.

use super::super::{count_general, flag};
use super::{Tcp, TcpColdPool, cold_of};
use conversations::{Conversation, Faults, Random};
use wire::PacketInfo;
use wire::packet_info::present;
use wire::tcp::flag::{ACK, FIN, PSH, RST, SYN};

/// Changes flags, window and options of a packet at random.
fn vary(segment: &mut PacketInfo, number: u32, random: &mut Random) {
    match random.below(40) {
        0 => segment.tcp_flags |= FIN,
        1 => segment.tcp_flags |= SYN,
        2 => segment.tcp_flags = RST,
        3 => segment.tcp_flags &= !ACK,
        4 => segment.window = 0,
        5 => segment.sack_blocks = 1,
        6 => segment.present |= present::OPTIONS_CUT,
        7..15 => segment.tcp_flags |= PSH,
        15..25 => segment.window = random.below(1 << 16) as u16,
        _ => {}
    }
    if random.below(2) == 0 {
        segment.present |= present::TIMESTAMPS;
        segment.timestamps = [number, number.wrapping_sub(random.below(4) as u32)];
    }
    if segment.tcp_flags & SYN != 0 && random.below(2) == 0 {
        segment.present |= present::WINDOW_SCALE;
        segment.window_scale = random.below(16) as u8;
    }
}

#[test]
fn the_fast_path_equals_the_general_path() {
    let mut random = Random::new(11);
    let (mut fast, mut general) = (0, 0);
    for number in 0..300 {
        let faults = Faults {
            lost_before: 20 * (number % 3),
            lost_after: 20 * (number % 2),
            duplicated: 10 * (number % 5),
            reordered: 10 * (number % 4),
            missed: 10 * (number % 7),
            ..Faults::default()
        };
        let (packets, _) =
            Conversation::random(&mut random, faults, number % 2 == 0).run(&mut random);
        let mut pools = [(); 2].map(|()| TcpColdPool::new(2).unwrap());
        let [mut fast_state, mut general_state] = [Tcp::default(); 2];
        for (number, packet) in (1..).zip(&packets) {
            let mut segment = packet.segment;
            if random.below(4) == 0 {
                vary(&mut segment, number, &mut random);
            }
            let [this, peer] = &mut general_state.sides;
            let (this, peer) = match packet.side {
                0 => (this, peer),
                _ => (peer, this),
            };
            match this.is_in_order(&segment) {
                true => fast += 1,
                false => general += 1,
            }
            fast_state.count(packet.side, packet.time_ns, &segment, &mut pools[0]);
            count_general(this, peer, packet.time_ns, &segment, &mut pools[1]);
            assert_eq!(fast_state, general_state, "{segment:?}");
            assert_eq!(
                cold_of(&fast_state, &pools[0]),
                cold_of(&general_state, &pools[1])
            );
        }
        assert_ne!(general_state.sides[0].flags & flag::STARTED, 0);
    }
    assert!(fast > 10_000 && general > 1_000, "{fast}, {general}");
}
