//! Directions, promiscuity, and interfaces that go down, come back, or vanish.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use port::af_packet::AfPacketSender;
use port::af_packet::Options;
use port::{AfPacket, Port, PortError, Received, Transmit};

use crate::network::{self, Sender, is_probe};
use crate::traffic::{check_books, finish, take, take_to_end, udp};

#[test]
fn both_directions_are_seen_unless_the_outgoing_is_left_out() {
    network::enter_cable();
    let mut both = AfPacket::open(&Options::new("right")).unwrap();
    let mut received = AfPacket::open(&Options {
        ignore_outgoing: true,
        ..Options::new("right")
    })
    .unwrap();
    for number in 0..10 {
        Sender::on("left").send(&udp(1, false, number, 60)).unwrap();
        Sender::on("right").send(&udp(1, true, number, 60)).unwrap();
    }
    assert_eq!(finish(&mut both).len(), 20);
    let taken = finish(&mut received);
    assert_eq!(taken.len(), 10);
    for (number, frame) in (0..).zip(taken) {
        assert_eq!(frame.bytes, udp(1, false, number, 60));
    }
}

#[test]
fn a_frame_on_the_loopback_device_is_seen_once() {
    network::enter_new();
    network::ip("link set lo up");
    let mut port = AfPacket::open(&Options::new("lo")).unwrap();
    assert_eq!(port.link(), wire::LinkType::Ethernet);
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for number in 0..100u8 {
        sender
            .send_to(&[number; 50], receiver.local_addr().unwrap())
            .unwrap();
    }
    let taken = finish(&mut port);
    assert_eq!(taken.len(), 100);
    for (number, frame) in (0..).zip(taken) {
        // Ethernet 14, IPv4 20, UDP 8.
        assert_eq!(frame.wire_length, 92);
        assert_eq!(frame.bytes[42..], [number; 50]);
    }
}

#[test]
fn promiscuity_is_asked_for_on_request_and_ends_with_the_port() {
    fn promiscuity() -> String {
        let shown = network::ip("-d link show right");
        let mut words = shown.split_whitespace();
        words.find(|&word| word == "promiscuity").unwrap();
        words.next().unwrap().to_owned()
    }
    network::enter_cable();
    let modest = AfPacket::open(&Options::new("right")).unwrap();
    assert_eq!(promiscuity(), "0");
    let curious = AfPacket::open(&Options {
        promiscuous: true,
        ..Options::new("right")
    })
    .unwrap();
    assert_eq!(promiscuity(), "1");
    drop(curious);
    assert_eq!(promiscuity(), "0");
    drop(modest);
}

#[test]
fn an_interface_that_goes_down_and_up_is_read_on_and_told_once() {
    network::enter_cable();
    let mut port = AfPacket::open(&Options::new("right")).unwrap();
    let mut told = Vec::new();
    for round in 1..=3u32 {
        Sender::on("left").send(&udp(1, false, round, 60)).unwrap();
        while take(&mut port, 1).last().unwrap().bytes != udp(1, false, round, 60) {}
        network::ip("link set right down");
        let deadline = Instant::now() + Duration::from_secs(10);
        while port.counters().faults < u64::from(round) {
            match port.receive().unwrap() {
                Received::Idle => {}
                Received::Fault(line) => told.push(line),
                other => panic!("{other:?}"),
            }
            assert!(Instant::now() < deadline);
        }
        network::ip("link set right up");
        network::await_carrier();
    }
    Sender::on("left").send(&udp(1, false, 9, 60)).unwrap();
    let mut taken = finish(&mut port);
    taken.retain(|frame| !is_probe(&frame.bytes));
    assert_eq!(taken.len(), 1);
    assert_eq!(port.details().downs, 3);
    assert_eq!(told.len(), 1);
    assert!(
        told[0].starts_with("right: the interface went down"),
        "{told:?}"
    );
    assert_eq!(port.notice().unwrap(), "right: the interface is up");
    assert_eq!(port.notice(), None);
}

#[test]
fn an_interface_that_is_down_is_opened_with_a_warning() {
    network::enter_cable();
    network::ip("link set right down");
    let mut port = AfPacket::open(&Options::new("right")).unwrap();
    let notice = port.notice().unwrap();
    assert!(notice.contains("ip link set right up"), "{notice}");
    assert!(matches!(port.receive().unwrap(), Received::Idle));
    network::ip("link set right up");
    network::await_carrier();
    Sender::on("left").send(&udp(1, false, 1, 60)).unwrap();
    let mut taken = finish(&mut port);
    taken.retain(|frame| !is_probe(&frame.bytes));
    assert_eq!(taken.len(), 1);
    assert_eq!(port.details().downs, 0);
    assert_eq!(port.notice().unwrap(), "right: the interface is up");
}

#[test]
fn an_interface_that_is_removed_while_it_is_down_ends_the_port() {
    network::enter_cable();
    let mut port = AfPacket::open(&Options::new("right")).unwrap();
    network::ip("link set right down");
    while !matches!(port.receive().unwrap(), Received::Fault(_)) {}
    network::ip("link del left");
    let deadline = Instant::now() + Duration::from_secs(10);
    let line = loop {
        assert!(Instant::now() < deadline, "nobody told that it was removed");
        match port.receive() {
            Err(PortError::Failed(line)) => break line,
            Ok(Received::Idle) => {}
            other => panic!("{other:?}"),
        }
    };
    assert!(
        line.starts_with("right: the interface was removed"),
        "{line}"
    );
}

#[test]
fn an_interface_that_is_removed_ends_the_port_after_its_last_frame() {
    network::enter_cable();
    let mut port = AfPacket::open(&Options::new("right")).unwrap();
    let sender = Sender::on("left");
    for number in 0..1_000 {
        sender.send(&udp(1, false, number, 60)).unwrap();
    }
    network::ip("link del left");
    let mut frames = 0;
    let line = loop {
        match port.receive() {
            Ok(Received::Burst(burst)) => frames += burst.frames.len(),
            // That it went down before it went away may be told or not.
            Ok(Received::Idle | Received::Fault(_)) => {}
            Ok(Received::End) => panic!("the fault is told before the end"),
            Err(PortError::Failed(line)) => break line,
            Err(error) => panic!("{error}"),
        }
    };
    assert!(
        line.starts_with("right: the interface was removed"),
        "{line}"
    );
    assert_eq!(frames, 1_000);
    check_books(&mut port);
    assert!(take_to_end(&mut port).unwrap().is_empty());
}

#[test]
fn a_sender_tells_that_its_link_has_no_carrier_and_has_one_again() {
    network::enter_cable();
    let mut sender = AfPacketSender::open("left").unwrap();
    assert_eq!((sender.down_since(), sender.notice()), (None, None));
    network::ip("link set right down");
    let frame = udp(1, false, 1, 60);
    let mut send = || {
        let slots = sender.reserve(1, 60).unwrap();
        slots[0].bytes[..60].copy_from_slice(&frame);
        slots[0].length = 60;
        let taken = sender.submit(1).unwrap();
        sender.discard();
        (taken, sender.down_since().is_some(), sender.notice())
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut told = Vec::new();
    loop {
        let (taken, is_down, notice) = send();
        told.extend(notice);
        if taken == 0 && is_down {
            break;
        }
        assert!(
            Instant::now() < deadline,
            "nobody told that the link is down"
        );
    }
    network::ip("link set right up");
    network::await_carrier();
    loop {
        let (taken, is_down, notice) = send();
        told.extend(notice);
        if taken == 1 && !is_down {
            break;
        }
        assert!(Instant::now() < deadline, "nobody told that the link is up");
    }
    assert_eq!(
        told,
        [
            "left: the link went down; sending goes on when it is up again",
            "left: the link is up"
        ]
    );
}
