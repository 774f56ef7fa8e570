//! SHA-256 (FIPS 180-4) of several blocks at once, for processors that have no instruction for it: all
//! of Intel's servers before Ice Lake. Whoever has blocks that do not wait for each other has two to
//! four of them for the price of two.

/// The hash so far, between two blocks.
pub type State = [u32; 8];

/// A block of the message.
pub type Block = [u8; 64];

/// The hash of nothing.
pub const BEGIN: State = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// Lanes of a vector.
const LANES: usize = 4;

/// Whether [`compress`] is faster than a processor's instruction: where it lacks one, and has vectors.
#[inline]
#[must_use]
pub fn is_fast() -> bool {
    #[cfg(target_arch = "x86_64")]
    return !std::arch::is_x86_feature_detected!("sha") && has_vectors();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn has_vectors() -> bool {
    std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("bmi2")
}

/// Takes a block into each of at most four hashes.
///
/// # Panics
/// When there are more.
pub fn compress<const COUNT: usize>(states: &mut [State; COUNT], blocks: &[Block; COUNT]) {
    const { assert!(COUNT <= LANES) };
    #[cfg(target_arch = "x86_64")]
    if has_vectors() {
        // SAFETY: the processor has what the functions need.
        return unsafe {
            match COUNT {
                1 => x86_64::each(states, blocks),
                _ => x86_64::together(states, blocks),
            }
        };
    }
    for (state, block) in states.iter_mut().zip(blocks) {
        rounds(state, words(block));
    }
}

/// Words of one lane or of several.
trait Word: Copy {
    fn of(word: u32) -> Self;
    fn plus(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn shift<const BITS: i32>(self) -> Self;
    /// To the right; `BACK` is 32 less the bits.
    fn rotate<const BITS: i32, const BACK: i32>(self) -> Self;
}

impl Word for u32 {
    #[inline(always)]
    fn of(word: u32) -> Self {
        word
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        self & other
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }

    #[inline(always)]
    fn shift<const BITS: i32>(self) -> Self {
        self >> BITS
    }

    #[inline(always)]
    fn rotate<const BITS: i32, const BACK: i32>(self) -> Self {
        self.rotate_right(BITS as u32)
    }
}

/// The words of a block.
#[inline(always)]
fn words(block: &Block) -> [u32; 16] {
    let (words, _) = block.as_chunks();
    std::array::from_fn(|at| u32::from_be_bytes(words[at]))
}

/// The compression function (FIPS 180-4 section 6.2.2).
#[inline(always)]
fn rounds<W: Word>(state: &mut [W; 8], mut words: [W; 16]) {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    // The majority of three is one of two unless these differ, which the next round asks again.
    let mut differ = b.xor(c);
    macro_rules! round {
        ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident $constants:ident $at:literal) => {
            let sum = $e
                .rotate::<6, 26>()
                .xor($e.rotate::<11, 21>())
                .xor($e.rotate::<25, 7>());
            let choice = $e.and($f.xor($g)).xor($g);
            let first = W::of($constants[$at])
                .plus(words[$at])
                .plus($h)
                .plus(sum)
                .plus(choice);
            $d = $d.plus(first);
            let sum = $a
                .rotate::<2, 30>()
                .xor($a.rotate::<13, 19>())
                .xor($a.rotate::<22, 10>());
            let also = $a.xor($b);
            let majority = also.and(differ).xor($b);
            differ = also;
            $h = first.plus(sum).plus(majority);
        };
    }
    for (number, constants) in CONSTANTS.iter().enumerate() {
        if number > 0 {
            schedule(&mut words);
        }
        round!(a b c d e f g h constants 0);
        round!(h a b c d e f g constants 1);
        round!(g h a b c d e f constants 2);
        round!(f g h a b c d e constants 3);
        round!(e f g h a b c d constants 4);
        round!(d e f g h a b c constants 5);
        round!(c d e f g h a b constants 6);
        round!(b c d e f g h a constants 7);
        round!(a b c d e f g h constants 8);
        round!(h a b c d e f g constants 9);
        round!(g h a b c d e f constants 10);
        round!(f g h a b c d e constants 11);
        round!(e f g h a b c d constants 12);
        round!(d e f g h a b c constants 13);
        round!(c d e f g h a b constants 14);
        round!(b c d e f g h a constants 15);
    }
    let ended = [a, b, c, d, e, f, g, h];
    for (word, ended) in state.iter_mut().zip(ended) {
        *word = word.plus(ended);
    }
}

/// The words of the next sixteen rounds.
#[inline(always)]
fn schedule<W: Word>(words: &mut [W; 16]) {
    for at in 0..16 {
        let (early, late) = (words[(at + 1) % 16], words[(at + 14) % 16]);
        let early = early
            .rotate::<7, 25>()
            .xor(early.rotate::<18, 14>())
            .xor(early.shift::<3>());
        let late = late
            .rotate::<17, 15>()
            .xor(late.rotate::<19, 13>())
            .xor(late.shift::<10>());
        words[at] = words[at].plus(early).plus(words[(at + 9) % 16]).plus(late);
    }
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::{Block, LANES, State, Word, rounds, words};
    use core::arch::x86_64::*;

    /// A word of each of four hashes.
    #[derive(Clone, Copy)]
    struct Four(__m128i);

    impl Four {
        #[inline(always)]
        fn new(lanes: [u32; LANES]) -> Self {
            let [a, b, c, d] = lanes.map(u32::cast_signed);
            // SAFETY: SSE2 is part of every x86-64.
            Self(unsafe { _mm_setr_epi32(a, b, c, d) })
        }

        #[inline(always)]
        fn lanes(self) -> [u32; LANES] {
            let mut lanes = [0; LANES];
            // SAFETY: there is room for as many bytes, and they need not be aligned.
            unsafe { _mm_storeu_si128(lanes.as_mut_ptr().cast(), self.0) };
            lanes
        }
    }

    impl Word for Four {
        #[inline(always)]
        fn of(word: u32) -> Self {
            Self::new([word; LANES])
        }

        #[inline(always)]
        fn plus(self, other: Self) -> Self {
            // SAFETY: SSE2 is part of every x86-64.
            Self(unsafe { _mm_add_epi32(self.0, other.0) })
        }

        #[inline(always)]
        fn and(self, other: Self) -> Self {
            // SAFETY: SSE2 is part of every x86-64.
            Self(unsafe { _mm_and_si128(self.0, other.0) })
        }

        #[inline(always)]
        fn xor(self, other: Self) -> Self {
            // SAFETY: SSE2 is part of every x86-64.
            Self(unsafe { _mm_xor_si128(self.0, other.0) })
        }

        #[inline(always)]
        fn shift<const BITS: i32>(self) -> Self {
            // SAFETY: SSE2 is part of every x86-64.
            Self(unsafe { _mm_srli_epi32::<BITS>(self.0) })
        }

        #[inline(always)]
        fn rotate<const BITS: i32, const BACK: i32>(self) -> Self {
            const { assert!(BITS + BACK == 32) };
            // SAFETY: SSE2 is part of every x86-64.
            Self(unsafe {
                _mm_or_si128(
                    _mm_srli_epi32::<BITS>(self.0),
                    _mm_slli_epi32::<BACK>(self.0),
                )
            })
        }
    }

    /// One after the other, by shifts that leave their operand.
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    pub(super) fn each(states: &mut [State], blocks: &[Block]) {
        for (state, block) in states.iter_mut().zip(blocks) {
            rounds(state, words(block));
        }
    }

    /// All in lanes.
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    pub(super) fn together(states: &mut [State], blocks: &[Block]) {
        let lane = |at: usize| at.min(blocks.len() - 1);
        let all: [[u32; 16]; LANES] = std::array::from_fn(|at| words(&blocks[lane(at)]));
        let words = std::array::from_fn(|word| Four::new(all.map(|block| block[word])));
        let begun: [State; LANES] = std::array::from_fn(|at| states[lane(at)]);
        let mut state = std::array::from_fn(|word| Four::new(begun.map(|state| state[word])));
        rounds(&mut state, words);
        let ended = state.map(Four::lanes);
        for (at, state) in states.iter_mut().enumerate() {
            *state = ended.map(|word| word[at]);
        }
    }
}

/// The constants of the rounds (FIPS 180-4 section 4.2.2), sixteen at a time.
const CONSTANTS: [[u32; 16]; 4] = [
    [
        0x428a_2f98,
        0x7137_4491,
        0xb5c0_fbcf,
        0xe9b5_dba5,
        0x3956_c25b,
        0x59f1_11f1,
        0x923f_82a4,
        0xab1c_5ed5,
        0xd807_aa98,
        0x1283_5b01,
        0x2431_85be,
        0x550c_7dc3,
        0x72be_5d74,
        0x80de_b1fe,
        0x9bdc_06a7,
        0xc19b_f174,
    ],
    [
        0xe49b_69c1,
        0xefbe_4786,
        0x0fc1_9dc6,
        0x240c_a1cc,
        0x2de9_2c6f,
        0x4a74_84aa,
        0x5cb0_a9dc,
        0x76f9_88da,
        0x983e_5152,
        0xa831_c66d,
        0xb003_27c8,
        0xbf59_7fc7,
        0xc6e0_0bf3,
        0xd5a7_9147,
        0x06ca_6351,
        0x1429_2967,
    ],
    [
        0x27b7_0a85,
        0x2e1b_2138,
        0x4d2c_6dfc,
        0x5338_0d13,
        0x650a_7354,
        0x766a_0abb,
        0x81c2_c92e,
        0x9272_2c85,
        0xa2bf_e8a1,
        0xa81a_664b,
        0xc24b_8b70,
        0xc76c_51a3,
        0xd192_e819,
        0xd699_0624,
        0xf40e_3585,
        0x106a_a070,
    ],
    [
        0x19a4_c116,
        0x1e37_6c08,
        0x2748_774c,
        0x34b0_bcb5,
        0x391c_0cb3,
        0x4ed8_aa4a,
        0x5b9c_ca4f,
        0x682e_6ff3,
        0x748f_82ee,
        0x78a5_636f,
        0x84c8_7814,
        0x8cc7_0208,
        0x90be_fffa,
        0xa450_6ceb,
        0xbef9_a3f7,
        0xc671_78f2,
    ],
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The example of FIPS 180-4's examples, of one block, and of two.
    #[test]
    fn hashes_are_those_of_the_standard() {
        let mut block = [0; 64];
        block[..4].copy_from_slice(b"abc\x80");
        block[63] = 24;
        let mut states = [BEGIN];
        compress(&mut states, &[block]);
        let abc = [
            0xba78_16bf,
            0x8f01_cfea,
            0x4141_40de,
            0x5dae_2223,
            0xb003_61a3,
            0x9617_7a9c,
            0xb410_ff61,
            0xf200_15ad,
        ];
        assert_eq!(states, [abc]);
        let text = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        let (mut first, mut second) = ([0; 64], [0; 64]);
        first[..56].copy_from_slice(text);
        first[56] = 0x80;
        second[62..].copy_from_slice(&448_u16.to_be_bytes());
        let mut states = [BEGIN; 3];
        compress(&mut states, &[block, first, first]);
        assert_eq!((states[0], states[1]), (abc, states[2]));
        let mut states = [states[1], BEGIN];
        compress(&mut states, &[second, block]);
        let both = [
            0x248d_6a61,
            0xd206_38b8,
            0xe5c0_2693,
            0x0c3e_6039,
            0xa33c_e459,
            0x64ff_2167,
            0xf6ec_edd4,
            0x19db_06c1,
        ];
        assert_eq!(states, [both, abc]);
        let _ = is_fast();
    }

    proptest! {
        #[test]
        fn lanes_do_not_meet(
            states in any::<[State; 4]>(),
            bytes in prop::collection::vec(any::<u8>(), 256),
        ) {
            let blocks: [Block; 4] = std::array::from_fn(|at| bytes.as_chunks().0[at]);
            let alone: [State; 4] = std::array::from_fn(|at| {
                let mut state = states[at];
                rounds(&mut state, words(&blocks[at]));
                state
            });
            let mut together = states;
            compress(&mut together, &blocks);
            prop_assert_eq!(together, alone);
            let [.., third, fourth] = states;
            let mut two = [fourth, third];
            compress(&mut two, &[blocks[3], blocks[2]]);
            prop_assert_eq!(two, [alone[3], alone[2]]);
            let mut one = [third];
            compress(&mut one, &[blocks[2]]);
            prop_assert_eq!(one, [alone[2]]);
        }
    }
}
