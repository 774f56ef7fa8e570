//! Live capture on all interfaces (`-i any`): each packet is counted once for each interface that it
//! is seen on, VLAN tags are kept, and the books balance. Needs root.

use crate::captures::{self, ETHERNET, Frame};
use crate::command::{Outcome, Running, run, watch};
use crate::namespace::{Cable, Namespace};
use crate::records;
use crate::summary::Summary;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Sends `argv[1]` datagrams to a bound port of 127.0.0.1, so that nothing answers.
const SEND_TO_LOOPBACK: &str = "import socket, sys\n\
     server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); server.bind(('127.0.0.1', 0))\n\
     client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
     for _ in range(int(sys.argv[1])): client.sendto(b'x' * 100, server.getsockname())\n";

/// Receives `argv[1]` IP packets on a new tunnel interface, which have no link-layer header, and as
/// many datagrams on the loopback interface, by turns.
const SEND_TO_TUNNEL_AND_LOOPBACK: &str = "import fcntl, os, socket, struct, subprocess, sys\n\
     tunnel = os.open('/dev/net/tun', os.O_RDWR)\n\
     fcntl.ioctl(tunnel, 0x400454ca, struct.pack('16sH22x', b'tun0', 0x1001))\n\
     subprocess.run(['ip', 'link', 'set', 'tun0', 'up'], check=True)\n\
     packet = struct.pack('!BBHHHBBH4s4sHHHH8x', 0x45, 0, 36, 0, 0, 64, 17, 0,\n\
     \tbytes([10, 1, 0, 1]), bytes([10, 1, 0, 2]), 1000, 2000, 16, 0)\n\
     server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); server.bind(('127.0.0.1', 0))\n\
     client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
     for _ in range(int(sys.argv[1])):\n\
     \tos.write(tunnel, packet); client.sendto(b'x' * 100, server.getsockname())\n";

fn listen(namespace: &Namespace, flags: &str) -> Running {
    let command = watch(&format!(
        "-i any --interval 20ms --summary json --whole-flows {flags}"
    ));
    let mut running = Running::start(&mut namespace.command_inside(&command));
    running.wait_for_packets(0);
    running
}

fn stop(mut running: Running, packets: u64) -> (Summary, Outcome) {
    running.wait_for_packets(packets);
    running.signal("INT");
    let outcome = running.finish();
    let summary = Summary::balanced(&outcome);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(summary.number("/books/received"), packets);
    assert_eq!(summary.number("/books/processed"), packets);
    (summary, outcome)
}

/// Whole Ethernet frames that the cable transmits.
fn frames() -> Vec<Frame> {
    let frames = captures::read(&fs::read(captures::example()).unwrap());
    let fits = |frame: &Frame| {
        frame.bytes.len() == frame.wire_length as usize
            && (14..=14 + Cable::MTU).contains(&frame.bytes.len())
    };
    frames.into_iter().filter(fits).collect()
}

/// The sum of the IP bytes and packets of records, and the number of records with a VLAN tag.
fn totals(csv: &[u8]) -> (u64, u64, usize) {
    let rows = records::csv(csv);
    let sum = |name: &str| rows.iter().map(|row| records::number(row, name)).sum();
    let tagged = rows.iter().filter(|row| row.contains_key("dot1qVlanId"));
    (sum("bytes"), sum("packets"), tagged.count())
}

fn records_of_file(capture: &Path) -> (u64, u64, usize) {
    let mut command = watch("-q --summary none --whole-flows --vlan -o csv -r");
    totals(&run(command.arg(capture)).quiet_success())
}

#[test]
fn packets_of_two_interfaces_are_counted_once_each() {
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("replayed.pcap");
    let frames = frames();
    let tagged = frames.iter().map(|frame| {
        let mut frame = frame.clone();
        frame.bytes.splice(12..12, [0x81, 0, 0, 5]);
        frame.wire_length += 4;
        frame
    });
    let frames: Vec<Frame> = frames.iter().cloned().chain(tagged).collect();
    captures::write(&capture, ETHERNET, &frames);
    let cable = Cable::new();
    cable.connect("left2", "right2");
    let output = directory.path().join("flows.csv");
    let flags = format!("--vlan -o csv:{}", output.display());
    let running = listen(&cable.receiver, &flags);
    let sent = cable.replay_on("left", &capture, 1) + cable.replay_on("left2", &capture, 1);
    assert_eq!(sent, 2 * frames.len() as u64);
    stop(running, sent);
    let (bytes, packets, tagged) = totals(&fs::read(&output).unwrap());
    let expected = records_of_file(&capture);
    assert_eq!((bytes, packets), (2 * expected.0, 2 * expected.1));
    // The two interfaces share the flows.
    assert_eq!(tagged, expected.2);
    assert!(tagged > 0);
}

/// Bursts are split where the link type changes, and an interface that appears during the run is
/// read too.
#[test]
fn interfaces_of_several_link_types_are_read() {
    if !Path::new("/dev/net/tun").exists() {
        println!("SKIPPED interfaces_of_several_link_types_are_read: no /dev/net/tun");
        return;
    }
    let namespace = Namespace::new();
    let running = listen(&namespace, "");
    let mut python = Command::new("python3");
    namespace.output(python.args(["-c", SEND_TO_TUNNEL_AND_LOOPBACK, "40"]));
    let (summary, _) = stop(running, 80);
    assert_eq!(summary.number("/flows"), 2);
    assert_eq!(summary.number("/books/in_flows"), 80);
}

/// Each packet of the loopback interface is sent and received, and counted once, as with `-i lo`.
#[test]
fn loopback_packets_are_counted_once() {
    let namespace = Namespace::new();
    let running = listen(&namespace, "");
    let mut python = Command::new("python3");
    namespace.output(python.args(["-c", SEND_TO_LOOPBACK, "40"]));
    let (summary, _) = stop(running, 40);
    assert_eq!(summary.number("/flows"), 1);
}
