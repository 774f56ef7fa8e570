//! CRYPTO frames in the payload of an Initial packet (RFC 9000 section 19.6).

use crate::message::reader::Reader;

/// A piece of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CryptoFrame<'a> {
    /// Where it lies in the stream of handshake bytes.
    pub offset: u64,
    /// The bytes.
    pub data: &'a [u8],
    /// Where they begin in the payload.
    pub at: usize,
}

/// The CRYPTO frames among the frames that an Initial packet may hold (RFC 9000 section 12.4); ends
/// at the first that it may not.
pub fn crypto_frames(payload: &[u8]) -> impl Iterator<Item = CryptoFrame<'_>> {
    let mut reader = Reader::new(payload);
    std::iter::from_fn(move || {
        loop {
            match reader.u8()? {
                // PADDING, which fills most of a client's first packet.
                0 => reader.skip_zeros(),
                // PING.
                1 => {}
                kind @ (2 | 3) => acknowledgement(&mut reader, kind == 3)?,
                6 => {
                    let offset = reader.variable()?;
                    let length = usize::try_from(reader.variable()?).ok()?;
                    let at = payload.len() - reader.rest().len();
                    let data = reader.take(length)?;
                    return Some(CryptoFrame { offset, data, at });
                }
                // CONNECTION_CLOSE is the last that matters; anything else does not belong here.
                _ => return None,
            }
        }
    })
}

/// Passes over an ACK frame (RFC 9000 section 19.3).
fn acknowledgement(reader: &mut Reader<'_>, congestion: bool) -> Option<()> {
    reader.variable()?;
    reader.variable()?;
    let ranges = reader.variable()?;
    reader.variable()?;
    for _ in 0..ranges {
        reader.variable()?;
        reader.variable()?;
    }
    if congestion {
        for _ in 0..3 {
            reader.variable()?;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_in_any_order_between_others() {
        let payload = [
            0, 1, 2, 5, 0, 1, 2, 0, 1, 6, 2, 2, 7, 8, 0, 6, 0, 2, 5, 6, 0, 0, 0x30, 6, 0, 1, 9,
        ];
        let frames: Vec<_> = crypto_frames(&payload)
            .map(|frame| (frame.offset, frame.data.to_vec()))
            .collect();
        assert_eq!(frames, [(2, vec![7, 8]), (0, vec![5, 6])]);
        assert!(crypto_frames(&payload).all(|it| payload[it.at..].starts_with(it.data)));
        assert_eq!(crypto_frames(&[6, 0, 9, 1]).count(), 0);
        let endless = [2, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0];
        assert_eq!(crypto_frames(&endless).count(), 0);
    }
}
