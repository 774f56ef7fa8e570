//! RTP and RTCP (RFC 3550), recognised without knowledge of the session.

use super::reader::Reader;

/// The fixed header of an RTP packet (RFC 3550 section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtp {
    /// Payload type, 0 to 127.
    pub payload_type: u8,
    /// Whether the marker bit is set.
    pub marker: bool,
    /// Sequence number.
    pub sequence: u16,
    /// Timestamp, in units of the payload type's clock.
    pub timestamp: u32,
    /// Synchronization source.
    pub ssrc: u32,
}

/// Length of the fixed header in bytes.
pub const HEADER_LENGTH: usize = 12;

/// The most packets of a compound of RTCP that are checked. Real ones have a handful.
const COMPOUND_MAX: usize = 32;

/// Length of the header of an extension in bytes (RFC 3550 section 5.3.1).
const EXTENSION_HEADER_LENGTH: usize = 4;

impl Rtp {
    /// Reads the captured part of a datagram of `length` bytes if it may be RTP: it has version 2, a
    /// payload type of RTP, and room for its contributing sources and extension. Other protocols can
    /// look the same, so that only several such packets in sequence identify RTP.
    #[must_use]
    pub fn plausible(datagram: &[u8], length: usize) -> Option<Self> {
        let mut reader = Reader::new(datagram);
        let first = reader.u8()?;
        if first >> 6 != 2 {
            return None;
        }
        let second = reader.u8()?;
        let payload_type = second & 0x7f;
        // 72 to 76 are reserved because of RTCP (RFC 3551 section 6). With the marker bit, 64 to 95
        // are RTCP packet types (RFC 5761 section 4).
        if (72..=76).contains(&payload_type) || (192..=223).contains(&second) {
            return None;
        }
        let sequence = reader.u16()?;
        let timestamp = reader.u32()?;
        let ssrc = reader.u32()?;
        let mut end = HEADER_LENGTH + usize::from(first & 0x0f) * 4;
        if first & 0x10 != 0 {
            // The length of the extension may not be captured.
            let words = match datagram.get(end + 2..end + 4) {
                Some(&[high, low]) => u16::from_be_bytes([high, low]),
                _ => 0,
            };
            end += EXTENSION_HEADER_LENGTH + usize::from(words) * 4;
        }
        (end <= length).then_some(Self {
            payload_type,
            marker: second & 0x80 != 0,
            sequence,
            timestamp,
            ssrc,
        })
    }
}

/// Whether a datagram of `length` bytes, of which `datagram` was captured, is RTCP by its headers.
///
/// It must be a compound of packets with version 2 and known types whose lengths fill the datagram.
/// The first must be a report (RFC 3550 section 6.1 and appendix A.2) or a feedback packet (RFC
/// 5506). In a truncated datagram, the captured lengths must fill it, or at least two packet headers
/// must be captured: one is not enough, because secure RTCP (RFC 3711) encrypts everything after the
/// first.
#[must_use]
pub fn is_rtcp(datagram: &[u8], length: usize) -> bool {
    let length = length.max(datagram.len());
    if !length.is_multiple_of(4) {
        return false;
    }
    let mut begin = 0;
    let mut packets = 0;
    while begin < length && packets < COMPOUND_MAX {
        let rest = datagram.get(begin..).unwrap_or_default();
        let &[first, kind, ..] = rest else {
            return packets > 1;
        };
        let first_kind = if packets == 0 { 200..=207 } else { 194..=213 };
        if first >> 6 != 2 || !first_kind.contains(&kind) {
            return false;
        }
        packets += 1;
        let &[_, _, high, low, ..] = rest else {
            return packets > 1;
        };
        let words = usize::from(u16::from_be_bytes([high, low]));
        begin += 4 + words * 4;
        if words == 0 || begin > length {
            return false;
        }
    }
    packets > 0
}

/// Name of the codec of a static payload type (RFC 3551 section 6).
#[must_use]
pub const fn codec(payload_type: u8) -> &'static str {
    match payload_type {
        0 => "PCMU",
        3 => "GSM",
        4 => "G723",
        5 | 6 | 16 | 17 => "DVI4",
        7 => "LPC",
        8 => "PCMA",
        9 => "G722",
        10 | 11 => "L16",
        12 => "QCELP",
        13 => "CN",
        14 => "MPA",
        15 => "G728",
        18 => "G729",
        25 => "CelB",
        26 => "JPEG",
        28 => "nv",
        31 => "H261",
        32 => "MPV",
        33 => "MP2T",
        34 => "H263",
        96..=127 => "dynamic",
        _ => "unassigned",
    }
}

/// Clock rate of a static payload type in hertz (RFC 3551 section 6).
#[must_use]
pub const fn clock_rate(payload_type: u8) -> Option<u32> {
    match payload_type {
        0 | 3 | 4 | 5 | 7 | 8 | 9 | 12 | 13 | 15 | 18 => Some(8_000),
        6 => Some(16_000),
        10 | 11 => Some(44_100),
        16 => Some(11_025),
        17 => Some(22_050),
        14 | 25 | 26 | 28 | 31..=34 => Some(90_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RTCP feedback, whose type looks like a payload type with the marker bit (found by fuzzing).
    #[test]
    fn no_datagram_is_both_rtp_and_rtcp() {
        let datagram = [
            0x80, 0xcd, 0, 1, 0x67, 0xdb, 0x91, 0x1f, 0x80, 0xc9, 0, 1, 0x1c, 0xff, 0xb7, 0x3f,
        ];
        assert!(is_rtcp(&datagram, datagram.len()));
        assert_eq!(Rtp::plausible(&datagram, datagram.len()), None);
    }

    #[test]
    fn reads_valid_header_and_rejects_invalid_ones() {
        let mut packet = [0u8; 20];
        packet[..12].copy_from_slice(&[0x80, 0x88, 1, 2, 0, 0, 0, 9, 1, 2, 3, 4]);
        let rtp = Rtp::plausible(&packet, 20).unwrap();
        assert_eq!((rtp.payload_type, rtp.marker, rtp.sequence), (8, true, 258));
        assert_eq!((rtp.timestamp, rtp.ssrc), (9, 0x0102_0304));
        for reserved in [72, 76, 192, 200, 205, 223] {
            packet[1] = reserved;
            assert_eq!(Rtp::plausible(&packet, 20), None, "{reserved}");
        }
        packet[1] = 77;
        assert!(Rtp::plausible(&packet, 20).is_some());
        packet[0] = 0x83; // three contributing sources do not fit
        assert_eq!(Rtp::plausible(&packet, 20), None);
        packet[0] = 0x40;
        assert_eq!(Rtp::plausible(&packet, 20), None);
        packet[..2].copy_from_slice(&[0x80, 0xc8]); // RTCP sender report
        assert_eq!(Rtp::plausible(&packet, 20), None);
    }

    #[test]
    fn checks_truncated_header_against_length_on_the_wire() {
        let mut packet = [0u8; 40];
        // Two sources, and an extension of three words.
        packet[..12].copy_from_slice(&[0x92, 0x60, 1, 2, 0, 0, 0, 9, 1, 2, 3, 4]);
        packet[20..24].copy_from_slice(&[0xbe, 0xde, 0, 3]);
        for captured in 0..=packet.len() {
            let found = Rtp::plausible(&packet[..captured], packet.len());
            assert_eq!(found.is_some(), captured >= HEADER_LENGTH, "{captured}");
            // The extension does not fit, if its length was captured.
            let short = Rtp::plausible(&packet[..captured], 35);
            assert_eq!(short.is_some(), (HEADER_LENGTH..24).contains(&captured));
            assert_eq!(Rtp::plausible(&packet[..captured], 23), None);
        }
    }

    #[test]
    fn compound_must_fill_its_datagram() {
        let mut compound = vec![0x80, 201, 0, 1, 1, 2, 3, 4];
        assert!(is_rtcp(&compound, compound.len()));
        compound.extend([0x81, 202, 0, 2, 1, 2, 3, 4, 1, 0, 0, 0]);
        assert!(is_rtcp(&compound, compound.len()));
        compound.push(0);
        assert!(!is_rtcp(&compound, compound.len()));
        assert!(!is_rtcp(&[0x80, 100, 0, 0], 4));
        assert!(!is_rtcp(&[], 0));
    }

    /// A sender report with a report block, a source description, and a goodbye.
    #[test]
    fn truncated_compound_needs_two_headers() {
        let mut compound = vec![0x81, 200, 0, 12];
        compound.resize(52, 0xee);
        compound.extend([0x81, 202, 0, 2, 1, 2, 3, 4, 1, 0, 0, 0]);
        compound.extend([0x81, 203, 0, 1, 1, 2, 3, 4]);
        let length = compound.len();
        for captured in 0..=length {
            let found = is_rtcp(&compound[..captured], length);
            assert_eq!(found, captured >= 54, "{captured}");
            // A single packet that fills its datagram.
            let found = is_rtcp(&compound[..captured.min(52)], 52);
            assert_eq!(found, captured >= 4, "{captured}");
            // The lengths do not fill the datagram.
            for odd in [length - 1, length + 1] {
                assert!(
                    !is_rtcp(&compound[..captured.min(odd)], odd),
                    "{captured} of {odd}"
                );
            }
        }
        // A length beyond the end of the datagram.
        assert!(!is_rtcp(&compound[..4], 48));
        // Encrypted after the first header.
        for captured in 0..=length {
            let mut secure = compound.clone();
            secure[52] = 0x41;
            assert!(!is_rtcp(&secure[..captured], length), "{captured}");
        }
    }
}
