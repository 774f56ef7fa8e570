//! Parses the headers of simple IPv4 frames with AVX-512, four frames at a time.
//!
//! The crate `wire` defines a simple frame and its key: Ethernet without a VLAN tag, IPv4 without
//! options or fragmentation, TCP or UDP, and consistent length fields. Two permutations gather the
//! relevant bytes of four frames into words; every later step handles all four at once.

/// Bytes read of each frame: Ethernet, IPv4 and TCP headers without options.
pub const HEADER_BYTES: usize = 54;

/// Frames in a group, which are parsed together.
pub const GROUP: usize = 4;

/// A group of frames to parse.
#[derive(Clone, Copy, Debug)]
pub struct Frames4<'f> {
    /// The first bytes of each frame.
    pub headers: [&'f [u8; HEADER_BYTES]; GROUP],
    /// Bytes of each frame on the wire.
    pub wire_lengths: [u32; GROUP],
}

/// The keys and flags of a group. Only the first `count` of them are valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parsed4 {
    /// Frames before the first that is not simple.
    pub count: usize,
    /// The flow keys.
    pub keys: [u128; GROUP],
    /// The TCP flags, 0 for UDP, plus [`SWAPPED`] if the endpoints of the key were swapped.
    pub flags: [u32; GROUP],
}

/// See [`Parsed4::flags`].
pub const SWAPPED: u32 = 1 << 8;

/// The input and output of [`Avx512::parse`]: frames in groups of four, and their results.
pub trait FrameGroups<'f> {
    /// Returns the frames of group `at`, or `None` past the last group.
    fn group(&self, at: usize) -> Option<Frames4<'f>>;

    /// Stores the results of group `at`.
    fn store(&mut self, at: usize, parsed: &Parsed4);
}

/// How a key is made from the 16 bytes of a frame from the TTL to the ports: `bytes & keep | set`.
#[derive(Clone, Copy, Debug)]
pub struct KeyBits {
    /// Bits that are kept.
    pub keep: u128,
    /// Bits that are set in every key.
    pub set: u128,
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

    /// Parses `groups` up to the first frame that is not simple. With `BOTH_DIRECTIONS`, the smaller
    /// endpoint of each key comes first, so that both directions of a flow have the same key.
    #[inline]
    pub fn parse<'f, const BOTH_DIRECTIONS: bool>(
        self,
        keys: KeyBits,
        groups: &mut impl FrameGroups<'f>,
    ) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `self` exists only if the CPU supports the function's target features.
        unsafe {
            x86::parse::<BOTH_DIRECTIONS>(keys, groups);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (keys, groups);
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{FrameGroups, Frames4, GROUP, HEADER_BYTES, KeyBits, Parsed4, SWAPPED};
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

    /// Offsets of the key's bytes in a frame: TTL, protocol, checksum, addresses, ports.
    const KEY: [u8; 16] = [
        22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37,
    ];

    /// An output byte that is zero.
    const UNUSED: u8 = u8::MAX;

    /// Offsets of the bytes of the four words that are checked.
    const WORDS: [[u8; 4]; 4] = [
        // EtherType, version and header length, protocol.
        [12, 13, 14, 23],
        // Fragmentation, TCP data offset and flags.
        [20, 21, 46, 47],
        // IPv4 total length, little-endian.
        [17, 16, UNUSED, UNUSED],
        // UDP length, little-endian.
        [39, 38, UNUSED, UNUSED],
    ];

    const TCP: u32 = u32::from_le_bytes([0x08, 0x00, 0x45, 6]);
    const UDP: u32 = u32::from_le_bytes([0x08, 0x00, 0x45, 17]);
    /// The More Fragments bit and the fragment offset.
    const FRAGMENT: u32 = u32::from_le_bytes([0x3f, 0xff, 0, 0]);
    const ETHERNET_LENGTH: i32 = 14;
    const IPV4_LENGTH: i32 = 20;
    const TCP_LENGTH: i32 = 20;
    const UDP_LENGTH: i32 = 8;

    /// The permutation that gathers two keys, then the words of both frames alternately, and the mask
    /// of its used bytes. The offsets of the second frame are 64 higher.
    const GATHER: ([u8; 64], u64) = {
        let (mut offsets, mut used) = ([0; 64], 0);
        let mut at = 0;
        while at < 64 {
            let (frame, offset) = if at < 32 {
                (at / 16, KEY[at % 16])
            } else {
                (at / 4 % 2, WORDS[(at - 32) / 8][at % 4])
            };
            if offset != UNUSED {
                offsets[at] = frame as u8 * 64 + offset;
                used |= 1 << at;
            }
            at += 1;
        }
        (offsets, used)
    };

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
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,bmi1,bmi2")]
    pub(super) fn parse<'f, const BOTH_DIRECTIONS: bool>(
        keys: KeyBits,
        groups: &mut impl FrameGroups<'f>,
    ) {
        let gather = load(&GATHER.0);
        let broadcast = |key: u128| {
            _mm512_set4_epi64(
                (key >> 64) as i64,
                key as i64,
                (key >> 64) as i64,
                key as i64,
            )
        };
        let (keep, set) = (broadcast(keys.keep), broadcast(keys.set));
        let (forward, backward, reversed) = (load(&FORWARD), load(&BACKWARD), load(&REVERSED));
        let word = |value: u32| _mm_set1_epi32(value.cast_signed());
        let mut at = 0;
        while let Some(frames) = groups.group(at) {
            let Frames4 {
                headers,
                wire_lengths,
            } = frames;
            let headers = headers.map(|headers| load_headers(headers));
            let first = _mm512_maskz_permutex2var_epi8(GATHER.1, headers[0], gather, headers[1]);
            let second = _mm512_maskz_permutex2var_epi8(GATHER.1, headers[2], gather, headers[3]);

            // (gathered & keep) | set
            let gathered = _mm512_shuffle_i64x2::<0b01_00_01_00>(first, second);
            let mut key = _mm512_ternarylogic_epi64::<0b1111_1000>(set, gathered, keep);
            let mut swapped = 0;
            if BOTH_DIRECTIONS {
                let forward_end = _mm512_shuffle_epi8(key, forward);
                let backward_end = _mm512_shuffle_epi8(key, backward);
                swapped = _mm512_cmpgt_epu64_mask(forward_end, backward_end);
                key = _mm512_mask_blend_epi64(swapped, key, _mm512_shuffle_epi8(key, reversed));
            }

            // Transpose: one vector for each kind of word, with that word of all four frames.
            let order = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
            let words = _mm512_permutex2var_epi64(first, order, second);
            let kind = _mm512_castsi512_si128(words);
            let fields = _mm512_extracti32x4_epi32::<1>(words);
            let total = _mm512_extracti32x4_epi32::<2>(words);
            let udp_length = _mm512_extracti32x4_epi32::<3>(words);

            let is_tcp = _mm_cmpeq_epi32_mask(kind, word(TCP));
            let is_udp = _mm_cmpeq_epi32_mask(kind, word(UDP));
            // The TCP data offset is in the upper half of its byte, in units of four bytes.
            let l4_length =
                _mm_mask_and_epi32(udp_length, is_tcp, _mm_srli_epi32::<18>(fields), word(0x3c));
            let l4_length_min = _mm_mask_blend_epi32(
                is_tcp,
                _mm_set1_epi32(UDP_LENGTH),
                _mm_set1_epi32(TCP_LENGTH),
            );
            let wire_length = _mm_setr_epi32(
                wire_lengths[0].cast_signed(),
                wire_lengths[1].cast_signed(),
                wire_lengths[2].cast_signed(),
                wire_lengths[3].cast_signed(),
            );
            let simple = _mm_mask_testn_epi32_mask(is_tcp | is_udp, fields, word(FRAGMENT));
            let simple = _mm_mask_cmpge_epu32_mask(simple, l4_length, l4_length_min);
            let within = _mm_add_epi32(l4_length, _mm_set1_epi32(IPV4_LENGTH));
            let simple = _mm_mask_cmpge_epu32_mask(simple, total, within);
            let within = _mm_add_epi32(total, _mm_set1_epi32(ETHERNET_LENGTH));
            let simple = _mm_mask_cmpge_epu32_mask(simple, wire_length, within);

            let mut flags = _mm_maskz_srli_epi32::<24>(is_tcp, fields);
            if BOTH_DIRECTIONS {
                let swapped = _pext_u32(u32::from(swapped), 0b0101_0101) as u8;
                flags = _mm_mask_or_epi32(flags, swapped, flags, word(SWAPPED));
            }
            let mut parsed = Parsed4 {
                count: simple.trailing_ones() as usize,
                ..Parsed4::default()
            };
            // SAFETY: the arrays are as long as the vectors, and the stores need no alignment.
            unsafe {
                _mm512_storeu_si512(parsed.keys.as_mut_ptr().cast(), key);
                _mm_storeu_si128(parsed.flags.as_mut_ptr().cast(), flags);
            }
            groups.store(at, &parsed);
            if parsed.count < GROUP {
                return;
            }
            at += 1;
        }
    }
}
