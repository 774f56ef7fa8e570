//! QUIC packets with long headers (RFC 9000 section 17.2, RFC 9369), and the ClientHello in Initial
//! packets.

pub mod crypto_frame;
pub mod initial;
mod key_cache;
mod secrets;
pub mod version;
pub(crate) mod work;

pub(crate) use crypto_frame::FrameSpan;
pub use crypto_frame::{CryptoFrame, crypto_frames};
pub use initial::InitialKeys;
pub(crate) use key_cache::{ConnectionId, KeyCache};
pub use secrets::Sender;
pub use version::{Kind, Version};

use super::reader::Reader;

/// The longest connection ID in the known versions, in bytes.
pub const CONNECTION_ID_MAX: usize = 20;

/// A packet with a long header of a known version.
#[derive(Clone, Copy, Debug)]
pub struct LongPacket<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its version; 0 for Version Negotiation.
    pub version: u32,
    /// Destination connection ID.
    pub destination_id: &'a [u8],
    /// Source connection ID.
    pub source_id: &'a [u8],
    /// The captured bytes of the packet.
    pub packet: &'a [u8],
    /// Offset of the packet number in the packet. Without meaning for Retry and Version Negotiation.
    pub number_offset: usize,
    /// Whether the packet was captured completely.
    pub is_complete: bool,
}

/// Whether a datagram starts with a long header of a known version. Datagrams of other protocols cost
/// no more than this check. It is false for Version Negotiation, which starts no connection; see
/// [`is_version_negotiation`].
#[inline]
#[must_use]
pub fn has_known_version(datagram: &[u8]) -> bool {
    match *datagram {
        [first, a, b, c, d, ..] if first & 0x80 != 0 => {
            let version = u32::from_be_bytes([a, b, c, d]);
            version != 0 && Version::known(version).is_some()
        }
        _ => false,
    }
}

/// Whether a datagram is Version Negotiation: connection IDs of valid length, followed by one or more
/// versions, none of them 0 (RFC 9000 section 17.2.1). The caller must check that it comes from a
/// server, because RTP can start with the same bytes.
#[inline]
#[must_use]
pub fn is_version_negotiation(datagram: &[u8]) -> bool {
    matches!(datagram, [first, 0, 0, 0, 0, ..] if first & 0x80 != 0)
        && read_long_packet(datagram).is_some()
}

/// Reads the packet at the start of `datagram`, and returns it with the rest of the datagram, which
/// may have more packets (RFC 9000 section 12.2). `None` if there is no long header of a known
/// version.
#[must_use]
pub fn read_long_packet(datagram: &[u8]) -> Option<(LongPacket<'_>, &[u8])> {
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
        number_offset: datagram.len(),
        is_complete: true,
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
        let token = usize::try_from(reader.varint()?).ok()?;
        reader.take(token)?;
    }
    let length = usize::try_from(reader.varint()?).ok()?;
    packet.number_offset = datagram.len() - reader.rest().len();
    packet.is_complete = reader.rest().len() >= length;
    reader.take_up_to(length);
    packet.packet = &datagram[..datagram.len() - reader.rest().len()];
    Some((packet, reader.rest()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_version_negotiation_only() {
        let packet = [
            0x80, 0, 0, 0, 0, 1, 7, 2, 8, 8, 0, 0, 0, 1, 0x1a, 0x2a, 0x3a, 0x4a,
        ];
        assert!(is_version_negotiation(&packet) && !has_known_version(&packet));
        assert_eq!(read_long_packet(&packet).unwrap().0.source_id, [8, 8]);
        // No version, an incomplete one, version 0, an invalid length of an ID, no long header.
        assert!(!is_version_negotiation(&packet[..10]) && !is_version_negotiation(&packet[..17]));
        let mut odd = packet;
        odd[13] = 0;
        assert!(!is_version_negotiation(&odd));
        odd = packet;
        odd[5] = 21;
        assert!(!is_version_negotiation(&odd));
        odd = packet;
        odd[0] = 0x40;
        assert!(!is_version_negotiation(&odd));
    }
}
