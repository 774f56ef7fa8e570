//! Frames are delivered as they were on the wire.

use std::time::{SystemTime, UNIX_EPOCH};

use port::af_packet::Options;
use port::{AfPacket, Port};
use wire::LinkType;

use crate::network::{self, Sender};
use crate::traffic::{finish, tagged, udp};

fn now_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_nanos()).unwrap()
}

#[test]
fn frames_are_unchanged_in_order_and_timestamped() {
    network::enter_cable();
    let mut port = AfPacket::open(&Options::new("right")).unwrap();
    assert_eq!(port.next_notice(), None);
    assert_eq!(port.link(), LinkType::Ethernet);
    assert_eq!(port.name(), "right");
    let sender = Sender::on("left");
    // All lengths of Ethernet without the frame check sequence.
    let sent: Vec<_> = (0..10_000u32)
        .map(|number| udp(7, false, number, 60 + number as usize % 1455))
        .collect();
    let before = now_ns();
    for frame in &sent {
        sender.send(frame).unwrap();
    }
    let after = now_ns();
    let captured = finish(&mut port);
    assert_eq!(captured.len(), sent.len());
    for (captured, sent) in captured.iter().zip(&sent) {
        assert_eq!(&captured.bytes, sent);
        assert_eq!(captured.wire_length as usize, sent.len());
    }
    assert!(captured.is_sorted_by_key(|frame| frame.time_ns));
    assert!(captured.first().unwrap().time_ns >= before);
    assert!(captured.last().unwrap().time_ns <= after);
    let counters = port.counters();
    assert_eq!(counters.frames, 10_000);
    let bytes: usize = sent.iter().map(Vec::len).sum();
    assert_eq!(counters.bytes, bytes as u64);
    assert_eq!(counters.dropped, 0);
}

/// The kernel strips the outermost tag before a packet socket receives the frame.
#[test]
fn vlan_tags_are_restored() {
    network::enter_cable();
    let mut port = AfPacket::open(&Options::new("right")).unwrap();
    let sender = Sender::on("left");
    let plain = udp(1, false, 9, 90);
    let sent = [
        tagged(&plain, 0x8100, 0x0005),
        // Priority 7, the drop eligible indicator, the highest VLAN ID.
        tagged(&plain, 0x8100, 0xfffe),
        tagged(&plain, 0x88a8, 0x0064),
        tagged(&tagged(&plain, 0x8100, 0x0005), 0x88a8, 0x2064),
        tagged(&plain, 0x8100, 0x0000),
        plain,
    ];
    for frame in &sent {
        sender.send(frame).unwrap();
    }
    let captured = finish(&mut port);
    assert_eq!(captured.len(), sent.len());
    for (captured, sent) in captured.iter().zip(&sent) {
        assert_eq!(&captured.bytes, sent);
        assert_eq!(captured.wire_length as usize, sent.len());
    }
    let bytes: usize = sent.iter().map(Vec::len).sum();
    assert_eq!(port.counters().bytes, bytes as u64);
}

#[test]
fn snaplen_truncates_the_bytes_and_keeps_the_wire_length() {
    for snaplen in [1, 11, 12, 13, 64, 1000] {
        network::enter_cable();
        let mut port = AfPacket::open(&Options {
            snaplen: Some(snaplen),
            ..Options::new("right")
        })
        .unwrap();
        let sender = Sender::on("left");
        let plain = udp(1, false, 9, 500);
        let sent = [tagged(&plain, 0x8100, 0x0005), plain];
        for frame in &sent {
            sender.send(frame).unwrap();
        }
        let captured = finish(&mut port);
        assert_eq!(captured.len(), 2);
        for (captured, sent) in captured.iter().zip(&sent) {
            let kept = sent.len().min(snaplen as usize);
            assert_eq!(captured.bytes, sent[..kept], "{snaplen}");
            assert_eq!(captured.wire_length as usize, sent.len());
        }
    }
}

#[test]
fn frames_of_60000_bytes_are_whole() {
    network::enter_cable();
    network::ip("link set left mtu 65535");
    network::ip("link set right mtu 65535");
    let mut port = AfPacket::open(&Options::new("right")).unwrap();
    let sender = Sender::on("left");
    let sent: Vec<_> = (0..50)
        .map(|number| udp(1, false, number, 60_000 + number as usize))
        .collect();
    for frame in &sent {
        sender.send(frame).unwrap();
    }
    let captured = finish(&mut port);
    assert_eq!(captured.len(), sent.len());
    for (captured, sent) in captured.iter().zip(&sent) {
        assert!(&captured.bytes == sent);
        assert_eq!(captured.wire_length as usize, sent.len());
    }
}

#[test]
fn frame_longer_than_a_block_is_truncated_and_keeps_its_wire_length() {
    network::enter_cable();
    network::ip("link set left mtu 65535");
    network::ip("link set right mtu 65535");
    let mut port = AfPacket::open(&Options {
        block_bytes: 16 << 10,
        block_count: 64,
        ..Options::new("right")
    })
    .unwrap();
    let sender = Sender::on("left");
    let sent = udp(1, false, 9, 60_000);
    sender.send(&sent).unwrap();
    sender.send(&tagged(&sent, 0x8100, 5)).unwrap();
    let captured = finish(&mut port);
    assert_eq!(captured.len(), 2);
    // A block of 16 KiB without the headers of block and frame.
    assert!((16_000..16_384).contains(&captured[0].bytes.len()));
    assert_eq!(captured[0].bytes, sent[..captured[0].bytes.len()]);
    assert_eq!(captured[0].wire_length, 60_000);
    assert_eq!(
        captured[1].bytes,
        tagged(&sent, 0x8100, 5)[..captured[1].bytes.len()]
    );
    assert_eq!(captured[1].wire_length, 60_004);
}

#[test]
fn tun_device_delivers_raw_ip_packets() {
    use std::io::Write;

    network::enter_new();
    let mut tunnel = network::open_tunnel();
    network::ip("link set tunnel up");
    let mut port = AfPacket::open(&Options::new("tunnel")).unwrap();
    assert_eq!(port.link(), LinkType::Raw);
    let packet = udp(1, false, 9, 100).split_off(14);
    tunnel.write_all(&packet).unwrap();
    let captured = finish(&mut port);
    assert_eq!(captured.len(), 1);
    assert_eq!(captured[0].bytes, packet);
}
