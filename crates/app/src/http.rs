//! HTTP/1: the first request and response, and how many followed.

use super::Segment;
use super::reader::Reader;
use super::record::{Cut, HttpRecord, NameText};
use super::state::{Common, HttpState, Messages, Nanoseconds, Protocol, TcpState};
use super::tcp_stream::Verdict;
use super::text_pool::TEXT_MAX;
use crate::message::http::{self, Begins, Body, Head, METHOD_MAX, Method};
use crate::message::tls;

impl Reader {
    /// Reads a message of HTTP/1, or passes over bytes that begin none.
    pub(super) fn read_http(
        &mut self,
        common: &mut Common,
        tcp: &mut TcpState,
        segment: &Segment<'_>,
        bytes: &[u8],
    ) -> Verdict {
        let Messages::Http(state) = &mut tcp.messages else {
            return Verdict::Close;
        };
        let cut = &mut common.cut;
        match http::begins_by_line(bytes) {
            Begins::Request => match http::request(bytes) {
                Head::Partial => Verdict::More,
                // What is wrong may be seen before the line ends.
                Head::Bad if http::is_half_line(bytes) => Verdict::More,
                Head::Bad => {
                    self.read_closed_head(cut, state, segment, bytes, true);
                    Verdict::Used(bytes.len())
                }
                Head::Whole(head) => {
                    self.note_request(cut, state, segment, &head);
                    body_end(head.length, head.body, bytes.len())
                }
            },
            Begins::Response => {
                if !state.has_first_byte {
                    // One before any request answers none that was seen.
                    state.time = match state.requests {
                        0 => Nanoseconds::new(Nanoseconds::UNKNOWN),
                        _ => state.time.until(segment.time_ns),
                    };
                    state.has_first_byte = true;
                }
                match http::response(bytes) {
                    Head::Partial => Verdict::More,
                    Head::Bad => {
                        self.read_closed_head(cut, state, segment, bytes, true);
                        Verdict::Used(bytes.len())
                    }
                    Head::Whole(head) => {
                        self.note_response(cut, state, &head);
                        let body = if state.bodiless {
                            Body::Length(0)
                        } else {
                            head.body
                        };
                        body_end(head.length, body, bytes.len())
                    }
                }
            }
            // A proxy's tunnel (CONNECT), or an upgrade to TLS (RFC 2817).
            _ if state.requests > 0 && matches!(tls::begins(bytes), tls::Begins::Hello(_)) => {
                tcp.protocol = Protocol::Tls;
                self.read_tls(common, tcp, segment, bytes)
            }
            _ => Verdict::Used(bytes.len()),
        }
    }

    /// Reads of a head that will not become whole, or that is not as it should be, the lines that
    /// can be read.
    fn read_closed_head(
        &mut self,
        cut: &mut Cut,
        state: &mut HttpState,
        segment: &Segment<'_>,
        bytes: &[u8],
        first_line: bool,
    ) {
        let mut closed = std::mem::take(&mut self.joined);
        http::close_head(bytes, first_line, &mut closed);
        if let Head::Whole(head) = http::request(&closed) {
            self.note_request(cut, state, segment, &head);
        } else if let Head::Whole(head) = http::response(&closed) {
            self.note_response(cut, state, &head);
        } else if let Some(line) = http::request_line(&closed) {
            self.note_request(cut, state, segment, &line);
        }
        self.joined = closed;
    }

    /// Reads of a head that will not become whole what there is.
    pub(super) fn read_cut_head(
        &mut self,
        cut: &mut Cut,
        state: &mut HttpState,
        segment: &Segment<'_>,
        bytes: &[u8],
    ) {
        if matches!(
            http::begins_by_line(bytes),
            Begins::Request | Begins::Response
        ) {
            self.read_closed_head(cut, state, segment, bytes, false);
        }
    }

    fn note_request(
        &mut self,
        cut: &mut Cut,
        state: &mut HttpState,
        segment: &Segment<'_>,
        head: &http::Request<'_>,
    ) {
        if state.requests == 0 {
            if !state.has_first_byte {
                state.time = Nanoseconds::new(segment.time_ns);
            }
            state.method = Some(head.method);
            state.host = self.keep(cut, head.host.unwrap_or_default());
            self.note_target(cut, state, head);
            state.user_agent = self.keep(cut, head.user_agent.unwrap_or_default());
        }
        state.requests = state.requests.saturating_add(1);
        state.bodiless = matches!(head.method.name(), "HEAD" | "CONNECT");
    }

    fn note_target(&mut self, cut: &mut Cut, state: &mut HttpState, head: &http::Request<'_>) {
        let target = head.target;
        let kept = &target[..target.len().min(TARGET_MAX)];
        if kept.len() < target.len() {
            cut.add(Cut::TEXT);
        }
        state.target = if head.method == Method::OTHER {
            let mut line = std::mem::take(&mut self.list);
            line.clear();
            line.extend_from_slice(head.method_name.as_bytes());
            line.push(b' ');
            line.extend_from_slice(kept);
            let text = self.keep(cut, &line);
            self.list = line;
            text
        } else {
            self.keep(cut, kept)
        };
    }

    fn note_response(&mut self, cut: &mut Cut, state: &mut HttpState, head: &http::Response<'_>) {
        if state.responses == 0 {
            state.status = head.status;
            state.content_type = self.keep(cut, head.content_type.unwrap_or_default());
        }
        state.responses = state.responses.saturating_add(1);
    }

    /// The record of the messages; their texts are given back.
    pub(super) fn http_record(&mut self, state: &HttpState) -> Option<Box<HttpRecord>> {
        if state.requests == 0 && state.responses == 0 {
            return None;
        }
        let mut method = state.method.map(|it| NameText::const_new(it.name()));
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

/// Bytes of a target that are kept: of all texts, they are the ones that the fewest flows share.
const TARGET_MAX: usize = 255;

/// A method without a number lies before its target in one text, which is not cut.
const _: () = assert!(METHOD_MAX + 1 + TARGET_MAX <= TEXT_MAX);

/// Where the message ends, of which `there` bytes are there.
fn body_end(head: usize, body: Body, there: usize) -> Verdict {
    match body {
        Body::Length(length) => {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            Verdict::Used(head.saturating_add(length))
        }
        // The next message is looked for where the next segment begins.
        Body::Unknown => Verdict::Used(there),
    }
}
