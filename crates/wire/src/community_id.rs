//! Community ID version 1: a flow identifier shared by tools
//! (<https://github.com/corelight/community-id-spec>).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

use crate::{FlowKey, icmp, ip_protocol};

/// Prefix of the Base64 text: the version of the specification.
const PREFIX: [u8; 2] = *b"1:";

/// Base64 text of the 20 bytes of SHA-1.
const TEXT_LENGTH: usize = 28;

/// The Community ID of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommunityId([u8; Self::LENGTH]);

impl CommunityId {
    /// Bytes of a Community ID, all of them ASCII.
    pub const LENGTH: usize = PREFIX.len() + TEXT_LENGTH;

    /// The Community ID of the flow of `key`, in either orientation.
    ///
    /// `icmp_type_code` (type in the high byte) is that of a packet from the key's source to its
    /// destination, and only matters for ICMP and ICMPv6. `seed` is 0 unless the other tools were
    /// given another one. A fragment without a transport header has ports 0.
    #[must_use]
    pub fn new(key: &FlowKey, icmp_type_code: u16, seed: u16) -> Self {
        let [first, second] = endpoints(key, icmp_type_code);
        let address = if key.version == 4 { 4 } else { 16 };
        let mut digest = Sha1::new();
        digest.update(seed.to_be_bytes());
        digest.update(&first.address[..address]);
        digest.update(&second.address[..address]);
        digest.update([key.protocol, 0]);
        if has_ports(key.protocol) {
            digest.update(first.port.to_be_bytes());
            digest.update(second.port.to_be_bytes());
        }
        let digest: [u8; 20] = digest.finalize().into();

        let mut text = [0; Self::LENGTH];
        let (prefix, body) = text.split_at_mut(PREFIX.len());
        prefix.copy_from_slice(&PREFIX);
        let written = STANDARD.encode_slice(digest, body);
        debug_assert_eq!(written.ok(), Some(TEXT_LENGTH));
        Self(text)
    }

    /// The text, as other tools write it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // ASCII by construction, so the default is never taken.
        core::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl core::fmt::Display for CommunityId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.as_str())
    }
}

impl core::fmt::Debug for CommunityId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One side of a flow, as the specification orders them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Endpoint {
    address: [u8; 16],
    port: u16,
}

/// Whether the specification hashes ports, or type and code in their place (ICMP).
const fn has_ports(protocol: u8) -> bool {
    matches!(
        protocol,
        ip_protocol::ICMP
            | ip_protocol::TCP
            | ip_protocol::UDP
            | ip_protocol::ICMPV6
            | ip_protocol::SCTP
    )
}

/// The two endpoints, the lower one first. An ICMP message without a counterpart is one-way: it keeps
/// its order, with type and code as ports.
fn endpoints(key: &FlowKey, icmp_type_code: u16) -> [Endpoint; 2] {
    let [message_type, code] = icmp_type_code.to_be_bytes();
    let counterpart = match key.protocol {
        ip_protocol::ICMP => Some(icmp::counterpart(message_type)),
        ip_protocol::ICMPV6 => Some(icmp::counterpart_v6(message_type)),
        _ => None,
    };
    let (source_port, destination_port, one_way) = match counterpart {
        Some(_) if icmp_type_code == icmp::UNKNOWN => (0, 0, false),
        Some(Some(counterpart)) => (u16::from(message_type), u16::from(counterpart), false),
        Some(None) => (u16::from(message_type), u16::from(code), true),
        None if has_ports(key.protocol) => (key.source_port, key.destination_port, false),
        None => (0, 0, false),
    };
    let source = Endpoint {
        address: key.source,
        port: source_port,
    };
    let destination = Endpoint {
        address: key.destination,
        port: destination_port,
    };
    if one_way || source < destination {
        [source, destination]
    } else {
        [destination, source]
    }
}
