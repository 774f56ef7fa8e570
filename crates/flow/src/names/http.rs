//! HTTP/1: the first request and response, and how many followed.

use super::record::{Cut, HttpRecord};
use super::state::{Flow, HttpState, Protocol};
use super::tcp_stream::Verdict;
use super::{Names, Segment};
use wire::app::http::{self, Begins, Body, Head};
use wire::app::tls;

impl Names {
    /// Reads a message of HTTP/1, or passes over bytes that begin none.
    pub(super) fn read_http(
        &mut self,
        flow: &mut Flow,
        segment: &Segment<'_>,
        bytes: &[u8],
    ) -> Verdict {
        let Some(&state) = self.http.get(flow.other) else {
            return Verdict::Close;
        };
        let mut state = state;
        let verdict = match http::begins(bytes) {
            Begins::Request => match http::request(bytes) {
                Head::Partial => Verdict::More,
                Head::Bad => {
                    self.read_closed_head(flow, &mut state, segment, bytes, true);
                    Verdict::Used(bytes.len())
                }
                Head::Whole(head) => {
                    self.note_request(flow, &mut state, segment, &head);
                    body_end(head.length, head.body, bytes.len())
                }
            },
            Begins::Response => {
                if !state.has_first_byte && state.requests > 0 {
                    let waited = segment.time_ns.saturating_sub(state.time_ns).max(0);
                    state.time_ns = waited;
                    state.has_first_byte = true;
                }
                match http::response(bytes) {
                    Head::Partial => Verdict::More,
                    Head::Bad => {
                        self.read_closed_head(flow, &mut state, segment, bytes, true);
                        Verdict::Used(bytes.len())
                    }
                    Head::Whole(head) => {
                        self.note_response(flow, &mut state, &head);
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
            _ if state.requests > 0
                && flow.tls == 0
                && matches!(tls::begins(bytes), tls::Begins::Hello(_)) =>
            {
                flow.tls = self.tls.take();
                flow.protocol = Protocol::Tls;
                return self.read_tls(flow, segment, bytes);
            }
            _ => Verdict::Used(bytes.len()),
        };
        if let Some(place) = self.http.get_mut(flow.other) {
            *place = state;
        }
        verdict
    }

    /// Reads of a head that will not become whole, or that is not as it should be, the lines that
    /// can be read.
    fn read_closed_head(
        &mut self,
        flow: &mut Flow,
        state: &mut HttpState,
        segment: &Segment<'_>,
        bytes: &[u8],
        first_line: bool,
    ) {
        let mut closed = std::mem::take(&mut self.joined);
        http::close_head(bytes, first_line, &mut closed);
        if let Head::Whole(head) = http::request(&closed) {
            self.note_request(flow, state, segment, &head);
        } else if let Head::Whole(head) = http::response(&closed) {
            self.note_response(flow, state, &head);
        }
        self.joined = closed;
    }

    /// Reads of a head that will not become whole what there is.
    pub(super) fn read_cut_head(&mut self, flow: &mut Flow, segment: &Segment<'_>, bytes: &[u8]) {
        let Some(&state) = self.http.get(flow.other) else {
            return;
        };
        let mut state = state;
        if matches!(http::begins(bytes), Begins::Request | Begins::Response) {
            self.read_closed_head(flow, &mut state, segment, bytes, false);
        }
        if let Some(place) = self.http.get_mut(flow.other) {
            *place = state;
        }
    }

    fn note_request(
        &mut self,
        flow: &mut Flow,
        state: &mut HttpState,
        segment: &Segment<'_>,
        head: &http::Request<'_>,
    ) {
        if state.requests == 0 {
            state.time_ns = segment.time_ns;
            state.method = self.keep(flow, head.method.as_bytes());
            state.host = self.keep(flow, head.host.unwrap_or_default());
            state.target = self.keep(flow, within(head.target.as_bytes(), TARGET_MAX));
            if head.target.len() > TARGET_MAX {
                flow.cut.add(Cut::TEXT);
            }
            state.user_agent = self.keep(flow, head.user_agent.unwrap_or_default());
        }
        state.requests = state.requests.saturating_add(1);
        state.bodiless = matches!(head.method, "HEAD" | "CONNECT");
    }

    fn note_response(&mut self, flow: &mut Flow, state: &mut HttpState, head: &http::Response<'_>) {
        if state.responses == 0 {
            state.status = head.status;
            state.content_type = self.keep(flow, head.content_type.unwrap_or_default());
        }
        state.responses = state.responses.saturating_add(1);
    }

    /// The record of the messages; their texts are given back.
    pub(super) fn http_record(&mut self, handle: u32) -> Option<Box<HttpRecord>> {
        let state = *self.http.get(handle)?;
        let record = HttpRecord {
            method: self.texts.string(state.method),
            host: self.texts.string(state.host),
            target: self.texts.string(state.target),
            user_agent: self.texts.string(state.user_agent),
            status: (state.responses > 0).then_some(state.status),
            content_type: self.texts.string(state.content_type),
            requests: state.requests,
            responses: state.responses,
            first_byte_ns: state
                .has_first_byte
                .then_some(state.time_ns.cast_unsigned()),
        };
        self.release_http(handle);
        let known = record.requests > 0 || record.responses > 0;
        known.then(|| Box::new(record))
    }

    pub(super) fn release_http(&mut self, handle: u32) {
        if let Some(&state) = self.http.get(handle) {
            for text in [
                state.method,
                state.host,
                state.target,
                state.user_agent,
                state.content_type,
            ] {
                self.texts.release(text);
            }
            self.http.release(handle);
        }
    }
}

/// Bytes of a target that are kept, so that what follows it finds room.
const TARGET_MAX: usize = 255;

fn within(text: &[u8], most: usize) -> &[u8] {
    &text[..text.len().min(most)]
}

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
