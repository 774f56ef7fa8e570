//! DNS: the first question of a flow with its response, and the names of addresses.

use crate::column::{columns, number, seconds, text};
use crate::message::dns::{self, Header, Message, OPCODE_UPDATE, QUESTION_MAX};
use crate::nanoseconds::Nanoseconds;
use crate::parser::{Context, Parser, Probe, Verdict};
use crate::payload::L4Payload;
use crate::record::{AppRecord, DnsRecord, Incomplete, UnmatchedDns};
use crate::services::Services;
use crate::text_pool::{TEXT_MAX, TextId};
use std::io::Write as _;
use std::net::IpAddr;
use wire::{ip_protocol, work};

/// DNS messages.
#[derive(Debug, Default)]
pub(crate) struct DnsState {
    query: TextId,
    addresses: TextId,
    queries: u32,
    responses: u32,
    ttl_s: u32,
    /// Time of the first query, or of the first response if no query was seen. With `has_latency`,
    /// the time from the query to its response.
    time: Nanoseconds,
    query_type: u16,
    response_code: u16,
    answers: u16,
    /// ID of the first query, or of the first response if no query came before it.
    id: u16,
    /// Direction of that query.
    query_direction: u8,
    has_question: bool,
    /// Whether the response to it was seen.
    is_answered: bool,
    has_ttl: bool,
    has_latency: bool,
    /// For each direction, whether the next bytes of its stream may be any part of a message.
    is_lost: [bool; 2],
}

impl Parser for DnsState {
    /// DNS has no distinctive bytes, so it is looked for on its ports only.
    fn probe(packet: &L4Payload<'_>, bytes: &[u8], _is_start: bool) -> Probe {
        let (source, destination) = (packet.source_port, packet.destination_port);
        if packet.protocol == ip_protocol::TCP {
            return match has_client(source, destination).then(|| detect_stream(bytes)) {
                Some(Some(true)) => Probe::Yes,
                Some(None) => Probe::NeedMore,
                None | Some(Some(false)) => Probe::No,
            };
        }
        if !is_dns_port(source, destination) {
            return Probe::No;
        }
        let is_truncated =
            bytes.len() < Header::LENGTH && packet.payload_length as usize >= Header::LENGTH;
        match Header::read(bytes) {
            None if !is_truncated => Probe::NoOther,
            _ => Probe::Yes,
        }
    }

    fn start(_: &mut Services) -> Self {
        Self::default()
    }

    fn segment(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Verdict {
        if cx.packet.protocol == ip_protocol::TCP {
            return read_dns_stream(cx, self, bytes);
        }
        let is_truncated = bytes.len() < cx.packet.payload_length as usize;
        read_dns(cx, self, bytes, is_truncated.then_some(Incomplete::SNAPLEN));
        Verdict::Consumed(bytes.len())
    }

    fn evict(&mut self, cx: &mut Context<'_>, bytes: &[u8]) {
        if let Some(message) = bytes.get(2..)
            && cx.packet.protocol == ip_protocol::TCP
            && !self.is_lost[cx.direction()]
        {
            read_dns(cx, self, message, Some(Incomplete::default()));
        }
    }

    /// Only what looks like a message is read where the position is lost.
    fn can_skip_gap(&self, direction: usize) -> bool {
        self.is_lost[direction & 1]
    }

    fn message_length(&self, direction: usize, bytes: &[u8]) -> Option<u32> {
        let length = u16::from_be_bytes(*bytes.first_chunk()?);
        (!self.is_lost[direction & 1]).then_some(2 + u32::from(length))
    }

    fn lose_position(&mut self, direction: usize) {
        self.is_lost[direction & 1] = true;
    }

    fn new_connection(&mut self) {
        self.is_lost = [false; 2];
    }

    fn finish(&mut self, cx: &mut Context<'_>, record: &mut AppRecord) {
        let is_answered = self.is_answered;
        if self.queries == 0 && self.responses == 0 {
            return;
        }
        let unmatched = UnmatchedDns {
            id: self.id,
            query_direction: self.query_direction,
            time_ns: self.time.get(),
        };
        record.dns = Some(Box::new(DnsRecord {
            unmatched: (is_answered != (self.queries > 0)
                && self.time.get() != Nanoseconds::UNKNOWN)
                .then_some(unmatched),
            query: cx.services.texts.take(self.query),
            query_type: self.has_question.then_some(self.query_type),
            response_code: is_answered.then_some(self.response_code),
            answers: is_answered.then_some(self.answers),
            addresses: cx.services.texts.take(self.addresses),
            ttl_s: self.has_ttl.then_some(self.ttl_s),
            latency_ns: self.has_latency.then(|| self.time.known_span()).flatten(),
            queries: self.queries,
            responses: self.responses,
        }));
    }
}

/// The port of DNS.
const PORT: u16 = 53;

/// The most messages of a stream that are read with one packet.
pub(crate) const STREAM_MESSAGES_MAX: u16 = 32;

/// The most work for the messages of a stream that are read with one packet: about six usual responses.
/// Further messages are counted, and their names are not read.
pub(crate) const STREAM_WORK_MAX: u16 = 1024;

/// The work of a message, of a query, and of each address, record and label in a response. The unit is
/// about the work for a character of a name.
const MESSAGE_WORK: usize = 128;
const QUERY_WORK: usize = 96;
const ADDRESS_WORK: usize = 32;
const RECORD_WORK: usize = 8;
const LABEL_WORK: usize = 8;

/// Multicast DNS (RFC 6762) and LLMNR (RFC 4795), whose messages are DNS's.
const MULTICAST_DNS: u16 = 5353;
const LLMNR: u16 = 5355;

/// Whether a datagram with these ports can be DNS.
#[inline]
fn is_dns_port(source: u16, destination: u16) -> bool {
    source == PORT
        || destination == PORT
        || matches!(source, MULTICAST_DNS | LLMNR)
        || matches!(destination, MULTICAST_DNS | LLMNR)
}

/// Whether a response with these ports answers a client. A multicast response does not: it has no
/// client of its own.
#[inline]
pub fn has_client(source: u16, destination: u16) -> bool {
    source == PORT || destination == PORT
}

/// Whether a TCP stream starts with the length of a DNS message and the message (RFC 1035 section
/// 4.2.2). `None` if there are too few bytes.
fn detect_stream(bytes: &[u8]) -> Option<bool> {
    let (&length, message) = bytes.split_first_chunk::<2>()?;
    let length = usize::from(u16::from_be_bytes(length));
    if length < Header::LENGTH {
        return Some(false);
    }
    (message.len() >= Header::LENGTH).then(|| Header::read(message).is_some())
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

/// Reads the message at the start of the next bytes of a TCP stream.
fn read_dns_stream(cx: &mut Context<'_>, state: &mut DnsState, bytes: &[u8]) -> Verdict {
    let is_lost = &mut state.is_lost[cx.direction()];
    if *is_lost {
        *is_lost = !begins_message(bytes);
        if *is_lost {
            return Verdict::Consumed(bytes.len());
        }
    }
    if cx.services.dns_messages_left == 0 {
        // More messages than any resolver sends at once. To find the end of each would be work without
        // a bound, so the next segment that begins with a message is where reading continues.
        *is_lost = true;
        cx.common.incomplete.add(Incomplete::REASSEMBLY);
        return Verdict::Consumed(bytes.len());
    }
    let Some((&length, rest)) = bytes.split_first_chunk::<2>() else {
        return Verdict::NeedMore;
    };
    let length = usize::from(u16::from_be_bytes(length));
    // Bytes that the snaplen cut off will not arrive, so a truncated message is read as it is.
    let is_captured = cx.packet.payload.len() == cx.packet.payload_length as usize;
    let message = match rest.get(..length) {
        Some(message) => message,
        None if is_captured => return Verdict::NeedMore,
        None => rest,
    };
    cx.services.dns_messages_left -= 1;
    let is_truncated = message.len() < length;
    let truncated_by = is_truncated.then_some(Incomplete::SNAPLEN);
    let is_read = length < Header::LENGTH || read_dns(cx, state, message, truncated_by);
    let has_header = !is_truncated || message.len() >= Header::LENGTH;
    if has_header && !is_read {
        state.is_lost[cx.direction()] = true;
        return Verdict::Consumed(bytes.len());
    }
    Verdict::Consumed(2 + length)
}

/// Whether a segment certainly begins with the length of a message and the message: a query or a
/// response, with its question.
fn begins_message(bytes: &[u8]) -> bool {
    let Some((&length, message)) = bytes.split_first_chunk::<2>() else {
        return false;
    };
    let message = match message.get(..usize::from(u16::from_be_bytes(length))) {
        Some(whole) => whole,
        None => message,
    };
    let mut question = [0; QUESTION_MAX];
    let mut has_question = || {
        let question = dns::question(message, &mut question)?;
        let class = u16::from_be_bytes(*question.last_chunk()?);
        (1..=255).contains(&class).then_some(())
    };
    Header::read(message).is_some_and(|header| header.opcode == 0 && header.counts[0] == 1)
        && has_question().is_some()
}

/// Reads a message, of which the end may be missing for the reason `truncated_by`. Returns false if it
/// is not a DNS message.
fn read_dns(
    cx: &mut Context<'_>,
    state: &mut DnsState,
    bytes: &[u8],
    truncated_by: Option<Incomplete>,
) -> bool {
    let is_truncated = truncated_by.is_some();
    let reason = truncated_by.unwrap_or_default();
    let Some(header) = Header::read(bytes) else {
        if is_truncated && bytes.len() < Header::LENGTH {
            cx.common.incomplete.add(reason);
        }
        return false;
    };
    if cx.packet.protocol == ip_protocol::TCP && cx.services.dns_work_left == 0 {
        cx.common.incomplete.add(Incomplete::WORK);
        count_unread(cx, state, header);
        return true;
    }
    // A `Message` is more than a kilobyte, so the last one is reused.
    let mut message = match cx.services.dns_message.take() {
        Some(message) => message,
        None => Box::new(Message::from_header(header)),
    };
    if header.is_response {
        if message.reread(bytes) {
            if is_truncated && !message.is_complete {
                cx.common.incomplete.add(reason);
            }
            record_response(cx, state, &message, bytes);
        } else if is_truncated {
            // The question was not captured, but the ID may still match the query.
            cx.common.incomplete.add(reason);
            message.reset(header);
            record_response(cx, state, &message, bytes);
        }
    } else {
        if state.queries == 0 {
            let is_read = message.reread(bytes);
            if is_truncated && !is_read {
                cx.common.incomplete.add(reason);
            }
            let message = is_read.then_some(&*message);
            record_first_query(cx, state, header.id, message);
        }
        if has_client(cx.packet.source_port, cx.packet.destination_port) {
            cx.services.observe_query(cx.packet, bytes);
        }
        state.queries = state.queries.saturating_add(1);
    }
    if message.is_too_long {
        cx.common.incomplete.add(Incomplete::WORK);
    }
    let work = work_of(header, &message);
    work::count(usize::from(work));
    cx.services.dns_work_left = cx.services.dns_work_left.saturating_sub(work);
    cx.services.dns_message = Some(message);
    true
}

/// The work of a message that was read.
fn work_of(header: Header, message: &Message) -> u16 {
    if !header.is_response {
        return QUERY_WORK as u16;
    }
    let name = message
        .question()
        .map_or(0, |(name, _)| name.as_bytes().len());
    let addresses = ADDRESS_WORK * message.addresses().len();
    let labels = LABEL_WORK * usize::from(message.labels);
    let records = RECORD_WORK * usize::from(message.records);
    let work = MESSAGE_WORK + name + labels + addresses + records;
    u16::try_from(work).unwrap_or(u16::MAX)
}

/// Counts a message of which no more than the header is read.
fn count_unread(cx: &mut Context<'_>, state: &mut DnsState, header: Header) {
    if header.is_response {
        state.responses = state.responses.saturating_add(1);
    } else {
        if state.queries == 0 {
            record_first_query(cx, state, header.id, None);
        }
        state.queries = state.queries.saturating_add(1);
    }
}

/// Reads a datagram for the names in it only.
pub(crate) fn read_datagram(services: &mut Services, packet: &L4Payload<'_>) {
    let Some(header) = Header::read(packet.payload) else {
        return;
    };
    if !header.is_response {
        return services.observe_query(packet, packet.payload);
    }
    let mut message = match services.dns_message.take() {
        Some(message) => message,
        None => Box::new(Message::from_header(header)),
    };
    if message.reread(packet.payload) {
        services.observe_response(packet, &message, packet.payload);
    }
    services.dns_message = Some(message);
}

/// Records the first query. A response that arrived earlier stays only if it matches the query.
fn record_first_query(
    cx: &mut Context<'_>,
    state: &mut DnsState,
    id: u16,
    message: Option<&Message>,
) {
    if state.is_answered && !matches_query(cx, state, id, cx.packet.direction, message) {
        cx.services.texts.release(state.query);
        cx.services.texts.release(state.addresses);
        *state = DnsState {
            responses: state.responses,
            ..DnsState::default()
        };
    }
    state.id = id;
    state.query_direction = cx.packet.direction;
    state.time = Nanoseconds::new(cx.packet.time_ns);
    if let Some(message) = message {
        record_question(cx, state, message);
    }
}

/// Whether a message belongs to the query in the state: same ID, same direction of the query, and
/// the same question if the message repeats it. The ID alone is not enough: in multicast DNS, one
/// flow has the queries and responses of a host, all with ID 0.
fn matches_query(
    cx: &Context<'_>,
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
                || state.query_type == kind && cx.services.texts.equals_dns_name(state.query, name)
        })
}

fn record_question(cx: &mut Context<'_>, state: &mut DnsState, message: &Message) {
    if let Some((name, kind)) = message.question()
        && !state.has_question
    {
        state.query = cx.intern(name.as_bytes());
        state.query_type = kind;
        state.has_question = true;
    }
}

/// Records a response, the message `bytes`.
fn record_response(cx: &mut Context<'_>, state: &mut DnsState, message: &Message, bytes: &[u8]) {
    let query_direction = cx.packet.direction ^ 1;
    let has_query = state.queries > 0;
    if !has_query && state.responses == 0 {
        state.id = message.header.id;
        state.query_direction = query_direction;
        state.time = Nanoseconds::new(cx.packet.time_ns);
    }
    let id = message.header.id;
    if !state.is_answered && matches_query(cx, state, id, query_direction, Some(message)) {
        state.is_answered = true;
        if has_query {
            state.time = state.time.until(cx.packet.time_ns);
            state.has_latency = cx.packet.time_ns != Nanoseconds::UNKNOWN;
        }
        record_question(cx, state, message);
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
        state.addresses = intern_addresses(cx, message);
    }
    state.responses = state.responses.saturating_add(1);
    if has_client(cx.packet.source_port, cx.packet.destination_port) {
        cx.services.observe_response(cx.packet, message, bytes);
    }
}

/// Interns the list of the addresses in a response. If it does not fit into a text, the last
/// addresses are missing.
fn intern_addresses(cx: &mut Context<'_>, message: &Message) -> TextId {
    let mut list = std::mem::take(&mut cx.services.list_buffer);
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
        cx.common.incomplete.add(Incomplete::TEXT);
    }
    let text = cx.intern(&list);
    cx.services.list_buffer = list;
    text
}

columns! {
    pub(crate) COLUMNS
    Dns {
        "dnsQueryName" Text "" [] "" "Name of the flow's first DNS question (RFC 1035 section 4.1.2), escaped as in RFC 4343 section 2.1. The flow itself says it."
            = |r| text(r.dns.as_ref().map(|d| &d.query));
        "dnsQueryType" Number "" [] "" "Type of that question (IANA Resource Record TYPEs)."
            = |r| number(r.dns.as_ref().and_then(|d| d.query_type));
        "dnsResponseCode" Number "" [] "" "Response code of the response to that question, or of the flow's first response if no query was seen, including the upper bits from EDNS (RFC 1035 section 4.1.1, RFC 6891 section 6.1.3): 0 is NOERROR, 3 is NXDOMAIN. Without the upper bits if their record was not captured."
            = |r| number(r.dns.as_ref().and_then(|d| d.response_code));
        "dnsAnswerCount" Number "records" [] "" "Number of answers in that response, from its header (ANCOUNT, RFC 1035 section 4.1.1); 0 for an update (RFC 2136)."
            = |r| number(r.dns.as_ref().and_then(|d| d.answers));
        "dnsAnswerAddresses" Text "" [] "" "IPv4 and IPv6 addresses in these answers (A, RFC 1035 section 3.4.1; AAAA, RFC 3596 section 2.2), separated by commas. If there are more than 32, or more than fit into 320 bytes or were captured, only the first ones, and namesCut has a bit set."
            = |r| text(r.dns.as_ref().map(|d| &d.addresses));
        "dnsTtlMinimumSeconds" Number "seconds" [] "" "Smallest TTL of these answers (RFC 1035 section 4.1.3). Empty if one of them could not be read."
            = |r| number(r.dns.as_ref().and_then(|d| d.ttl_s));
        "dnsLatencySeconds" Real "seconds" [] "" "Time from the flow's first query, which may be in the previous record, to that response."
            = |r| seconds(r.dns.as_ref().and_then(|d| d.latency_ns));
        "dnsQueryCount" Number "messages" [] "" "Number of DNS queries in the flow."
            = |r| number(r.dns.as_ref().map(|d| d.queries));
        "dnsResponseCount" Number "messages" [] "" "Number of DNS responses in the flow."
            = |r| number(r.dns.as_ref().map(|d| d.responses));
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
