//! Runs of plain frames: of such most traffic consists, so they are read several at a time.

use super::device_hash::Reuse;
use super::each::ask_for;
use super::{Intake, packet_of};
use flow::batch::Places;
use flow::clock::Tick;
use flow::{Batch, Packet};
use port::{Burst, Frame};
use wire::Segment;
use wire::plain::{Four, HEADERS, Instructions, Run, SWAPPED, Said, TOGETHER, plain_ipv4_run};

/// Groups ahead of the one at hand whose headers are asked for.
const AHEAD: usize = 2;

impl Intake {
    /// Reads the runs of plain frames in a burst several frames at a time, and what is between them
    /// otherwise: what [`Intake::read_each`] does.
    #[inline(never)]
    pub(super) fn read_runs<const REUSE: bool, const DETAILS: bool, const BOTH_DIRECTIONS: bool>(
        &mut self,
        instructions: Instructions,
        burst: &Burst<'_>,
        first: u64,
        batch: &mut Batch,
    ) -> (usize, u64) {
        let (mut begin, mut breaks, mut all_bytes) = (0, 0, 0);
        loop {
            let begun = batch.len();
            let run = PlainRun::<REUSE, DETAILS>::new(
                burst.frames,
                begin,
                first + begin as u64,
                batch.places(),
                self.reuse.as_mut().map(|reuse| (reuse, begun)),
                self.clock.tick(),
            );
            let tally = run.read::<BOTH_DIRECTIONS>(instructions, self.keys.compact().mask());
            batch.take_places(tally.packets);
            self.books.truncated += tally.truncated;
            all_bytes += tally.bytes;
            begin += tally.packets;
            let Some(frame) = burst.frames.get(begin) else {
                return (breaks, all_bytes);
            };
            // The last few are too few for a run.
            breaks += usize::from(burst.frames.len() - begin >= TOGETHER);
            if !self.clock.moves_to(frame.time_ns) {
                let one = begin..begin + 1;
                let (_, bytes) =
                    self.read_each::<REUSE, DETAILS, BOTH_DIRECTIONS>(burst, one, first, batch);
                all_bytes += bytes;
                begin += 1;
            }
        }
    }
}

/// Frames of a burst, while the clock stands, and the places of a batch that they come to. `REUSE`:
/// notes the device's hashes; `DETAILS`: adds what an analysis asks for.
pub(super) struct PlainRun<'r, 'f, const REUSE: bool, const DETAILS: bool> {
    frames: &'r [[Frame<'f>; TOGETHER]],
    keys: &'r mut [[u128; TOGETHER]],
    packets: &'r mut [[Packet; TOGETHER]],
    notes: Notes<'r, REUSE, DETAILS>,
}

/// What is noted of a run besides keys and packets.
struct Notes<'r, const REUSE: bool, const DETAILS: bool> {
    segments: &'r mut [Segment],
    /// The device's hashes, and the place of the first frame among them.
    reuse: Option<(&'r mut Reuse, usize)>,
    tick: Tick,
    /// The number of the first frame in its burst, and on its link.
    first: usize,
    number: u64,
    tally: Tally,
}

/// What was read of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Tally {
    pub(super) packets: usize,
    pub(super) bytes: u64,
    /// Frames of which not all was captured.
    pub(super) truncated: u64,
}

impl<'r, 'f, const REUSE: bool, const DETAILS: bool> PlainRun<'r, 'f, REUSE, DETAILS> {
    /// The frames from `first` on, that one being `number` of its link.
    pub(super) fn new(
        frames: &'r [Frame<'f>],
        first: usize,
        number: u64,
        places: Places<'r>,
        reuse: Option<(&'r mut Reuse, usize)>,
        tick: Tick,
    ) -> Self {
        Self {
            frames: frames[first..].as_chunks().0,
            keys: places.keys.as_chunks_mut().0,
            packets: places.packets.as_chunks_mut().0,
            notes: Notes {
                segments: places.segments,
                reuse,
                tick,
                first,
                number,
                tally: Tally::default(),
            },
        }
    }

    /// Reads them up to the first that is not plain. `mask`: what keys keep; `BOTH_DIRECTIONS`: their
    /// endpoints are brought into order.
    #[inline(always)]
    fn read<const BOTH_DIRECTIONS: bool>(
        mut self,
        instructions: Instructions,
        mask: u128,
    ) -> Tally {
        plain_ipv4_run::<BOTH_DIRECTIONS>(instructions, mask, &mut self);
        self.notes.tally
    }

    /// Takes what the first `count` frames of group `at` say, but for their keys.
    #[inline(always)]
    fn take_first(&mut self, count: usize, at: usize, said: &Said) {
        let (Some(frames), Some(packets)) = (self.frames.get(at), self.packets.get_mut(at)) else {
            return;
        };
        let before = at * TOGETHER;
        let each = frames.iter().zip(packets).zip(said.flags).enumerate();
        for (index, ((frame, packet), flags)) in each.take(count) {
            let direction = (flags / SWAPPED) as u8;
            *packet = self
                .notes
                .packet(frame, before + index, flags as u8, direction);
        }
        self.notes.tally.packets = before + count;
    }
}

impl<const REUSE: bool, const DETAILS: bool> Notes<'_, REUSE, DETAILS> {
    /// What is counted of a frame, the `place`-th of the run.
    #[inline(always)]
    fn packet(&mut self, frame: &Frame<'_>, place: usize, tcp_flags: u8, direction: u8) -> Packet {
        if REUSE && let Some((reuse, begun)) = &mut self.reuse {
            reuse.note(*begun + place, frame.rss_hash);
        }
        if DETAILS && let Some(segment) = self.segments.get_mut(place) {
            segment.read_plain((self.first + place) as u16, frame.bytes);
        }
        self.tally.truncated += u64::from(frame.bytes.len() < frame.wire_length as usize);
        self.tally.bytes += u64::from(frame.wire_length);
        Packet {
            tcp_flags,
            direction,
            ..packet_of(frame, self.number + place as u64, self.tick.clock_ms())
        }
    }
}

impl<'f, const REUSE: bool, const DETAILS: bool> Run<'f> for PlainRun<'_, 'f, REUSE, DETAILS> {
    #[inline(always)]
    fn group(&self, at: usize) -> Option<Four<'f>> {
        /// What a frame of which less was captured says: nothing that is plain.
        static NOTHING: [u8; HEADERS] = [0; HEADERS];
        let frames = self.frames.get(at)?;
        if let Some(next) = self.frames.get(at + AHEAD) {
            next.iter().for_each(ask_for::<DETAILS>);
        }
        let headers = |frame: &Frame<'f>| -> &'f [u8; HEADERS] {
            frame.bytes.first_chunk().unwrap_or(&NOTHING)
        };
        // No frame of this length is plain: one that moves the clock is for somebody else to read.
        let wire_length = |frame: &Frame<'f>| match self.notes.tick.contains(frame.time_ns) {
            true => frame.wire_length,
            false => 0,
        };
        Some(Four {
            headers: frames.each_ref().map(headers),
            wire_lengths: frames.each_ref().map(wire_length),
        })
    }

    #[inline(always)]
    fn take(&mut self, at: usize, said: &Said) {
        if let Some(keys) = self.keys.get_mut(at) {
            *keys = said.keys;
        }
        if said.plain == TOGETHER {
            // As nearly always: a number that the compiler knows.
            self.take_first(TOGETHER, at, said);
        } else {
            self.take_first(said.plain, at, said);
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

    /// A frame of UDP or TCP, or of what `version` is none of IPv4.
    fn frame(protocol: u8, version: u8, flow: u8) -> [u8; 60] {
        let mut frame = [flow; 60];
        frame[12..22].copy_from_slice(&[0x08, 0x00, version, 0, 0, 46, 0, flow, 0, 0]);
        frame[23] = protocol;
        frame[29] = 10;
        frame[38..40].copy_from_slice(&[0, 26]);
        frame[46] = 0x50;
        frame
    }

    /// What comes of a burst of Ethernet, read by `how`: packets, details, bytes, hashes of the device,
    /// and the books.
    fn outcome(
        frames: &[Frame<'_>],
        both_directions: bool,
        how: impl Fn(&mut Intake, &Burst<'_>, &mut Batch) -> (usize, u64),
    ) -> (Vec<(u128, Packet)>, Vec<Segment>, u64, Reuse, String) {
        let mut batch = Batch::default();
        batch.detail();
        let mut options = MeterOptions {
            flow: match both_directions {
                true => FlowDefinition::Bidirectional,
                false => FlowDefinition::FiveTuple,
            },
            ..MeterOptions::default()
        };
        options.statistics.analysis = Some(Level::Full);
        let mut intake = Intake::new(&options, Decapsulate::No);
        intake.reuse = Some(Reuse::default());
        let burst = Burst {
            link: LinkType::Ethernet,
            frames,
        };
        let (_, bytes) = how(&mut intake, &burst, &mut batch);
        let packets = batch.keys().iter().zip(batch.packets());
        let packets = packets.map(|(&key, &packet)| (key, packet)).collect();
        let segments = batch.segments().to_vec();
        let books = format!("{:?}", intake.books());
        (
            packets,
            segments,
            bytes,
            intake.reuse.unwrap_or_default(),
            books,
        )
    }

    proptest! {
        #[test]
        fn a_run_is_the_same_by_any_processor(
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
            let alone = outcome(&all, both, |intake, burst, batch| if both {
                intake.read_each::<true, true, true>(burst, 0..all.len(), 1 << 40, batch)
            } else {
                intake.read_each::<true, true, false>(burst, 0..all.len(), 1 << 40, batch)
            });
            if let Some(instructions) = Instructions::detect() {
                let together = outcome(&all, both, |intake, burst, batch| if both {
                    intake.read_runs::<true, true, true>(instructions, burst, 1 << 40, batch)
                } else {
                    intake.read_runs::<true, true, false>(instructions, burst, 1 << 40, batch)
                });
                prop_assert_eq!(alone, together);
            }
        }
    }
}
