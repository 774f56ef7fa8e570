//! DNS answers, for tables that do not receive all DNS responses themselves.

use crate::message::dns::{ADDRESSES_MAX, Header, Message};
use crate::name_cache::NAME_MAX;
use std::net::IpAddr;

/// The addresses that a DNS response gave a client for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsAnswer {
    /// Time of the response, nanoseconds since the Unix epoch.
    pub time_ns: i64,
    /// Address of the client, as a number with the byte order of [`FlowKey`](wire::FlowKey).
    pub client: u128,
    /// Whether the query for it was seen. Otherwise anyone may have sent it.
    pub is_asked: bool,
    servers: [u128; ADDRESSES_MAX],
    servers_count: usize,
    name: [u8; NAME_MAX],
    name_length: usize,
}

impl DnsAnswer {
    /// The answer in a datagram, without its client and as if its query was not seen. `None` if the
    /// datagram is no DNS response, or one without addresses.
    pub fn from_datagram(bytes: &[u8], time_ns: i64) -> Option<Self> {
        if !Header::read(bytes)?.is_response {
            return None;
        }
        Self::from_message(&Message::read(bytes)?, time_ns)
    }

    /// The answer in a response, without its client and as if its query was not seen. `None` if it has
    /// no question or no addresses, or if the name is too long.
    pub fn from_message(message: &Message, time_ns: i64) -> Option<Self> {
        let (name, _) = message.question()?;
        let name = name.as_bytes();
        let addresses = message.addresses();
        let mut answer = Self {
            time_ns,
            client: 0,
            is_asked: false,
            servers: [0; ADDRESSES_MAX],
            servers_count: addresses.len(),
            name: [0; NAME_MAX],
            name_length: name.len(),
        };
        for (server, address) in answer.servers.iter_mut().zip(addresses) {
            *server = address_number(address);
        }
        answer.name.get_mut(..name.len())?.copy_from_slice(name);
        (!addresses.is_empty()).then_some(answer)
    }

    /// The queried name.
    pub fn name(&self) -> &[u8] {
        &self.name[..self.name_length]
    }

    /// The addresses of the name, in the byte order of [`DnsAnswer::client`].
    pub fn servers(&self) -> &[u128] {
        &self.servers[..self.servers_count]
    }
}

/// An address as a number, in the byte order of flow keys.
pub(crate) fn address_number(address: &IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from_le_bytes(address.octets())),
        IpAddr::V6(address) => u128::from_le_bytes(address.octets()),
    }
}
