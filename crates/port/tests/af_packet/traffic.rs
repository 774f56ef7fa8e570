//! Frames to send, and helpers to receive them.

use std::time::{Duration, Instant};

use port::{AfPacket, Port, PortError, Received};

/// A received frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CapturedFrame {
    pub(crate) bytes: Vec<u8>,
    pub(crate) time_ns: i64,
    pub(crate) wire_length: u32,
}

/// An IPv4 UDP frame of `length` bytes (at least 46) of flow number `flow`, with `sequence` in its last
/// four bytes; `back` swaps the endpoints.
pub(crate) fn udp(flow: u16, back: bool, sequence: u32, length: usize) -> Vec<u8> {
    let mut frame = vec![0; length];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&0x0800u16.to_be_bytes());
    let datagram = u16::try_from(length - 14).unwrap();
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&datagram.to_be_bytes());
    frame[22] = 64;
    frame[23] = 17;
    let here = ([10, 0, 0, 1], 1024 + flow);
    let there = ([10, 0, 0, 2], 53);
    let (from, to) = if back { (there, here) } else { (here, there) };
    frame[26..30].copy_from_slice(&from.0);
    frame[30..34].copy_from_slice(&to.0);
    frame[34..36].copy_from_slice(&from.1.to_be_bytes());
    frame[36..38].copy_from_slice(&to.1.to_be_bytes());
    frame[38..40].copy_from_slice(&(datagram - 20).to_be_bytes());
    frame[length - 4..].copy_from_slice(&sequence.to_be_bytes());
    frame
}

/// The sequence number in the last four bytes.
pub(crate) fn sequence(frame: &[u8]) -> u32 {
    u32::from_be_bytes(*frame.last_chunk().unwrap())
}

/// The flow number of a frame of [`udp`] in either direction.
pub(crate) fn flow(frame: &[u8]) -> u16 {
    let port = |at| u16::from_be_bytes([frame[at], frame[at + 1]]);
    port(34).max(port(36)) - 1024
}

/// Inserts a VLAN tag after the addresses.
pub(crate) fn tagged(frame: &[u8], identifier: u16, control: u16) -> Vec<u8> {
    let mut tagged = frame[..12].to_vec();
    tagged.extend(identifier.to_be_bytes());
    tagged.extend(control.to_be_bytes());
    tagged.extend(&frame[12..]);
    tagged
}

/// Stops the port and returns its remaining frames; checks the packet accounting.
pub(crate) fn finish(port: &mut AfPacket) -> Vec<CapturedFrame> {
    port.stop();
    let captured = receive_to_end(port).unwrap();
    check_books(port);
    captured
}

/// Receives frames until the port ends.
pub(crate) fn receive_to_end(port: &mut AfPacket) -> Result<Vec<CapturedFrame>, PortError> {
    let mut captured = Vec::new();
    loop {
        match port.receive()? {
            Received::Burst(burst) => {
                assert!((1..=port::frame::BURST).contains(&burst.frames.len()));
                captured.extend(burst.frames.iter().map(|frame| CapturedFrame {
                    bytes: frame.bytes.to_vec(),
                    time_ns: frame.time_ns,
                    wire_length: frame.wire_length,
                }));
            }
            // Faults are counted; tests that cause them check the counter.
            Received::Idle | Received::Fault(_) => {}
            Received::End => return Ok(captured),
        }
    }
}

/// Receives frames until there are at least `count`.
pub(crate) fn receive(port: &mut AfPacket, count: usize) -> Vec<CapturedFrame> {
    let mut captured = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(30);
    while captured.len() < count {
        assert!(Instant::now() < deadline, "{} of {count}", captured.len());
        if let Received::Burst(burst) = port.receive().unwrap() {
            captured.extend(burst.frames.iter().map(|frame| CapturedFrame {
                bytes: frame.bytes.to_vec(),
                time_ns: frame.time_ns,
                wire_length: frame.wire_length,
            }));
        }
    }
    captured
}

/// Checks that every frame that passed the filter was delivered or dropped.
pub(crate) fn check_books(port: &mut AfPacket) {
    let details = port.socket_counters();
    let counters = port.counters();
    assert_eq!(details.missing, 0, "{details:?}");
    assert_eq!(counters.dropped, details.kernel_drops);
    assert_eq!(
        details.kernel_packets,
        counters.frames + counters.dropped,
        "{details:?} {counters:?}"
    );
}
