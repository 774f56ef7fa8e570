//! The Internet checksum, whole (RFC 1071) and by what changes (RFC 1624).

/// A one's complement sum that has not been folded to 16 bits. Starts from 0.
///
/// Large enough for 2^48 words before it could wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Adds bytes as words in network order; an odd last byte is the high half of a word.
    #[must_use]
    pub fn add_bytes(mut self, bytes: &[u8]) -> Self {
        let mut words = bytes.chunks_exact(2);
        for word in &mut words {
            self.0 += u64::from(u16::from_be_bytes([word[0], word[1]]));
        }
        if let [last] = words.remainder() {
            self.0 += u64::from(*last) << 8;
        }
        self
    }

    /// Adds one word.
    #[inline]
    #[must_use]
    pub fn add_u16(self, word: u16) -> Self {
        Self(self.0 + u64::from(word))
    }

    /// Adds the two words of a 32-bit field.
    #[inline]
    #[must_use]
    pub fn add_u32(self, field: u32) -> Self {
        Self(self.0 + u64::from(field >> 16) + u64::from(field & 0xffff))
    }

    /// Adds the four words of a 64-bit field.
    #[inline]
    #[must_use]
    pub fn add_u64(self, field: u64) -> Self {
        self.add_u32((field >> 32) as u32).add_u32(field as u32)
    }

    /// A word was `old` and is `new`.
    #[inline]
    #[must_use]
    pub fn replace_u16(self, old: u16, new: u16) -> Self {
        self.add_u16(!old).add_u16(new)
    }

    /// Adds another sum.
    #[inline]
    #[must_use]
    pub fn add_sum(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    /// The sum in 16 bits.
    #[inline]
    #[must_use]
    pub fn fold(self) -> u16 {
        let sum = (self.0 & 0xffff_ffff) + (self.0 >> 32);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        ((sum & 0xffff) + (sum >> 16)) as u16
    }

    /// The checksum of what was summed.
    #[inline]
    #[must_use]
    pub fn checksum(self) -> u16 {
        !self.fold()
    }

    /// The checksum that was `old`, after the changes in this sum (RFC 1624, equation 3).
    #[inline]
    #[must_use]
    pub fn update(self, old: u16) -> u16 {
        !self.add_u16(!old).fold()
    }
}

/// A UDP checksum of 0 says that there is none: the other zero of one's complement takes its place
/// (RFC 768).
#[inline]
#[must_use]
pub fn for_udp(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_worked_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::default().add_bytes(&bytes).fold(), 0xddf2);
    }

    #[test]
    fn the_worked_example_of_rfc_1624() {
        // Section 4: a header with checksum 0xdd2f, a field goes from 0x5555 to 0x3285.
        let mended = Sum::default().replace_u16(0x5555, 0x3285).update(0xdd2f);
        assert_eq!(mended, 0x0000);
    }

    proptest! {
        #[test]
        fn mended_is_as_good_as_made_anew(
            mut words in proptest::collection::vec(any::<u16>(), 2..40), at: usize, new: u16,
        ) {
            // Some word is not zero, as in every header: else both zeroes are right.
            words[0] |= 1;
            let sum = |words: &[u16]| words.iter().fold(Sum::default(), |sum, &word| sum.add_u16(word));
            let before = sum(&words).checksum();
            let at = 1 + at % (words.len() - 1);
            let mended = Sum::default().replace_u16(words[at], new).update(before);
            words[at] = new;
            prop_assert_eq!(mended, sum(&words).checksum());
        }
    }
}
