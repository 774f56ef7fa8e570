//! What TCP options tell an analysis.

use super::{PacketInfo, present};
use crate::field::{bytes_at, u32_at};
use crate::tcp::TcpOptions;
use crate::work;

/// Kinds of TCP options (IANA).
mod kind {
    pub(super) const SEGMENT_SIZE: u8 = 2;
    pub(super) const WINDOW_SCALE: u8 = 3;
    pub(super) const SACK_PERMITTED: u8 = 4;
    pub(super) const SACK: u8 = 5;
    pub(super) const TIMESTAMPS: u8 = 8;
}

/// Bytes of the timestamps option with the two NOPs that nearly every sender puts before it.
pub(crate) const PADDED_TIMESTAMPS: usize = 12;
/// Its first four bytes: two NOPs, kind and length.
const TIMESTAMPS_START: [u8; 4] = [1, 1, 8, 10];

/// The timestamps, if the options begin with such an option.
#[inline]
pub(crate) fn padded_timestamps(options: &[u8]) -> Option<[u32; 2]> {
    let option = options.first_chunk::<PADDED_TIMESTAMPS>()?;
    let both = u64::from_be_bytes(bytes_at::<4, 8, _>(option)).rotate_left(32);
    let is_usual = bytes_at::<0, 4, _>(option) == TIMESTAMPS_START;
    is_usual.then_some([both as u32, (both >> 32) as u32])
}

impl PacketInfo {
    /// Reads TCP options, of `length` bytes on the wire. The details must have none yet.
    #[inline(never)]
    pub(crate) fn read_options(&mut self, options: &[u8], length: usize) {
        if [options.len(), length] == [PADDED_TIMESTAMPS; 2]
            && let Some(timestamps) = padded_timestamps(options)
        {
            self.timestamps = timestamps;
            self.present |= present::TIMESTAMPS;
            return;
        }
        if options.len() < length {
            self.present |= present::OPTIONS_CUT;
        }
        for option in TcpOptions::new(options) {
            work::count(work::CALL);
            match (option.kind, option.data) {
                (kind::SEGMENT_SIZE, &[high, low]) => {
                    self.segment_size = u16::from_be_bytes([high, low]);
                    self.present |= present::SEGMENT_SIZE;
                }
                (kind::WINDOW_SCALE, &[shift]) => {
                    self.window_scale = shift;
                    self.present |= present::WINDOW_SCALE;
                }
                (kind::SACK_PERMITTED, []) => self.present |= present::SACK_PERMITTED,
                (kind::SACK, blocks) => {
                    if let Some(block) = blocks.first_chunk::<8>() {
                        self.sack = [u32_at::<0, _>(block), u32_at::<4, _>(block)];
                        self.sack_blocks = (blocks.len() / 8) as u8;
                        if is_within_second(self.sack, blocks) {
                            self.present |= present::SACK_WITHIN_SECOND;
                        }
                    }
                }
                (kind::TIMESTAMPS, data) => {
                    if let Ok(pair) = <&[u8; 8]>::try_from(data) {
                        self.timestamps = [u32_at::<0, _>(pair), u32_at::<4, _>(pair)];
                        self.present |= present::TIMESTAMPS;
                    }
                }
                _ => {}
            }
        }
    }
}

/// Whether the first SACK block is within the second.
fn is_within_second([left, right]: [u32; 2], blocks: &[u8]) -> bool {
    let second = blocks.get(8..).and_then(|rest| rest.first_chunk::<8>());
    second.is_some_and(|second| {
        let from = u32_at::<0, _>(second);
        let length = u32_at::<4, _>(second).wrapping_sub(from);
        left.wrapping_sub(from) <= length && right.wrapping_sub(from) <= length
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A SACK option with these blocks.
    fn sack(blocks: &[[u32; 2]]) -> Vec<u8> {
        let mut option = vec![kind::SACK, 2 + 8 * blocks.len() as u8];
        option.extend(blocks.iter().flatten().flat_map(|edge| edge.to_be_bytes()));
        option
    }

    #[test]
    fn detects_a_first_sack_block_within_the_second() {
        let within = |blocks: &[[u32; 2]]| {
            let (mut segment, option) = (PacketInfo::default(), sack(blocks));
            segment.read_options(&option, option.len());
            assert_eq!(
                (segment.sack, usize::from(segment.sack_blocks)),
                (blocks[0], blocks.len())
            );
            segment.has(present::SACK_WITHIN_SECOND)
        };
        assert!(within(&[[200, 300], [100, 400]]));
        assert!(within(&[[100, 400], [100, 400]]));
        // Sequence numbers wrap.
        assert!(within(&[[u32::MAX - 5, 3], [u32::MAX - 9, 9], [20, 30]]));
        assert!(!within(&[[200, 300]]));
        assert!(!within(&[[500, 600], [100, 400], [400, 700]]));
        assert!(!within(&[[50, 300], [100, 400]]));
        assert!(!within(&[[200, 500], [100, 400]]));
    }

    #[test]
    fn options_cut_right_after_the_timestamps_are_marked_as_cut() {
        let options = [1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9];
        for (length, cut) in [(12, false), (24, true)] {
            let mut segment = PacketInfo::default();
            segment.read_options(&options, length);
            assert_eq!(segment.timestamps, [7, 9]);
            assert!(segment.has(present::TIMESTAMPS));
            assert_eq!(segment.has(present::OPTIONS_CUT), cut, "{length} bytes");
        }
    }
}
