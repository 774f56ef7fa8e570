//! Frames parsed in chunks give the results of single frames, with AVX-512 and without.

use proptest::prelude::*;
use wire::fast::{CHUNK, ChunkParser, HEADERS, SWAPPED, simple_ipv4};
use wire::{Decapsulate, FlowKey, LinkType, dissect};

type Header = ([u8; HEADERS], u32);

/// Headers and wire length of a simple frame, or of one that differs from it in a few bytes.
fn header() -> impl Strategy<Value = Header> {
    let transport = prop_oneof![
        4 => Just((6u8, 0x50u8, 0u16)),
        4 => Just((17, 0, 8)),
        1 => (prop_oneof![Just(6u8), Just(17), any::<u8>()], any::<u8>(), 0u16..40),
    ];
    let changes = prop_oneof![
        6 => Just(Vec::new()),
        1 => prop::collection::vec((12usize..HEADERS, any::<u8>()), 1..3),
    ];
    // Also few addresses, so that often only the ports differ.
    let few = (0u8..2, 0u8..2, any::<[u8; 4]>());
    let few = few.prop_map(|(from, to, ports)| {
        let mut fields = [0; 12];
        (fields[3], fields[7]) = (from, to);
        fields[8..].copy_from_slice(&ports);
        fields
    });
    let fields = prop_oneof![any::<[u8; 12]>(), few];
    let fragment = prop_oneof![30 => Just(0u16), 1 => (0u32..16).prop_map(|bit| 1 << bit)];
    let lengths = (
        0u16..4,
        prop_oneof![8 => Just(0u32), 1 => 0u32..70, 1 => any::<u32>()],
    );
    (
        transport,
        fields,
        any::<[u8; 4]>(),
        fragment,
        lengths,
        changes,
    )
        .prop_map(
            |(
                (protocol, data_offset, udp_length),
                fields,
                rest,
                fragment,
                (more, wire_length),
                changes,
            )| {
                let mut headers = [0; HEADERS];
                headers[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
                headers[20..22].copy_from_slice(&fragment.to_be_bytes());
                headers[22..26].copy_from_slice(&[rest[0], protocol, rest[1], rest[2]]);
                headers[26..38].copy_from_slice(&fields);
                headers[38..40].copy_from_slice(&udp_length.to_be_bytes());
                headers[46..48].copy_from_slice(&[data_offset, rest[3]]);
                let transport = if protocol == 6 {
                    u16::from(data_offset >> 4) * 4
                } else {
                    udp_length
                };
                let total = (20 + transport + more).saturating_sub(1);
                headers[16..18].copy_from_slice(&total.to_be_bytes());
                for (offset, value) in changes {
                    headers[offset] = value;
                }
                let length = if wire_length == 0 {
                    14 + u32::from(total)
                } else {
                    wire_length
                };
                (headers, length)
            },
        )
}

/// Returns key and flags of a frame parsed alone; `None` if it is not simple.
fn parse_alone(frame: &(&[u8], u32), mask: u128, both_directions: bool) -> Option<(u128, u32)> {
    let simple = simple_ipv4(frame.0, frame.1)?;
    let key = simple.key & mask | simple.key & 0xff;
    let (key, swapped) = match both_directions {
        true => FlowKey::compact_in_order(key),
        false => (key, 0),
    };
    let swapped = u32::from(swapped) * SWAPPED;
    Some((key, u32::from(simple.tcp_flags) | swapped))
}

/// Returns key and flags of each frame parsed as a chunk; `None` for those that are not simple.
fn parse_chunk(parser: ChunkParser, frames: &[(&[u8], u32)]) -> Vec<Option<(u128, u32)>> {
    // The arrays hold the results of the chunk before.
    let (mut keys, mut flags) = (vec![!0; frames.len()], [!0; CHUNK]);
    let simple = parser.parse(frames, &mut keys, &mut flags);
    assert_eq!(simple.checked_shr(frames.len() as u32).unwrap_or(0), 0);
    let results = keys.into_iter().zip(flags).enumerate();
    let results = results.map(|(at, result)| (simple >> at & 1 == 1).then_some(result));
    results.collect()
}

#[test]
fn this_cpu_has_avx512_or_the_comparison_is_skipped() {
    if !ChunkParser::new(!0, false).has_avx512() {
        eprintln!(
            "SKIPPED: the CPU lacks AVX-512 (F, BW, VL, VBMI); only the scalar parser is tested"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn chunks_give_the_results_of_single_frames(
        frames in prop::collection::vec(
            (header(), prop_oneof![20 => Just(HEADERS), 1 => 0..HEADERS]), 0..=CHUNK,
        ),
        mask in prop_oneof![Just(u128::MAX), any::<u128>()],
        both_directions: bool,
    ) {
        let frames: Vec<_> = frames
            .iter()
            .map(|((headers, length), captured)| (&headers[..*captured], *length))
            .collect();
        let alone = frames.iter().map(|frame| parse_alone(frame, mask, both_directions));
        let alone: Vec<_> = alone.collect();
        let parser = ChunkParser::new(mask, both_directions);
        prop_assert_eq!(&parse_chunk(parser, &frames), &alone);
        prop_assert_eq!(&parse_chunk(parser.without_avx512(), &frames), &alone);
    }

    #[test]
    fn simple_frames_have_the_key_that_the_walk_finds((headers, length) in header()) {
        if let Some(simple) = simple_ipv4(&headers, length) {
            let walked = dissect(LinkType::Ethernet, &headers, length, Decapsulate::No);
            prop_assert_eq!((walked.no_flow, walked.malformed), (None, None));
            prop_assert_eq!(Some(simple.key), walked.key.compact());
            prop_assert_eq!(simple.tcp_flags, walked.tcp_flags);
        }
    }
}
