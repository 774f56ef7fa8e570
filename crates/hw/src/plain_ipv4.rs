//! The headers of plain frames of IPv4, read four frames at a time by instructions of 512 bits.
//!
//! What is plain, and the key, are `wire::plain`'s: TCP or UDP in IPv4 without options or fragments,
//! with no VLAN tag, its lengths in order. Bytes of four frames are brought together in words by two
//! permutations, and from there on each step is done once for all four.

/// Bytes that are read of each frame: Ethernet, IPv4 and TCP headers without options.
pub const HEADERS: usize = 54;

/// Frames that are read together.
pub const TOGETHER: usize = 4;

/// Frames to be read.
#[derive(Clone, Copy, Debug)]
pub struct Four<'f> {
    /// Their headers.
    pub headers: [&'f [u8; HEADERS]; TOGETHER],
    /// How long they were on the wire.
    pub wire_lengths: [u32; TOGETHER],
}

/// What they say; that of any behind the first that is not plain has no meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Frames before the first that is not plain.
    pub plain: usize,
    /// Their keys.
    pub keys: [u128; TOGETHER],
    /// Their TCP control bits, 0 in UDP; [`SWAPPED`] is added where a key's endpoints were swapped.
    pub flags: [u32; TOGETHER],
}

/// See [`Said::flags`].
pub const SWAPPED: u32 = 1 << 8;

/// A run of frames, and what becomes of it.
pub trait Run<'f> {
    /// The frames of group `at`, if there is one.
    fn group(&self, at: usize) -> Option<Four<'f>>;

    /// Takes what the frames of group `at` say.
    fn take(&mut self, at: usize, said: &Said);
}

/// How keys are made of the bytes from the time to live to the ports.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// The bits that are kept.
    pub mask: u128,
    /// The bits that are set in each.
    pub mark: u128,
}

/// The instructions for it.
#[derive(Clone, Copy, Debug)]
pub struct Instructions(());

impl Instructions {
    /// The instructions, if the processor has them.
    #[must_use]
    pub fn detect() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if x86::are_there() {
            return Some(Self(()));
        }
        None
    }

    /// Reads the groups of `run` up to the first frame that is not plain. `BOTH_DIRECTIONS`: brings the
    /// endpoints of each key into an order, as the key's words stand.
    #[inline]
    pub fn read<'f, const BOTH_DIRECTIONS: bool>(self, keys: Keys, run: &mut impl Run<'f>) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the processor has what the function needs, or there would be no `self`.
        unsafe {
            x86::read::<BOTH_DIRECTIONS>(keys, run);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (keys, run);
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Four, HEADERS, Keys, Run, SWAPPED, Said, TOGETHER};
    use core::arch::x86_64::*;
    use std::sync::LazyLock;

    pub(super) fn are_there() -> bool {
        static ARE_THERE: LazyLock<bool> = LazyLock::new(|| {
            is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vbmi")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
        });
        *ARE_THERE
    }

    /// Which bytes of a frame make its key: from the time to live to the source address, the
    /// destination address and the ports.
    const KEY: [u8; 16] = [
        22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37,
    ];

    /// A byte that is nowhere.
    const NONE: u8 = u8::MAX;

    /// Which bytes of a frame make four words that are looked at.
    const WORDS: [[u8; 4]; 4] = [
        // EtherType, version and length, protocol.
        [12, 13, 14, 23],
        // Fragment, TCP's data offset and flags.
        [20, 21, 46, 47],
        // Total length.
        [17, 16, NONE, NONE],
        // UDP's length.
        [39, 38, NONE, NONE],
    ];

    const TCP: u32 = u32::from_le_bytes([0x08, 0x00, 0x45, 6]);
    const UDP: u32 = u32::from_le_bytes([0x08, 0x00, 0x45, 17]);
    /// More fragments and the fragment's offset.
    const FRAGMENT: u32 = u32::from_le_bytes([0x3f, 0xff, 0, 0]);
    const ETHERNET_LENGTH: i32 = 14;
    const IPV4_LENGTH: i32 = 20;
    const TCP_LENGTH: i32 = 20;
    const UDP_LENGTH: i32 = 8;

    /// The places of bytes in two frames, the second's 64 behind the first's: two keys, then the words
    /// of both in turn.
    const PAIR: ([u8; 64], u64) = {
        let (mut places, mut there) = ([0; 64], 0);
        let mut at = 0;
        while at < 64 {
            let (frame, place) = if at < 32 {
                (at / 16, KEY[at % 16])
            } else {
                (at / 4 % 2, WORDS[(at - 32) / 8][at % 4])
            };
            if place != NONE {
                places[at] = frame as u8 * 64 + place;
                there |= 1 << at;
            }
            at += 1;
        }
        (places, there)
    };

    /// The 16 bytes of each key in a vector, as `of` orders them.
    const fn in_each(of: [u8; 16]) -> [u8; 64] {
        let mut all = [0; 64];
        let mut at = 0;
        while at < 64 {
            all[at] = of[at % 16];
            at += 1;
        }
        all
    }

    /// Of a key, twice its source address over its ports.
    const THERE: [u8; 64] = in_each([12, 13, 14, 15, 4, 5, 6, 7, 12, 13, 14, 15, 4, 5, 6, 7]);
    /// The same of the other direction.
    const BACK: [u8; 64] = in_each([14, 15, 12, 13, 8, 9, 10, 11, 14, 15, 12, 13, 8, 9, 10, 11]);
    /// A key with its endpoints swapped.
    const REVERSED: [u8; 64] = in_each([0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 14, 15, 12, 13]);

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(bytes: &[u8; 64]) -> __m512i {
        // SAFETY: 64 readable bytes; the load asks for no alignment.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn load_headers(headers: &[u8; HEADERS]) -> __m512i {
        const READ: u64 = (1 << HEADERS) - 1;
        // SAFETY: the mask has no byte but those of `headers`; the load asks for no alignment.
        unsafe { _mm512_maskz_loadu_epi8(READ, headers.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,bmi1,bmi2")]
    pub(super) fn read<'f, const BOTH_DIRECTIONS: bool>(keys: Keys, run: &mut impl Run<'f>) {
        let places = load(&PAIR.0);
        let each = |key: u128| {
            _mm512_set4_epi64(
                (key >> 64) as i64,
                key as i64,
                (key >> 64) as i64,
                key as i64,
            )
        };
        let (mask, mark) = (each(keys.mask), each(keys.mark));
        let (there, back, reversed) = (load(&THERE), load(&BACK), load(&REVERSED));
        let word = |value: u32| _mm_set1_epi32(value.cast_signed());
        let mut at = 0;
        while let Some(four) = run.group(at) {
            let Four {
                headers,
                wire_lengths,
            } = four;
            let headers = headers.map(|headers| load_headers(headers));
            let first = _mm512_maskz_permutex2var_epi8(PAIR.1, headers[0], places, headers[1]);
            let second = _mm512_maskz_permutex2var_epi8(PAIR.1, headers[2], places, headers[3]);

            // (taken & mask) | mark
            let taken = _mm512_shuffle_i64x2::<0b01_00_01_00>(first, second);
            let mut key = _mm512_ternarylogic_epi64::<0b1111_1000>(mark, taken, mask);
            let mut swapped = 0;
            if BOTH_DIRECTIONS {
                let there = _mm512_shuffle_epi8(key, there);
                let back = _mm512_shuffle_epi8(key, back);
                swapped = _mm512_cmpgt_epu64_mask(there, back);
                key = _mm512_mask_blend_epi64(swapped, key, _mm512_shuffle_epi8(key, reversed));
            }

            // Words of the four by kind: two of the first pair, two of the second.
            let order = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
            let words = _mm512_permutex2var_epi64(first, order, second);
            let kind = _mm512_castsi512_si128(words);
            let fields = _mm512_extracti32x4_epi32::<1>(words);
            let total = _mm512_extracti32x4_epi32::<2>(words);
            let udp_length = _mm512_extracti32x4_epi32::<3>(words);

            let is_tcp = _mm_cmpeq_epi32_mask(kind, word(TCP));
            let is_udp = _mm_cmpeq_epi32_mask(kind, word(UDP));
            // The data offset counts words of four bytes in the upper half of its byte.
            let transport =
                _mm_mask_and_epi32(udp_length, is_tcp, _mm_srli_epi32::<18>(fields), word(0x3c));
            let least = _mm_mask_blend_epi32(
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
            let plain = _mm_mask_testn_epi32_mask(is_tcp | is_udp, fields, word(FRAGMENT));
            let plain = _mm_mask_cmpge_epu32_mask(plain, transport, least);
            let within = _mm_add_epi32(transport, _mm_set1_epi32(IPV4_LENGTH));
            let plain = _mm_mask_cmpge_epu32_mask(plain, total, within);
            let within = _mm_add_epi32(total, _mm_set1_epi32(ETHERNET_LENGTH));
            let plain = _mm_mask_cmpge_epu32_mask(plain, wire_length, within);

            let mut flags = _mm_maskz_srli_epi32::<24>(is_tcp, fields);
            if BOTH_DIRECTIONS {
                let swapped = _pext_u32(u32::from(swapped), 0b0101_0101) as u8;
                flags = _mm_mask_or_epi32(flags, swapped, flags, word(SWAPPED));
            }
            let mut said = Said {
                plain: plain.trailing_ones() as usize,
                ..Said::default()
            };
            // SAFETY: the arrays are as long as the vectors; the stores ask for no alignment.
            unsafe {
                _mm512_storeu_si512(said.keys.as_mut_ptr().cast(), key);
                _mm_storeu_si128(said.flags.as_mut_ptr().cast(), flags);
            }
            run.take(at, &said);
            if said.plain < TOGETHER {
                return;
            }
            at += 1;
        }
    }
}
