//! Frames that are read four at a time say what each says alone.

use proptest::prelude::*;
use wire::FlowKey;
use wire::fast::{
    Avx512, FrameGroups, Frames4, GROUP, HEADERS, Parsed4, SWAPPED, simple_ipv4_groups,
    simple_ipv4_masked,
};

type Header = ([u8; HEADERS], u32);

struct Frames<'f> {
    frames: &'f [[Header; GROUP]],
    said: Vec<(u128, u32)>,
}

impl<'f> FrameGroups<'f> for Frames<'f> {
    fn group(&self, at: usize) -> Option<Frames4<'f>> {
        self.frames.get(at).map(|frames| Frames4 {
            headers: frames.each_ref().map(|(headers, _)| headers),
            wire_lengths: frames.map(|(_, length)| length),
        })
    }

    fn store(&mut self, at: usize, said: &Parsed4) {
        assert_eq!(self.said.len(), at * GROUP);
        let each = said.keys.into_iter().zip(said.flags);
        self.said.extend(each.take(said.count));
    }
}

/// A plain frame, or one that a few bytes make nearly so.
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
    // Few addresses too, so that it is the ports that differ.
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
                (protocol, offset, udp_length),
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
                headers[46..48].copy_from_slice(&[offset, rest[3]]);
                let transport = if protocol == 6 {
                    u16::from(offset >> 4) * 4
                } else {
                    udp_length
                };
                let total = (20 + transport + more).saturating_sub(1);
                headers[16..18].copy_from_slice(&total.to_be_bytes());
                for (place, value) in changes {
                    headers[place] = value;
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

/// What the frames before the first that is not plain say, one after the other.
fn one_by_one(frames: &[[Header; GROUP]], mask: u128, both: bool) -> Vec<(u128, u32)> {
    let each = frames.iter().flatten().map_while(|(headers, length)| {
        let plain = simple_ipv4_masked(headers, *length, mask)?;
        let (key, swapped) = if both {
            FlowKey::compact_in_order(plain.key)
        } else {
            (plain.key, 0)
        };
        Some((
            key,
            u32::from(plain.tcp_flags) + u32::from(swapped) * SWAPPED,
        ))
    });
    each.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn four_frames_say_what_each_says_alone(
        frames in prop::collection::vec(prop::array::uniform4(header()), 0..6),
        mask in prop_oneof![Just(u128::MAX), any::<u128>()],
    ) {
        let Some(instructions) = Avx512::detect() else {
            return Ok(());
        };
        let mut run = Frames { frames: &frames, said: Vec::new() };
        simple_ipv4_groups::<false>(instructions, mask, &mut run);
        prop_assert_eq!(&run.said, &one_by_one(&frames, mask, false));
        run.said.clear();
        simple_ipv4_groups::<true>(instructions, mask, &mut run);
        prop_assert_eq!(&run.said, &one_by_one(&frames, mask, true));
    }
}
