//! Reads integers in the byte order of the file.
//!
//! The byte order is a const parameter, so that it is decided once per burst instead of once per field.
//! A field past the end of `bytes` reads as 0; callers have checked the length.

/// The 16-bit integer at `offset`.
#[inline]
pub(super) fn read_u16<const BIG: bool>(bytes: &[u8], offset: usize) -> u16 {
    let field = field::<2>(bytes, offset);
    if BIG {
        u16::from_be_bytes(field)
    } else {
        u16::from_le_bytes(field)
    }
}

/// The 32-bit integer at `offset`.
#[inline]
pub(super) fn read_u32<const BIG: bool>(bytes: &[u8], offset: usize) -> u32 {
    let field = field::<4>(bytes, offset);
    if BIG {
        u32::from_be_bytes(field)
    } else {
        u32::from_le_bytes(field)
    }
}

/// The 64-bit integer at `offset`.
#[inline]
pub(super) fn read_u64<const BIG: bool>(bytes: &[u8], offset: usize) -> u64 {
    let field = field::<8>(bytes, offset);
    if BIG {
        u64::from_be_bytes(field)
    } else {
        u64::from_le_bytes(field)
    }
}

#[inline]
fn field<const BYTES: usize>(bytes: &[u8], offset: usize) -> [u8; BYTES] {
    match bytes.get(offset..).and_then(<[u8]>::first_chunk) {
        Some(field) => *field,
        None => [0; BYTES],
    }
}
