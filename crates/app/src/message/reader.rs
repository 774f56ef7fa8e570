//! A cursor over bytes that reads fields and never passes the end.

/// Reads fields in network byte order. Its methods return `None` if too few bytes are left.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Creates a reader at the start of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes that were not read yet.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Whether all bytes were read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads `count` bytes.
    #[inline]
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads `count` bytes, or fewer if fewer are left.
    #[inline]
    pub fn take_up_to(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Skips zero bytes, many at a time.
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

    /// Reads an array.
    #[inline]
    pub fn array<const COUNT: usize>(&mut self) -> Option<[u8; COUNT]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    /// Reads one byte.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    /// Reads two bytes.
    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads three bytes.
    #[inline]
    pub fn u24(&mut self) -> Option<u32> {
        self.array()
            .map(|[a, b, c]: [u8; 3]| u32::from_be_bytes([0, a, b, c]))
    }

    /// Reads four bytes.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads bytes that follow their length in one byte.
    #[inline]
    pub fn vector8(&mut self) -> Option<&'a [u8]> {
        let length = self.u8()?;
        self.take(usize::from(length))
    }

    /// Reads bytes that follow their length in two bytes.
    #[inline]
    pub fn vector16(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.take(usize::from(length))
    }

    /// Reads a variable-length integer of QUIC (RFC 9000 section 16).
    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
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
    fn reads_variable_length_integers() {
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
            assert_eq!(reader.varint(), Some(value));
            assert!(reader.is_empty());
            assert_eq!(Reader::new(&bytes[..bytes.len() - 1]).varint(), None);
        }
    }

    #[test]
    fn skips_zeros_up_to_another_byte() {
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
    fn never_reads_past_the_end() {
        let mut reader = Reader::new(&[0, 3, 1, 2]);
        assert_eq!(reader.vector16(), None);
        assert_eq!(reader.rest(), [1, 2]);
        assert_eq!(reader.u24(), None);
        assert_eq!(reader.take_up_to(9), [1, 2]);
        assert_eq!(reader.u8(), None);
    }
}
