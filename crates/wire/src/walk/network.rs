//! IPv4, and IPv6 with its extension headers.

use super::{Layer, MAX_EXTENSION_HEADERS, Step, Walk};
use crate::ipv4::Ipv4;
use crate::ipv6::Ipv6;
use crate::ipv6_extension::Extension;
use crate::packet_view::{Cut, PacketView};
use crate::{FlowKey, Fragment, Malformed, ip_protocol, work};

/// The most bytes that a reassembled IPv6 payload can have.
const MAX_PAYLOAD_LENGTH: usize = 0xffff;

/// What an IP header is followed by.
#[derive(Clone, Copy)]
pub(super) struct Carried<'a> {
    /// Protocol number.
    pub(super) protocol: u8,
    /// The bytes.
    pub(super) packet: PacketView<'a>,
    /// Whether the IP header has their length: not in a jumbogram, nor in a packet that the sender's device
    /// splits into segments (TSO) after the capture.
    pub(super) has_length: bool,
}

/// Which headers are walked between an IP header and the transport header, and what is wrong if they
/// are.
struct Chain {
    is_member: fn(u8) -> bool,
    truncated: Malformed,
    too_many: Malformed,
}

/// IPv4: the numbers of other extension headers are payload there.
const AUTHENTICATION: Chain = Chain {
    is_member: |protocol| protocol == ip_protocol::AUTHENTICATION,
    truncated: Malformed::AuthenticationTruncated,
    too_many: Malformed::AuthenticationTooMany,
};

/// IPv6.
const EXTENSIONS: Chain = Chain {
    is_member: Extension::is_extension,
    truncated: Malformed::Ipv6ExtensionTruncated,
    too_many: Malformed::Ipv6TooManyExtensions,
};

impl Walk {
    /// An IP packet of the version that its first bits tell.
    pub(super) fn ip<'a>(&mut self, packet: PacketView<'a>) -> Step<'a> {
        match packet.first_nibble() {
            Some(4) => Some((Layer::Ipv4, packet)),
            Some(6) => Some((Layer::Ipv6, packet)),
            Some(_) => self.malformed(Malformed::IpVersionUnknown),
            None if packet.length() > 0 => self.cut(Cut::Capture, Malformed::IpVersionUnknown),
            None => self.malformed(Malformed::IpVersionUnknown),
        }
    }

    pub(super) fn ipv4<'a>(&mut self, packet: PacketView<'a>) -> Step<'a> {
        let (header, rest) = match Ipv4::split(packet) {
            Ok(split) => split,
            Err(cut) => return self.cut(cut, Malformed::Ipv4Truncated),
        };
        if header.version() != 4 {
            return self.malformed(Malformed::Ipv4BadVersion);
        }
        let header_length = header.header_length();
        let Some(options_length) = header_length.checked_sub(Ipv4::LENGTH) else {
            return self.malformed(Malformed::Ipv4HeaderLengthTooShort);
        };

        let fragment = fragment(
            header.fragment_offset(),
            header.more_fragments(),
            Fragment::No,
        );
        let protocol = header.protocol();
        let mut source = [0; 16];
        let mut destination = [0; 16];
        source[..4].copy_from_slice(&header.source());
        destination[..4].copy_from_slice(&header.destination());
        self.take_key(
            FlowKey {
                version: 4,
                protocol,
                source,
                destination,
                ..FlowKey::default()
            },
            fragment,
            packet,
        );

        let total_length = header.total_length();
        let mut limited = rest;
        if total_length > packet.length() {
            self.note(Malformed::Ipv4TotalLengthTooLong);
        } else if total_length >= header_length {
            limited = rest.limit(total_length - Ipv4::LENGTH);
        } else if total_length > 0 {
            // The length is a lie, so it cannot tell where the packet ends; the frame can.
            self.note(Malformed::Ipv4TotalLengthTooShort);
        }
        if fragment != Fragment::No {
            let end = header.fragment_offset() + total_length.saturating_sub(header_length);
            if end > Ipv4::MAX_TOTAL_LENGTH - header_length {
                self.note(Malformed::Ipv4FragmentTooFar);
            }
        }
        if fragment == Fragment::Later {
            if let Ok(payload) = limited.skip(options_length) {
                self.take_payload(payload);
            }
            return None;
        }
        match limited.skip(options_length) {
            Ok(packet) => {
                let carried = Carried {
                    protocol,
                    packet,
                    has_length: total_length > 0,
                };
                if protocol == ip_protocol::AUTHENTICATION {
                    self.extensions(&AUTHENTICATION, carried)
                } else {
                    self.transport(carried)
                }
            }
            Err(cut) => self.cut(cut, Malformed::Ipv4HeaderLengthTooLong),
        }
    }

    pub(super) fn ipv6<'a>(&mut self, packet: PacketView<'a>) -> Step<'a> {
        let (header, rest) = match Ipv6::split(packet) {
            Ok(split) => split,
            Err(cut) => return self.cut(cut, Malformed::Ipv6Truncated),
        };
        if header.version() != 6 {
            return self.malformed(Malformed::Ipv6BadVersion);
        }
        let protocol = header.next_header();
        self.take_key(
            FlowKey {
                version: 6,
                protocol,
                source: header.source(),
                destination: header.destination(),
                ..FlowKey::default()
            },
            Fragment::No,
            packet,
        );

        let payload_length = header.payload_length();
        let has_length = payload_length > 0;
        if payload_length > rest.length() {
            self.note(Malformed::Ipv6PayloadLengthTooLong);
        }
        let packet = if has_length {
            rest.limit(payload_length)
        } else {
            rest
        };
        let carried = Carried {
            protocol,
            packet,
            has_length,
        };
        if Extension::is_extension(protocol) {
            self.extensions(&EXTENSIONS, carried)
        } else {
            self.transport(carried)
        }
    }

    /// Walks over the extension headers. The key's protocol is the last number that was read, so
    /// that a packet whose headers end early is still counted under what is known of it.
    fn extensions<'a>(&mut self, chain: &Chain, carried: Carried<'a>) -> Step<'a> {
        let Carried {
            mut protocol,
            mut packet,
            has_length,
        } = carried;
        let mut is_first = true;
        while (chain.is_member)(protocol) {
            if self.extensions == MAX_EXTENSION_HEADERS {
                return self.malformed(chain.too_many);
            }
            self.extensions += 1;
            work::count(work::CALL);
            if protocol == ip_protocol::HOP_BY_HOP && !is_first {
                self.note(Malformed::Ipv6HopByHopNotFirst);
            }
            is_first = false;
            let length = packet.length();
            let (header, rest) = match Extension::split(packet, protocol) {
                Ok(split) => split,
                Err(cut) => {
                    // What comes next is its first byte: with a whole capture it would be read.
                    if let (Cut::Capture, Some(&next)) = (cut, packet.bytes().first()) {
                        self.headers.key.protocol = next;
                    }
                    return self.cut(cut, chain.truncated);
                }
            };
            let is_fragment = protocol == ip_protocol::FRAGMENT;
            protocol = header.next_header();
            self.headers.key.protocol = protocol;
            if is_fragment {
                let offset = header.fragment_offset();
                self.headers.fragment = match self.headers.fragment {
                    Fragment::No => fragment(offset, header.more_fragments(), Fragment::Atomic),
                    known => known,
                };
                if offset + length - Extension::LENGTH > MAX_PAYLOAD_LENGTH && has_length {
                    self.note(Malformed::Ipv6FragmentTooFar);
                }
                if offset > 0 {
                    self.headers.fragment = Fragment::Later;
                    self.take_payload(rest);
                    return None;
                }
            }
            packet = match rest.skip(header.rest_length()) {
                Ok(rest) => rest,
                Err(cut) => return self.cut(cut, chain.truncated),
            };
        }
        self.transport(Carried {
            protocol,
            packet,
            has_length,
        })
    }
}

/// What the fragment fields say; `whole` where they say that nothing is fragmented.
fn fragment(offset: usize, more: bool, whole: Fragment) -> Fragment {
    match (offset, more) {
        (0, false) => whole,
        (0, true) => Fragment::First,
        _ => Fragment::Later,
    }
}
