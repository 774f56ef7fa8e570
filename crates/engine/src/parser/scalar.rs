//! The scalar fast path: parses one frame at a time. Used on CPUs without AVX-512 and if runs of simple
//! frames are short.

use super::{PacketParser, new_packet};
use flow::batch::BatchSlots;
use flow::{Batch, Packet};
use hw::prefetch;
use port::{Burst, Frame};
use std::hint::cold_path;
use std::ops::Range;
use wire::FlowKey;
use wire::fast::{SimpleIpv4, simple_ipv4, simple_ipv4_with_info};

/// Frames between the current one and the one whose headers are prefetched.
const PREFETCH_DISTANCE: usize = 8;

/// Prefetches the headers of a frame: its first cache line, and a second one, which they reach if the
/// frame is not aligned. `DETAILS` always needs the second line, for TCP options and the payload.
#[inline(always)]
pub(super) fn prefetch_headers<const DETAILS: bool>(frame: &Frame<'_>) {
    const TCP_FLAGS: usize = 14 + 20 + 13;
    const LINE: usize = 64;
    prefetch::offset(frame.bytes, 0);
    prefetch::offset(frame.bytes, if DETAILS { LINE } else { TCP_FLAGS });
}

impl PacketParser {
    /// Parses the frames of `range` in a burst; `first` is the packet number of the burst's first frame.
    /// Returns how often a run ended, because the clock advanced or a frame was not simple, and the bytes
    /// on the wire. `DEVICE_HASHES` keeps the device's hashes, `DETAILS` adds the details that an analysis
    /// needs, and `BOTH_DIRECTIONS` sorts the endpoints of keys.
    ///
    /// Not inlined, so that the variables of its loop stay in registers.
    #[inline(never)]
    pub(super) fn parse_scalar<
        const DEVICE_HASHES: bool,
        const DETAILS: bool,
        const BOTH_DIRECTIONS: bool,
    >(
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
            let first_slot = batch.len();
            let BatchSlots {
                keys,
                packets,
                details,
                wide,
            } = batch.free_slots();
            let keys = &mut keys[..frames.len()];
            let packets = &mut packets[..frames.len()];
            let details = match DETAILS {
                true => &mut details[..frames.len()],
                false => &mut [],
            };
            // Each frame fills the next slot, until a frame has no flow and leaves its slot free.
            let (mut read, mut taken) = (frames.len(), frames.len());
            for at in 0..frames.len() {
                let frame = &frames[at];
                if let Some(ahead) = frames.get(at + PREFETCH_DISTANCE) {
                    prefetch_headers::<DETAILS>(ahead);
                }
                bytes += u64::from(frame.wire_length);
                if !self.clock.tick().contains(frame.time_ns) {
                    breaks += 1;
                    self.clock.advance(frame.time_ns);
                }
                let index = start + at;
                let write = |simple: SimpleIpv4| {
                    // A bidirectional flow key uses all fields of a simple frame, so no mask.
                    let (key, direction) = match BOTH_DIRECTIONS {
                        true => FlowKey::compact_in_order(simple.key),
                        false => (simple.key & mask, 0),
                    };
                    keys[at] = key;
                    packets[at] = Packet {
                        tcp_flags: simple.tcp_flags,
                        direction,
                        ..new_packet(frame, first + index as u64, self.clock.now_ms())
                    };
                };
                let (bytes, wire_length) = (frame.bytes, frame.wire_length);
                let is_simple = match DETAILS {
                    true => simple_ipv4_with_info(
                        bytes,
                        wire_length,
                        index as u16,
                        &mut details[at],
                        write,
                    ),
                    false => simple_ipv4(bytes, wire_length).map(write).is_some(),
                };
                if DEVICE_HASHES && let Some(device_hashes) = &mut self.device_hashes {
                    device_hashes.set(first_slot + at, frame.rss_hash.filter(|_| is_simple));
                }
                if is_simple {
                    if bytes.len() < wire_length as usize {
                        cold_path();
                        truncated += 1;
                    }
                } else {
                    breaks += 1;
                    let slots = BatchSlots {
                        keys,
                        packets,
                        details,
                        wide,
                    };
                    let number = first + index as u64;
                    if !self.parse_uncommon(burst, index, number, slots, at) {
                        (read, taken) = (at + 1, at);
                        break;
                    }
                }
            }
            batch.commit(taken);
            start += read;
        }
        self.books.truncated += truncated;
        (breaks, bytes)
    }
}
