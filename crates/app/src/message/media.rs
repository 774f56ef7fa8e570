//! The packets that share the ports of a media session with RTP (RFC 7983).

/// The magic cookie of STUN (RFC 8489 section 5).
const STUN_COOKIE: [u8; 4] = 0x2112_a442_u32.to_be_bytes();

/// Length of a STUN header in bytes.
const STUN_HEADER_LENGTH: usize = 20;

/// Whether a datagram of `length` bytes, of which `datagram` was captured, is one of those that come
/// before and between the packets of a media session: STUN, ZRTP, TURN channel data, or a record of
/// DTLS with a full header. They say nothing about what else the flow carries.
///
/// It looks at no more than eight bytes.
#[inline]
#[must_use]
pub fn is_companion(datagram: &[u8], length: usize) -> bool {
    let length = length.max(datagram.len());
    match *datagram {
        [0..=3, _, _, _, a, b, c, d, ..] if [a, b, c, d] == STUN_COOKIE => true,
        // Without the cookie (RFC 3489), the type and the length identify a binding.
        [0 | 1, 1 | 0x11, high, low, ..] => {
            length == STUN_HEADER_LENGTH + usize::from(u16::from_be_bytes([high, low]))
        }
        [0x10, _, _, _, b'Z', b'R', b'T', b'P', ..] => true,
        [20..=26, 0xfe, 0xfd | 0xff, ..] => true,
        // Channel data may be padded to four bytes (RFC 8656 section 12.4).
        [0x40..=0x4f, _, high, low, ..] => {
            let end = 4 + usize::from(u16::from_be_bytes([high, low]));
            length == end || length == end.next_multiple_of(4)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_companions_by_their_headers() {
        let mut stun = vec![0, 1, 0, 8, 0x21, 0x12, 0xa4, 0x42];
        stun.resize(28, 7);
        assert!(is_companion(&stun, 28));
        assert!(is_companion(&stun[..8], 28), "truncated");
        stun[4] = 0;
        assert!(is_companion(&stun, 28), "RFC 3489");
        assert!(!is_companion(&stun, 29));
        assert!(is_companion(b"\x10\0\0\x1dZRTP", 100));
        assert!(is_companion(&[22, 0xfe, 0xff, 0, 0], 100));
        assert!(!is_companion(&[22, 3, 3, 0, 0], 100));
        for (length, expected) in [(9, true), (12, true), (10, false), (8, false)] {
            assert_eq!(is_companion(&[0x40, 1, 0, 5, 1], length), expected);
        }
        for first in [0x80, 0xbf, 0xc0, 0x50, 4] {
            let datagram = [first, 0xfe, 0xfd, 0, 0x21, 0x12, 0xa4, 0x42];
            assert!(!is_companion(&datagram, 8), "{first}");
        }
        for length in 0..8 {
            let _ = is_companion(&[0x40; 8][..length], 100);
        }
    }
}
