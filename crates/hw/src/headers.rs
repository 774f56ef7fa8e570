//! Parses the headers of IPv4 frames with AVX-512, four frames at a time.
//!
//! The caller says where the fields are and what makes a frame valid ([`Layout`]); this module only
//! evaluates that. Two permutations gather the relevant bytes of four frames into words; every later
//! step handles all four frames at once.

/// Bytes read of each frame: Ethernet, IPv4 and TCP headers without options.
pub const HEADER_BYTES: usize = 54;

/// The maximum number of frames in one call: the bits of its result.
pub const FRAMES_MAX: usize = u64::BITS as usize;

/// Set in the flags of a frame if the endpoints of its key were swapped.
pub const SWAPPED: u32 = 1 << 8;

/// Frames that are parsed together.
const GROUP: usize = 4;

/// Where the fields of a frame are, and what makes it valid. Offsets are from the start of the frame
/// and below [`HEADER_BYTES`]; multi-byte fields are in network byte order.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Offset of the 16 bytes of a key. Bytes 4 to 7 are the source address, 8 to 11 the destination
    /// address, 12 to 15 the ports.
    pub key: u8,
    /// Offsets of the bytes that must equal `tcp` or `udp`.
    pub kind: [u8; 4],
    /// The bytes at `kind` of a TCP frame.
    pub tcp: [u8; 4],
    /// The bytes at `kind` of a UDP frame.
    pub udp: [u8; 4],
    /// Offset of the two bytes of which the bits in `fragment_mask` must be 0.
    pub fragment: u8,
    /// See `fragment`.
    pub fragment_mask: [u8; 2],
    /// Offset of the IPv4 total length.
    pub total_length: u8,
    /// Offset of the TCP data offset, in the upper half of its byte, in units of four bytes.
    pub tcp_data_offset: u8,
    /// Offset of the TCP flags.
    pub tcp_flags: u8,
    /// Offset of the UDP length.
    pub udp_length: u8,
    /// Bytes before the IPv4 header: the wire length must be at least these plus the total length.
    pub link_header: u32,
    /// Bytes of the IPv4 header: the total length must be at least these plus the TCP header or the UDP
    /// length.
    pub network_header: u32,
    /// Minimum length of a TCP header, in bytes.
    pub tcp_min: u32,
    /// Minimum UDP length, in bytes.
    pub udp_min: u32,
}

/// How a key is made from its 16 bytes in a frame: `bytes & keep | set`.
#[derive(Clone, Copy, Debug)]
pub struct KeyBits {
    /// Bits that are kept.
    pub keep: u128,
    /// Bits that are set in every key.
    pub set: u128,
}

/// A frame to parse. An accessor, so that frames can be parsed where the caller has them: copying their
/// addresses and lengths into arrays costs 0.4 ns per frame, as much as half of the parsing.
pub trait RawFrame {
    /// Returns the captured bytes, from the Ethernet header on.
    fn bytes(&self) -> &[u8];

    /// Returns the length on the wire, in bytes.
    fn wire_length(&self) -> u32;
}

impl RawFrame for (&[u8], u32) {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.0
    }

    #[inline]
    fn wire_length(&self) -> u32 {
        self.1
    }
}

/// The headers that stand in for a frame with fewer captured bytes: of no valid frame.
static NO_HEADERS: [u8; HEADER_BYTES] = [0; HEADER_BYTES];

/// Returns the headers of `frame`; all zero if fewer bytes were captured.
#[inline]
pub fn headers_of<F: RawFrame>(frame: &F) -> &[u8; HEADER_BYTES] {
    frame.bytes().first_chunk().unwrap_or(&NO_HEADERS)
}

/// Where the keys and TCP flags of frames go.
#[derive(Debug)]
pub struct Output<'a> {
    /// The flow keys. Those of invalid frames are arbitrary.
    pub keys: &'a mut [u128],
    /// The TCP flags, 0 for UDP, plus [`SWAPPED`] if the endpoints of the key were swapped. Those of
    /// invalid frames are arbitrary.
    pub flags: &'a mut [u32],
}

/// A [`Layout`], prepared for the parser.
#[derive(Debug)]
pub struct Rule {
    layout: Layout,
    /// The permutation that gathers two keys, then the words of both frames alternately. The offsets
    /// of the second frame are 64 higher.
    gather: [u8; 64],
    /// Mask of the bytes that `gather` uses; the others become 0.
    used: u64,
}

impl Rule {
    /// Prepares a rule.
    ///
    /// # Panics
    /// If an offset is not within the headers: at compile time, where the rule is a constant.
    #[must_use]
    pub const fn new(layout: Layout) -> Self {
        const UNUSED: u8 = u8::MAX;
        let words = [
            layout.kind,
            [
                layout.fragment,
                layout.fragment + 1,
                layout.tcp_data_offset,
                layout.tcp_flags,
            ],
            // Little-endian numbers.
            [layout.total_length + 1, layout.total_length, UNUSED, UNUSED],
            [layout.udp_length + 1, layout.udp_length, UNUSED, UNUSED],
        ];
        let (mut gather, mut used) = ([0; 64], 0);
        let mut at = 0;
        while at < 64 {
            let (frame, offset) = if at < 32 {
                (at / 16, layout.key + at as u8 % 16)
            } else {
                (at / 4 % 2, words[(at - 32) / 8][at % 4])
            };
            if offset != UNUSED {
                assert!((offset as usize) < HEADER_BYTES);
                gather[at] = frame as u8 * 64 + offset;
                used |= 1 << at;
            }
            at += 1;
        }
        Self {
            layout,
            gather,
            used,
        }
    }
}

/// Proof that the CPU has the AVX-512 instructions that the parser needs.
#[derive(Clone, Copy, Debug)]
pub struct Avx512(());

impl Avx512 {
    /// Returns `None` if the CPU lacks one of the instructions.
    #[must_use]
    pub fn detect() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if x86::is_supported() {
            return Some(Self(()));
        }
        None
    }

    /// Parses `frames`. Returns a mask of the valid ones: bit 0 is the first. With `BOTH_DIRECTIONS`,
    /// the smaller endpoint of each key comes first, so that both directions of a flow have the same
    /// key. Frames beyond the end of the output, or beyond [`FRAMES_MAX`], are not parsed.
    #[must_use]
    pub fn parse<const BOTH_DIRECTIONS: bool, F: RawFrame>(
        self,
        rule: &Rule,
        bits: KeyBits,
        frames: &[F],
        output: Output<'_>,
    ) -> u64 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `self` exists only if the CPU supports the function's target features.
        let valid = unsafe { x86::parse::<BOTH_DIRECTIONS, F>(rule, bits, frames, output) };
        #[cfg(not(target_arch = "x86_64"))]
        let valid = {
            let _ = (rule, bits, frames, output);
            0
        };
        valid
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{
        FRAMES_MAX, GROUP, HEADER_BYTES, KeyBits, Output, RawFrame, Rule, SWAPPED, headers_of,
    };
    use core::arch::x86_64::*;
    use std::sync::LazyLock;

    pub(super) fn is_supported() -> bool {
        static SUPPORTED: LazyLock<bool> = LazyLock::new(|| {
            is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vbmi")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
        });
        *SUPPORTED
    }

    /// Repeats a permutation of 16 bytes for each 16-byte lane of a vector.
    const fn repeat(lane: [u8; 16]) -> [u8; 64] {
        let mut all = [0; 64];
        let mut at = 0;
        while at < 64 {
            all[at] = lane[at % 16];
            at += 1;
        }
        all
    }

    /// The source address and both ports of a key, twice: its value in the order of endpoints.
    const FORWARD: [u8; 64] = repeat([12, 13, 14, 15, 4, 5, 6, 7, 12, 13, 14, 15, 4, 5, 6, 7]);
    /// The same value for the opposite direction.
    const BACKWARD: [u8; 64] = repeat([14, 15, 12, 13, 8, 9, 10, 11, 14, 15, 12, 13, 8, 9, 10, 11]);
    /// Swaps the endpoints of a key.
    const REVERSED: [u8; 64] = repeat([0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 14, 15, 12, 13]);

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(bytes: &[u8; 64]) -> __m512i {
        // SAFETY: `bytes` has 64 readable bytes, and the load needs no alignment.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn load_headers(headers: &[u8; HEADER_BYTES]) -> __m512i {
        const MASK: u64 = (1 << HEADER_BYTES) - 1;
        // SAFETY: the mask covers exactly the bytes of `headers`, and the load needs no alignment.
        unsafe { _mm512_maskz_loadu_epi8(MASK, headers.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn broadcast(key: u128) -> __m512i {
        let (high, low) = ((key >> 64) as i64, key as i64);
        _mm512_set4_epi64(high, low, high, low)
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,bmi1,bmi2")]
    pub(super) fn parse<const BOTH_DIRECTIONS: bool, F: RawFrame>(
        rule: &Rule,
        bits: KeyBits,
        frames: &[F],
        output: Output<'_>,
    ) -> u64 {
        let Output { keys, flags } = output;
        let count = frames.len().min(keys.len()).min(flags.len());
        let count = count.min(FRAMES_MAX);
        let parser = GroupParser::new(rule, bits);
        let (groups, left) = frames[..count].as_chunks::<GROUP>();
        let (keys, keys_left) = keys[..count].as_chunks_mut();
        let (flags, flags_left) = flags[..count].as_chunks_mut();
        let mut valid = 0;
        for (at, (frames, (keys, flags))) in
            groups.iter().zip(keys.iter_mut().zip(flags)).enumerate()
        {
            let group = parser.parse::<BOTH_DIRECTIONS, F>(frames.each_ref(), keys, flags);
            valid |= u64::from(group) << (at * GROUP);
        }
        if let Some(first) = left.first() {
            let frames = core::array::from_fn(|at| left.get(at).unwrap_or(first));
            let (mut keys, mut flags) = ([0; GROUP], [0; GROUP]);
            let group = parser.parse::<BOTH_DIRECTIONS, F>(frames, &mut keys, &mut flags);
            keys_left.copy_from_slice(&keys[..left.len()]);
            flags_left.copy_from_slice(&flags[..left.len()]);
            let group = group & ((1 << left.len()) - 1);
            valid |= u64::from(group) << (count - left.len());
        }
        valid
    }

    /// The constants of a [`Rule`], in vectors.
    struct GroupParser {
        gather: __m512i,
        used: u64,
        keep: __m512i,
        set: __m512i,
        tcp: __m128i,
        udp: __m128i,
        fragment: __m128i,
        link_header: __m128i,
        network_header: __m128i,
        tcp_min: __m128i,
        udp_min: __m128i,
    }

    impl GroupParser {
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,bmi1,bmi2")]
        fn new(rule: &Rule, bits: KeyBits) -> Self {
            let Rule {
                layout,
                gather,
                used,
            } = rule;
            let word = |value: u32| _mm_set1_epi32(value.cast_signed());
            let [high, low] = layout.fragment_mask;
            Self {
                gather: load(gather),
                used: *used,
                keep: broadcast(bits.keep),
                set: broadcast(bits.set),
                tcp: word(u32::from_le_bytes(layout.tcp)),
                udp: word(u32::from_le_bytes(layout.udp)),
                fragment: word(u32::from_le_bytes([high, low, 0, 0])),
                link_header: word(layout.link_header),
                network_header: word(layout.network_header),
                tcp_min: word(layout.tcp_min),
                udp_min: word(layout.udp_min),
            }
        }

        /// Parses four frames. Returns a mask of the valid ones.
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,bmi1,bmi2")]
        fn parse<const BOTH_DIRECTIONS: bool, F: RawFrame>(
            &self,
            frames: [&F; GROUP],
            keys: &mut [u128; GROUP],
            flags: &mut [u32; GROUP],
        ) -> u8 {
            let [a, b, c, d] = frames.map(|frame| load_headers(headers_of(frame)));
            let first = _mm512_maskz_permutex2var_epi8(self.used, a, self.gather, b);
            let second = _mm512_maskz_permutex2var_epi8(self.used, c, self.gather, d);

            // (gathered & keep) | set
            let gathered = _mm512_shuffle_i64x2::<0b01_00_01_00>(first, second);
            let mut key = _mm512_ternarylogic_epi64::<0b1111_1000>(self.set, gathered, self.keep);
            let mut swapped = 0;
            if BOTH_DIRECTIONS {
                let forward = _mm512_shuffle_epi8(key, load(&FORWARD));
                let backward = _mm512_shuffle_epi8(key, load(&BACKWARD));
                swapped = _mm512_cmpgt_epu64_mask(forward, backward);
                let reversed = _mm512_shuffle_epi8(key, load(&REVERSED));
                key = _mm512_mask_blend_epi64(swapped, key, reversed);
            }

            // Transpose: one vector for each kind of word, with that word of all four frames.
            let order = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
            let words = _mm512_permutex2var_epi64(first, order, second);
            let kind = _mm512_castsi512_si128(words);
            let fields = _mm512_extracti32x4_epi32::<1>(words);
            let total = _mm512_extracti32x4_epi32::<2>(words);
            let udp_length = _mm512_extracti32x4_epi32::<3>(words);

            let is_tcp = _mm_cmpeq_epi32_mask(kind, self.tcp);
            let is_udp = _mm_cmpeq_epi32_mask(kind, self.udp);
            // The TCP data offset is in the upper half of its byte, in units of four bytes.
            let tcp_length = _mm_and_si128(_mm_srli_epi32::<18>(fields), _mm_set1_epi32(0x3c));
            let length = _mm_mask_blend_epi32(is_tcp, udp_length, tcp_length);
            let length_min = _mm_mask_blend_epi32(is_tcp, self.udp_min, self.tcp_min);
            let [e, f, g, h] = frames.map(|frame| frame.wire_length().cast_signed());
            let wire_length = _mm_setr_epi32(e, f, g, h);

            let valid = _mm_mask_testn_epi32_mask(is_tcp | is_udp, fields, self.fragment);
            let valid = _mm_mask_cmpge_epu32_mask(valid, length, length_min);
            let total_min = _mm_add_epi32(length, self.network_header);
            let valid = _mm_mask_cmpge_epu32_mask(valid, total, total_min);
            let wire_min = _mm_add_epi32(total, self.link_header);
            let valid = _mm_mask_cmpge_epu32_mask(valid, wire_length, wire_min);

            let mut all_flags = _mm_maskz_srli_epi32::<24>(is_tcp, fields);
            if BOTH_DIRECTIONS {
                let swapped = _pext_u32(u32::from(swapped), 0b0101_0101) as u8;
                let bit = _mm_set1_epi32(SWAPPED.cast_signed());
                all_flags = _mm_mask_or_epi32(all_flags, swapped, all_flags, bit);
            }
            // SAFETY: the arrays are as long as the vectors, and the stores need no alignment.
            unsafe {
                _mm512_storeu_si512(keys.as_mut_ptr().cast(), key);
                _mm_storeu_si128(flags.as_mut_ptr().cast(), all_flags);
            }
            valid
        }
    }
}

#[cfg(test)]
mod tests;
