//! Numbers to and from the bytes of a state, little-endian.

use crate::error::StateError;

/// Reads numbers from bytes, checking their end.
#[derive(Clone, Debug)]
pub struct Reader<'b> {
    bytes: &'b [u8],
    offset: usize,
}

impl<'b> Reader<'b> {
    /// Starts at the first of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    /// Returns the number of bytes not yet read.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.bytes.len() - self.offset
    }

    /// Reads `count` bytes.
    ///
    /// # Errors
    /// Fails if there are fewer.
    pub fn take(&mut self, count: usize) -> Result<&'b [u8], StateError> {
        if count > self.left() {
            return Err(StateError::Truncated {
                offset: self.bytes.len(),
                needed: count - self.left(),
            });
        }
        let start = self.offset;
        self.offset += count;
        Ok(&self.bytes[start..self.offset])
    }

    /// Reads `N` bytes.
    ///
    /// # Errors
    /// Fails if there are fewer.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], StateError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// Reads a byte.
    ///
    /// # Errors
    /// Fails at the end.
    pub fn u8(&mut self) -> Result<u8, StateError> {
        self.array().map(u8::from_le_bytes)
    }

    /// Reads a 16-bit number.
    ///
    /// # Errors
    /// Fails at the end.
    pub fn u16(&mut self) -> Result<u16, StateError> {
        self.array().map(u16::from_le_bytes)
    }

    /// Reads a 32-bit number.
    ///
    /// # Errors
    /// Fails at the end.
    pub fn u32(&mut self) -> Result<u32, StateError> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads a 64-bit number.
    ///
    /// # Errors
    /// Fails at the end.
    pub fn u64(&mut self) -> Result<u64, StateError> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a 128-bit number.
    ///
    /// # Errors
    /// Fails at the end.
    pub fn u128(&mut self) -> Result<u128, StateError> {
        self.array().map(u128::from_le_bytes)
    }

    /// Reads a number as [`write_varint`] wrote it.
    ///
    /// # Errors
    /// Fails at the end, or if the number exceeds 64 bits.
    pub fn varint(&mut self) -> Result<u64, StateError> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(StateError::Damaged("a number exceeds 64 bits"))
    }

    /// Checks that `count` elements of `size` bytes are left, before memory is reserved for them.
    ///
    /// # Errors
    /// Fails if there are fewer.
    pub fn check_left(&self, count: usize, size: usize) -> Result<(), StateError> {
        let needed = count.saturating_mul(size);
        if needed > self.left() {
            return Err(StateError::Truncated {
                offset: self.bytes.len(),
                needed: needed - self.left(),
            });
        }
        Ok(())
    }

    /// Checks that all bytes were read.
    ///
    /// # Errors
    /// Fails if bytes are left.
    pub const fn end(&self) -> Result<(), StateError> {
        if self.left() > 0 {
            return Err(StateError::Damaged("bytes follow its end"));
        }
        Ok(())
    }
}

/// Appends a number in groups of seven bits, lowest first, each but the last with the highest bit set
/// (LEB128).
pub fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_return() {
        for value in [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, 1 << 63, u64::MAX] {
            let mut bytes = Vec::new();
            write_varint(&mut bytes, value);
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.varint(), Ok(value));
            assert!(reader.end().is_ok());
            assert!(Reader::new(&bytes[..bytes.len() - 1]).varint().is_err());
        }
        assert!(Reader::new(&[0xff; 11]).varint().is_err());
    }

    #[test]
    fn reading_past_the_end_is_an_error() {
        let mut reader = Reader::new(&[1, 0, 2, 0, 0, 0, 9]);
        assert_eq!(reader.u16(), Ok(1));
        assert_eq!(reader.u32(), Ok(2));
        assert!(reader.end().is_err());
        let truncated = StateError::Truncated {
            offset: 7,
            needed: 7,
        };
        assert_eq!(reader.u64(), Err(truncated.clone()));
        assert_eq!(reader.check_left(2, 4), Err(truncated));
        assert!(reader.check_left(usize::MAX, 8).is_err());
        assert_eq!(reader.u8(), Ok(9));
        assert!(reader.end().is_ok());
    }
}
