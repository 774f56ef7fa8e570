//! What DNS responses tell clients, for tables that do not see them all.

use super::dns;
use super::resolved::NAME_MAX;
use crate::message::dns::{ADDRESSES_MAX, Header, Message};

/// The addresses of a name, as a client was told them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Nanoseconds since the Unix epoch.
    pub time_ns: i64,
    /// Addresses are numbers as in [`FlowKey`](wire::FlowKey).
    pub client: u128,
    servers: [u128; ADDRESSES_MAX],
    servers_count: usize,
    name: [u8; NAME_MAX],
    name_length: usize,
}

impl Told {
    /// What a datagram tells its receiver, who is not in it yet, if it is a DNS response.
    pub fn of_datagram(bytes: &[u8], time_ns: i64) -> Option<Self> {
        if !Header::read(bytes)?.is_response {
            return None;
        }
        Self::of(&Message::read(bytes)?, time_ns)
    }

    /// What a response tells its receiver, who is not in it yet.
    pub fn of(message: &Message, time_ns: i64) -> Option<Self> {
        let (name, _) = message.question()?;
        let name = name.as_bytes();
        let addresses = message.addresses();
        let mut told = Self {
            time_ns,
            client: 0,
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

    /// The same, told to this client.
    pub const fn to(mut self, client: u128) -> Self {
        self.client = client;
        self
    }

    /// The name that was asked for.
    pub fn name(&self) -> &[u8] {
        &self.name[..self.name_length]
    }

    /// The addresses that it has.
    pub fn servers(&self) -> &[u128] {
        &self.servers[..self.servers_count]
    }
}
