//! HTTP/1: the first request and response, and the number of all.
//!
//! Each side is followed from message to message: a head is read once it is complete, and the body
//! after it is skipped by its length or its chunks, or up to the end of the connection. Which request a
//! response answers is remembered, because the answer to some requests has no body.

use crate::column::{columns, number, seconds, text};
use crate::message::http::{self, Detected, Head, Length, METHOD_MAX, Method};
use crate::message::tls;
use crate::nanoseconds::Nanoseconds;
use crate::parser::{Context, Parser, Probe, Verdict};
use crate::payload::L4Payload;
use crate::record::{AppRecord, AppText, HttpRecord, Incomplete};
use crate::services::Services;
use crate::text_pool::{TEXT_MAX, TextId};
use wire::work;

/// HTTP/1 messages.
#[derive(Debug, Default)]
pub(crate) struct HttpState {
    method: Option<Method>,
    host: TextId,
    /// With [`Method::OTHER`], it starts with the method and a space.
    target: TextId,
    user_agent: TextId,
    content_type: TextId,
    requests: u32,
    responses: u32,
    /// Time of the first request; with `has_first_byte`, the time from there to the first response,
    /// unknown if the response came first.
    time: Nanoseconds,
    /// Status code of the first final response, or of an interim one before it.
    status: u16,
    has_first_byte: bool,
    /// Direction of the client, plus 1; 0 if it is unknown.
    client: u8,
    unanswered: Unanswered,
    sides: [Side; 2],
}

/// What comes next in a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    /// A message, or the rest of one of which the start was not captured.
    #[default]
    First,
    /// A message.
    Message,
    /// A message or, after CONNECT, a tunnel with any protocol.
    MessageOrTunnel,
    /// Unknown bytes. A message is looked for at the start of segments.
    Lost,
    /// The line with the size of a chunk.
    ChunkSize,
    /// The line end after a chunk.
    ChunkEnd,
    /// Lines up to an empty one, then a message: the trailer of a chunked body.
    Trailer,
    /// The rest of such a line.
    TrailerLine,
    /// Lines up to an empty one, then unknown bytes: the end of a head that was too long.
    HeadEnd,
    /// The rest of such a line.
    HeadEndLine,
    /// Another protocol, up to the end of the connection. Only TLS is looked for.
    Tunnel,
    /// A body, up to the end of the connection.
    Body,
}

/// One direction of the connection.
#[derive(Debug, Default)]
struct Side {
    /// Before `next`, this number of blocks of a body is skipped ([`BLOCK`]).
    blocks: u8,
    next: Next,
}

/// Bytes of a long body that are skipped at a time. A stream skips less than 4 GiB.
const BLOCK: u64 = 1 << 30;

impl Side {
    /// Skips `length` bytes of a body before what is next. Returns how many of them to skip now.
    fn skip_body(&mut self, length: u64) -> usize {
        match u8::try_from(length / BLOCK) {
            Ok(blocks) => self.blocks = blocks,
            // A longer body is not followed to its end.
            Err(_) => self.next = Next::Body,
        }
        (length % BLOCK) as usize
    }
}

/// Requests whose responses have no body or open a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Any other request.
    Common = 0,
    /// HEAD.
    Head = 1,
    /// CONNECT.
    Connect = 2,
}

/// The kinds of the requests without a final response, in order.
#[derive(Debug, Default)]
struct Unanswered {
    /// Two bits for each of the first ones, from the lowest. Later ones are common.
    kinds: u16,
    count: u8,
    /// Whether a later one is not common.
    is_full: bool,
}

impl Unanswered {
    const MAX: u8 = 8;

    fn push(&mut self, kind: Kind) {
        if self.count < Self::MAX {
            self.kinds |= (kind as u16) << (2 * self.count);
        } else if kind != Kind::Common {
            self.is_full = true;
        }
        self.count = self.count.saturating_add(1);
    }

    /// Removes the request that the next response answers. `None` if it was not seen.
    fn pop(&mut self) -> Option<Kind> {
        self.count = self.count.checked_sub(1)?;
        let kind = self.kinds & 3;
        self.kinds >>= 2;
        Some(match kind {
            1 => Kind::Head,
            2 => Kind::Connect,
            _ => Kind::Common,
        })
    }
}

/// What the next bytes of a direction are.
enum Step {
    /// This number of bytes is read or to be skipped. They may be yet to come.
    Used(usize),
    /// More bytes are needed.
    NeedMore,
    /// A hello of TLS.
    Tls,
    /// No message. The next segment may start with one.
    NoMessage,
}

impl Parser for HttpState {
    /// A request with an unknown method is detected by its first line, but only at the start of a
    /// stream.
    fn probe(packet: &L4Payload<'_>, bytes: &[u8], is_start: bool) -> Probe {
        Self::probe_again(packet, bytes, is_start, 0)
    }

    fn probe_again(_: &L4Payload<'_>, bytes: &[u8], is_start: bool, seen: usize) -> Probe {
        let detected = match is_start {
            true => http::detect_by_line(bytes, seen),
            false => http::detect(bytes),
        };
        match detected {
            Detected::Request | Detected::Response => Probe::Yes,
            Detected::NeedMore => Probe::NeedMore,
            Detected::No => Probe::No,
        }
    }

    fn start(_: &mut Services) -> Self {
        Self::default()
    }

    /// Reads messages.
    fn segment(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Verdict {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let seen = match at {
                0 => cx.progress.seen,
                _ => {
                    cx.progress = cx.progress_at_packet();
                    0
                }
            };
            at = match self.step(cx, rest) {
                Step::Used(used) => at.saturating_add(used),
                // Bytes that another segment brought may start a message.
                Step::NoMessage if seen > 0 => at + seen,
                Step::NoMessage => bytes.len(),
                Step::NeedMore if at == 0 => return Verdict::NeedMore,
                Step::Tls if at == 0 => return Verdict::StartTls,
                Step::NeedMore | Step::Tls => break,
            };
        }
        Verdict::Consumed(at)
    }

    /// Reads the complete lines of a head that remains incomplete.
    fn evict(&mut self, cx: &mut Context<'_>, bytes: &[u8]) {
        let direction = cx.direction();
        match self.role(direction, bytes) {
            Some(Role::Client) if self.detect_request(direction, bytes, 0) == Detected::Request => {
                if let Head::Partial(head) | Head::Complete(head, _) = http::parse_request(bytes) {
                    self.record_request(cx, &head);
                    self.sides[direction].next = Next::HeadEnd;
                    return;
                }
            }
            Some(Role::Server) => {
                if let Head::Partial(head) | Head::Complete(head, _) = http::parse_response(bytes) {
                    self.record_response(cx, &head);
                    self.unanswered.pop();
                    self.sides[direction].next = Next::HeadEnd;
                    return;
                }
            }
            _ => {}
        }
        self.lose_position(direction);
    }

    fn is_first(bytes: &[u8]) -> bool {
        http::detect_by_line(bytes, 0) == Detected::Request
    }

    /// A hello of TLS, which needs nothing that came before it.
    fn can_continue_at(bytes: &[u8]) -> bool {
        matches!(tls::detect(bytes), tls::Detected::Hello(_))
    }

    /// What follows the part of a head that fits into a buffer is skipped line by line.
    fn message_length(&self, _: usize, bytes: &[u8]) -> Option<u32> {
        u32::try_from(bytes.len()).ok()
    }

    fn can_skip_gap(&self, direction: usize) -> bool {
        matches!(self.sides[direction].next, Next::Lost | Next::Tunnel)
    }

    fn lose_position(&mut self, direction: usize) {
        let side = &mut self.sides[direction];
        side.blocks = 0;
        if !matches!(side.next, Next::Tunnel | Next::Body) {
            side.next = Next::Lost;
        }
    }

    fn new_connection(&mut self) {
        self.sides = Default::default();
        self.unanswered = Unanswered::default();
        self.client = 0;
    }

    /// The next record must not take part of a body for a message.
    fn is_partial(&self) -> bool {
        true
    }

    fn snapshot(&mut self, cx: &mut Context<'_>, record: &mut AppRecord) {
        self.finish(cx, record);
        *self = Self {
            client: self.client,
            unanswered: std::mem::take(&mut self.unanswered),
            sides: std::mem::take(&mut self.sides),
            ..Self::default()
        };
    }

    fn finish(&mut self, cx: &mut Context<'_>, record: &mut AppRecord) {
        if self.requests == 0 && self.responses == 0 {
            return;
        }
        let texts = &mut cx.services.texts;
        let mut method = self.method.map(|it| AppText::const_new(it.name()));
        let mut target = texts.take(self.target);
        if self.method == Some(Method::OTHER) {
            let line = target.as_deref().and_then(|line| line.split_once(' '));
            (method, target) = line.map(|(it, target)| (it.into(), target.into())).unzip();
        }
        record.http = Some(Box::new(HttpRecord {
            method,
            host: texts.take(self.host),
            target,
            user_agent: texts.take(self.user_agent),
            status: (self.responses > 0).then_some(self.status),
            content_type: texts.take(self.content_type),
            requests: self.requests,
            responses: self.responses,
            first_byte_ns: self.time.known_span().filter(|_| self.has_first_byte),
        }));
    }
}

/// Who sends the bytes of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Client,
    Server,
}

impl HttpState {
    /// The role of a side, by its first message `bytes` if it is not known yet.
    fn role(&self, direction: usize, bytes: &[u8]) -> Option<Role> {
        match self.client {
            0 => match http::detect(bytes) {
                Detected::Response => Some(Role::Server),
                Detected::NeedMore if bytes.starts_with(b"HT") => None,
                _ => Some(Role::Client),
            },
            client if usize::from(client) == direction + 1 => Some(Role::Client),
            _ => Some(Role::Server),
        }
    }

    /// Reads the next part of a direction.
    fn step(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Step {
        work::count(work::CALL);
        let side = &mut self.sides[cx.direction()];
        if side.blocks > 0 {
            side.blocks -= 1;
            return Step::Used(BLOCK as usize);
        }
        match side.next {
            Next::First | Next::Message | Next::MessageOrTunnel | Next::Lost => {
                self.read_message(cx, bytes)
            }
            Next::ChunkSize | Next::ChunkEnd => side.read_chunk_line(bytes, cx.progress.seen),
            Next::Trailer | Next::TrailerLine | Next::HeadEnd | Next::HeadEndLine => {
                side.skip_line(bytes)
            }
            Next::Tunnel if !tls::may_start(bytes[0]) => Step::NoMessage,
            Next::Tunnel => match tls::detect(bytes) {
                tls::Detected::Hello(_) => Step::Tls,
                tls::Detected::NeedMore => Step::NeedMore,
                tls::Detected::No => Step::NoMessage,
            },
            Next::Body => Step::Used(usize::MAX),
        }
    }

    /// Reads a message, or TLS in the tunnel of a proxy (CONNECT) or after an upgrade (RFC 2817).
    fn read_message(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Step {
        let step = match *bytes {
            [b'\n', ..] => Step::Used(1),
            [b'\r', b'\n', ..] => Step::Used(2),
            [b'\r'] => Step::NeedMore,
            [first, ..] if tls::may_start(first) => match tls::detect(bytes) {
                tls::Detected::Hello(_) => Step::Tls,
                tls::Detected::NeedMore => Step::NeedMore,
                tls::Detected::No => Step::NoMessage,
            },
            _ => match self.role(cx.direction(), bytes) {
                None => Step::NeedMore,
                Some(Role::Client) => self.read_request(cx, bytes),
                Some(Role::Server) => self.read_response(cx, bytes),
            },
        };
        if matches!(step, Step::NoMessage) {
            let side = &mut self.sides[cx.direction()];
            side.next = match side.next {
                Next::MessageOrTunnel => Next::Tunnel,
                _ => Next::Lost,
            };
        }
        step
    }

    /// Detects a request. In unknown bytes, one with an unknown method is not looked for: its start
    /// may be missing.
    fn detect_request(&self, direction: usize, bytes: &[u8], seen: usize) -> Detected {
        match self.sides[direction].next {
            Next::Lost => http::detect(bytes),
            _ => http::detect_by_line(bytes, seen),
        }
    }

    fn read_request(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Step {
        let direction = cx.direction();
        let seen = cx.progress.seen;
        if cx.progress.note == LINE_READ {
            if !http::ends_after(bytes, seen) {
                return Step::NeedMore;
            }
        } else {
            let detected = match cx.progress.note {
                LINE_STARTED => Detected::Request,
                _ => self.detect_request(direction, bytes, seen),
            };
            match detected {
                Detected::Request => {}
                Detected::NeedMore => return Step::NeedMore,
                Detected::Response | Detected::No => return Step::NoMessage,
            }
            if http::line_end(bytes, seen).is_none() {
                cx.progress.note = LINE_STARTED;
                return match http::is_partial_line(bytes, seen) {
                    true => Step::NeedMore,
                    false => Step::NoMessage,
                };
            }
        }
        match http::parse_request(bytes) {
            Head::Complete(head, length) => {
                self.record_request(cx, &head);
                let side = &mut self.sides[direction];
                let body = side.start_body(head.fields.length, Next::Message);
                if head.method.name() == "CONNECT" && side.next == Next::Message && body == 0 {
                    side.next = Next::MessageOrTunnel;
                }
                Step::Used(length.saturating_add(body))
            }
            Head::Partial(_) => {
                cx.progress.note = LINE_READ;
                Step::NeedMore
            }
            Head::PartialLine => Step::NeedMore,
            Head::Invalid => Step::NoMessage,
        }
    }

    fn read_response(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Step {
        match http::starts_response(bytes) {
            Detected::Response => {}
            Detected::NeedMore => return Step::NeedMore,
            _ => return Step::NoMessage,
        }
        // Any text may follow the status code, so that a head that has started stays valid.
        let seen = cx.progress.seen;
        if cx.progress.note == LINE_READ && !http::ends_after(bytes, seen) {
            return Step::NeedMore;
        }
        match http::parse_response(bytes) {
            Head::Complete(head, length) => {
                self.record_response(cx, &head);
                let after = bytes.get(length..).unwrap_or_default();
                let body = self.start_response_body(cx, &head, after);
                Step::Used(length.saturating_add(body))
            }
            Head::Partial(_) | Head::PartialLine => {
                cx.progress.note = LINE_READ;
                Step::NeedMore
            }
            Head::Invalid => Step::NoMessage,
        }
    }

    /// Starts the body of a response (RFC 9112 section 6.3). `after` are the bytes after its head, as
    /// far as there are. Returns how many bytes of the body to skip.
    fn start_response_body(
        &mut self,
        cx: &mut Context<'_>,
        head: &http::Response<'_>,
        after: &[u8],
    ) -> usize {
        let server = cx.direction();
        let status = head.status;
        if status == 101 {
            for side in &mut self.sides {
                side.next = Next::Tunnel;
            }
            return 0;
        }
        let is_interim = (100..200).contains(&status);
        let kind = if is_interim {
            None
        } else {
            self.unanswered.pop()
        };
        if !is_interim && self.unanswered.is_full {
            cx.common.incomplete.add(Incomplete::REASSEMBLY);
        }
        let has_body = !is_interim
            && !matches!(status, 204 | 304)
            && kind != Some(Kind::Head)
            // The request was not seen, but what follows is not its body.
            && (kind.is_some() || http::starts_response(after) != Detected::Response);
        let side = &mut self.sides[server];
        if kind == Some(Kind::Connect) && (200..300).contains(&status) {
            side.next = Next::MessageOrTunnel;
            0
        } else if has_body {
            // After an unseen request that may have been CONNECT, TLS is looked for.
            let end = match kind {
                Some(_) => Next::Body,
                None => Next::Tunnel,
            };
            side.start_body(head.fields.length, end)
        } else {
            side.next = Next::Message;
            0
        }
    }

    fn record_request(&mut self, cx: &mut Context<'_>, head: &http::Request<'_>) {
        let direction = cx.direction();
        self.client = direction as u8 + 1;
        if self.sides[1 - direction].next == Next::Lost {
            // The answers to earlier requests are among the lost bytes.
            self.unanswered = Unanswered::default();
        }
        self.unanswered.push(match head.method.name() {
            "HEAD" => Kind::Head,
            "CONNECT" => Kind::Connect,
            _ => Kind::Common,
        });
        if self.requests == 0 {
            if !self.has_first_byte {
                self.time = Nanoseconds::new(cx.packet.time_ns);
            }
            self.method = Some(head.method);
            self.host = cx.intern(head.host().unwrap_or_default());
            self.record_target(cx, head);
            self.user_agent = cx.intern(head.fields.user_agent.unwrap_or_default());
        }
        self.requests = self.requests.saturating_add(1);
    }

    fn record_target(&mut self, cx: &mut Context<'_>, head: &http::Request<'_>) {
        let target = head.target;
        let kept = &target[..target.len().min(TARGET_MAX)];
        if kept.len() < target.len() {
            cx.common.incomplete.add(Incomplete::TEXT);
        }
        self.target = if head.method == Method::OTHER {
            let mut line = std::mem::take(&mut cx.services.list_buffer);
            line.clear();
            line.extend_from_slice(head.method_name.as_bytes());
            line.push(b' ');
            line.extend_from_slice(kept);
            let text = cx.intern(&line);
            cx.services.list_buffer = line;
            text
        } else {
            cx.intern(kept)
        };
    }

    fn record_response(&mut self, cx: &mut Context<'_>, head: &http::Response<'_>) {
        self.client = 2 - cx.direction() as u8;
        if !self.has_first_byte {
            let start = cx.progress.start_ns;
            // A response before any request answers one that was not seen.
            let is_answer = self.requests > 0 && start >= self.time.get();
            self.time = match is_answer {
                true => self.time.until(start),
                false => Nanoseconds::new(Nanoseconds::UNKNOWN),
            };
            self.has_first_byte = true;
        }
        if self.responses == 0 || (100..200).contains(&self.status) && self.status != 101 {
            self.status = head.status;
            cx.services.texts.release(self.content_type);
            self.content_type = cx.intern(head.fields.content_type.unwrap_or_default());
        }
        self.responses = self.responses.saturating_add(1);
    }
}

impl Side {
    /// Starts the body after a head. `end` is what comes next if the head gives no length. Returns
    /// how many bytes of the body to skip.
    fn start_body(&mut self, length: Length, end: Next) -> usize {
        self.next = match length {
            Length::Bytes(_) => Next::Message,
            Length::Chunked => Next::ChunkSize,
            // A request without a length has no body, but one with an invalid length may have any.
            Length::Unknown if end == Next::Message => Next::Lost,
            Length::None | Length::Unknown => end,
        };
        match length {
            Length::Bytes(bytes) => self.skip_body(bytes),
            _ => 0,
        }
    }

    /// Reads the line before or after a chunk.
    fn read_chunk_line(&mut self, bytes: &[u8], seen: usize) -> Step {
        let Some(end) = http::line_end(bytes, seen) else {
            if bytes.len() < CHUNK_LINE_MAX {
                return Step::NeedMore;
            }
            self.next = Next::Body;
            return Step::Used(bytes.len());
        };
        let line = http::without_line_end(&bytes[..end]);
        let size = match self.next {
            Next::ChunkEnd if line.is_empty() => {
                self.next = Next::ChunkSize;
                return Step::Used(end);
            }
            Next::ChunkSize => http::chunk_size(line),
            _ => None,
        };
        self.next = match size {
            Some(0) => Next::Trailer,
            Some(_) => Next::ChunkEnd,
            // The length of an invalid body is not known.
            None => Next::Body,
        };
        Step::Used(end.saturating_add(self.skip_body(size.unwrap_or(0))))
    }

    /// Skips a line of a trailer, or of the end of a head.
    fn skip_line(&mut self, bytes: &[u8]) -> Step {
        let (line, rest, after) = match self.next {
            Next::Trailer | Next::TrailerLine => (Next::Trailer, Next::TrailerLine, Next::Message),
            _ => (Next::HeadEnd, Next::HeadEndLine, Next::Lost),
        };
        let is_start = self.next == line;
        if is_start && bytes == b"\r" {
            return Step::NeedMore;
        }
        let end = http::line_end(bytes, 0);
        let length = end.unwrap_or(bytes.len());
        let is_empty = is_start && http::without_line_end(&bytes[..length]).is_empty();
        self.next = match end {
            None => rest,
            Some(_) if is_empty => after,
            Some(_) => line,
        };
        Step::Used(length)
    }
}

/// Note on the progress in a head: its first line is valid.
const LINE_READ: u16 = 1;

/// Note on the progress in a head: its first line starts like a request.
const LINE_STARTED: u16 = 2;

/// The longest line with the size of a chunk, in bytes.
const CHUNK_LINE_MAX: usize = 4096;

/// The most bytes of a target that are kept. It is lower than for other texts, because flows rarely
/// share targets.
const TARGET_MAX: usize = 255;

/// An unknown method and its target are one text, which must not be truncated.
const _: () = assert!(METHOD_MAX + 1 + TARGET_MAX <= TEXT_MAX);

columns! {
    pub(crate) COLUMNS
    Http {
        "httpRequestMethod" Text "" [459] "" "Method of the flow's first HTTP/1 request (RFC 9112 section 3.1)."
            = |r| text(r.http.as_ref().map(|h| &h.method));
        "httpRequestHost" Text "" [460] "" "Host field of that request (RFC 9110 section 7.2). The flow's own client says it."
            = |r| text(r.http.as_ref().map(|h| &h.host));
        "httpRequestTarget" Text "" [461] "" "Target of that request as sent (RFC 9112 section 3.2), up to 255 bytes."
            = |r| text(r.http.as_ref().map(|h| &h.target));
        "httpUserAgent" Text "" [468] "" "User-Agent field of that request (RFC 9110 section 10.1.5)."
            = |r| text(r.http.as_ref().map(|h| &h.user_agent));
        "httpStatusCode" Number "" [457] "http_res" "Status code of the flow's first final HTTP/1 response (RFC 9112 section 4, RFC 9110 section 15); of an interim response if no final one was seen."
            = |r| number(r.http.as_ref().and_then(|h| h.status));
        "httpContentType" Text "" [469] "" "Content-Type field of that response (RFC 9110 section 8.3)."
            = |r| text(r.http.as_ref().map(|h| &h.content_type));
        "httpRequestCount" Number "messages" [] "http_req_cnt" "Number of HTTP/1 requests in the flow."
            = |r| number(r.http.as_ref().map(|h| h.requests));
        "httpResponseCount" Number "messages" [] "http_res_cnt" "Number of HTTP/1 responses in the flow, interim responses included."
            = |r| number(r.http.as_ref().map(|h| h.responses));
        "httpFirstByteSeconds" Real "seconds" [] "" "Time from the packet that completes the head of the first request to the first byte of the first response. Empty if the response came first."
            = |r| seconds(r.http.as_ref().and_then(|h| h.first_byte_ns));
    }
}
