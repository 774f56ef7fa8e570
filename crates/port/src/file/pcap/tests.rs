//! pcap files in all variants.

use crate::SnaplenErrors;
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
fn byte_orders_and_resolutions_give_the_same_packets() {
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
fn modified_format_has_longer_record_headers() {
    for big in [false, true] {
        let mut file = Writer::new(big);
        file.pcap_header(MODIFIED, 4, 1);
        for number in 0..3u8 {
            // Interface, protocol, type and padding follow the lengths.
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
fn old_versions_have_the_original_length_first() {
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
fn wire_length_below_the_captured_length_is_kept() {
    // As capinfos counts: tcpdump/aoe-oobr-1.pcap has 34 captured bytes of 32.
    let mut file = Writer::new(false);
    file.pcap_header(MICROSECONDS, 4, 1)
        .pcap_record(0, 0, 1, &[1, 2, 3]);
    assert_eq!(read(&file.bytes).packets, [packet(1, 0, 1, &[1, 2, 3])]);
}

#[test]
fn fraction_above_one_second_is_added() {
    let mut file = Writer::new(false);
    file.pcap_header(NANOSECONDS, 4, 1)
        .pcap_record(1, u32::MAX, 1, &[1]);
    assert_eq!(read(&file.bytes).packets[0].time_ns, 5_294_967_295);
}

#[test]
fn fcs_length_is_not_part_of_the_link_type() {
    for (network, link) in [(0x4400_0001, 1u16), (0x3000_0084, 132), (0x0101_0001, 1)] {
        let mut file = Writer::new(false);
        file.pcap_header(MICROSECONDS, 4, network)
            .pcap_record(1, 0, 1, &[1]);
        assert_eq!(read(&file.bytes).packets[0].link, link);
    }
}

#[test]
fn pseudo_header_is_not_part_of_the_wire_length() {
    // SunATM: capinfos counts 262140 of the 262144 bytes of tcpdump/atm-heapoverflow.pcap.
    let mut file = Writer::new(false);
    file.pcap_header(MICROSECONDS, 4, 123)
        .pcap_record(1, 0, 262_144, &[1, 2, 3, 4]);
    assert_eq!(read(&file.bytes).packets[0].wire_length, 262_140);
}

#[test]
fn packets_longer_than_the_snaplen_are_read_and_counted() {
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
    let expected = SnaplenErrors {
        exceeded: 2,
        ..SnaplenErrors::default()
    };
    assert_eq!(all.counters.snaplen_errors, expected);
}

#[test]
fn invalid_snaplens_are_counted() {
    let snaplen_errors = |snaplen: u32| {
        let mut file = Writer::new(true);
        file.pcap_header(MICROSECONDS, 4, 1)
            .pcap_record(1, 0, 3, &[1, 2, 3]);
        file.bytes[16..20].copy_from_slice(&snaplen.to_be_bytes());
        let all = read(&file.bytes);
        assert_eq!((all.packets.len(), all.faults.len()), (1, 0));
        all.counters.snaplen_errors
    };
    // No limit, small and usual values, and the longest D-Bus message.
    for snaplen in [0, 3, 65_535, 16 << 20, 128 << 20] {
        assert_eq!(
            snaplen_errors(snaplen),
            SnaplenErrors::default(),
            "{snaplen}"
        );
    }
    for snaplen in [(128 << 20) + 1, i32::MAX as u32, u32::MAX] {
        let expected = SnaplenErrors {
            invalid: 1,
            invalid_max: snaplen,
            exceeded: 0,
        };
        assert_eq!(snaplen_errors(snaplen), expected);
    }
}

#[test]
fn bus_messages_may_be_longer_than_packets() {
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
fn faults_follow_the_packets_before_them() {
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
            "x: after 299 packets: the capture is truncated in a packet, after 75 of at least 76 bytes"
                .to_owned()
        )]
    );

    let all = read(&whole.bytes[..end - 70]);
    assert_eq!(
        all.faults[0].1,
        "x: after 299 packets: the capture is truncated in a packet, after 6 of at least 16 bytes"
    );

    whole.u32(1).u32(2).u32(0x7fff_ffff).u32(60).raw(&[0; 100]);
    let all = read(&whole.bytes);
    assert_eq!(
        all.faults,
        [(
            300,
            "x: after 300 packets: invalid captured length of 2147483647 bytes (limit: 1048576) at byte 22824; the file is damaged, the rest cannot be read"
                .to_owned()
        )]
    );
}

#[test]
fn unsupported_version_is_rejected() {
    let mut file = Writer::new(true);
    file.u32(MICROSECONDS).u16(3).u16(1).raw(&[0; 16]);
    assert_eq!(
        read(&file.bytes).error.as_deref(),
        Some("x: unreadable pcap file: unsupported version 3.1 (supported: 2.x)")
    );
}
