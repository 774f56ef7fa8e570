//! Valid and invalid pcapng files.

use crate::SnaplenErrors;
use crate::file::sample::{Packet, ReadResult, Writer, read};

fn packet(link: u16, time_ns: i64, wire_length: u32, bytes: &[u8]) -> Packet {
    Packet {
        link,
        time_ns,
        wire_length,
        bytes: bytes.to_vec(),
    }
}

/// A section with one Ethernet interface with microsecond timestamps.
fn started(big: bool) -> Writer {
    let mut file = Writer::new(big);
    file.section().interface(1, 0, &[]);
    file
}

fn only_fault(all: &ReadResult) -> &str {
    assert_eq!((all.faults.len(), all.counters.faults), (1, 1), "{all:?}");
    &all.faults[0].1
}

#[test]
fn sections_may_differ_in_byte_order() {
    let mut file = Vec::new();
    for big in [false, true, false] {
        let mut section = started(big);
        section.enhanced(0, 0x0005_0000_1234_5678, 1500, &[1, 2, 3, 4, 5]);
        file.extend_from_slice(&section.bytes);
    }
    let time_ns = 0x0005_0000_1234_5678 * 1000;
    let all = read(&file);
    assert_eq!(
        all.packets,
        vec![packet(1, time_ns, 1500, &[1, 2, 3, 4, 5]); 3]
    );
    assert_eq!((all.faults, all.error), (vec![], None));
}

#[test]
fn interfaces_have_their_own_resolution_offset_and_link_type() {
    for big in [false, true] {
        let offset = 1_000_000_000u64;
        let offset = if big {
            offset.to_be_bytes()
        } else {
            offset.to_le_bytes()
        };
        let mut file = Writer::new(big);
        file.section()
            .interface(1, 0, &[(2, b"eth0"), (9, &[9])])
            .interface(113, 0, &[(9, &[0x80 | 10]), (14, &offset)])
            .interface(1, 0, &[(3, b"a description of seventeen"), (9, &[3])])
            .enhanced(0, 5, 1, &[1])
            .enhanced(2, 5, 1, &[2])
            .enhanced(1, 512, 1, &[3])
            .enhanced(0, 6, 1, &[4]);
        assert_eq!(
            read(&file.bytes).packets,
            [
                packet(1, 5, 1, &[1]),
                packet(1, 5_000_000, 1, &[2]),
                packet(113, 1_000_000_000_500_000_000, 1, &[3]),
                packet(1, 6, 1, &[4]),
            ]
        );
    }
}

#[test]
fn interfaces_belong_to_their_section() {
    let mut file = started(false);
    file.interface(113, 0, &[]).section().interface(101, 0, &[]);
    file.enhanced(0, 0, 1, &[1]).enhanced(1, 0, 1, &[2]);
    let all = read(&file.bytes);
    assert_eq!(all.packets, [packet(101, 0, 1, &[1])]);
    assert!(
        only_fault(&all).contains("undefined interface 1 (1 defined so far)"),
        "{all:?}"
    );
}

#[test]
fn simple_packet_has_the_interface_snaplen_and_the_previous_timestamp() {
    let mut file = Writer::new(false);
    file.section().interface(1, 5, &[]);
    file.simple(3, &[1, 2, 3])
        .enhanced(0, 7, 2, &[8, 9])
        .simple(900, &[1, 2, 3, 4, 5]);
    assert_eq!(
        read(&file.bytes).packets,
        [
            packet(1, 0, 3, &[1, 2, 3]),
            packet(1, 7000, 2, &[8, 9]),
            packet(1, 7000, 900, &[1, 2, 3, 4, 5]),
        ]
    );
}

#[test]
fn invalid_snaplens_are_counted_and_reject_no_packet() {
    let mut file = Writer::new(false);
    file.section()
        .interface(1, 3, &[])
        .interface(1, u32::MAX, &[])
        .interface(101, 1 << 30, &[]);
    file.enhanced(0, 1, 4, &[1, 2, 3, 4])
        .enhanced(0, 2, 3, &[1, 2, 3])
        .enhanced(1, 3, 4, &[1, 2, 3, 4])
        .enhanced(2, 4, 4, &[1, 2, 3, 4])
        .enhanced(0, 5, 5, &[1, 2, 3, 4, 5]);
    let all = read(&file.bytes);
    assert_eq!((all.packets.len(), all.faults.len()), (5, 0));
    let expected = SnaplenErrors {
        invalid: 2,
        invalid_max: u32::MAX,
        exceeded: 2,
    };
    assert_eq!(all.counters.snaplen_errors, expected);
}

#[test]
fn obsolete_packet_block_is_read() {
    let mut file = started(true);
    let mut body = Writer::new(true);
    body.u16(0)
        .u16(77)
        .u32(1)
        .u32(2)
        .u32(3)
        .u32(60)
        .raw(&[1, 2, 3]);
    file.block(2, &body.bytes);
    let time_ns = ((1 << 32) + 2) * 1000;
    assert_eq!(
        read(&file.bytes).packets,
        [packet(1, time_ns, 60, &[1, 2, 3])]
    );
}

#[test]
fn other_blocks_are_skipped_whatever_their_length() {
    let mut file = started(false);
    // Name resolution, statistics, systemd journal, decryption secrets, custom and undefined blocks.
    for kind in [4, 5, 9, 10, 0xbad, 0x4000_0bad, 0x1234_5678] {
        file.block(kind, &[7; 13]).block(kind, &[]);
        file.enhanced(0, 1, 1, &[1]);
    }
    file.block(10, &vec![7; 5 << 20]).enhanced(0, 1, 1, &[1]);
    let all = read(&file.bytes);
    assert_eq!(all.packets, vec![packet(1, 1000, 1, &[1]); 8]);
    assert_eq!(all.faults, []);
}

#[test]
fn packet_options_are_not_packet_data() {
    let mut file = started(false);
    let mut body = Writer::new(false);
    body.u32(0).u32(0).u32(1).u32(2).u32(2).raw(&[1, 2, 0, 0]);
    body.u16(1).u16(7).raw(b"comment\0").u32(0);
    file.block(6, &body.bytes).enhanced(0, 1, 1, &[3]);
    let bytes: Vec<_> = read(&file.bytes)
        .packets
        .into_iter()
        .map(|packet| packet.bytes)
        .collect();
    assert_eq!(bytes, [vec![1, 2], vec![3]]);
}

#[test]
fn invalid_block_length_ends_the_file() {
    for (length, trailer, part) in [
        (0u32, 32u32, "invalid length of 0 bytes"),
        (8, 32, "invalid length of 8 bytes"),
        (33, 33, "invalid length of 33 bytes"),
        (28, 28, "invalid length of 28 bytes"),
        (32, 36, "length is 32 bytes at its start and 36 at its end"),
        (0xffff_fff0, 32, "invalid length of 4294967280 bytes"),
        (
            0x0010_0000,
            32,
            "truncated in a block, after 68 of at least 1048576",
        ),
    ] {
        let mut file = started(false);
        file.enhanced(0, 1, 1, &[1]);
        file.u32(6).u32(length).raw(&[0; 20]).u32(trailer);
        file.enhanced(0, 1, 1, &[1]);
        let all = read(&file.bytes);
        assert_eq!(all.packets.len(), 1);
        assert!(only_fault(&all).contains(part), "{length}: {all:?}");
        assert_eq!(all.faults[0].0, 1);
    }
}

#[test]
fn truncation_in_a_skipped_block_is_reported() {
    let mut file = started(false);
    file.block(10, &[7; 100]);
    let end = file.bytes.len();
    for cut in [1, 4, 50, 100] {
        let all = read(&file.bytes[..end - cut]);
        assert!(
            only_fault(&all).contains(&format!("{cut} bytes are missing")),
            "{all:?}"
        );
    }
}

#[test]
fn invalid_packets_are_skipped_counted_and_reported_once() {
    let mut file = started(false);
    for _ in 0..3 {
        let mut body = Writer::new(false);
        body.u32(0).u32(0).u32(1).u32(9).u32(9).raw(&[1; 8]);
        file.block(6, &body.bytes)
            .enhanced(0, 1, 1, &[1])
            .enhanced(5, 1, 1, &[1]);
    }
    let all = read(&file.bytes);
    assert_eq!(all.packets, vec![packet(1, 1000, 1, &[1]); 3]);
    assert_eq!(all.counters.faults, 6);
    assert_eq!(
        all.faults,
        [(
            0,
            "x: after 0 packets: captured length of 9 bytes in a block that holds 8 at byte 48; skipped"
                .to_owned()
        )]
    );
}

#[test]
fn interface_with_an_oversized_option_is_reported_and_kept() {
    let mut file = Writer::new(false);
    file.section();
    let mut body = Writer::new(false);
    body.u16(101).u16(0).u32(0);
    body.u16(9)
        .u16(1)
        .raw(&[9, 0, 0, 0])
        .u16(2)
        .u16(100)
        .raw(b"eth0");
    file.block(1, &body.bytes).enhanced(0, 5, 1, &[1]);
    let all = read(&file.bytes);
    assert_eq!(all.packets, [packet(101, 5, 1, &[1])]);
    assert!(only_fault(&all).contains("extends past the end"), "{all:?}");
}

#[test]
fn simple_packet_longer_than_its_block_is_skipped() {
    let mut file = started(false);
    file.simple(100, &[1, 2, 3, 4]).simple(4, &[1, 2, 3, 4]);
    let all = read(&file.bytes);
    assert_eq!(all.packets, [packet(1, 0, 4, &[1, 2, 3, 4])]);
    assert!(only_fault(&all).contains("block that holds 4"), "{all:?}");
}

#[test]
fn unsupported_section_version_is_an_error_or_a_later_fault() {
    let mut unsupported = Writer::new(false);
    let mut body = Writer::new(false);
    body.u32(0x1a2b_3c4d).u16(2).u16(0).u64(u64::MAX);
    unsupported.block(0x0a0d_0d0a, &body.bytes);
    assert_eq!(
        read(&unsupported.bytes).error.as_deref(),
        Some("x: unreadable pcapng file: unsupported pcapng version 2.0 (supported: 1.x)")
    );
    let mut file = started(false);
    file.enhanced(0, 1, 1, &[1]);
    let all = read(&[&file.bytes[..], &unsupported.bytes[..]].concat());
    assert_eq!(all.packets.len(), 1);
    assert!(only_fault(&all).contains("pcapng version 2.0"), "{all:?}");

    let all = read(
        &[
            &file.bytes[..],
            &[0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0],
            &[1; 20],
        ]
        .concat(),
    );
    assert!(
        only_fault(&all).contains("byte-order magic 0x01010101"),
        "{all:?}"
    );
}

#[test]
fn number_of_interfaces_is_limited() {
    let mut file = Writer::new(false);
    file.section();
    for _ in 0..=super::MAX_INTERFACES {
        file.interface(1, 0, &[]);
    }
    file.enhanced(0, 1, 1, &[1]);
    let all = read(&file.bytes);
    assert!(
        only_fault(&all).contains("more than 262144 interfaces"),
        "{all:?}"
    );
}
