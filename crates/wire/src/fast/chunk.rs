//! Parses simple IPv4 frames in chunks, with AVX-512 where the CPU has it.

use super::ipv4::{PROTOCOL_AND_SOURCE, check, compact_key};
use super::rule;
use crate::FlowKey;
use hw::headers::{Avx512, KeyBits, Output, headers_of};

pub use hw::headers::{RawFrame, SWAPPED};

/// The maximum number of frames in a chunk.
pub const CHUNK: usize = 64;

const _: () = assert!(CHUNK <= hw::headers::FRAMES_MAX);

/// Parses chunks of frames.
#[derive(Clone, Copy, Debug)]
pub struct ChunkParser {
    bits: KeyBits,
    both_directions: bool,
    avx512: Option<Avx512>,
}

impl ChunkParser {
    /// Creates a parser that masks keys with `mask`. With `both_directions`, it puts the endpoints of keys
    /// [in order](FlowKey::compact_in_order).
    #[must_use]
    pub fn new(mask: u128, both_directions: bool) -> Self {
        Self {
            bits: KeyBits {
                keep: mask & (u128::MAX << 64 | u128::from(PROTOCOL_AND_SOURCE)),
                set: u128::from(FlowKey::COMPACT_MARK),
            },
            both_directions,
            avx512: Avx512::detect(),
        }
    }

    /// The same parser without AVX-512.
    #[must_use]
    pub fn without_avx512(self) -> Self {
        Self {
            avx512: None,
            ..self
        }
    }

    /// Returns whether the parser uses AVX-512.
    #[must_use]
    pub const fn has_avx512(&self) -> bool {
        self.avx512.is_some()
    }

    /// Parses up to [`CHUNK`] frames. Returns a mask of those that are simple: bit 0 is the first. Writes to
    /// `keys` their compact keys and to `flags` their TCP flags (0 for UDP), plus [`SWAPPED`] if the
    /// endpoints of the key were swapped; what it writes for other frames is arbitrary. Frames beyond the
    /// end of `keys` are not parsed.
    #[inline]
    #[must_use]
    pub fn parse<F: RawFrame>(
        &self,
        frames: &[F],
        keys: &mut [u128],
        flags: &mut [u32; CHUNK],
    ) -> u64 {
        let (rule, bits, output) = (&rule::IPV4, self.bits, Output { keys, flags });
        match (self.avx512, self.both_directions) {
            (Some(avx512), true) => avx512.parse::<true, F>(rule, bits, frames, output),
            (Some(avx512), false) => avx512.parse::<false, F>(rule, bits, frames, output),
            (None, true) => parse_scalar::<true, F>(bits, frames, output),
            (None, false) => parse_scalar::<false, F>(bits, frames, output),
        }
    }
}

/// [`Avx512::parse`] on other CPUs.
fn parse_scalar<const BOTH_DIRECTIONS: bool, F: RawFrame>(
    bits: KeyBits,
    frames: &[F],
    output: Output<'_>,
) -> u64 {
    let mut simple = 0;
    let output = output.keys.iter_mut().zip(output.flags);
    for (at, (frame, (key, flags))) in frames.iter().zip(output).enumerate() {
        let headers = headers_of(frame);
        let (is_simple, tcp_flags) = check(headers, frame.wire_length());
        simple |= u64::from(is_simple) << at;
        *key = compact_key(headers) & bits.keep | bits.set;
        *flags = u32::from(tcp_flags);
        if BOTH_DIRECTIONS {
            let (in_order, swapped) = FlowKey::compact_in_order(*key);
            *key = in_order;
            *flags |= u32::from(swapped) * SWAPPED;
        }
    }
    simple
}
