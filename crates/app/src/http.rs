//! HTTP/1: the first request and response, and the number of all.

use super::L4Payload;
use super::parsers::Parsers;
use super::record::{AppText, HttpRecord, Incomplete};
use super::state::{Common, HttpState, MessageState, Nanoseconds, StreamProtocol, TcpState};
use super::tcp_stream::Verdict;
use super::text_pool::TEXT_MAX;
use crate::message::http::{self, Body, Detected, Head, METHOD_MAX, Method};
use crate::message::tls;

impl Parsers {
    /// Reads the HTTP/1 message that starts with `bytes`, or skips them if none does.
    pub(super) fn read_http(
        &mut self,
        common: &mut Common,
        tcp: &mut TcpState,
        segment: &L4Payload<'_>,
        bytes: &[u8],
    ) -> Verdict {
        let MessageState::Http(state) = &mut tcp.messages else {
            return Verdict::Done;
        };
        let incomplete = &mut common.incomplete;
        match http::detect_by_line(bytes) {
            Detected::Request => match http::parse_request(bytes) {
                Head::Partial => Verdict::NeedMore,
                // The parser may reject a request line before its end. Wait for the whole line, so
                // that the target is complete.
                Head::Invalid if http::is_partial_line(bytes) => Verdict::NeedMore,
                Head::Invalid => {
                    self.read_terminated_head(incomplete, state, segment, bytes, true);
                    Verdict::Consumed(bytes.len())
                }
                Head::Complete(head) => {
                    self.record_request(incomplete, state, segment, &head);
                    body_end(head.length, head.body, bytes.len())
                }
            },
            Detected::Response => {
                if !state.has_first_byte {
                    // A response before any request answers one that was not seen.
                    state.time = match state.requests {
                        0 => Nanoseconds::new(Nanoseconds::UNKNOWN),
                        _ => state.time.until(segment.time_ns),
                    };
                    state.has_first_byte = true;
                }
                match http::parse_response(bytes) {
                    Head::Partial => Verdict::NeedMore,
                    Head::Invalid => {
                        self.read_terminated_head(incomplete, state, segment, bytes, true);
                        Verdict::Consumed(bytes.len())
                    }
                    Head::Complete(head) => {
                        self.record_http_response(incomplete, state, &head);
                        let body = if state.bodiless {
                            Body::Length(0)
                        } else {
                            head.body
                        };
                        body_end(head.length, body, bytes.len())
                    }
                }
            }
            // The tunnel of a proxy (CONNECT), or an upgrade to TLS (RFC 2817).
            _ if state.requests > 0 && matches!(tls::detect(bytes), tls::Detected::Hello(_)) => {
                tcp.protocol = StreamProtocol::Tls;
                self.read_tls(common, tcp, segment, bytes)
            }
            _ => Verdict::Consumed(bytes.len()),
        }
    }

    /// Reads the valid lines of an incomplete or invalid head.
    fn read_terminated_head(
        &mut self,
        incomplete: &mut Incomplete,
        state: &mut HttpState,
        segment: &L4Payload<'_>,
        bytes: &[u8],
        first_line: bool,
    ) {
        let mut terminated = std::mem::take(&mut self.scratch);
        http::terminate_head(bytes, first_line, &mut terminated);
        if let Head::Complete(head) = http::parse_request(&terminated) {
            self.record_request(incomplete, state, segment, &head);
        } else if let Head::Complete(head) = http::parse_response(&terminated) {
            self.record_http_response(incomplete, state, &head);
        } else if let Some(line) = http::parse_request_line(&terminated) {
            self.record_request(incomplete, state, segment, &line);
        }
        self.scratch = terminated;
    }

    /// Reads the complete lines of a head that remains incomplete.
    pub(super) fn read_truncated_head(
        &mut self,
        incomplete: &mut Incomplete,
        state: &mut HttpState,
        segment: &L4Payload<'_>,
        bytes: &[u8],
    ) {
        if matches!(
            http::detect_by_line(bytes),
            Detected::Request | Detected::Response
        ) {
            self.read_terminated_head(incomplete, state, segment, bytes, false);
        }
    }

    fn record_request(
        &mut self,
        incomplete: &mut Incomplete,
        state: &mut HttpState,
        segment: &L4Payload<'_>,
        head: &http::Request<'_>,
    ) {
        if state.requests == 0 {
            if !state.has_first_byte {
                state.time = Nanoseconds::new(segment.time_ns);
            }
            state.method = Some(head.method);
            state.host = self.intern(incomplete, head.host.unwrap_or_default());
            self.record_target(incomplete, state, head);
            state.user_agent = self.intern(incomplete, head.user_agent.unwrap_or_default());
        }
        state.requests = state.requests.saturating_add(1);
        state.bodiless = matches!(head.method.name(), "HEAD" | "CONNECT");
    }

    fn record_target(
        &mut self,
        incomplete: &mut Incomplete,
        state: &mut HttpState,
        head: &http::Request<'_>,
    ) {
        let target = head.target;
        let kept = &target[..target.len().min(TARGET_MAX)];
        if kept.len() < target.len() {
            incomplete.add(Incomplete::TEXT);
        }
        state.target = if head.method == Method::OTHER {
            let mut line = std::mem::take(&mut self.list_buffer);
            line.clear();
            line.extend_from_slice(head.method_name.as_bytes());
            line.push(b' ');
            line.extend_from_slice(kept);
            let text = self.intern(incomplete, &line);
            self.list_buffer = line;
            text
        } else {
            self.intern(incomplete, kept)
        };
    }

    fn record_http_response(
        &mut self,
        incomplete: &mut Incomplete,
        state: &mut HttpState,
        head: &http::Response<'_>,
    ) {
        if state.responses == 0 {
            state.status = head.status;
            state.content_type = self.intern(incomplete, head.content_type.unwrap_or_default());
        }
        state.responses = state.responses.saturating_add(1);
    }

    /// Returns the record of the messages and releases their texts.
    pub(super) fn http_record(&mut self, state: &HttpState) -> Option<Box<HttpRecord>> {
        if state.requests == 0 && state.responses == 0 {
            return None;
        }
        let mut method = state.method.map(|it| AppText::const_new(it.name()));
        let mut target = self.texts.take(state.target);
        if state.method == Some(Method::OTHER) {
            let line = target.as_deref().and_then(|line| line.split_once(' '));
            (method, target) = line.map(|(it, target)| (it.into(), target.into())).unzip();
        }
        Some(Box::new(HttpRecord {
            method,
            host: self.texts.take(state.host),
            target,
            user_agent: self.texts.take(state.user_agent),
            status: (state.responses > 0).then_some(state.status),
            content_type: self.texts.take(state.content_type),
            requests: state.requests,
            responses: state.responses,
            first_byte_ns: state.time.known_span().filter(|_| state.has_first_byte),
        }))
    }
}

/// The most bytes of a target that are kept. It is lower than for other texts, because flows rarely
/// share targets.
const TARGET_MAX: usize = 255;

/// An unknown method and its target are one text, which must not be truncated.
const _: () = assert!(METHOD_MAX + 1 + TARGET_MAX <= TEXT_MAX);

/// Where a message ends, of which `available` bytes are available.
fn body_end(head: usize, body: Body, available: usize) -> Verdict {
    match body {
        Body::Length(length) => {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            Verdict::Consumed(head.saturating_add(length))
        }
        // The next message is looked for at the start of the next segment.
        Body::Unknown => Verdict::Consumed(available),
    }
}
