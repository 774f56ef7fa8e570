//! What a pcap file says, in all its forms.

use crate::SnapLengths;
use crate::file::sample::{Packet, Writer, read};

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const MODIFIED: u32 = 0xa1b2_cd34;

fn packet(link: u16, time_ns: i64, wire_length: u32, bytes: &[u8]) -> Packet {
    Packet {
        link,
        time_ns,
        wire_length,
        bytes: bytes.to_vec(),
    }
}

#[test]
fn both_byte_orders_and_both_resolutions_say_the_same() {
    for big in [false, true] {
        for (magic, unit) in [(MICROSECONDS, 1000), (NANOSECONDS, 1)] {
            let mut file = Writer::new(big);
            file.pcap_header(magic, 4, 1)
                .pcap_record(1_700_000_000, 123_456, 1500, &[1, 2, 3])
                .pcap_record(u32::MAX, 999_999, 2, &[4, 5]);
            let all = read(&file.bytes);
            let expected = [
                packet(
                    1,
                    1_700_000_000_000_000_000 + 123_456 * unit,
                    1500,
                    &[1, 2, 3],
                ),
                packet(1, 4_294_967_295_000_000_000 + 999_999 * unit, 2, &[4, 5]),
            ];
            assert_eq!(all.packets, expected);
            assert_eq!(all.counters.bytes, 1502);
            assert_eq!((all.faults, all.error), (vec![], None));
        }
    }
}

#[test]
fn the_modified_format_has_longer_record_headers() {
    for big in [false, true] {
        let mut file = Writer::new(big);
        file.pcap_header(MODIFIED, 4, 1);
        for number in 0..3u8 {
            // The captured length comes before the interface, protocol, type and padding.
            file.u32(7)
                .u32(1)
                .u32(2)
                .u32(60)
                .u32(3)
                .u16(0x800)
                .raw(&[0, 0])
                .raw(&[number, 9]);
        }
        let all = read(&file.bytes);
        let bytes: Vec<_> = all
            .packets
            .iter()
            .map(|packet| packet.bytes.clone())
            .collect();
        assert_eq!(bytes, [[0, 9], [1, 9], [2, 9]]);
        assert_eq!(all.packets[0].time_ns, 7_000_001_000);
    }
}

#[test]
fn files_of_the_old_versions_have_the_lengths_the_other_way_round() {
    for (minor, first, second) in [(2u16, 60u32, 2u32), (3, 60, 2), (3, 2, 60)] {
        let mut file = Writer::new(false);
        file.pcap_header(MICROSECONDS, minor, 1);
        file.u32(1).u32(0).u32(first).u32(second).raw(&[1, 2]);
        assert_eq!(
            read(&file.bytes).packets,
            [packet(1, 1_000_000_000, 60, &[1, 2])]
        );
    }
}

#[test]
fn more_captured_than_there_was_is_counted_as_it_was_on_the_wire() {
    // As capinfos does: tcpdump/aoe-oobr-1.pcap has 34 bytes captured of 32.
    let mut file = Writer::new(false);
    file.pcap_header(MICROSECONDS, 4, 1)
        .pcap_record(0, 0, 1, &[1, 2, 3]);
    assert_eq!(read(&file.bytes).packets, [packet(1, 0, 1, &[1, 2, 3])]);
}

#[test]
fn a_fraction_of_more_than_a_second_is_added_as_it_is() {
    let mut file = Writer::new(false);
    file.pcap_header(NANOSECONDS, 4, 1)
        .pcap_record(1, u32::MAX, 1, &[1]);
    assert_eq!(read(&file.bytes).packets[0].time_ns, 5_294_967_295);
}

#[test]
fn the_length_of_a_check_sequence_is_not_part_of_the_link_type() {
    for (network, link) in [(0x4400_0001, 1u16), (0x3000_0084, 132), (0x0101_0001, 1)] {
        let mut file = Writer::new(false);
        file.pcap_header(MICROSECONDS, 4, network)
            .pcap_record(1, 0, 1, &[1]);
        assert_eq!(read(&file.bytes).packets[0].link, link);
    }
}

#[test]
fn a_pseudo_header_that_never_was_on_the_wire_has_no_wire_length() {
    // SunATM: capinfos counts 262140 of the 262144 bytes of tcpdump/atm-heapoverflow.pcap.
    let mut file = Writer::new(false);
    file.pcap_header(MICROSECONDS, 4, 123)
        .pcap_record(1, 0, 262_144, &[1, 2, 3, 4]);
    assert_eq!(read(&file.bytes).packets[0].wire_length, 262_140);
}

#[test]
fn the_snap_length_of_the_header_refuses_nothing() {
    let mut file = Writer::new(false);
    file.u32(MICROSECONDS)
        .u16(2)
        .u16(4)
        .u32(0)
        .u32(0)
        .u32(1)
        .u32(1);
    file.pcap_record(1, 0, 600_000, &vec![7; 600_000])
        .pcap_record(2, 0, 3, &[1, 2, 3]);
    let all = read(&file.bytes);
    let lengths: Vec<_> = all
        .packets
        .iter()
        .map(|packet| packet.bytes.len())
        .collect();
    assert_eq!(lengths, [600_000, 3]);
    assert_eq!(all.faults, []);
    let odd = SnapLengths {
        exceeded: 2,
        ..SnapLengths::default()
    };
    assert_eq!(all.counters.snap_lengths, odd);
}

#[test]
fn a_snap_length_that_no_packet_can_have_is_counted() {
    let snap_lengths = |snap: u32| {
        let mut file = Writer::new(true);
        file.pcap_header(MICROSECONDS, 4, 1)
            .pcap_record(1, 0, 3, &[1, 2, 3]);
        file.bytes[16..20].copy_from_slice(&snap.to_be_bytes());
        let all = read(&file.bytes);
        assert_eq!((all.packets.len(), all.faults.len()), (1, 0));
        all.counters.snap_lengths
    };
    // None; what other programs write where they set no limit; the longest message of a D-Bus.
    for snap in [0, 3, 65_535, 16 << 20, 128 << 20] {
        assert_eq!(snap_lengths(snap), SnapLengths::default(), "{snap}");
    }
    for snap in [(128 << 20) + 1, i32::MAX as u32, u32::MAX] {
        let odd = SnapLengths {
            absurd: 1,
            absurd_max: snap,
            exceeded: 0,
        };
        assert_eq!(snap_lengths(snap), odd);
    }
}

#[test]
fn a_d_bus_message_may_be_longer_than_a_packet() {
    for (network, packets) in [(1, 0), (231, 1)] {
        let mut file = Writer::new(false);
        file.pcap_header(MICROSECONDS, 4, network)
            .pcap_record(1, 0, 9, &vec![7; 3 << 20]);
        let all = read(&file.bytes);
        assert_eq!(all.packets.len(), packets);
        assert_eq!(all.faults.len(), 1 - packets);
    }
}

#[test]
fn what_is_wrong_comes_after_the_packets_before_it() {
    let mut whole = Writer::new(false);
    whole.pcap_header(MICROSECONDS, 4, 1);
    for second in 0..300 {
        whole.pcap_record(second, 0, 60, &[1; 60]);
    }
    let end = whole.bytes.len();

    let all = read(&whole.bytes[..end - 1]);
    assert_eq!((all.packets.len(), all.counters.faults), (299, 1));
    assert_eq!(
        all.faults,
        [(
            299,
            "x: after 299 packets the file ends in the middle of a packet, 75 of at least 76 bytes are there"
                .to_owned()
        )]
    );

    let all = read(&whole.bytes[..end - 70]);
    assert_eq!(
        all.faults[0].1,
        "x: after 299 packets the file ends in the middle of a packet, 6 of at least 16 bytes are there"
    );

    whole.u32(1).u32(2).u32(0x7fff_ffff).u32(60).raw(&[0; 100]);
    let all = read(&whole.bytes);
    assert_eq!(
        all.faults,
        [(
            300,
            "x: after 300 packets a packet of 2147483647 captured bytes is not possible, the limit is 1048576, at byte 22824; the rest cannot be found, the file is damaged"
                .to_owned()
        )]
    );
}

#[test]
fn an_unknown_version_is_refused() {
    let mut file = Writer::new(true);
    file.u32(MICROSECONDS).u16(3).u16(1).raw(&[0; 16]);
    assert_eq!(
        read(&file.bytes).error.as_deref(),
        Some("x: is a pcap file that cannot be read: version 3.1, of which 2.x can be read")
    );
}
