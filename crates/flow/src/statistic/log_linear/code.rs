//! Values as 16-bit codes: a floating-point number of 10 bits of mantissa.
//!
//! The code of x is made of the exponent and the highest 10 bits of the mantissa of x + 1, so codes
//! rise with values, zero has code zero, values up to 2046 have a code each, and beyond a code
//! stands for values that differ by less than one part in 1024. A code without its lowest `shift`
//! bits is a bin of a histogram with 2^(10 - shift) bins an octave.

/// Bits of mantissa.
pub(super) const MANTISSA: u32 = 10;

/// Bits of a double's mantissa that a code leaves out.
const DROPPED: u32 = f64::MANTISSA_DIGITS - 1 - MANTISSA;

/// The code of 1.0 as a double's bits have it.
const ONE: u64 = 1f64.to_bits() >> DROPPED;

/// Values above are taken for this one.
const LARGEST: u64 = i64::MAX as u64 - 1;

/// The code of a value.
pub(super) fn encode(value: u64) -> u16 {
    encode_or_more(value.min(LARGEST)) as u16
}

/// The code of a value; more than any code for values that cannot be told apart from the largest.
#[inline(always)]
pub(super) fn encode_or_more(value: u64) -> u32 {
    // From a signed integer, because there x86-64 has an instruction for the conversion. What is
    // negative then has its highest bit here and no code; so has zero, which only the largest
    // number of 64 bits becomes.
    let number = value.wrapping_add(1).cast_signed() as f64;
    ((number.to_bits() >> DROPPED) as u32).wrapping_sub(ONE as u32)
}

/// The smallest value whose code is `code` or more.
pub(super) fn first(code: u32) -> u64 {
    let number = f64::from_bits((u64::from(code) + ONE) << DROPPED);
    number.ceil() as u64 - 1
}

/// The largest value whose code is `code`.
pub(super) fn last(code: u32) -> u64 {
    first(code + 1).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn up_to_2046_every_value_has_its_code() {
        for value in 0..2047 {
            let code = u32::from(encode(value));
            assert_eq!((first(code), last(code)), (value, value));
        }
        assert_eq!((encode(0), encode(1), encode(3)), (0, 1 << 10, 2 << 10));
        assert_eq!(encode(u64::MAX), 63 << 10);
        for none in [u64::MAX, 1 << 63, LARGEST + 1] {
            assert!(encode_or_more(none) > u32::from(u16::MAX));
        }
    }

    proptest! {
        #[test]
        fn a_code_holds_its_value_within_a_1024th(value in 0u64..1 << 52, far: u32) {
            let value = value >> (far % 52);
            let code = u32::from(encode(value));
            prop_assert!((first(code)..=last(code)).contains(&value));
            prop_assert!((last(code) - first(code)) as f64 <= (value + 1) as f64 / 1024.0);
        }

        #[test]
        fn codes_rise_with_values(one: u64, other: u64) {
            prop_assert_eq!(encode(one) < encode(other), encode(one) < encode(other) && one < other);
        }
    }
}
