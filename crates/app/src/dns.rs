//! DNS messages: the first question and the answer to it, and whose name an address is.

use super::Segment;
use super::reader::{AnswersGo, Reader};
use super::record::{Cut, DnsHalf, DnsRecord};
use super::state::{DnsState, Nanoseconds};
use super::tcp_stream::Verdict;
use super::text_pool::{TEXT_MAX, Text};
use super::told::Told;
use crate::message::dns::{Header, Message, OPCODE_UPDATE};
use std::io::Write as _;
use std::net::IpAddr;

/// The port of DNS.
pub(super) const PORT: u16 = 53;

/// Multicast DNS (RFC 6762) and LLMNR (RFC 4795), whose messages are DNS's.
const MULTICAST_DNS: u16 = 5353;
const LLMNR: u16 = 5355;

/// Whether a datagram between these ports can be DNS.
#[inline]
pub(super) fn is_port(source: u16, destination: u16) -> bool {
    source == PORT
        || destination == PORT
        || matches!(source, MULTICAST_DNS | LLMNR)
        || matches!(destination, MULTICAST_DNS | LLMNR)
}

/// Whether a response between these ports tells its receiver something: a multicast one tells
/// everyone, and no client of its own.
#[inline(always)]
pub fn tells_a_client(source: u16, destination: u16) -> bool {
    source == PORT || destination == PORT
}

/// Whether a TCP stream begins with a DNS message behind its length (RFC 1035 section 4.2.2);
/// `None` where too few bytes are there.
pub(super) fn begins_stream(bytes: &[u8]) -> Option<bool> {
    let (&length, message) = bytes.split_first_chunk::<2>()?;
    let length = usize::from(u16::from_be_bytes(length));
    if length < Header::LENGTH {
        return Some(false);
    }
    (message.len() >= Header::LENGTH).then(|| Header::read(message).is_some())
}

/// An address as a number, as flow keys hold them.
pub(super) fn address_number(address: &IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from_le_bytes(address.octets())),
        IpAddr::V6(address) => u128::from_le_bytes(address.octets()),
    }
}

/// Appends an IPv4 address as text.
fn push_dotted(text: &mut Vec<u8>, octets: [u8; 4]) {
    let mut longest = *b"255.255.255.255";
    let mut at = 0;
    for (number, octet) in octets.into_iter().enumerate() {
        if number > 0 {
            longest[at] = b'.';
            at += 1;
        }
        if octet >= 100 {
            longest[at] = b'0' + octet / 100;
            at += 1;
        }
        if octet >= 10 {
            longest[at] = b'0' + octet / 10 % 10;
            at += 1;
        }
        longest[at] = b'0' + octet % 10;
        at += 1;
    }
    text.extend_from_slice(&longest[..at]);
}

impl Reader {
    /// Reads the messages at the beginning of a TCP stream.
    pub(super) fn read_dns_stream(
        &mut self,
        cut: &mut Cut,
        state: &mut DnsState,
        segment: &Segment<'_>,
        bytes: &[u8],
    ) -> Verdict {
        let Some((&length, rest)) = bytes.split_first_chunk::<2>() else {
            return Verdict::More;
        };
        let length = usize::from(u16::from_be_bytes(length));
        // What was not captured of it does not come.
        let is_captured = segment.payload.len() == segment.payload_length as usize;
        let message = match rest.get(..length) {
            Some(message) => message,
            None if is_captured => return Verdict::More,
            None => rest,
        };
        let is_cut = message.len() < length;
        let is_read =
            length < Header::LENGTH || self.read_dns(cut, state, segment, message, is_cut);
        let has_header = !is_cut || message.len() >= Header::LENGTH;
        if has_header && !is_read {
            return Verdict::Close;
        }
        Verdict::Used(2 + length)
    }

    /// Reads a message, perhaps one whose end was not captured; false where it is none.
    pub(super) fn read_dns(
        &mut self,
        cut: &mut Cut,
        state: &mut DnsState,
        segment: &Segment<'_>,
        bytes: &[u8],
        is_cut: bool,
    ) -> bool {
        let Some(header) = Header::read(bytes) else {
            if is_cut && bytes.len() < Header::LENGTH {
                cut.add(Cut::SNAP_LENGTH);
            }
            return false;
        };
        // It is more than a kilobyte, and lies where the last one lay.
        let mut message = match self.message.take() {
            Some(message) => message,
            None => Box::new(Message::of_header(header)),
        };
        if header.is_response {
            if message.read_again(bytes) {
                if is_cut && !message.whole {
                    cut.add(Cut::SNAP_LENGTH);
                }
                self.note_dns_response(cut, state, segment, &message);
            } else if is_cut {
                // Its question was not captured: it may still be told to be the answer, by its id.
                cut.add(Cut::SNAP_LENGTH);
                message.begin(header);
                self.note_dns_response(cut, state, segment, &message);
            }
        } else {
            if state.queries == 0 {
                let is_read = message.read_again(bytes);
                if is_cut && !is_read {
                    cut.add(Cut::SNAP_LENGTH);
                }
                let message = is_read.then_some(&*message);
                self.note_first_query(cut, state, segment, header.id, message);
            }
            state.queries = state.queries.saturating_add(1);
        }
        self.message = Some(message);
        true
    }

    /// Notes what is asked. A response that was seen before stays only if it is the answer.
    fn note_first_query(
        &mut self,
        cut: &mut Cut,
        state: &mut DnsState,
        segment: &Segment<'_>,
        id: u16,
        message: Option<&Message>,
    ) {
        if state.is_answered && !self.belongs(state, id, segment.direction, message) {
            self.texts.release(state.query);
            self.texts.release(state.addresses);
            *state = DnsState {
                responses: state.responses,
                ..DnsState::default()
            };
        }
        state.id = id;
        state.asked_by = segment.direction;
        state.time = Nanoseconds::new(segment.time_ns);
        if let Some(message) = message {
            self.note_question(cut, state, message);
        }
    }

    /// Whether a message of this id, asked or to be answered to `asked_by`, is of the question that is
    /// told, so far as it repeats it: in multicast DNS one flow has the questions and the responses
    /// of one host, all with the id 0.
    fn belongs(&self, state: &DnsState, id: u16, asked_by: u8, message: Option<&Message>) -> bool {
        let question = message.and_then(Message::question);
        state.id == id
            && state.asked_by == asked_by
            && question.is_none_or(|(name, kind)| {
                let name = name.as_bytes();
                !state.has_query
                    || state.query_type == kind && self.texts.is_name(state.query, name)
            })
    }

    fn note_question(&mut self, cut: &mut Cut, state: &mut DnsState, message: &Message) {
        if let Some((name, kind)) = message.question()
            && !state.has_query
        {
            state.query = self.keep(cut, name.as_bytes());
            state.query_type = kind;
            state.has_query = true;
        }
    }

    fn note_dns_response(
        &mut self,
        cut: &mut Cut,
        state: &mut DnsState,
        segment: &Segment<'_>,
        message: &Message,
    ) {
        let asked_by = segment.direction ^ 1;
        let asked = state.queries > 0;
        if !asked && state.responses == 0 {
            state.id = message.header.id;
            state.asked_by = asked_by;
            state.time = Nanoseconds::new(segment.time_ns);
        }
        let id = message.header.id;
        if !state.is_answered && self.belongs(state, id, asked_by, Some(message)) {
            state.is_answered = true;
            if asked {
                state.time = state.time.until(segment.time_ns);
                state.has_latency = true;
            }
            self.note_question(cut, state, message);
            state.response_code = message.response_code;
            // Of an update the second count is that of its prerequisites (RFC 2136 section 2.2).
            let is_update = message.header.opcode == OPCODE_UPDATE;
            state.answers = if is_update {
                0
            } else {
                message.header.counts[1]
            };
            state.has_ttl = message.ttl_s.is_some();
            state.ttl_s = message.ttl_s.unwrap_or(0);
            state.addresses = self.keep_addresses(cut, message);
        }
        state.responses = state.responses.saturating_add(1);
        if tells_a_client(segment.source_port, segment.destination_port) {
            match self.answers_go {
                AnswersGo::Here => self.keep_answers(message),
                AnswersGo::Nowhere => {}
                AnswersGo::Out => self.told.extend(Told::of(message, segment.time_ns)),
            }
        }
    }

    /// A list of the addresses of a response, as many as fit whole.
    fn keep_addresses(&mut self, cut: &mut Cut, message: &Message) -> Text {
        let mut list = std::mem::take(&mut self.list);
        list.clear();
        let mut is_cut = message.has_more_addresses;
        for address in message.addresses() {
            let there = list.len();
            if !list.is_empty() {
                list.push(b',');
            }
            match address {
                IpAddr::V4(address) => push_dotted(&mut list, address.octets()),
                IpAddr::V6(address) => drop(write!(list, "{address}")),
            }
            if list.len() > TEXT_MAX {
                list.truncate(there);
                is_cut = true;
                break;
            }
        }
        if is_cut {
            cut.add(Cut::TEXT);
        }
        let text = self.keep(cut, &list);
        self.list = list;
        text
    }

    fn keep_answers(&mut self, message: &Message) {
        if let Some((name, _)) = message.question()
            && !message.addresses().is_empty()
        {
            let name = name.as_bytes();
            if let Some(place) = self.resolved.keep(name) {
                for address in message.addresses() {
                    self.answers
                        .push((address_number(address), place, name.len()));
                }
            }
        }
    }

    /// Puts what responses told into the cache, for the client of this flow.
    pub(super) fn note_answers(&mut self, client: u128, time_ns: i64) {
        for (server, place, length) in self.answers.drain(..) {
            self.resolved.insert(client, server, time_ns, place, length);
        }
    }

    /// Puts what a client was told into the cache.
    pub(super) fn hear(&mut self, told: &Told) {
        if let Some(place) = self.resolved.keep(told.name()) {
            for &server in told.servers() {
                self.resolved
                    .insert(told.client, server, told.time_ns, place, told.name().len());
            }
        }
    }

    /// The record of the messages; their texts are given back.
    pub(super) fn dns_record(&mut self, state: &DnsState) -> Option<Box<DnsRecord>> {
        let answered = state.is_answered;
        if state.queries == 0 && state.responses == 0 {
            return None;
        }
        let half = DnsHalf {
            id: state.id,
            asked_by: state.asked_by,
            time_ns: state.time.get(),
        };
        Some(Box::new(DnsRecord {
            half: (answered != (state.queries > 0)).then_some(half),
            query: self.texts.take(state.query),
            query_type: state.has_query.then_some(state.query_type),
            response_code: answered.then_some(state.response_code),
            answers: answered.then_some(state.answers),
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
    fn addresses_are_written_as_std_writes_them() {
        for octet in 0..=255_u8 {
            let octets = [octet, 255 - octet, octet / 2, octet.wrapping_mul(7)];
            let mut text = b"a".to_vec();
            push_dotted(&mut text, octets);
            assert_eq!(text, format!("a{}", Ipv4Addr::from(octets)).as_bytes());
        }
    }
}
