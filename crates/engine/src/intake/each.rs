//! Plain frames read one after the other: where few follow each other, and by any processor.

use super::{Intake, packet_of};
use flow::batch::Places;
use flow::{Batch, Packet};
use hw::prefetch;
use port::{Burst, Frame};
use std::hint::cold_path;
use std::ops::Range;
use wire::FlowKey;
use wire::plain::{Plain, plain_ipv4, plain_ipv4_in_detail};

/// Frames ahead of the one at hand whose headers are asked for.
const AHEAD: usize = 8;

/// Asks for the headers of a frame. They are in two lines where a frame does not begin with one;
/// `DETAILS`: so are TCP's options as a rule, and the payload begins in the second.
#[inline(always)]
pub(super) fn ask_for<const DETAILS: bool>(frame: &Frame<'_>) {
    const TCP_FLAGS: usize = 14 + 20 + 13;
    const LINE: usize = 64;
    prefetch::ahead(frame.bytes, 0);
    prefetch::ahead(frame.bytes, if DETAILS { LINE } else { TCP_FLAGS });
}

impl Intake {
    /// Reads frames `range` of a burst, the first of the burst being number `first` of its link: how
    /// often the clock moved or a frame was not plain, and how many bytes the frames have. `REUSE`:
    /// notes the device's hashes; `DETAILS`: adds what an analysis asks for; `BOTH_DIRECTIONS`: brings
    /// the endpoints of keys into order.
    ///
    /// A function of its own: what it needs fits the processor's registers.
    #[inline(never)]
    pub(super) fn read_each<const REUSE: bool, const DETAILS: bool, const BOTH_DIRECTIONS: bool>(
        &mut self,
        burst: &Burst<'_>,
        range: Range<usize>,
        first: u64,
        batch: &mut Batch,
    ) -> (usize, u64) {
        let (mut breaks, mut bytes, mut truncated) = (0, 0, 0);
        let mask = self.keys.compact().mask();
        let Range { mut start, end } = range;
        while start < end {
            let frames = &burst.frames[start..end];
            let begun = batch.len();
            let Places {
                keys,
                packets,
                segments,
                wide,
            } = batch.places();
            let keys = &mut keys[..frames.len()];
            let packets = &mut packets[..frames.len()];
            let segments = match DETAILS {
                true => &mut segments[..frames.len()],
                false => &mut [],
            };
            // Frames and places go on together, until there is a frame that has no flow.
            let (mut read, mut taken) = (frames.len(), frames.len());
            for at in 0..frames.len() {
                let frame = &frames[at];
                if let Some(ahead) = frames.get(at + AHEAD) {
                    ask_for::<DETAILS>(ahead);
                }
                bytes += u64::from(frame.wire_length);
                if !self.clock.tick().contains(frame.time_ns) {
                    breaks += 1;
                    self.clock.advance(frame.time_ns);
                }
                let index = start + at;
                let put = |plain: Plain| {
                    // Of a flow in both directions all fields count that a plain frame has.
                    let (key, direction) = match BOTH_DIRECTIONS {
                        true => FlowKey::compact_in_order(plain.key),
                        false => (plain.key & mask, 0),
                    };
                    keys[at] = key;
                    packets[at] = Packet {
                        tcp_flags: plain.tcp_flags,
                        direction,
                        ..packet_of(frame, first + index as u64, self.clock.now_ms())
                    };
                };
                let (bytes, wire_length) = (frame.bytes, frame.wire_length);
                let is_plain = match DETAILS {
                    true => plain_ipv4_in_detail(
                        bytes,
                        wire_length,
                        index as u16,
                        &mut segments[at],
                        put,
                    ),
                    false => plain_ipv4(bytes, wire_length).map(put).is_some(),
                };
                if REUSE && let Some(reuse) = &mut self.reuse {
                    reuse.note(begun + at, frame.rss_hash.filter(|_| is_plain));
                }
                if is_plain {
                    if bytes.len() < wire_length as usize {
                        cold_path();
                        truncated += 1;
                    }
                } else {
                    breaks += 1;
                    let places = Places {
                        keys,
                        packets,
                        segments,
                        wide,
                    };
                    let number = first + index as u64;
                    if !self.read_other(burst, index, number, places, at) {
                        (read, taken) = (at + 1, at);
                        break;
                    }
                }
            }
            batch.take_places(taken);
            start += read;
        }
        self.books.truncated += truncated;
        (breaks, bytes)
    }
}
