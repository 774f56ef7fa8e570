//! Reads fields at named offsets of fixed-size headers.
//!
//! Offset and header length are both constants, so a field outside its header does not compile and
//! nothing is left to check at run time.

/// The byte at `OFFSET`.
#[inline]
pub(crate) const fn byte<const OFFSET: usize, const LENGTH: usize>(header: &[u8; LENGTH]) -> u8 {
    const { assert!(OFFSET < LENGTH, "the field is outside the header") };
    header[OFFSET]
}

/// The two bytes at `OFFSET` as a number in network byte order.
#[inline]
pub(crate) const fn u16_at<const OFFSET: usize, const LENGTH: usize>(header: &[u8; LENGTH]) -> u16 {
    const { assert!(OFFSET + 2 <= LENGTH, "the field is outside the header") };
    u16::from_be_bytes([header[OFFSET], header[OFFSET + 1]])
}

/// The three bytes at `OFFSET` as a number in network byte order.
#[inline]
pub(crate) const fn u24_at<const OFFSET: usize, const LENGTH: usize>(header: &[u8; LENGTH]) -> u32 {
    const { assert!(OFFSET + 3 <= LENGTH, "the field is outside the header") };
    u32::from_be_bytes([0, header[OFFSET], header[OFFSET + 1], header[OFFSET + 2]])
}

/// The four bytes at `OFFSET` as a number in network byte order.
#[inline]
pub(crate) const fn u32_at<const OFFSET: usize, const LENGTH: usize>(header: &[u8; LENGTH]) -> u32 {
    const { assert!(OFFSET + 4 <= LENGTH, "the field is outside the header") };
    u32::from_be_bytes([
        header[OFFSET],
        header[OFFSET + 1],
        header[OFFSET + 2],
        header[OFFSET + 3],
    ])
}

/// The `COUNT` bytes at `OFFSET`.
#[inline]
pub(crate) fn bytes_at<const OFFSET: usize, const COUNT: usize, const LENGTH: usize>(
    header: &[u8; LENGTH],
) -> [u8; COUNT] {
    const {
        assert!(OFFSET + COUNT <= LENGTH, "the field is outside the header");
    };
    let mut bytes = [0; COUNT];
    bytes.copy_from_slice(&header[OFFSET..OFFSET + COUNT]);
    bytes
}
