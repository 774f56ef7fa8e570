//! QUIC's long headers (RFC 9000 section 17.2, RFC 9369), and the way to a ClientHello.

pub mod crypto_frame;
pub mod initial;
mod secrets;
pub mod version;

pub use crypto_frame::{CryptoFrame, crypto_frames};
pub use initial::InitialKeys;
pub use version::Version;

use super::reader::Reader;

/// The most bytes of a connection id in the versions that are known.
pub const CONNECTION_ID_MAX: usize = 20;

/// The kinds of packets with a long header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Initial.
    Initial,
    /// 0-RTT.
    ZeroRtt,
    /// Handshake.
    Handshake,
    /// Retry.
    Retry,
    /// Version Negotiation, which has no version.
    VersionNegotiation,
}

/// A packet with a long header of a version that is known.
#[derive(Clone, Copy, Debug)]
pub struct LongPacket<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its version; 0 for Version Negotiation.
    pub version: u32,
    /// Destination connection id.
    pub destination_id: &'a [u8],
    /// Source connection id.
    pub source_id: &'a [u8],
    /// The whole packet; shorter where it was not captured whole.
    pub packet: &'a [u8],
    /// Where its packet number begins (meaningless for Retry and Version Negotiation).
    pub number_at: usize,
    /// Whether the packet is all there.
    pub whole: bool,
}

/// Whether a datagram begins with a long header of a version that is known: all that a stranger costs.
/// Version Negotiation ([`negotiates`]) begins no connection.
#[inline]
#[must_use]
pub fn begins(datagram: &[u8]) -> bool {
    match *datagram {
        [first, a, b, c, d, ..] if first & 0x80 != 0 => {
            let version = u32::from_be_bytes([a, b, c, d]);
            version != 0 && Version::known(version).is_some()
        }
        _ => false,
    }
}

/// Whether a datagram is Version Negotiation: connection ids of a length that there is, and whole
/// versions behind them, one at least, none of them 0 (RFC 9000 section 17.2.1). Who asks knows that
/// it is a server's: RTP's first bytes may be the same.
#[inline]
#[must_use]
pub fn negotiates(datagram: &[u8]) -> bool {
    matches!(datagram, [first, 0, 0, 0, 0, ..] if first & 0x80 != 0)
        && long_packet(datagram).is_some()
}

/// Reads the packet at the beginning of `datagram`, and gives what follows it there (RFC 9000
/// section 12.2); `None` where no long header of a known version begins.
#[must_use]
pub fn long_packet(datagram: &[u8]) -> Option<(LongPacket<'_>, &[u8])> {
    let mut reader = Reader::new(datagram);
    let first = reader.u8()?;
    if first & 0x80 == 0 {
        return None;
    }
    let version = reader.u32()?;
    let id = |reader: &mut Reader<'_>| {
        let length = usize::from(reader.u8()?);
        (length <= CONNECTION_ID_MAX).then_some(length)
    };
    let length = id(&mut reader)?;
    let destination_id = reader.take(length)?;
    let length = id(&mut reader)?;
    let source_id = reader.take(length)?;
    let mut packet = LongPacket {
        kind: Kind::VersionNegotiation,
        version,
        destination_id,
        source_id,
        packet: datagram,
        number_at: datagram.len(),
        whole: true,
    };
    if version == 0 {
        let (versions, rest) = reader.rest().as_chunks();
        let are_versions = !versions.is_empty() && rest.is_empty() && !versions.contains(&[0; 4]);
        return are_versions.then_some((packet, &[]));
    }
    let known = Version::known(version)?;
    // The fixed bit; a server may grease it later, but not in a client's first packet (RFC 9287).
    if first & 0x40 == 0 {
        return None;
    }
    packet.kind = known.kind(first >> 4 & 3);
    if packet.kind == Kind::Retry {
        return Some((packet, &[]));
    }
    if packet.kind == Kind::Initial {
        let token = usize::try_from(reader.variable()?).ok()?;
        reader.take(token)?;
    }
    let length = usize::try_from(reader.variable()?).ok()?;
    packet.number_at = datagram.len() - reader.rest().len();
    packet.whole = reader.rest().len() >= length;
    reader.take_up_to(length);
    packet.packet = &datagram[..datagram.len() - reader.rest().len()];
    Some((packet, reader.rest()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_negotiation_is_told_from_what_begins_alike() {
        let packet = [
            0x80, 0, 0, 0, 0, 1, 7, 2, 8, 8, 0, 0, 0, 1, 0x1a, 0x2a, 0x3a, 0x4a,
        ];
        assert!(negotiates(&packet) && !begins(&packet));
        assert_eq!(long_packet(&packet).unwrap().0.source_id, [8, 8]);
        // No version, parts of one, one that is none, a length that no id has.
        assert!(!negotiates(&packet[..10]) && !negotiates(&packet[..17]));
        let mut odd = packet;
        odd[13] = 0;
        assert!(!negotiates(&odd));
        odd = packet;
        odd[5] = 21;
        assert!(!negotiates(&odd));
        odd = packet;
        odd[0] = 0x40;
        assert!(!negotiates(&odd));
    }
}
