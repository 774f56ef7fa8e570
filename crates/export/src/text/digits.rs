//! Decimal digits of integers, from a lookup table or by parallel division.

/// 10^8: numbers below it have at most eight digits.
pub(super) const EIGHT_DIGITS: u64 = 100_000_000;

/// The character `0` in every byte.
pub(crate) const ASCII_ZEROES: u64 = 0x3030_3030_3030_3030;

/// A number below 1000 in decimal.
///
/// Nine of ten numbers in a record are this short; a table of eight kilobytes has their text.
#[derive(Clone, Copy)]
pub(super) struct ShortNumber {
    /// The digits, then a comma; the first digit is in the lowest byte.
    text: u32,
    digits: u32,
}

impl ShortNumber {
    pub(super) const COUNT: usize = 1000;

    /// Mask of a number below `COUNT`.
    const MASK: u64 = 1023;

    /// Size of the text, not all of which counts.
    pub(super) const BLOCK: usize = 4;

    /// The table, padded to a power of two.
    const ALL: [Self; Self::MASK as usize + 1] = {
        let mut all = [Self { text: 0, digits: 0 }; Self::MASK as usize + 1];
        let mut value = 0;
        while value < Self::COUNT {
            let number = value as u32;
            let (hundreds, tens, ones) = (number / 100, number / 10 % 10, number % 10);
            let text = hundreds | tens << 8 | ones << 16 | 0x2c30_3030;
            let digits = 1 + (value >= 10) as u32 + (value >= 100) as u32;
            all[value] = Self {
                text: text >> (8 * (3 - digits)),
                digits,
            };
            value += 1;
        }
        all
    };

    #[inline]
    pub(super) fn of(value: u64) -> Option<Self> {
        (value < Self::COUNT as u64).then(|| Self::lookup(value))
    }

    /// Looks up a value below [`ShortNumber::COUNT`].
    #[inline]
    pub(super) fn lookup(value: u64) -> Self {
        static SHORT: [ShortNumber; ShortNumber::MASK as usize + 1] = ShortNumber::ALL;
        SHORT[(value & ShortNumber::MASK) as usize]
    }

    /// The digits, then a comma.
    #[inline]
    pub(super) const fn text(self) -> [u8; Self::BLOCK] {
        self.text.to_le_bytes()
    }

    /// The digits, then `byte`.
    #[inline]
    pub(super) const fn text_then(self, byte: u8) -> [u8; Self::BLOCK] {
        let difference = (byte ^ b',') as u32;
        (self.text ^ difference << (8 * self.digits)).to_le_bytes()
    }

    /// Number of digits.
    #[inline]
    pub(super) const fn digits(self) -> usize {
        self.digits as usize
    }
}

/// Returns the eight decimal digits of `value`, which must be below 10^8, first digit in the lowest
/// byte.
///
/// Divides halves, then quarters, then digits in parallel in one register. Division is
/// multiplication by the reciprocal, exact for the range of each step.
#[inline]
pub(crate) const fn eight_digits(value: u32) -> u64 {
    let halves = (value / 10_000) as u64 | ((value % 10_000) as u64) << 32;
    // x / 100 = x * 10486 >> 20 for x < 10^4 (and above).
    let hundreds = ((halves * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let quarters = hundreds | (halves - 100 * hundreds) << 16;
    // x / 10 = x * 103 >> 10 for x < 100 (and above).
    let tens = ((quarters * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | (quarters - 10 * tens) << 8
}
