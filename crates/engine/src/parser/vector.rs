//! The AVX-512 fast path: parses runs of simple frames, which make up most traffic, in groups of four.

use super::device_hash::DeviceHashes;
use super::scalar::prefetch_headers;
use super::{PacketParser, new_packet};
use flow::batch::BatchSlots;
use flow::clock::Tick;
use flow::{Batch, Packet};
use port::{Burst, Frame};
use wire::PacketInfo;
use wire::fast::{
    Avx512, FrameGroups, Frames4, GROUP, HEADERS, Parsed4, SWAPPED, simple_ipv4_groups,
};

/// Groups between the current one and the one whose headers are prefetched.
const PREFETCH_GROUPS: usize = 2;

impl PacketParser {
    /// Parses a burst: runs of simple frames in groups, and the frames between them one by one. The
    /// result is that of [`PacketParser::parse_scalar`].
    #[inline(never)]
    pub(super) fn parse_vector<
        const DEVICE_HASHES: bool,
        const DETAILS: bool,
        const BOTH_DIRECTIONS: bool,
    >(
        &mut self,
        avx512: Avx512,
        burst: &Burst<'_>,
        first: u64,
        batch: &mut Batch,
    ) -> (usize, u64) {
        let (mut begin, mut breaks, mut all_bytes) = (0, 0, 0);
        loop {
            let first_slot = batch.len();
            let run = FrameRun::<DEVICE_HASHES, DETAILS>::new(
                burst.frames,
                begin,
                first + begin as u64,
                batch.free_slots(),
                self.device_hashes
                    .as_mut()
                    .map(|device_hashes| (device_hashes, first_slot)),
                self.clock.tick(),
            );
            let totals = run.parse::<BOTH_DIRECTIONS>(avx512, self.keys.compact().mask());
            batch.commit(totals.packets);
            self.books.truncated += totals.truncated;
            all_bytes += totals.bytes;
            begin += totals.packets;
            let Some(frame) = burst.frames.get(begin) else {
                return (breaks, all_bytes);
            };
            // At the end of the burst, too few frames for a group are left: that breaks no run.
            breaks += usize::from(burst.frames.len() - begin >= GROUP);
            if !self.clock.advance_into(frame.time_ns) {
                let one = begin..begin + 1;
                let (_, bytes) = self.parse_scalar::<DEVICE_HASHES, DETAILS, BOTH_DIRECTIONS>(
                    burst, one, first, batch,
                );
                all_bytes += bytes;
                begin += 1;
            }
        }
    }
}

/// Frames of a burst, up to the next advance of the clock, and the batch slots that they fill.
/// `DEVICE_HASHES` keeps the device's hashes; `DETAILS` adds the details that an analysis needs.
pub(super) struct FrameRun<'r, 'f, const DEVICE_HASHES: bool, const DETAILS: bool> {
    frames: &'r [[Frame<'f>; GROUP]],
    keys: &'r mut [[u128; GROUP]],
    packets: &'r mut [[Packet; GROUP]],
    state: RunState<'r, DEVICE_HASHES, DETAILS>,
}

/// The state of a run besides keys and packets.
struct RunState<'r, const DEVICE_HASHES: bool, const DETAILS: bool> {
    details: &'r mut [PacketInfo],
    /// The device's hashes, and the slot of the run's first frame.
    device_hashes: Option<(&'r mut DeviceHashes, usize)>,
    tick: Tick,
    /// Index of the first frame in its burst.
    first: usize,
    /// Packet number of the first frame.
    number: u64,
    totals: RunTotals,
}

/// The totals of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct RunTotals {
    pub(super) packets: usize,
    pub(super) bytes: u64,
    /// Frames that were not captured completely.
    pub(super) truncated: u64,
}

impl<'r, 'f, const DEVICE_HASHES: bool, const DETAILS: bool>
    FrameRun<'r, 'f, DEVICE_HASHES, DETAILS>
{
    /// Creates a run that starts at frame `first`, whose packet number is `number`.
    pub(super) fn new(
        frames: &'r [Frame<'f>],
        first: usize,
        number: u64,
        slots: BatchSlots<'r>,
        device_hashes: Option<(&'r mut DeviceHashes, usize)>,
        tick: Tick,
    ) -> Self {
        Self {
            frames: frames[first..].as_chunks().0,
            keys: slots.keys.as_chunks_mut().0,
            packets: slots.packets.as_chunks_mut().0,
            state: RunState {
                details: slots.details,
                device_hashes,
                tick,
                first,
                number,
                totals: RunTotals::default(),
            },
        }
    }

    /// Parses the run up to the first frame that is not simple. `mask` selects the bits of a key;
    /// `BOTH_DIRECTIONS` sorts its endpoints.
    #[inline(always)]
    fn parse<const BOTH_DIRECTIONS: bool>(mut self, avx512: Avx512, mask: u128) -> RunTotals {
        simple_ipv4_groups::<BOTH_DIRECTIONS>(avx512, mask, &mut self);
        self.state.totals
    }

    /// Stores the first `count` packets of group `at`, except for their keys.
    #[inline(always)]
    fn store_first(&mut self, count: usize, at: usize, parsed: &Parsed4) {
        let (Some(frames), Some(packets)) = (self.frames.get(at), self.packets.get_mut(at)) else {
            return;
        };
        let before = at * GROUP;
        let each = frames.iter().zip(packets).zip(parsed.flags).enumerate();
        for (index, ((frame, packet), flags)) in each.take(count) {
            let direction = (flags / SWAPPED) as u8;
            *packet = self
                .state
                .packet(frame, before + index, flags as u8, direction);
        }
        self.state.totals.packets = before + count;
    }
}

impl<const DEVICE_HASHES: bool, const DETAILS: bool> RunState<'_, DEVICE_HASHES, DETAILS> {
    /// Creates the packet of a frame, which is number `index` of the run.
    #[inline(always)]
    fn packet(&mut self, frame: &Frame<'_>, index: usize, tcp_flags: u8, direction: u8) -> Packet {
        if DEVICE_HASHES && let Some((device_hashes, first_slot)) = &mut self.device_hashes {
            device_hashes.set(*first_slot + index, frame.rss_hash);
        }
        if DETAILS && let Some(info) = self.details.get_mut(index) {
            info.read_simple_ipv4((self.first + index) as u16, frame.bytes);
        }
        self.totals.truncated += u64::from(frame.bytes.len() < frame.wire_length as usize);
        self.totals.bytes += u64::from(frame.wire_length);
        Packet {
            tcp_flags,
            direction,
            ..new_packet(frame, self.number + index as u64, self.tick.clock_ms())
        }
    }
}

impl<'f, const DEVICE_HASHES: bool, const DETAILS: bool> FrameGroups<'f>
    for FrameRun<'_, 'f, DEVICE_HASHES, DETAILS>
{
    #[inline(always)]
    fn group(&self, at: usize) -> Option<Frames4<'f>> {
        /// Stands in for a frame that was captured too short: not a simple frame.
        static NOT_SIMPLE: [u8; HEADERS] = [0; HEADERS];
        let frames = self.frames.get(at)?;
        if let Some(next) = self.frames.get(at + PREFETCH_GROUPS) {
            next.iter().for_each(prefetch_headers::<DETAILS>);
        }
        let headers = |frame: &Frame<'f>| -> &'f [u8; HEADERS] {
            frame.bytes.first_chunk().unwrap_or(&NOT_SIMPLE)
        };
        // A frame that advances the clock must end the run; a length of 0 makes it not simple.
        let wire_length = |frame: &Frame<'f>| match self.state.tick.contains(frame.time_ns) {
            true => frame.wire_length,
            false => 0,
        };
        Some(Frames4 {
            headers: frames.each_ref().map(headers),
            wire_lengths: frames.each_ref().map(wire_length),
        })
    }

    #[inline(always)]
    fn store(&mut self, at: usize, parsed: &Parsed4) {
        if let Some(keys) = self.keys.get_mut(at) {
            *keys = parsed.keys;
        }
        if parsed.count == GROUP {
            // The usual case, with a constant with which the compiler can unroll the loop.
            self.store_first(GROUP, at, parsed);
        } else {
            self.store_first(parsed.count, at, parsed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::Level;
    use flow::{FlowDefinition, MeterOptions};
    use proptest::prelude::*;
    use wire::{Decapsulate, LinkType};

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

    /// Parses an Ethernet burst with `parse`. Returns packets, details, bytes, device hashes and books.
    fn parsed(
        frames: &[Frame<'_>],
        both_directions: bool,
        parse: impl Fn(&mut PacketParser, &Burst<'_>, &mut Batch) -> (usize, u64),
    ) -> (
        Vec<(u128, Packet)>,
        Vec<PacketInfo>,
        u64,
        DeviceHashes,
        String,
    ) {
        let mut batch = Batch::default();
        batch.enable_details();
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
        let burst = Burst {
            link: LinkType::Ethernet,
            frames,
        };
        let (_, bytes) = parse(&mut parser, &burst, &mut batch);
        let packets = batch.keys().iter().zip(batch.packets());
        let packets = packets.map(|(&key, &packet)| (key, packet)).collect();
        let details = batch.details().to_vec();
        let books = format!("{:?}", parser.books());
        (
            packets,
            details,
            bytes,
            parser.device_hashes.unwrap_or_default(),
            books,
        )
    }

    proptest! {
        #[test]
        fn vector_and_scalar_paths_give_the_same_result(
            frames in prop::collection::vec(
                (prop_oneof![Just(6u8), Just(17)], prop_oneof![20 => Just(0x45u8), 1 => Just(0x46)], 0u8..20,
                 prop_oneof![20 => 0i64..1_000_000, 1 => prop_oneof![Just(-1i64), Just(1_000_000)]], prop_oneof![20 => Just(60usize), 1 => 50usize..60]),
                0..40,
            ),
            both: bool,
        ) {
            let bytes: Vec<_> = frames.iter().map(|&(protocol, version, flow, ..)| frame(protocol, version, flow)).collect();
            let all: Vec<Frame<'_>> = bytes.iter().zip(&frames).map(|(bytes, &(_, _, flow, time_ns, captured))| Frame {
                rss_hash: std::num::NonZeroU32::new(u32::from(flow)),
                ..Frame::new(&bytes[..captured], time_ns, 60)
            }).collect();
            let scalar = parsed(&all, both, |parser, burst, batch| if both {
                parser.parse_scalar::<true, true, true>(burst, 0..all.len(), 1 << 40, batch)
            } else {
                parser.parse_scalar::<true, true, false>(burst, 0..all.len(), 1 << 40, batch)
            });
            if let Some(avx512) = Avx512::detect() {
                let vector = parsed(&all, both, |parser, burst, batch| if both {
                    parser.parse_vector::<true, true, true>(avx512, burst, 1 << 40, batch)
                } else {
                    parser.parse_vector::<true, true, false>(avx512, burst, 1 << 40, batch)
                });
                prop_assert_eq!(scalar, vector);
            }
        }
    }
}
