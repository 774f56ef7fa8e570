//! CRYPTO frames in the payload of an Initial packet (RFC 9000 section 19.6).

use crate::message::reader::Reader;

/// A CRYPTO frame: part of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CryptoFrame<'a> {
    /// Offset of its bytes in the stream of handshake bytes.
    pub offset: u64,
    /// The bytes of the handshake.
    pub data: &'a [u8],
    /// Offset of these bytes in the payload of the packet.
    pub payload_offset: usize,
}

/// The CRYPTO frames in the payload of an Initial packet. Ends at the first frame that an Initial
/// packet may not have (RFC 9000 section 12.4).
pub fn crypto_frames(payload: &[u8]) -> impl Iterator<Item = CryptoFrame<'_>> {
    let mut reader = Reader::new(payload);
    std::iter::from_fn(move || {
        loop {
            match reader.u8()? {
                // PADDING, which fills most of a client's first packet.
                0 => reader.skip_zeros(),
                // PING.
                1 => {}
                kind @ (2 | 3) => skip_ack(&mut reader, kind == 3)?,
                6 => {
                    let offset = reader.varint()?;
                    let length = usize::try_from(reader.varint()?).ok()?;
                    let at = payload.len() - reader.rest().len();
                    let data = reader.take(length)?;
                    return Some(CryptoFrame {
                        offset,
                        data,
                        payload_offset: at,
                    });
                }
                // Nothing after CONNECTION_CLOSE matters. Other frames are not allowed.
                _ => return None,
            }
        }
    })
}

/// Skips an ACK frame (RFC 9000 section 19.3).
fn skip_ack(reader: &mut Reader<'_>, congestion: bool) -> Option<()> {
    reader.varint()?;
    reader.varint()?;
    let ranges = reader.varint()?;
    reader.varint()?;
    for _ in 0..ranges {
        reader.varint()?;
        reader.varint()?;
    }
    if congestion {
        for _ in 0..3 {
            reader.varint()?;
        }
    }
    Some(())
}

/// Where the bytes of a CRYPTO frame are: offset in the stream, and in the payload.
#[derive(Debug)]
pub(crate) struct FrameSpan {
    pub(crate) offset: u32,
    pub(crate) payload_offset: usize,
    pub(crate) length: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_crypto_frames_among_others() {
        let payload = [
            0, 1, 2, 5, 0, 1, 2, 0, 1, 6, 2, 2, 7, 8, 0, 6, 0, 2, 5, 6, 0, 0, 0x30, 6, 0, 1, 9,
        ];
        let frames: Vec<_> = crypto_frames(&payload)
            .map(|frame| (frame.offset, frame.data.to_vec()))
            .collect();
        assert_eq!(frames, [(2, vec![7, 8]), (0, vec![5, 6])]);
        assert!(
            crypto_frames(&payload).all(|it| payload[it.payload_offset..].starts_with(it.data))
        );
        assert_eq!(crypto_frames(&[6, 0, 9, 1]).count(), 0);
        let endless = [2, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0];
        assert_eq!(crypto_frames(&endless).count(), 0);
    }
}
