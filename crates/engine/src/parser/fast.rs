//! The fast path: parses bursts in chunks, in which most frames are simple.

use super::{PacketParser, new_packet};
use flow::{Batch, Packet, PacketClock};
use hw::prefetch;
use port::{Burst, Frame};
use std::hint::cold_path;
use wire::fast::{CHUNK, SWAPPED, read_simple_chunk};

impl PacketParser {
    /// Parses an Ethernet burst. `first` is the packet number of its first frame. Returns its bytes on the
    /// wire.
    #[inline(never)]
    pub(super) fn parse_fast(&mut self, burst: &Burst<'_>, first: u64, batch: &mut Batch) -> u64 {
        let mut chunks = burst.frames.chunks(CHUNK);
        let mut next = chunks.next();
        self.prefetch_headers(next);
        let (mut start, mut bytes) = (0, 0);
        while let Some(frames) = next {
            next = chunks.next();
            self.prefetch_headers(next);
            bytes += self.parse_chunk(burst, start, frames, first + start as u64, batch);
            start += frames.len();
        }
        bytes
    }

    /// Prefetches the headers of frames: of each its first cache line, and a second one, which the headers
    /// reach if the frame is not aligned. Details always need the second line, for TCP options and the
    /// payload.
    #[inline]
    fn prefetch_headers(&self, frames: Option<&[Frame<'_>]>) {
        const TCP_FLAGS: usize = 14 + 20 + 13;
        const LINE: usize = 64;
        let second = if self.details { LINE } else { TCP_FLAGS };
        for frame in frames.unwrap_or_default() {
            prefetch::offset(frame.bytes, 0);
            prefetch::offset(frame.bytes, second);
        }
    }

    /// Parses a chunk of the burst: `frames`, the first of which has index `start` and packet number
    /// `first`. Returns its bytes on the wire.
    ///
    /// Works in passes over the chunk, each without a branch on the kind of frame: kinds alternate
    /// unpredictably, and a misprediction costs more than to write a packet.
    #[inline]
    fn parse_chunk(
        &mut self,
        burst: &Burst<'_>,
        start: usize,
        frames: &[Frame<'_>],
        first: u64,
        batch: &mut Batch,
    ) -> u64 {
        let first_slot = batch.len();
        let mut slots = batch.free_slots();
        let mut flags = [0; CHUNK];
        let keys = &mut slots.keys[..frames.len()];
        let simple = self.chunks.parse(frames, keys, &mut flags);
        let totals = write_packets(&mut self.clock, frames, &flags, first, slots.packets);
        self.books.truncated += totals.truncated;
        if self.details {
            read_simple_chunk(frames, simple, start as u16, slots.details);
        }
        if let Some(device_hashes) = &mut self.device_hashes {
            for (at, frame) in frames.iter().enumerate() {
                let hash = frame.rss_hash.filter(|_| simple >> at & 1 == 1);
                device_hashes.set(first_slot + at, hash);
            }
        }
        let mut unused = 0;
        let mut uncommon = !simple & (u64::MAX >> (CHUNK - frames.len()));
        while uncommon != 0 {
            let at = uncommon.trailing_zeros() as usize;
            uncommon &= uncommon - 1;
            if !self.parse_uncommon(burst, start + at, &mut slots, at) {
                unused |= 1 << at;
            }
        }
        let mut filled = frames.len();
        if unused != 0 {
            filled = slots.close_gaps(filled, unused);
            if let Some(device_hashes) = &mut self.device_hashes {
                device_hashes.close_gaps(first_slot, frames.len(), unused);
            }
        }
        batch.commit(filled);
        totals.bytes
    }
}

/// Totals of the frames of a chunk.
struct Totals {
    bytes: u64,
    /// Frames that were not captured completely.
    truncated: u64,
}

/// Advances the clock and writes the packets of `frames` as if all were simple. `number` is the packet
/// number of frame 0.
///
/// A function of its own, with few variables, so that those of its loop stay in registers.
#[inline(never)]
fn write_packets(
    clock: &mut PacketClock,
    frames: &[Frame<'_>],
    flags: &[u32],
    number: u64,
    packets: &mut [Packet],
) -> Totals {
    // Of different types, or the compiler adds them up as a vector, which takes twice as long.
    let (mut bytes, mut truncated) = (0u64, 0u32);
    let mut tick = clock.tick();
    let inputs = frames.iter().zip(flags);
    for (number, ((frame, &flags), packet)) in (number..).zip(inputs.zip(packets)) {
        if !tick.contains(frame.time_ns) {
            cold_path();
            clock.advance(frame.time_ns);
            tick = clock.tick();
        }
        *packet = Packet {
            tcp_flags: flags as u8,
            direction: (flags / SWAPPED) as u8,
            ..new_packet(frame, number, tick.clock_ms())
        };
        bytes += u64::from(frame.wire_length);
        truncated += u32::from(frame.bytes.len() < frame.wire_length as usize);
    }
    Totals {
        bytes,
        truncated: u64::from(truncated),
    }
}

#[cfg(test)]
mod tests {
    use super::super::device_hash::DeviceHashes;
    use super::*;
    use crate::books::Books;
    use analysis::Level;
    use flow::{FlowDefinition, MeterOptions};
    use proptest::prelude::*;
    use wire::fast::ChunkParser;
    use wire::{Decapsulate, LinkType, PacketInfo};

    /// A TCP or UDP frame; its IPv4 version and header length are `version`, so it can be made invalid.
    fn frame(protocol: u8, version: u8, flow: u8) -> [u8; 60] {
        let mut frame = [flow; 60];
        frame[12..22].copy_from_slice(&[0x08, 0x00, version, 0, 0, 46, 0, flow, 0, 0]);
        frame[23] = protocol;
        frame[29] = 10;
        frame[38..40].copy_from_slice(&[0, 26]);
        frame[46] = 0x50;
        frame
    }

    /// Parses an Ethernet burst, with AVX-512 if `vector`. Returns packets, details, bytes, device hashes
    /// and books.
    fn parsed(
        frames: &[Frame<'_>],
        both_directions: bool,
        vector: bool,
    ) -> (
        Vec<(u128, Packet)>,
        Vec<PacketInfo>,
        u64,
        DeviceHashes,
        Books,
    ) {
        let mut options = MeterOptions {
            flow: match both_directions {
                true => FlowDefinition::Bidirectional,
                false => FlowDefinition::FiveTuple,
            },
            ..MeterOptions::default()
        };
        options.statistics.analysis = Some(Level::Full);
        let mut parser = PacketParser::new(&options, Decapsulate::No);
        parser.device_hashes = Some(DeviceHashes::default());
        if !vector {
            parser.chunks = parser.chunks.without_avx512();
        }
        let mut batch = Batch::default();
        batch.enable_details();
        let burst = Burst {
            link: LinkType::Ethernet,
            frames,
        };
        let bytes = parser.parse_fast(&burst, 1 << 40, &mut batch);
        let packets = batch.keys().iter().zip(batch.packets());
        let packets = packets.map(|(&key, &packet)| (key, packet)).collect();
        let details = batch.details().to_vec();
        let books = parser.books();
        let hashes = parser.device_hashes.unwrap_or_default();
        (packets, details, bytes, hashes, books)
    }

    proptest! {
        #[test]
        fn vector_and_scalar_paths_give_the_same_result(
            frames in prop::collection::vec(
                (prop_oneof![Just(6u8), Just(17)], prop_oneof![20 => Just(0x45u8), 1 => Just(0x46)], 0u8..20,
                 prop_oneof![20 => 0i64..1_000_000, 1 => prop_oneof![Just(-1i64), Just(1_000_000)]], prop_oneof![20 => Just(60usize), 1 => 50usize..60]),
                0..160,
            ),
            both: bool,
        ) {
            let bytes: Vec<_> = frames.iter().map(|&(protocol, version, flow, ..)| frame(protocol, version, flow)).collect();
            let all: Vec<Frame<'_>> = bytes.iter().zip(&frames).map(|(bytes, &(_, _, flow, time_ns, captured))| Frame {
                rss_hash: std::num::NonZeroU32::new(u32::from(flow)),
                ..Frame::new(&bytes[..captured], time_ns, 60)
            }).collect();
            if !ChunkParser::new(!0, both).has_avx512() {
                eprintln!("SKIPPED: the CPU lacks AVX-512 (F, BW, VL, VBMI)");
                return Ok(());
            }
            prop_assert_eq!(parsed(&all, both, false), parsed(&all, both, true));
        }
    }
}
