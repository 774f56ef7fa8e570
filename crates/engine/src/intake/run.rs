//! Runs of plain frames: of such most traffic consists, so they are read several at a time.

use super::device_hash::Reuse;
use super::packet_of;
use flow::Packet;
use flow::batch::Places;
use flow::clock::Tick;
use hw::prefetch;
use port::Frame;
use wire::plain::{
    Four, HEADERS, Instructions, Run, SWAPPED, Said, TOGETHER, plain_ipv4_of, plain_ipv4_run,
};
use wire::{FlowKey, Segment};

/// Groups ahead of the one at hand whose headers are asked for.
const AHEAD: usize = 2;

/// Asks for the headers of the next frames. They are in two lines where a frame does not begin with one;
/// `DETAILS`: so are TCP's options as a rule, and the payload begins in the second.
#[inline(always)]
fn ask_for<const DETAILS: bool>(frames: &[Frame<'_>; TOGETHER]) {
    const TCP_FLAGS: usize = 14 + 20 + 13;
    const LINE: usize = 64;
    let ask = |frame: &Frame<'_>| {
        prefetch::ahead(frame.bytes, 0);
        prefetch::ahead(frame.bytes, if DETAILS { LINE } else { TCP_FLAGS });
    };
    frames.iter().for_each(ask);
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
    segments: &'r mut Vec<Segment>,
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

    /// Reads them up to the first that is not plain, which is most likely far if the run `is_long`.
    /// `mask`: what keys keep; `BOTH_DIRECTIONS`: their endpoints are brought into order.
    #[inline(always)]
    pub(super) fn read<const BOTH_DIRECTIONS: bool>(mut self, mask: u128, is_long: bool) -> Tally {
        let Some(instructions) = Instructions::detect().filter(|_| is_long) else {
            self.one_by_one::<BOTH_DIRECTIONS>(mask);
            return self.notes.tally;
        };
        // Another place in memory: what the function asks to be there is no burden to the loop above.
        let mut run = self;
        plain_ipv4_run::<BOTH_DIRECTIONS>(instructions, mask, &mut run);
        run.notes.tally
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

    /// [`PlainRun::read`] by any processor, one frame after the other.
    #[inline(always)]
    fn one_by_one<const BOTH_DIRECTIONS: bool>(&mut self, mask: u128) {
        let places = self.keys.iter_mut().zip(self.packets.iter_mut());
        for (at, (frames, (keys, packets))) in self.frames.iter().zip(places).enumerate() {
            if let Some(next) = self.frames.get(at + AHEAD) {
                ask_for::<DETAILS>(next);
            }
            for (index, frame) in frames.iter().enumerate() {
                let plain = plain_ipv4_of(frame.bytes, frame.wire_length, mask);
                let Some(plain) = plain.filter(|_| self.notes.tick.contains(frame.time_ns)) else {
                    self.notes.tally.packets = at * TOGETHER + index;
                    return;
                };
                let (key, direction) = if BOTH_DIRECTIONS {
                    FlowKey::compact_in_order(plain.key)
                } else {
                    (plain.key, 0)
                };
                keys[index] = key;
                let place = at * TOGETHER + index;
                packets[index] = self.notes.packet(frame, place, plain.tcp_flags, direction);
            }
            self.notes.tally.packets = (at + 1) * TOGETHER;
        }
    }
}

impl<const REUSE: bool, const DETAILS: bool> Notes<'_, REUSE, DETAILS> {
    /// What is counted of a frame, the `place`-th of the run.
    #[inline(always)]
    fn packet(&mut self, frame: &Frame<'_>, place: usize, tcp_flags: u8, direction: u8) -> Packet {
        if REUSE && let Some((reuse, begun)) = &mut self.reuse {
            reuse.note(*begun + place, frame.rss_hash);
        }
        if DETAILS {
            let segment = self.segments.push_mut(Segment::default());
            segment.frame = (self.first + place) as u16;
            segment.read_plain(frame.bytes);
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
            ask_for::<DETAILS>(next);
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
    use flow::{Batch, PacketClock};
    use proptest::prelude::*;

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

    /// What comes of a run, read by `how`.
    fn outcome(
        frames: &[Frame<'_>],
        first: usize,
        tick: Tick,
        how: impl Fn(&mut PlainRun<'_, '_, true, true>),
    ) -> (Vec<(u128, Packet)>, Vec<Segment>, Tally, Reuse) {
        let (mut batch, mut reuse) = (Batch::default(), Reuse::default());
        let noted = Some((&mut reuse, 0));
        let mut run = PlainRun::new(frames, first, 1 << 40, batch.places(), noted, tick);
        how(&mut run);
        let tally = run.notes.tally;
        batch.take_places(tally.packets);
        let packets = batch.keys().iter().zip(batch.packets());
        let packets = packets.map(|(&key, &packet)| (key, packet)).collect();
        (packets, batch.segments().to_vec(), tally, reuse)
    }

    proptest! {
        #[test]
        fn a_run_is_the_same_by_any_processor(
            frames in prop::collection::vec(
                (prop_oneof![Just(6u8), Just(17)], prop_oneof![20 => Just(0x45u8), 1 => Just(0x46)], 0u8..20,
                 prop_oneof![20 => 0i64..1_000_000, 1 => prop_oneof![Just(-1i64), Just(1_000_000)]], prop_oneof![20 => Just(60usize), 1 => 50usize..60]),
                0..40,
            ),
            first in 0usize..4,
            both: bool,
        ) {
            let bytes: Vec<_> = frames.iter().map(|&(protocol, version, flow, ..)| frame(protocol, version, flow)).collect();
            let mut clock = PacketClock::default();
            clock.advance(0);
            let all: Vec<Frame<'_>> = bytes.iter().zip(&frames).map(|(bytes, &(_, _, flow, time_ns, captured))| Frame {
                rss_hash: std::num::NonZeroU32::new(u32::from(flow)),
                ..Frame::new(&bytes[..captured], time_ns, 60)
            }).collect();
            let first = first.min(all.len());
            let alone = outcome(&all, first, clock.tick(), |run| if both {
                run.one_by_one::<true>(!0);
            } else {
                run.one_by_one::<false>(!0);
            });
            if let Some(instructions) = Instructions::detect() {
                let together = outcome(&all, first, clock.tick(), |run| if both {
                    plain_ipv4_run::<true>(instructions, !0, run);
                } else {
                    plain_ipv4_run::<false>(instructions, !0, run);
                });
                prop_assert_eq!(alone, together);
            }
        }
    }
}
