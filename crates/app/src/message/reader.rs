//! A place in bytes that moves forward as fields are read, and never past the end.

/// Reads fields in network byte order; `None` where too few bytes are left.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// From the first of `bytes` on.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// What has not been read.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Whether all has been read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `count` bytes.
    #[inline]
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// The next `count` bytes, or as many as there are.
    #[inline]
    pub fn take_up_to(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Passes over bytes that are 0, many at a time.
    pub fn skip_zeros(&mut self) {
        while let Some((run, rest)) = self.0.split_first_chunk()
            && *run == [0; 32]
        {
            self.0 = rest;
        }
        while let [0, rest @ ..] = self.0 {
            self.0 = rest;
        }
    }

    /// The next bytes, as many as the array holds.
    #[inline]
    pub fn array<const COUNT: usize>(&mut self) -> Option<[u8; COUNT]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    /// Two bytes.
    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// Three bytes.
    #[inline]
    pub fn u24(&mut self) -> Option<u32> {
        self.array()
            .map(|[a, b, c]: [u8; 3]| u32::from_be_bytes([0, a, b, c]))
    }

    /// Four bytes.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Bytes after their length in one byte.
    #[inline]
    pub fn vector8(&mut self) -> Option<&'a [u8]> {
        let length = self.u8()?;
        self.take(usize::from(length))
    }

    /// Bytes after their length in two bytes.
    #[inline]
    pub fn vector16(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.take(usize::from(length))
    }

    /// A variable-length integer of QUIC (RFC 9000 section 16).
    #[inline]
    pub fn variable(&mut self) -> Option<u64> {
        let first = self.u8()?;
        let more = (1usize << (first >> 6)) - 1;
        let value = u64::from(first & 0x3f);
        let bytes = self.take(more)?;
        Some(
            bytes
                .iter()
                .fold(value, |value, &byte| value << 8 | u64::from(byte)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 9000 appendix A.1.
    #[test]
    fn variable_length_integers() {
        for (bytes, value) in [
            (
                &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..],
                151_288_809_941_952_652,
            ),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ] {
            let mut reader = Reader::new(bytes);
            assert_eq!(reader.variable(), Some(value));
            assert!(reader.is_empty());
            assert_eq!(Reader::new(&bytes[..bytes.len() - 1]).variable(), None);
        }
    }

    #[test]
    fn zeros_are_passed_over_up_to_what_is_none() {
        for zeros in 0..100 {
            let mut bytes = vec![0; zeros];
            let mut reader = Reader::new(&bytes);
            reader.skip_zeros();
            assert!(reader.is_empty());
            bytes.extend([1, 0]);
            let mut reader = Reader::new(&bytes);
            reader.skip_zeros();
            assert_eq!(reader.rest(), [1, 0]);
        }
    }

    #[test]
    fn nothing_is_read_past_the_end() {
        let mut reader = Reader::new(&[0, 3, 1, 2]);
        assert_eq!(reader.vector16(), None);
        assert_eq!(reader.rest(), [1, 2]);
        assert_eq!(reader.u24(), None);
        assert_eq!(reader.take_up_to(9), [1, 2]);
        assert_eq!(reader.u8(), None);
    }
}
