//! Directions, promiscuous mode, and interfaces that go down, come back, or are removed.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use port::af_packet::AfPacketSender;
use port::af_packet::Options;
use port::{AfPacket, Port, PortError, Received, Transmit};

use crate::network::{self, Sender, is_probe};
use crate::traffic::{check_books, finish, receive, receive_to_end, udp};

#[test]
fn both_directions_are_captured_unless_outgoing_is_ignored() {
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
    let captured = finish(&mut received);
    assert_eq!(captured.len(), 10);
    for (number, frame) in (0..).zip(captured) {
        assert_eq!(frame.bytes, udp(1, false, number, 60));
    }
}

#[test]
fn loopback_frames_are_captured_once() {
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
    let captured = finish(&mut port);
    assert_eq!(captured.len(), 100);
    for (number, frame) in (0..).zip(captured) {
        // Ethernet 14, IPv4 20, UDP 8.
        assert_eq!(frame.wire_length, 92);
        assert_eq!(frame.bytes[42..], [number; 50]);
    }
}

#[test]
fn promiscuous_mode_is_optional_and_ends_with_the_port() {
    fn promiscuity() -> String {
        let shown = network::ip("-d link show right");
        let mut words = shown.split_whitespace();
        words.find(|&word| word == "promiscuity").unwrap();
        words.next().unwrap().to_owned()
    }
    network::enter_cable();
    let normal = AfPacket::open(&Options::new("right")).unwrap();
    assert_eq!(promiscuity(), "0");
    let promiscuous = AfPacket::open(&Options {
        promiscuous: true,
        ..Options::new("right")
    })
    .unwrap();
    assert_eq!(promiscuity(), "1");
    drop(promiscuous);
    assert_eq!(promiscuity(), "0");
    drop(normal);
}

#[test]
fn capture_resumes_on_a_flapping_interface_which_is_reported_once() {
    network::enter_cable();
    let mut port = AfPacket::open(&Options::new("right")).unwrap();
    let mut faults = Vec::new();
    for round in 1..=3u32 {
        Sender::on("left").send(&udp(1, false, round, 60)).unwrap();
        while receive(&mut port, 1).last().unwrap().bytes != udp(1, false, round, 60) {}
        network::ip("link set right down");
        let deadline = Instant::now() + Duration::from_secs(10);
        while port.counters().faults < u64::from(round) {
            match port.receive().unwrap() {
                Received::Idle => {}
                Received::Fault(line) => faults.push(line),
                other => panic!("{other:?}"),
            }
            assert!(Instant::now() < deadline);
        }
        network::ip("link set right up");
        network::await_carrier();
    }
    Sender::on("left").send(&udp(1, false, 9, 60)).unwrap();
    let mut captured = finish(&mut port);
    captured.retain(|frame| !is_probe(&frame.bytes));
    assert_eq!(captured.len(), 1);
    assert_eq!(port.socket_counters().downs, 3);
    assert_eq!(faults.len(), 1);
    assert!(
        faults[0].starts_with("right: the interface went down"),
        "{faults:?}"
    );
    assert_eq!(port.next_notice().unwrap(), "right: the interface is up");
    assert_eq!(port.next_notice(), None);
}

#[test]
fn interface_that_is_down_opens_with_a_notice() {
    network::enter_cable();
    network::ip("link set right down");
    let mut port = AfPacket::open(&Options::new("right")).unwrap();
    let notice = port.next_notice().unwrap();
    assert!(notice.contains("ip link set right up"), "{notice}");
    assert!(matches!(port.receive().unwrap(), Received::Idle));
    network::ip("link set right up");
    network::await_carrier();
    Sender::on("left").send(&udp(1, false, 1, 60)).unwrap();
    let mut captured = finish(&mut port);
    captured.retain(|frame| !is_probe(&frame.bytes));
    assert_eq!(captured.len(), 1);
    assert_eq!(port.socket_counters().downs, 0);
    assert_eq!(port.next_notice().unwrap(), "right: the interface is up");
}

#[test]
fn removing_an_interface_that_is_down_ends_the_port() {
    network::enter_cable();
    let mut port = AfPacket::open(&Options::new("right")).unwrap();
    network::ip("link set right down");
    while !matches!(port.receive().unwrap(), Received::Fault(_)) {}
    network::ip("link del left");
    let deadline = Instant::now() + Duration::from_secs(10);
    let line = loop {
        assert!(Instant::now() < deadline, "its removal was not reported");
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
fn removing_an_interface_ends_the_port_after_its_last_frame() {
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
            // That it went down before its removal may be reported or not.
            Ok(Received::Idle | Received::Fault(_)) => {}
            Ok(Received::End) => panic!("ended without an error"),
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
    assert!(receive_to_end(&mut port).unwrap().is_empty());
}

#[test]
fn sender_reports_loss_and_return_of_the_carrier() {
    network::enter_cable();
    let mut sender = AfPacketSender::open("left").unwrap();
    assert_eq!((sender.down_since(), sender.next_notice()), (None, None));
    network::ip("link set right down");
    let frame = udp(1, false, 1, 60);
    let mut send = || {
        let slots = sender.reserve(1, 60).unwrap();
        slots[0].bytes[..60].copy_from_slice(&frame);
        slots[0].length = 60;
        let accepted = sender.submit(1).unwrap();
        sender.discard();
        (
            accepted,
            sender.down_since().is_some(),
            sender.next_notice(),
        )
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut notices = Vec::new();
    loop {
        let (accepted, is_down, notice) = send();
        notices.extend(notice);
        if accepted == 0 && is_down {
            break;
        }
        assert!(
            Instant::now() < deadline,
            "the loss of the carrier was not reported"
        );
    }
    network::ip("link set right up");
    network::await_carrier();
    loop {
        let (accepted, is_down, notice) = send();
        notices.extend(notice);
        if accepted == 1 && !is_down {
            break;
        }
        assert!(
            Instant::now() < deadline,
            "the return of the carrier was not reported"
        );
    }
    assert_eq!(
        notices,
        [
            "left: the link went down; sending resumes when it is up again",
            "left: the link is up"
        ]
    );
}
