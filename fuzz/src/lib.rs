//! What the targets of capture files share.

use port::{CaptureFile, Port, Received};
use std::io::{Cursor, Read};

/// Gives at most so many bytes at a time.
struct Slow(Cursor<Vec<u8>>, usize);

impl Read for Slow {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = buffer.len().min(self.1);
        self.0.read(&mut buffer[..most])
    }
}

/// Packets, wire bytes, a digest of all that was said of the packets and of their bytes, faults.
fn read(bytes: &[u8], at_a_time: usize) -> (u64, u64, u64, u64) {
    let reader = Slow(Cursor::new(bytes.to_vec()), at_a_time);
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
    // Told faults are counted; those that are only counted are packets left out.
    assert!(counters.faults >= faults);
    // Each record needs at least a header of 16 bytes.
    assert!(counters.frames <= bytes.len() as u64 / 16);
    (counters.frames, counters.bytes, digest, counters.faults)
}

/// Reads a file at once and in pieces: the packets must be the same. The file is `input`, of which the
/// first byte chooses the size of the pieces, and may choose one of `starts` to stand in its place:
/// without them nearly every input would end at the magic number.
///
/// # Panics
/// When they are not, or when what was counted cannot be.
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
    // How much a decoder gives before it finds its input damaged hangs on the pieces.
    if !is_compressed(file) {
        assert_eq!(whole, pieces);
    }
}

fn is_compressed(file: &[u8]) -> bool {
    file.starts_with(&[0x1f, 0x8b]) || file.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
}
