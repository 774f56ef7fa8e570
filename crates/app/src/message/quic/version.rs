//! The QUIC versions whose Initial packets can be read, and their differences.

use hkdf::HkdfExtract;
use sha2::Sha256;
use std::sync::OnceLock;

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

/// The properties of a version that are needed to read its Initial packets.
#[derive(Debug)]
pub struct Version {
    /// Salt of the initial secret.
    pub salt: [u8; 20],
    /// HKDF labels of key, initialization vector and header protection.
    pub labels: Labels,
    /// The kind of packet for each value of the type field.
    kinds: [Kind; 4],
    /// HKDF-Extract keyed with the salt. The salt is hashed only once, for all connections.
    extract: OnceLock<HkdfExtract<Sha256>>,
}

/// HKDF labels, without the prefix that TLS 1.3 adds to all labels.
#[derive(Debug, PartialEq, Eq)]
pub struct Labels {
    /// Key.
    pub key: &'static str,
    /// Initialization vector.
    pub iv: &'static str,
    /// Header protection.
    pub header: &'static str,
}

const LABELS_V1: Labels = Labels {
    key: "quic key",
    iv: "quic iv",
    header: "quic hp",
};

const LABELS_V2: Labels = Labels {
    key: "quicv2 key",
    iv: "quicv2 iv",
    header: "quicv2 hp",
};

const KINDS_V1: [Kind; 4] = [Kind::Initial, Kind::ZeroRtt, Kind::Handshake, Kind::Retry];
const KINDS_V2: [Kind; 4] = [Kind::Retry, Kind::Initial, Kind::ZeroRtt, Kind::Handshake];

const fn first_generation(salt: [u8; 20]) -> Version {
    Version {
        salt,
        labels: LABELS_V1,
        kinds: KINDS_V1,
        extract: OnceLock::new(),
    }
}

/// Version 1 (RFC 9001 section 5.2), and drafts 33 and 34.
static V1: Version = first_generation([
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad,
    0xcc, 0xbb, 0x7f, 0x0a,
]);

/// Drafts 29 to 32.
static DRAFT_29: Version = first_generation([
    0xaf, 0xbf, 0xec, 0x28, 0x99, 0x93, 0xd2, 0x4c, 0x9e, 0x97, 0x86, 0xf1, 0x9c, 0x61, 0x11, 0xe0,
    0x43, 0x90, 0xa8, 0x99,
]);

/// Drafts 23 to 28.
static DRAFT_23: Version = first_generation([
    0xc3, 0xee, 0xf7, 0x12, 0xc7, 0x2e, 0xbb, 0x5a, 0x11, 0xa7, 0xd2, 0x43, 0x2b, 0xb4, 0x63, 0x65,
    0xbe, 0xf9, 0xf5, 0x02,
]);

/// Draft 22.
static DRAFT_22: Version = first_generation([
    0x7f, 0xbc, 0xdb, 0x0e, 0x7c, 0x66, 0xbb, 0xe9, 0x19, 0x3a, 0x96, 0xcd, 0x21, 0x51, 0x9e, 0xbd,
    0x7a, 0x02, 0x64, 0x4a,
]);

/// Google's Q050, whose handshake is not TLS.
static Q050: Version = first_generation([
    0x50, 0x45, 0x74, 0xef, 0xd0, 0x66, 0xfe, 0x2f, 0x9d, 0x94, 0x5c, 0xfc, 0xdb, 0xd3, 0xa7, 0xf0,
    0xd3, 0xb5, 0x6b, 0x45,
]);

/// Google's T050.
static T050: Version = first_generation([
    0x7f, 0xf5, 0x79, 0xe5, 0xac, 0xd0, 0x72, 0x91, 0x55, 0x80, 0x30, 0x4c, 0x43, 0xa2, 0x36, 0x7c,
    0x60, 0x48, 0x83, 0x10,
]);

/// Google's T051.
static T051: Version = first_generation([
    0x7a, 0x4e, 0xde, 0xf4, 0xe7, 0xcc, 0xee, 0x5f, 0xa4, 0x50, 0x6c, 0x19, 0x12, 0x4f, 0xc8, 0xcc,
    0xda, 0x6e, 0x03, 0x3d,
]);

/// Version 2 (RFC 9369 section 3.3).
static V2: Version = Version {
    salt: [
        0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d,
        0xcb, 0xf9, 0xbd, 0x2e, 0xd9,
    ],
    labels: LABELS_V2,
    kinds: KINDS_V2,
    extract: OnceLock::new(),
};

/// Version Negotiation (version 0) has no keys, but must be a known version.
static NEGOTIATION: Version = first_generation([0; 20]);

impl Version {
    /// The version with this number, if it is known.
    #[inline]
    #[must_use]
    pub fn known(number: u32) -> Option<&'static Self> {
        Some(match number {
            0x0000_0001 | 0xff00_0021..=0xff00_0022 => &V1,
            0x6b33_43cf => &V2,
            0xff00_001d..=0xff00_0020 => &DRAFT_29,
            // Facebook's mvfst uses the salts of drafts 27 and 22.
            0xff00_0017..=0xff00_001c | 0xface_b002 | 0xface_b00e => &DRAFT_23,
            0xff00_0016 | 0xface_b001 => &DRAFT_22,
            0x5130_3530 => &Q050,
            0x5430_3530 => &T050,
            0x5430_3531 => &T051,
            0 => &NEGOTIATION,
            _ => return None,
        })
    }

    /// HKDF-Extract keyed with the salt, without input yet.
    pub(super) fn extract(&self) -> HkdfExtract<Sha256> {
        let extract = || HkdfExtract::new(Some(&self.salt));
        self.extract.get_or_init(extract).clone()
    }

    /// The kind of packet for the two bits of the type field.
    #[must_use]
    pub const fn kind(&self, bits: u8) -> Kind {
        self.kinds[(bits & 3) as usize]
    }
}
