//! Values as 16-bit codes: a floating-point number of 10 bits of mantissa.
//!
//! The code of x consists of the exponent and the highest 10 bits of the mantissa of x + 1. Codes
//! increase with values. Zero has code zero, each value up to 2046 has a code of its own, and the
//! values of a larger code differ by less than one part in 1024. A code without its lowest `shift`
//! bits is a bin of a histogram with 2^(10 - shift) bins per octave.

/// Bits of the mantissa.
pub(super) const MANTISSA_BITS: u32 = 10;

/// Mantissa bits of an `f64` that a code drops.
const DROPPED_BITS: u32 = f64::MANTISSA_DIGITS - 1 - MANTISSA_BITS;

/// The exponent and mantissa bits of 1.0, which become code zero.
const ONE: u64 = 1f64.to_bits() >> DROPPED_BITS;

/// The maximum value; larger ones are clamped.
const VALUE_MAX: u64 = i64::MAX as u64 - 1;

/// Returns the code of a value.
pub(super) fn encode(value: u64) -> u16 {
    encode_unclamped(value.min(VALUE_MAX)) as u16
}

/// Returns the code of a value, or for values above the maximum a number larger than any code.
#[inline]
pub(super) fn encode_unclamped(value: u64) -> u32 {
    // Converted from a signed integer, because x86-64 has an instruction for that. Values above the
    // maximum become negative, or zero for `u64::MAX`; both give numbers larger than any code.
    let number = value.wrapping_add(1).cast_signed() as f64;
    ((number.to_bits() >> DROPPED_BITS) as u32).wrapping_sub(ONE as u32)
}

/// Returns the smallest value whose code is at least `code`.
pub(super) fn first_value(code: u32) -> u64 {
    let number = f64::from_bits((u64::from(code) + ONE) << DROPPED_BITS);
    number.ceil() as u64 - 1
}

/// Returns the largest value whose code is `code`.
pub(super) fn last_value(code: u32) -> u64 {
    first_value(code + 1).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_value_up_to_2046_has_its_own_code() {
        for value in 0..2047 {
            let code = u32::from(encode(value));
            assert_eq!((first_value(code), last_value(code)), (value, value));
        }
        assert_eq!((encode(0), encode(1), encode(3)), (0, 1 << 10, 2 << 10));
        assert_eq!(encode(u64::MAX), 63 << 10);
        for none in [u64::MAX, 1 << 63, VALUE_MAX + 1] {
            assert!(encode_unclamped(none) > u32::from(u16::MAX));
        }
    }

    proptest! {
        #[test]
        fn a_code_is_exact_to_one_part_in_1024(value in 0u64..1 << 52, far: u32) {
            let value = value >> (far % 52);
            let code = u32::from(encode(value));
            prop_assert!((first_value(code)..=last_value(code)).contains(&value));
            prop_assert!((last_value(code) - first_value(code)) as f64 <= (value + 1) as f64 / 1024.0);
        }

        #[test]
        fn codes_increase_with_values(one: u64, other: u64) {
            prop_assert_eq!(encode(one) < encode(other), encode(one) < encode(other) && one < other);
        }
    }
}
