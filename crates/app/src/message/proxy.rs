//! The header that a proxy sends before the stream of its client (PROXY protocol of HAProxy, versions 1
//! and 2).

/// The start of a header of version 1, which is a line of text.
const LINE_START: &[u8] = b"PROXY ";

/// The longest such line, in bytes.
const LINE_MAX: usize = 107;

/// The start of a header of version 2.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Bytes of a header of version 2 after its signature, up to its length: version and command, and
/// address family.
const FIXED: usize = 2;

/// Length of the header at the start of a stream. `None` if there is none, `Some(None)` if more bytes are
/// needed.
#[must_use]
pub fn header_length(bytes: &[u8]) -> Option<Option<usize>> {
    match bytes.first()? {
        b'P' => line_length(bytes),
        b'\r' => binary_length(bytes),
        _ => None,
    }
}

fn line_length(bytes: &[u8]) -> Option<Option<usize>> {
    if !begin_alike(bytes, LINE_START) {
        return None;
    }
    let line = &bytes[..bytes.len().min(LINE_MAX)];
    match line.iter().position(|byte| *byte == b'\n') {
        Some(end) => Some(Some(end + 1)),
        None if line.len() < LINE_MAX => Some(None),
        None => None,
    }
}

fn binary_length(bytes: &[u8]) -> Option<Option<usize>> {
    if !begin_alike(bytes, SIGNATURE) {
        return None;
    }
    let rest = bytes.get(SIGNATURE.len() + FIXED..).unwrap_or_default();
    let version = bytes.get(SIGNATURE.len()).map_or(2, |byte| byte >> 4);
    let length = rest.first_chunk().map(|it| u16::from_be_bytes(*it));
    let length = length.map(|it| SIGNATURE.len() + FIXED + 2 + usize::from(it));
    (version == 2).then_some(length)
}

fn begin_alike(bytes: &[u8], other: &[u8]) -> bool {
    let length = bytes.len().min(other.len());
    bytes[..length] == other[..length]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_both_versions_have_their_length_however_they_are_cut() {
        let binary = [SIGNATURE, &[0x21, 0x11, 0, 12], &[0; 12]].concat();
        for header in [
            &b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"[..],
            b"PROXY UNKNOWN\r\n",
            &binary,
        ] {
            let stream = [header, b"GET / HTTP/1.1\r\n"].concat();
            let needed = if header == binary {
                SIGNATURE.len() + 4
            } else {
                header.len()
            };
            for cut in 1..=stream.len() {
                let expected = (cut >= needed).then_some(header.len());
                assert_eq!(header_length(&stream[..cut]), Some(expected), "{cut}");
            }
        }
        for other in [&b"POST / "[..], b"PROXYING", b"\r\n\r\nGET", b"\x16\x03"] {
            assert_eq!(header_length(other), None);
        }
        let other_version = [SIGNATURE, &[0x31]].concat();
        assert_eq!(header_length(&other_version), None);
        assert_eq!(header_length(&[LINE_START, &[b'1'; 107]].concat()), None);
    }
}
