//! Frames are parsed in groups: the result for a frame must not depend on its neighbours.

use engine::parser::PacketParser;
use flow::{Batch, FlowDefinition, MeterOptions, Packet};
use port::{Burst, Frame};
use proptest::prelude::*;
use wire::{Decapsulate, LinkType, PacketInfo};

/// Returns an Ethernet frame: TCP, UDP, VLAN-tagged, IPv6 without payload, fragment, or not IP.
fn frame(kind: u8, flow: u8) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
    frame[17] = 46;
    frame[22..24].copy_from_slice(&[64, if kind == 0 { 6 } else { 17 }]);
    frame[29] = flow;
    frame[33] = flow / 3;
    frame[35] = flow / 2;
    frame[39] = 26;
    match kind {
        0 => frame[46..48].copy_from_slice(&[0x50, 0x18]),
        2 => {
            frame.splice(12..12, [0x81, 0x00, 0x00, flow]);
        }
        3 => {
            frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
            frame[20] = 59;
        }
        4 => frame[21] = 8,
        5 => frame[13] = 6,
        _ => {}
    }
    frame
}

/// Parses frames in bursts that end at `ends`. Returns packets, details and books.
fn parse(
    frames: &[Frame<'_>],
    ends: &[usize],
    options: &MeterOptions,
) -> (Vec<(u128, Packet)>, Vec<PacketInfo>, String) {
    let mut parser = PacketParser::new(options, Decapsulate::No);
    let (mut packets, mut details) = (Vec::new(), Vec::new());
    let mut begin = 0;
    for &end in ends.iter().chain([&frames.len()]) {
        let mut batch = Batch::default();
        parser.parse(
            &Burst {
                link: LinkType::Ethernet,
                frames: &frames[begin..end],
            },
            &mut batch,
        );
        let read = batch.keys().iter().zip(batch.packets());
        packets.extend(read.map(|(&key, &packet)| (key, packet)));
        details.extend(batch.details().iter().map(|&info| PacketInfo {
            frame: info.frame + begin as u16,
            ..info
        }));
        begin = end;
    }
    // The index among the wide keys of a batch depends on the burst.
    packets.iter_mut().for_each(|(_, packet)| packet.wide = 0);
    (packets, details, format!("{:?}", parser.books()))
}

proptest! {
    #[test]
    fn bursts_give_the_same_result_as_single_frames(
        frames in prop::collection::vec(
            (prop_oneof![4 => Just(0u8), 4 => Just(1), 1 => 2u8..6], 0u8..20, prop_oneof![
                5 => 0i64..300_000, 2 => -5_000_000i64..5_000_000, 1 => -20_000_000_000i64..20_000_000_000
            ], 40usize..=60),
            1..80,
        ),
        bidirectional: bool,
        analysed: bool,
        ends in prop::collection::vec(0usize..80, 0..4),
    ) {
        let bytes: Vec<Vec<u8>> = frames.iter().map(|&(kind, flow, _, _)| frame(kind, flow)).collect();
        let mut time_ns = 1_700_000_000_000_000_000;
        let all: Vec<Frame<'_>> = bytes
            .iter()
            .zip(&frames)
            .map(|(bytes, &(_, _, step_ns, captured))| {
                time_ns += step_ns;
                // Most frames are captured completely.
                let captured = if captured < 50 { captured } else { bytes.len() };
                Frame::new(&bytes[..captured], time_ns, bytes.len() as u32)
            })
            .collect();
        let mut options = MeterOptions { seed: 1, ..MeterOptions::default() };
        if bidirectional {
            options.flow = FlowDefinition::Bidirectional;
        }
        if analysed {
            options.statistics.analysis = Some(analysis::Level::Full);
        }
        let mut ends: Vec<usize> = ends.into_iter().map(|end| end.min(all.len())).collect();
        ends.sort_unstable();
        let each: Vec<usize> = (1..all.len()).collect();
        prop_assert_eq!(parse(&all, &ends, &options), parse(&all, &each, &options));
    }
}

/// On a link that is silent at first, there is no time to advance from.
#[test]
fn idle_link_before_the_first_packet_is_no_step_of_the_clock() {
    let bytes = frame(1, 1);
    let mut parser = PacketParser::new(&MeterOptions::default(), Decapsulate::No);
    for start_ns in [1_700_000_000_000_000_000, 1_700_000_001_000_000_000] {
        let before_ms = parser.clock_ms();
        for _ in 0..3 {
            std::thread::sleep(std::time::Duration::from_millis(2));
            parser.tick();
        }
        let advanced_ms = parser.clock_ms() - before_ms;
        assert_eq!(advanced_ms > 0, parser.books().received.packets > 0);
        let frames = [Frame::new(&bytes, start_ns, 60)];
        let burst = Burst {
            link: LinkType::Ethernet,
            frames: &frames,
        };
        parser.parse(&burst, &mut Batch::default());
        assert_eq!(parser.books().clock_steps_forward, 0);
    }
    let books = parser.books();
    assert_eq!(
        books.traffic_time(),
        Some(std::time::Duration::from_secs(1))
    );
}
