//! Fields with a random value in every packet.

use crate::checksum::Sum;
use crate::error::GeneratorError;
use crate::fields::FlowFields;
use crate::frame::{Layout, field, get_u16, put_u16};
use hw::random::Random;
use std::str::FromStr;

/// Selects the fields that have a random value in every packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RandomFields {
    /// Source address, from the range of the flows.
    pub source: bool,
    /// Destination address, from the range of the flows.
    pub destination: bool,
    /// Source port, from the range of the flows.
    pub source_port: bool,
    /// Destination port, from the range of the flows.
    pub destination_port: bool,
    /// TTL or hop limit: 1 to 255.
    pub ttl: bool,
    /// DSCP.
    pub dscp: bool,
    /// IPv4 identification.
    pub identification: bool,
    /// The payload after the probe, if there is one.
    pub payload: bool,
}

impl RandomFields {
    /// Whether the random fields belong to the flow key, so that packets of one flow become many flows.
    #[must_use]
    pub fn changes_flow_key(&self) -> bool {
        self.source || self.destination || self.source_port || self.destination_port
    }

    /// Whether any random field is in a header.
    pub(crate) fn changes_headers(&self) -> bool {
        self.changes_flow_key() || self.ttl || self.dscp || self.identification
    }

    /// Sets the random fields of the headers and updates the IPv4 checksum. Returns the change of the
    /// transport checksum.
    pub(crate) fn randomize(
        &self,
        frame: &mut [u8],
        layout: Layout,
        fields: &FlowFields,
        random: &mut Random,
    ) -> Sum {
        let mut network = Sum::default();
        let (addresses, width) = layout.addresses();
        let mut change = Sum::default();
        let address_fields = [
            (self.source, &fields.source, addresses),
            (self.destination, &fields.destination, addresses + width),
        ];
        for (_, range, at) in address_fields
            .into_iter()
            .filter(|(is_random, ..)| *is_random)
        {
            let address = range.pick(random.bits());
            for (offset, word) in address[..width].chunks_exact(2).enumerate() {
                let at = at + 2 * offset;
                change =
                    change.replace_u16(get_u16(frame, at), u16::from_be_bytes([word[0], word[1]]));
            }
            frame[at..at + width].copy_from_slice(&address[..width]);
        }
        network = network.add_sum(change);
        let transport = layout.transport();
        let port_fields = [
            (self.source_port, fields.source_ports, transport),
            (
                self.destination_port,
                fields.destination_ports,
                transport + 2,
            ),
        ];
        for (_, range, at) in port_fields.into_iter().filter(|(is_random, ..)| *is_random) {
            let port = range.pick(random.bits());
            change = change.replace_u16(get_u16(frame, at), port);
            put_u16(frame, at, port);
        }
        if self.ttl || self.dscp || self.identification {
            let bits = random.bits();
            network = network.add_sum(self.randomize_network(frame, layout, bits));
        }
        if !layout.ipv6 {
            let checksum = network.update(get_u16(frame, field::IPV4_CHECKSUM));
            put_u16(frame, field::IPV4_CHECKSUM, checksum);
        }
        change
    }

    /// Sets random fields of the IP header that the transport checksum does not cover. Returns the change
    /// of the IPv4 checksum.
    fn randomize_network(&self, frame: &mut [u8], layout: Layout, bits: u64) -> Sum {
        let mut change = Sum::default();
        let mut replace = |frame: &mut [u8], at: usize, new: u16| {
            change = change.replace_u16(get_u16(frame, at), new);
            put_u16(frame, at, new);
        };
        let ttl = (((bits & 0xffff) * 255) >> 16) as u8 + 1;
        let dscp = ((bits >> 16) & 0x3f) as u16;
        if layout.ipv6 {
            if self.ttl {
                frame[field::HOP_LIMIT] = ttl;
            }
            if self.dscp {
                // The version, then the traffic class, whose upper six bits are the DSCP.
                put_u16(frame, field::TOS - 1, 0x6000 | dscp << 6);
            }
            return change;
        }
        if self.ttl {
            let protocol = get_u16(frame, field::TTL) & 0xff;
            replace(frame, field::TTL, u16::from(ttl) << 8 | protocol);
        }
        if self.dscp {
            replace(frame, field::TOS - 1, 0x4500 | dscp << 2);
        }
        if self.identification {
            replace(frame, field::IDENTIFICATION, (bits >> 32) as u16);
        }
        change
    }
}

/// Fills a payload, which was zero, with random bytes. Returns the change of the checksum. `payload`
/// must start at an even offset in the segment or datagram.
pub(crate) fn fill_payload(payload: &mut [u8], random: &mut Random) -> Sum {
    for chunk in payload.chunks_mut(8) {
        let bits = random.bits().to_be_bytes();
        chunk.copy_from_slice(&bits[..chunk.len()]);
    }
    Sum::default().add_bytes(payload)
}

impl FromStr for RandomFields {
    type Err = GeneratorError;

    /// Parses a list of `src`, `dst`, `sport`, `dport`, `ttl`, `dscp`, `id` and `payload`.
    fn from_str(text: &str) -> Result<Self, GeneratorError> {
        let mut fields = Self::default();
        for name in text.split(',') {
            let field = match name.trim() {
                "src" => &mut fields.source,
                "dst" => &mut fields.destination,
                "sport" => &mut fields.source_port,
                "dport" => &mut fields.destination_port,
                "ttl" => &mut fields.ttl,
                "dscp" => &mut fields.dscp,
                "id" => &mut fields.identification,
                "payload" => &mut fields.payload,
                other => {
                    return Err(GeneratorError::new(format!(
                        "invalid field '{other}': use src, dst, sport, dport, ttl, dscp, id or payload"
                    )));
                }
            };
            *field = true;
        }
        Ok(fields)
    }
}
