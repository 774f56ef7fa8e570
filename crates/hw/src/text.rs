//! Looking through text 16 bytes at a time: SSE2 is part of every x86-64.

/// Bytes that are looked at together.
const BLOCK: usize = 16;

/// Where the first byte from `from` on is that is no text: a control character, tabs and line feeds
/// among them. The length of `bytes` where there is none.
#[inline]
#[must_use]
pub fn control_from(bytes: &[u8], from: usize) -> usize {
    first_from(
        bytes,
        from,
        |byte| byte < b' ' || byte == 0x7f,
        block::controls::<0x1f>,
    )
}

/// The same of a byte that is a space, too.
#[inline]
#[must_use]
pub fn gap_from(bytes: &[u8], from: usize) -> usize {
    first_from(
        bytes,
        from,
        |byte| byte <= b' ' || byte == 0x7f,
        block::controls::<0x20>,
    )
}

/// Where the first byte from `from` on is that is neither an ASCII letter or digit nor a hyphen, as
/// few bytes of the names of header fields are. The length of `bytes` where there is none.
#[inline]
#[must_use]
pub fn name_end_from(bytes: &[u8], from: usize) -> usize {
    first_from(
        bytes,
        from,
        |byte| !byte.is_ascii_alphanumeric() && byte != b'-',
        block::strangers,
    )
}

/// Bytes as text, where they are UTF-8.
#[inline]
#[must_use]
pub fn utf_8(bytes: &[u8]) -> Option<&str> {
    if is_ascii(bytes) {
        // SAFETY: ASCII is UTF-8.
        Some(unsafe { str::from_utf8_unchecked(bytes) })
    } else {
        str::from_utf8(bytes).ok()
    }
}

/// Whether all bytes are ASCII.
#[inline]
fn is_ascii(bytes: &[u8]) -> bool {
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    let rest = match bytes.last_chunk::<BLOCK>() {
        // Some of it was looked at already.
        Some(last) => block::high(last) == 0,
        None => is_short_ascii(rest),
    };
    rest && blocks.iter().all(|it| block::high(it) == 0)
}

/// The same of few bytes: all of them in words that overlap.
#[inline]
fn is_short_ascii(bytes: &[u8]) -> bool {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let (first, last) = match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) => (u64::from_ne_bytes(*first), u64::from_ne_bytes(*last)),
        _ => match (bytes.first_chunk(), bytes.last_chunk()) {
            (Some(first), Some(last)) => (
                u64::from(u32::from_ne_bytes(*first)),
                u64::from(u32::from_ne_bytes(*last)),
            ),
            _ => return bytes.iter().fold(0, |all, byte| all | byte) < 0x80,
        },
    };
    (first | last) & HIGH == 0
}

/// The first byte from a place on of which `is` says so, as `mask` does for a whole block.
#[inline(always)]
fn first_from(
    bytes: &[u8],
    from: usize,
    is: impl Fn(u8) -> bool,
    mask: impl Fn(&[u8; BLOCK]) -> u32,
) -> usize {
    let mut at = from;
    while let Some(block) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let found = mask(block);
        if found != 0 {
            return at + found.trailing_zeros() as usize;
        }
        at += BLOCK;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    if rest.is_empty() {
        return bytes.len();
    }
    // The last block once more, with what was seen of it shifted out.
    if let Some(block) = bytes.last_chunk() {
        let seen = BLOCK - rest.len();
        let found = mask(block) >> seen;
        return match found {
            0 => bytes.len(),
            _ => at + found.trailing_zeros() as usize,
        };
    }
    let found = rest.iter().position(|byte| is(*byte));
    found.map_or(bytes.len(), |place| at + place)
}

/// A bit for each byte of a block that is what is looked for.
#[cfg(target_arch = "x86_64")]
mod block {
    use super::BLOCK;
    use core::arch::x86_64::*;

    #[inline(always)]
    fn load(block: &[u8; BLOCK]) -> __m128i {
        // SAFETY: the block has as many bytes, and they need not be aligned.
        unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
    }

    /// Bytes up to `LAST`, and 0x7f.
    #[inline(always)]
    pub(super) fn controls<const LAST: u8>(block: &[u8; BLOCK]) -> u32 {
        let bytes = load(block);
        // SAFETY: SSE2 is part of every x86-64.
        unsafe {
            let low = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(LAST as i8)), bytes);
            let delete = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7f));
            _mm_movemask_epi8(_mm_or_si128(low, delete)) as u32
        }
    }

    /// Bytes that are neither letters nor digits nor hyphens.
    #[inline(always)]
    pub(super) fn strangers(block: &[u8; BLOCK]) -> u32 {
        let bytes = load(block);
        // SAFETY: SSE2 is part of every x86-64.
        unsafe {
            let folded = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
            let letters = within::<b'a', b'z'>(folded);
            let digits = within::<b'0', b'9'>(bytes);
            let hyphens = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'-' as i8));
            let known = _mm_or_si128(_mm_or_si128(letters, digits), hyphens);
            !_mm_movemask_epi8(known) as u32 & 0xffff
        }
    }

    /// Bytes from `FIRST` to `LAST`.
    #[inline(always)]
    fn within<const FIRST: u8, const LAST: u8>(bytes: __m128i) -> __m128i {
        // SAFETY: SSE2 is part of every x86-64.
        unsafe {
            let from_first = _mm_sub_epi8(bytes, _mm_set1_epi8(FIRST as i8));
            let last = _mm_set1_epi8((LAST - FIRST) as i8);
            _mm_cmpeq_epi8(_mm_min_epu8(from_first, last), from_first)
        }
    }

    /// Bytes from 0x80 on.
    #[inline(always)]
    pub(super) fn high(block: &[u8; BLOCK]) -> u32 {
        // SAFETY: SSE2 is part of every x86-64.
        unsafe { _mm_movemask_epi8(load(block)) as u32 }
    }
}

/// The same, byte by byte.
#[cfg(not(target_arch = "x86_64"))]
mod block {
    use super::BLOCK;

    fn mask(block: &[u8; BLOCK], is: impl Fn(u8) -> bool) -> u32 {
        let bits = block.iter().enumerate();
        bits.fold(0, |mask, (at, &byte)| mask | u32::from(is(byte)) << at)
    }

    pub(super) fn controls<const LAST: u8>(block: &[u8; BLOCK]) -> u32 {
        mask(block, |byte| byte <= LAST || byte == 0x7f)
    }

    pub(super) fn strangers(block: &[u8; BLOCK]) -> u32 {
        mask(block, |byte| !byte.is_ascii_alphanumeric() && byte != b'-')
    }

    pub(super) fn high(block: &[u8; BLOCK]) -> u32 {
        mask(block, |byte| byte >= 0x80)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place(bytes: &[u8], from: usize, is: impl Fn(u8) -> bool) -> usize {
        let found = bytes.iter().skip(from).position(|byte| is(*byte));
        found.map_or(bytes.len(), |at| from + at)
    }

    fn check(bytes: &[u8]) {
        for from in 0..=bytes.len() + 1 {
            let control = place(bytes, from, |byte| byte < 0x20 || byte == 0x7f);
            assert_eq!(control_from(bytes, from), control);
            let gap = place(bytes, from, |byte| byte <= 0x20 || byte == 0x7f);
            assert_eq!(gap_from(bytes, from), gap);
            let is_stranger = |byte: u8| !byte.is_ascii_alphanumeric() && byte != b'-';
            assert_eq!(name_end_from(bytes, from), place(bytes, from, is_stranger));
        }
        assert_eq!(utf_8(bytes), str::from_utf8(bytes).ok());
    }

    #[test]
    fn every_byte_is_told_wherever_it_is() {
        for length in 0..50 {
            check(&vec![b'a'; length]);
            check("é".repeat(length).as_bytes());
        }
        for length in [1, 3, 5, 9, 15, 16, 17, 40] {
            for byte in 0..=255 {
                for at in [0, length / 2, length - 1] {
                    let mut bytes = vec![b'a'; length];
                    bytes[at] = byte;
                    check(&bytes);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_told(bytes in prop::collection::vec(any::<u8>(), 0..70)) {
            check(&bytes);
        }

        #[test]
        fn any_text_is_told(text in "[ -~é\t]{0,70}") {
            check(text.as_bytes());
        }
    }
}
