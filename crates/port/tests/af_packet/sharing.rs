//! Several sockets on one interface: fan-out by flow, and one queue alone.

use std::collections::HashMap;

use port::af_packet::{Options, open_fanout};
use port::{AfPacket, Port, PortError};

use crate::network::{self, Sender, is_probe};
use crate::traffic::{finish, flow, udp};

#[test]
fn a_group_shares_frames_by_flow_and_loses_none() {
    const FLOWS: u16 = 200;
    const EACH: u32 = 25;
    for members in [2, 3] {
        network::enter_cable();
        let mut ports = open_fanout(&Options::new("right"), members).unwrap();
        assert_eq!(ports.len(), members);
        let sender = Sender::on("left");
        for number in 0..EACH {
            for flow in 0..FLOWS {
                // There and back: a flow and its answers meet.
                for back in [false, true] {
                    sender.send(&udp(flow, back, number, 80)).unwrap();
                }
            }
        }
        let mut owner = HashMap::new();
        let mut total = 0;
        for (socket, port) in ports.iter_mut().enumerate() {
            let taken = finish(port);
            total += taken.len();
            // A fair share is a half or a third; a hash gives about that to each.
            let share = taken.len() * members * 100 / (usize::from(FLOWS) * 2 * EACH as usize);
            assert!((50..150).contains(&share), "{share} %");
            for frame in taken {
                let of = *owner.entry(flow(&frame.bytes)).or_insert(socket);
                assert_eq!(of, socket);
            }
        }
        assert_eq!(total, usize::from(FLOWS) * 2 * EACH as usize);
        assert_eq!(owner.len(), usize::from(FLOWS));
    }
}

#[test]
fn a_member_that_stops_keeps_its_flows_to_itself() {
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

/// Groups are told apart by the kernel, also several on one interface in one process.
#[test]
fn two_groups_on_one_interface_each_get_everything() {
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
fn a_group_comes_back_after_its_interface_was_down() {
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
            let mut taken = finish(port);
            taken.retain(|frame| !is_probe(&frame.bytes));
            taken.len()
        })
        .collect();
    assert_eq!(counts.iter().sum::<usize>(), 100);
    assert!(!counts.contains(&0), "{counts:?}");
}

#[test]
fn a_group_of_none_or_too_many_is_refused() {
    network::enter_cable();
    for members in [0, 257] {
        let Err(PortError::Failed(line)) = open_fanout(&Options::new("right"), members) else {
            panic!("{members}");
        };
        assert!(line.contains("1 to 256"), "{line}");
    }
}

/// What the driver of `right` has counted on each of its queues.
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

/// The oracle is the driver's own count of what it received on each queue.
#[test]
fn a_queue_of_a_virtual_cable_gets_what_the_driver_counts_on_it() {
    const QUEUES: u16 = 4;
    network::enter_new();
    network::ip(&format!(
        "link add left numtxqueues {QUEUES} numrxqueues {QUEUES} type veth \
         peer name right numtxqueues {QUEUES} numrxqueues {QUEUES}"
    ));
    // Otherwise the driver hands frames over outside of its queues.
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
    // What is sent belongs to no receive queue.
    Sender::on("right").send(&udp(0, false, 0, 80)).unwrap();
    assert_eq!(finish(&mut all).len(), 101);
    let after = received_by_queue(QUEUES);
    let mut total = 0;
    for (queue, port) in ports.iter_mut().enumerate() {
        let taken = finish(port).len();
        assert_eq!(taken, after[queue] - before[queue], "queue {queue}");
        assert!(taken > 0, "queue {queue}");
        total += taken;
    }
    assert_eq!(total, 100);
}

/// What is written to a queue of a tunnel device is received on it, and its driver records that as
/// drivers of hardware do.
#[test]
fn a_queue_of_a_device_gets_what_was_received_on_it() {
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
        let taken = finish(port);
        assert_eq!(taken.len(), queue + 1);
        for (number, frame) in (0..).zip(taken) {
            assert_eq!(frame.bytes, udp(queue as u16, false, number, 100)[14..]);
        }
    }
}
