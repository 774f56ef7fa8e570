//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).

/// A one's complement sum that is not folded to 16 bits yet. The default is 0.
///
/// It cannot overflow with fewer than 2^48 words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Adds bytes as 16-bit words in network byte order; an odd last byte is the high half of a word.
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

    /// Adds one 16-bit word.
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

    /// Replaces the word `old` by `new`.
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

    /// The sum, folded to 16 bits.
    #[inline]
    #[must_use]
    pub fn fold(self) -> u16 {
        let sum = (self.0 & 0xffff_ffff) + (self.0 >> 32);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        ((sum & 0xffff) + (sum >> 16)) as u16
    }

    /// The checksum: the complement of the folded sum.
    #[inline]
    #[must_use]
    pub fn checksum(self) -> u16 {
        !self.fold()
    }

    /// Updates the checksum `old` by the changes in this sum (RFC 1624, equation 3).
    #[inline]
    #[must_use]
    pub fn update(self, old: u16) -> u16 {
        !self.add_u16(!old).fold()
    }
}

/// Converts a checksum for a UDP header, where 0 means that there is none: 0 is sent as 0xffff, the
/// other zero of one's complement (RFC 768).
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
    fn matches_the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::default().add_bytes(&bytes).fold(), 0xddf2);
    }

    #[test]
    fn matches_the_example_of_rfc_1624() {
        // Section 4: the checksum is 0xdd2f, and a field changes from 0x5555 to 0x3285.
        let updated = Sum::default().replace_u16(0x5555, 0x3285).update(0xdd2f);
        assert_eq!(updated, 0x0000);
    }

    proptest! {
        #[test]
        fn update_equals_recomputation(
            mut words in proptest::collection::vec(any::<u16>(), 2..40), at: usize, new: u16,
        ) {
            // One word is not zero, as in every header: otherwise both 0 and 0xffff would be correct.
            words[0] |= 1;
            let sum = |words: &[u16]| words.iter().fold(Sum::default(), |sum, &word| sum.add_u16(word));
            let old = sum(&words).checksum();
            let at = 1 + at % (words.len() - 1);
            let updated = Sum::default().replace_u16(words[at], new).update(old);
            words[at] = new;
            prop_assert_eq!(updated, sum(&words).checksum());
        }
    }
}
