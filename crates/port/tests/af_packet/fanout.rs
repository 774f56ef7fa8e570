//! Several sockets on one interface: fan-out by flow, and capture of single queues.

use std::collections::HashMap;

use port::af_packet::{Options, open_fanout};
use port::{AfPacket, Port, PortError};

use crate::network::{self, Sender, is_probe};
use crate::traffic::{finish, flow, udp};

#[test]
fn fanout_distributes_flows_without_loss() {
    const FLOWS: u16 = 200;
    const EACH: u32 = 25;
    for members in [2, 3] {
        network::enter_cable();
        let mut ports = open_fanout(&Options::new("right"), members).unwrap();
        assert_eq!(ports.len(), members);
        let sender = Sender::on("left");
        for number in 0..EACH {
            for flow in 0..FLOWS {
                // Both directions go to the same socket.
                for back in [false, true] {
                    sender.send(&udp(flow, back, number, 80)).unwrap();
                }
            }
        }
        let mut owner = HashMap::new();
        let mut total = 0;
        for (socket, port) in ports.iter_mut().enumerate() {
            let captured = finish(port);
            total += captured.len();
            // The hash gives each socket about a half or a third.
            let share = captured.len() * members * 100 / (usize::from(FLOWS) * 2 * EACH as usize);
            assert!((50..150).contains(&share), "{share} %");
            for frame in captured {
                let owning = *owner.entry(flow(&frame.bytes)).or_insert(socket);
                assert_eq!(owning, socket);
            }
        }
        assert_eq!(total, usize::from(FLOWS) * 2 * EACH as usize);
        assert_eq!(owner.len(), usize::from(FLOWS));
    }
}

#[test]
fn flows_of_a_stopped_member_do_not_move() {
    network::enter_cable();
    let mut ports = open_fanout(&Options::new("right"), 2).unwrap();
    let sender = Sender::on("left");
    let send_all = || {
        for flow in 0..100 {
            sender.send(&udp(flow, false, 0, 80)).unwrap();
        }
    };
    send_all();
    let first = finish(&mut ports[0]).len();
    assert!(first > 0 && first < 100);
    send_all();
    assert_eq!(finish(&mut ports[1]).len(), 2 * (100 - first));
    assert_eq!(ports[0].counters().frames, first as u64);
}

/// Groups are independent, even on one interface in one process.
#[test]
fn two_groups_on_one_interface_each_receive_all_frames() {
    network::enter_cable();
    let mut groups: Vec<_> = (0..2)
        .map(|_| open_fanout(&Options::new("right"), 2).unwrap())
        .collect();
    let sender = Sender::on("left");
    for flow in 0..100 {
        sender.send(&udp(flow, false, 0, 80)).unwrap();
    }
    for group in &mut groups {
        let total: usize = group.iter_mut().map(|port| finish(port).len()).sum();
        assert_eq!(total, 100);
    }
}

#[test]
fn fanout_continues_after_its_interface_was_down() {
    network::enter_cable();
    let mut ports = open_fanout(&Options::new("right"), 2).unwrap();
    network::ip("link set right down");
    network::ip("link set right up");
    network::await_carrier();
    let sender = Sender::on("left");
    for flow in 0..100 {
        sender.send(&udp(flow, false, 0, 80)).unwrap();
    }
    let counts: Vec<_> = ports
        .iter_mut()
        .map(|port| {
            let mut captured = finish(port);
            captured.retain(|frame| !is_probe(&frame.bytes));
            captured.len()
        })
        .collect();
    assert_eq!(counts.iter().sum::<usize>(), 100);
    assert!(!counts.contains(&0), "{counts:?}");
}

#[test]
fn fanout_with_no_or_too_many_members_is_rejected() {
    network::enter_cable();
    for members in [0, 257] {
        let Err(PortError::Failed(line)) = open_fanout(&Options::new("right"), members) else {
            panic!("{members}");
        };
        assert!(line.contains("1 to 256"), "{line}");
    }
}

/// Frames that the driver of `right` has counted on each of its queues.
fn received_by_queue(queues: u16) -> Vec<usize> {
    let statistics = network::run("ethtool", "-S right");
    let count = |queue| {
        let name = format!("rx_queue_{queue}_xdp_packets:");
        let line = statistics
            .lines()
            .find_map(|line| line.trim().strip_prefix(&name))
            .unwrap_or_else(|| panic!("{name} {statistics}"));
        line.trim().parse().unwrap()
    };
    (0..queues).map(count).collect()
}

/// Compares with the driver's own count of frames received on each queue.
#[test]
fn veth_queues_receive_what_the_driver_counts() {
    const QUEUES: u16 = 4;
    network::enter_new();
    network::ip(&format!(
        "link add left numtxqueues {QUEUES} numrxqueues {QUEUES} type veth \
         peer name right numtxqueues {QUEUES} numrxqueues {QUEUES}"
    ));
    // Otherwise the driver delivers frames outside of its queues.
    network::run("ethtool", "-K right gro on");
    network::run("ethtool", "-K left tso off");
    network::ip("link set left up");
    network::ip("link set right up");
    network::await_carrier();
    let before = received_by_queue(QUEUES);
    let mut ports: Vec<_> = (0..QUEUES)
        .map(|queue| {
            let options = Options::from_source(&format!("right@{queue}")).unwrap();
            assert_eq!(options.queue, Some(queue));
            AfPacket::open(&options).unwrap()
        })
        .collect();
    assert_eq!(ports[2].name(), "right@2");
    let mut all = AfPacket::open(&Options::new("right")).unwrap();
    let sender = Sender::on("left");
    for flow in 0..100 {
        sender.send(&udp(flow, false, 0, 80)).unwrap();
    }
    // Outgoing frames belong to no receive queue.
    Sender::on("right").send(&udp(0, false, 0, 80)).unwrap();
    assert_eq!(finish(&mut all).len(), 101);
    let after = received_by_queue(QUEUES);
    let mut total = 0;
    for (queue, port) in ports.iter_mut().enumerate() {
        let captured = finish(port).len();
        assert_eq!(captured, after[queue] - before[queue], "queue {queue}");
        assert!(captured > 0, "queue {queue}");
        total += captured;
    }
    assert_eq!(total, 100);
}

/// A packet written to a queue of a TUN device is received on that queue, which the driver records as
/// hardware drivers do.
#[test]
fn tun_queues_receive_their_own_packets() {
    use std::io::Write;

    network::enter_new();
    let mut queues: Vec<_> = (0..3).map(|_| network::open_tunnel_queue()).collect();
    network::ip("link set tunnel up");
    let mut ports: Vec<_> = (0..3)
        .map(|queue| {
            let options = Options::from_source(&format!("tunnel@{queue}")).unwrap();
            AfPacket::open(&options).unwrap()
        })
        .collect();
    for (queue, device) in queues.iter_mut().enumerate() {
        for number in 0..=queue as u32 {
            let packet = udp(queue as u16, false, number, 100).split_off(14);
            device.write_all(&packet).unwrap();
        }
    }
    for (queue, port) in ports.iter_mut().enumerate() {
        let captured = finish(port);
        assert_eq!(captured.len(), queue + 1);
        for (number, frame) in (0..).zip(captured) {
            assert_eq!(frame.bytes, udp(queue as u16, false, number, 100)[14..]);
        }
    }
}
