//! A view of a packet from one of its headers on: captured bytes, and length on the wire.

/// Why a header could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The snaplen cut it off the capture.
    Capture,
    /// The packet itself ends before the header does.
    Packet,
}

/// The rest of a packet: the captured bytes, and the length on the wire.
///
/// The two differ where the snaplen cut a frame. Every header is split off by
/// [`PacketView::split`], the only place that checks lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketView<'a> {
    bytes: &'a [u8],
    length: usize,
}

impl<'a> PacketView<'a> {
    /// A packet of `length` bytes, of which `bytes` were captured.
    ///
    /// A `length` below the number of captured bytes contradicts itself; the captured bytes win.
    #[inline]
    #[must_use]
    pub const fn new(bytes: &'a [u8], length: usize) -> Self {
        let length = if length < bytes.len() {
            bytes.len()
        } else {
            length
        };
        Self { bytes, length }
    }

    /// The captured bytes.
    #[inline]
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes on the wire, at least those that were captured.
    #[inline]
    #[must_use]
    pub const fn length(&self) -> usize {
        self.length
    }

    /// The first `N` bytes, and what follows them.
    ///
    /// # Errors
    /// [`Cut`] where fewer were captured, or where the packet has fewer.
    #[inline]
    pub fn split<const N: usize>(self) -> Result<(&'a [u8; N], Self), Cut> {
        match self.bytes.split_first_chunk::<N>() {
            Some((header, rest)) => Ok((
                header,
                Self {
                    bytes: rest,
                    length: self.length - N,
                },
            )),
            None => Err(self.cut(N)),
        }
    }

    /// What follows the first `count` bytes.
    ///
    /// # Errors
    /// [`Cut`] where fewer were captured, or where the packet has fewer.
    #[inline]
    pub fn skip(self, count: usize) -> Result<Self, Cut> {
        match self.bytes.get(count..) {
            Some(rest) => Ok(Self {
                bytes: rest,
                length: self.length - count,
            }),
            None => Err(self.cut(count)),
        }
    }

    /// The packet cut to its first `length` bytes (without padding or trailer).
    #[inline]
    #[must_use]
    pub fn limit(self, length: usize) -> Self {
        Self {
            bytes: self.bytes.get(..length).unwrap_or(self.bytes),
            length: self.length.min(length),
        }
    }

    /// The IP version nibble; `None` if nothing is left.
    #[inline]
    #[must_use]
    pub fn first_nibble(&self) -> Option<u8> {
        self.bytes.first().map(|byte| byte >> 4)
    }

    /// Why `count` bytes are not available.
    const fn cut(self, count: usize) -> Cut {
        if count > self.length {
            Cut::Packet
        } else {
            Cut::Capture
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_a_header_cut_by_the_snaplen_from_one_beyond_the_packet() {
        let packet = PacketView::new(&[1, 2, 3], 5);
        assert_eq!(packet.split::<4>(), Err(Cut::Capture));
        assert_eq!(packet.split::<6>(), Err(Cut::Packet));
        let (first, rest) = packet.split::<2>().unwrap();
        assert_eq!((first, rest.bytes(), rest.length()), (&[1, 2], &[3][..], 3));
    }

    #[test]
    fn limit_cuts_padding_and_never_lengthens() {
        let packet = PacketView::new(&[1, 2, 3, 4], 9);
        assert_eq!(packet.limit(2), PacketView::new(&[1, 2], 2));
        assert_eq!(packet.limit(6).length(), 6);
        assert_eq!(packet.limit(20), packet);
    }

    #[test]
    fn captured_bytes_win_over_a_smaller_wire_length() {
        assert_eq!(PacketView::new(&[0; 60], 0).length(), 60);
    }
}
