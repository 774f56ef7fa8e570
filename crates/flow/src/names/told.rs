//! What DNS responses tell clients, for tables that do not see them all.

use super::dns;
use super::resolved::NAME_MAX;
use crate::batch::{Batch, Payloads};
use wire::app::dns::{ADDRESSES_MAX, Header, Message};
use wire::{Segment, ip_protocol};

/// The addresses of a name, as a client was told them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Nanoseconds since the Unix epoch.
    pub(super) time_ns: i64,
    /// Addresses are numbers as in [`FlowKey`](wire::FlowKey).
    pub(super) client: u128,
    servers: [u128; ADDRESSES_MAX],
    servers_count: usize,
    name: [u8; NAME_MAX],
    name_length: usize,
}

impl Told {
    /// What packet `index` of `batch` tells its receiver, if it is a DNS response: a datagram, or the
    /// only segment of one.
    #[must_use]
    pub fn overhear(batch: &Batch, index: usize, payloads: &impl Payloads) -> Option<Self> {
        let segment = batch.segments().get(index)?;
        if !dns::tells_a_client(segment.source_port, segment.destination_port) {
            return None;
        }
        let bytes = message_of(segment, payloads.payload(batch, segment))?;
        if !Header::read(bytes)?.is_response {
            return None;
        }
        let packet = &batch.packets()[index];
        let key = batch.flow_key(index);
        let receiver = if packet.direction == 0 {
            key.destination
        } else {
            key.source
        };
        let message = Message::read(bytes)?;
        Self::of(&message, u128::from_le_bytes(receiver), packet.time_ns)
    }

    fn of(message: &Message, client: u128, time_ns: i64) -> Option<Self> {
        let (name, _) = message.question()?;
        let name = name.as_str().as_bytes();
        let addresses = message.addresses();
        let mut told = Self {
            time_ns,
            client,
            servers: [0; ADDRESSES_MAX],
            servers_count: addresses.len(),
            name: [0; NAME_MAX],
            name_length: name.len(),
        };
        for (server, address) in told.servers.iter_mut().zip(addresses) {
            *server = dns::address_number(address);
        }
        told.name.get_mut(..name.len())?.copy_from_slice(name);
        (!addresses.is_empty()).then_some(told)
    }

    pub(super) fn name(&self) -> &[u8] {
        &self.name[..self.name_length]
    }

    pub(super) fn servers(&self) -> &[u128] {
        &self.servers[..self.servers_count]
    }
}

/// The DNS message that is all there is in a payload.
fn message_of<'a>(segment: &Segment, payload: &'a [u8]) -> Option<&'a [u8]> {
    match segment.transport {
        ip_protocol::UDP => Some(payload),
        ip_protocol::TCP => {
            let (&length, message) = payload.split_first_chunk::<2>()?;
            (usize::from(u16::from_be_bytes(length)) == message.len()).then_some(message)
        }
        _ => None,
    }
}
