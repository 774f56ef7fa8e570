//! DNS: the first question of a flow with its response, and the names of addresses.

use super::L4Payload;
use super::dns_answer::DnsAnswer;
use super::parsers::{DnsRoute, Parsers};
use super::record::{DnsRecord, Incomplete, UnmatchedDns};
use super::state::{DnsState, Nanoseconds};
use super::tcp_stream::Verdict;
use super::text_pool::{TEXT_MAX, TextId};
use crate::message::dns::{Header, Message, OPCODE_UPDATE};
use std::io::Write as _;
use std::net::IpAddr;

/// The port of DNS.
pub(super) const PORT: u16 = 53;

/// Multicast DNS (RFC 6762) and LLMNR (RFC 4795), whose messages are DNS's.
const MULTICAST_DNS: u16 = 5353;
const LLMNR: u16 = 5355;

/// Whether a datagram with these ports can be DNS.
#[inline]
pub(super) fn is_dns_port(source: u16, destination: u16) -> bool {
    source == PORT
        || destination == PORT
        || matches!(source, MULTICAST_DNS | LLMNR)
        || matches!(destination, MULTICAST_DNS | LLMNR)
}

/// Whether a response with these ports answers a client. A multicast response does not: it has no
/// client of its own.
#[inline(always)]
pub fn has_client(source: u16, destination: u16) -> bool {
    source == PORT || destination == PORT
}

/// Whether a TCP stream starts with the length of a DNS message and the message (RFC 1035 section
/// 4.2.2). `None` if there are too few bytes.
pub(super) fn detect_stream(bytes: &[u8]) -> Option<bool> {
    let (&length, message) = bytes.split_first_chunk::<2>()?;
    let length = usize::from(u16::from_be_bytes(length));
    if length < Header::LENGTH {
        return Some(false);
    }
    (message.len() >= Header::LENGTH).then(|| Header::read(message).is_some())
}

/// An address as a number, in the byte order of flow keys.
pub(super) fn address_number(address: &IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from_le_bytes(address.octets())),
        IpAddr::V6(address) => u128::from_le_bytes(address.octets()),
    }
}

/// Appends an IPv4 address as text.
fn push_ipv4(text: &mut Vec<u8>, octets: [u8; 4]) {
    let mut digits = *b"255.255.255.255";
    let mut length = 0;
    for (number, octet) in octets.into_iter().enumerate() {
        if number > 0 {
            digits[length] = b'.';
            length += 1;
        }
        if octet >= 100 {
            digits[length] = b'0' + octet / 100;
            length += 1;
        }
        if octet >= 10 {
            digits[length] = b'0' + octet / 10 % 10;
            length += 1;
        }
        digits[length] = b'0' + octet % 10;
        length += 1;
    }
    text.extend_from_slice(&digits[..length]);
}

impl Parsers {
    /// Reads the message at the start of the next bytes of a TCP stream.
    pub(super) fn read_dns_stream(
        &mut self,
        incomplete: &mut Incomplete,
        state: &mut DnsState,
        segment: &L4Payload<'_>,
        bytes: &[u8],
    ) -> Verdict {
        let Some((&length, rest)) = bytes.split_first_chunk::<2>() else {
            return Verdict::NeedMore;
        };
        let length = usize::from(u16::from_be_bytes(length));
        // Bytes that the snaplen cut off will not arrive, so a truncated message is read as it is.
        let is_captured = segment.payload.len() == segment.payload_length as usize;
        let message = match rest.get(..length) {
            Some(message) => message,
            None if is_captured => return Verdict::NeedMore,
            None => rest,
        };
        let is_truncated = message.len() < length;
        let is_read = length < Header::LENGTH
            || self.read_dns(incomplete, state, segment, message, is_truncated);
        let has_header = !is_truncated || message.len() >= Header::LENGTH;
        if has_header && !is_read {
            return Verdict::Done;
        }
        Verdict::Consumed(2 + length)
    }

    /// Reads a message, of which the end may be missing (`is_truncated`). Returns false if it is not a DNS
    /// message.
    pub(super) fn read_dns(
        &mut self,
        incomplete: &mut Incomplete,
        state: &mut DnsState,
        packet: &L4Payload<'_>,
        bytes: &[u8],
        is_truncated: bool,
    ) -> bool {
        let Some(header) = Header::read(bytes) else {
            if is_truncated && bytes.len() < Header::LENGTH {
                incomplete.add(Incomplete::SNAPLEN);
            }
            return false;
        };
        // A `Message` is more than a kilobyte, so the last one is reused.
        let mut message = match self.dns_message.take() {
            Some(message) => message,
            None => Box::new(Message::from_header(header)),
        };
        if header.is_response {
            if message.reread(bytes) {
                if is_truncated && !message.is_complete {
                    incomplete.add(Incomplete::SNAPLEN);
                }
                self.record_response(incomplete, state, packet, &message);
            } else if is_truncated {
                // The question was not captured, but the ID may still match the query.
                incomplete.add(Incomplete::SNAPLEN);
                message.reset(header);
                self.record_response(incomplete, state, packet, &message);
            }
        } else {
            if state.queries == 0 {
                let is_read = message.reread(bytes);
                if is_truncated && !is_read {
                    incomplete.add(Incomplete::SNAPLEN);
                }
                let message = is_read.then_some(&*message);
                self.record_first_query(incomplete, state, packet, header.id, message);
            }
            state.queries = state.queries.saturating_add(1);
        }
        self.dns_message = Some(message);
        true
    }

    /// Records the first query. A response that arrived earlier stays only if it matches the query.
    fn record_first_query(
        &mut self,
        incomplete: &mut Incomplete,
        state: &mut DnsState,
        packet: &L4Payload<'_>,
        id: u16,
        message: Option<&Message>,
    ) {
        if state.is_answered && !self.matches_query(state, id, packet.direction, message) {
            self.texts.release(state.query);
            self.texts.release(state.addresses);
            *state = DnsState {
                responses: state.responses,
                ..DnsState::default()
            };
        }
        state.id = id;
        state.query_direction = packet.direction;
        state.time = Nanoseconds::new(packet.time_ns);
        if let Some(message) = message {
            self.record_question(incomplete, state, message);
        }
    }

    /// Whether a message belongs to the query in the state: same ID, same direction of the query, and
    /// the same question if the message repeats it. The ID alone is not enough: in multicast DNS, one
    /// flow has the queries and responses of a host, all with ID 0.
    fn matches_query(
        &self,
        state: &DnsState,
        id: u16,
        query_direction: u8,
        message: Option<&Message>,
    ) -> bool {
        let question = message.and_then(Message::question);
        state.id == id
            && state.query_direction == query_direction
            && question.is_none_or(|(name, kind)| {
                let name = name.as_bytes();
                !state.has_question
                    || state.query_type == kind && self.texts.equals_dns_name(state.query, name)
            })
    }

    fn record_question(
        &mut self,
        incomplete: &mut Incomplete,
        state: &mut DnsState,
        message: &Message,
    ) {
        if let Some((name, kind)) = message.question()
            && !state.has_question
        {
            state.query = self.intern(incomplete, name.as_bytes());
            state.query_type = kind;
            state.has_question = true;
        }
    }

    fn record_response(
        &mut self,
        incomplete: &mut Incomplete,
        state: &mut DnsState,
        packet: &L4Payload<'_>,
        message: &Message,
    ) {
        let query_direction = packet.direction ^ 1;
        let has_query = state.queries > 0;
        if !has_query && state.responses == 0 {
            state.id = message.header.id;
            state.query_direction = query_direction;
            state.time = Nanoseconds::new(packet.time_ns);
        }
        let id = message.header.id;
        if !state.is_answered && self.matches_query(state, id, query_direction, Some(message)) {
            state.is_answered = true;
            if has_query {
                state.time = state.time.until(packet.time_ns);
                state.has_latency = true;
            }
            self.record_question(incomplete, state, message);
            state.response_code = message.response_code;
            // In an update, the second count is that of prerequisites (RFC 2136 section 2.2).
            let is_update = message.header.opcode == OPCODE_UPDATE;
            state.answers = if is_update {
                0
            } else {
                message.header.counts[1]
            };
            state.has_ttl = message.ttl_s.is_some();
            state.ttl_s = message.ttl_s.unwrap_or(0);
            state.addresses = self.intern_addresses(incomplete, message);
        }
        state.responses = state.responses.saturating_add(1);
        if has_client(packet.source_port, packet.destination_port) {
            match self.dns_route {
                DnsRoute::Local => self.queue_answers(message),
                DnsRoute::Discard => {}
                DnsRoute::Publish => self
                    .published
                    .extend(DnsAnswer::from_message(message, packet.time_ns)),
            }
        }
    }

    /// Interns the list of the addresses in a response. If it does not fit into a text, the last
    /// addresses are missing.
    fn intern_addresses(&mut self, incomplete: &mut Incomplete, message: &Message) -> TextId {
        let mut list = std::mem::take(&mut self.list_buffer);
        list.clear();
        let mut is_truncated = message.has_more_addresses;
        for address in message.addresses() {
            let length = list.len();
            if !list.is_empty() {
                list.push(b',');
            }
            match address {
                IpAddr::V4(address) => push_ipv4(&mut list, address.octets()),
                IpAddr::V6(address) => drop(write!(list, "{address}")),
            }
            if list.len() > TEXT_MAX {
                list.truncate(length);
                is_truncated = true;
                break;
            }
        }
        if is_truncated {
            incomplete.add(Incomplete::TEXT);
        }
        let text = self.intern(incomplete, &list);
        self.list_buffer = list;
        text
    }

    fn queue_answers(&mut self, message: &Message) {
        if let Some((name, _)) = message.question()
            && !message.addresses().is_empty()
        {
            let name = name.as_bytes();
            if let Some(position) = self.resolved_names.store_name(name) {
                for address in message.addresses() {
                    self.pending_answers
                        .push((address_number(address), position, name.len()));
                }
            }
        }
    }

    /// Adds the pending answers to the cache, for the client of this flow.
    pub(super) fn commit_answers(&mut self, client: u128, time_ns: i64) {
        for (server, position, length) in self.pending_answers.drain(..) {
            self.resolved_names
                .insert(client, server, time_ns, position, length);
        }
    }

    /// Adds an answer to the cache.
    pub(super) fn learn(&mut self, answer: &DnsAnswer) {
        if let Some(position) = self.resolved_names.store_name(answer.name()) {
            for &server in answer.servers() {
                self.resolved_names.insert(
                    answer.client,
                    server,
                    answer.time_ns,
                    position,
                    answer.name().len(),
                );
            }
        }
    }

    /// Returns the record of the messages and releases their texts.
    pub(super) fn dns_record(&mut self, state: &DnsState) -> Option<Box<DnsRecord>> {
        let is_answered = state.is_answered;
        if state.queries == 0 && state.responses == 0 {
            return None;
        }
        let unmatched = UnmatchedDns {
            id: state.id,
            query_direction: state.query_direction,
            time_ns: state.time.get(),
        };
        Some(Box::new(DnsRecord {
            unmatched: (is_answered != (state.queries > 0)).then_some(unmatched),
            query: self.texts.take(state.query),
            query_type: state.has_question.then_some(state.query_type),
            response_code: is_answered.then_some(state.response_code),
            answers: is_answered.then_some(state.answers),
            addresses: self.texts.take(state.addresses),
            ttl_s: state.has_ttl.then_some(state.ttl_s),
            latency_ns: state.has_latency.then_some(state.time.span()),
            queries: state.queries,
            responses: state.responses,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn addresses_are_written_like_std() {
        for octet in 0..=255_u8 {
            let octets = [octet, 255 - octet, octet / 2, octet.wrapping_mul(7)];
            let mut text = b"a".to_vec();
            push_ipv4(&mut text, octets);
            assert_eq!(text, format!("a{}", Ipv4Addr::from(octets)).as_bytes());
        }
    }
}
