//! Shared code of the targets.

pub mod budget;
pub mod conversation;

use port::{CaptureFile, Port, Received};
use std::io::{Cursor, Read};

/// Returns at most this number of bytes per read.
struct ShortReads(Cursor<Vec<u8>>, usize);

impl Read for ShortReads {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = buffer.len().min(self.1);
        self.0.read(&mut buffer[..length])
    }
}

/// Number of packets, bytes on the wire, a digest of all packets, and number of faults.
fn read(bytes: &[u8], at_a_time: usize) -> (u64, u64, u64, u64) {
    let reader = ShortReads(Cursor::new(bytes.to_vec()), at_a_time);
    let mut file = CaptureFile::from_reader("fuzz", Box::new(reader));
    let mut digest = 0u64;
    let mut faults = 0;
    let mut add = |value: u64| {
        digest = (digest ^ value)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    };
    while let Ok(received) = file.receive() {
        match received {
            Received::Burst(burst) => {
                for frame in burst.frames {
                    add(u64::from(burst.link.linktype()));
                    add(frame.time_ns.cast_unsigned());
                    add(frame.bytes.len() as u64);
                    frame.bytes.iter().for_each(|byte| add(u64::from(*byte)));
                }
            }
            Received::Fault(_) => faults += 1,
            Received::Idle => {}
            Received::End => break,
        }
    }
    let counters = file.counters();
    // Each returned fault is counted. Some faults are only counted, for packets that are skipped.
    assert!(counters.faults >= faults);
    // A record has at least a header of 16 bytes.
    assert!(counters.frames <= bytes.len() as u64 / 16);
    (counters.frames, counters.bytes, digest, counters.faults)
}

/// Reads a file at once and in pieces, and compares the packets. The file is `input`; its first byte
/// selects the size of the pieces. It may also select one of `starts`, which then replaces it: without
/// these, nearly every input would fail at the magic number.
///
/// # Panics
/// If the packets differ, or if the counters are impossible.
pub fn same_in_pieces(input: &[u8], starts: &[&[u8]]) {
    let Some((first, rest)) = input.split_first() else {
        return;
    };
    let file = match starts.get(usize::from(*first)) {
        Some(start) => &[start, rest].concat(),
        None => input,
    };
    let at_a_time = 1 + usize::from(first / 2);
    let (whole, pieces) = (read(file, usize::MAX), read(file, at_a_time));
    // How much a decompressor returns before it detects an error depends on the pieces.
    if !is_compressed(file) {
        assert_eq!(whole, pieces);
    }
}

fn is_compressed(file: &[u8]) -> bool {
    file.starts_with(&[0x1f, 0x8b]) || file.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
}
