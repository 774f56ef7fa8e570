//! HTTP/1: the first request and response, and the number of all.

use crate::column::{columns, number, seconds, text};
use crate::message::http::{self, Body, Detected, Head, METHOD_MAX, Method};
use crate::message::tls;
use crate::nanoseconds::Nanoseconds;
use crate::parser::{Context, Parser, Probe, Verdict};
use crate::payload::L4Payload;
use crate::record::{AppRecord, AppText, HttpRecord, Incomplete};
use crate::services::Services;
use crate::text_pool::{TEXT_MAX, TextId};

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
    status: u16,
    has_first_byte: bool,
    /// Whether the last request was HEAD or CONNECT, so that its response has no body.
    bodiless: bool,
}

impl Parser for HttpState {
    /// A request with an unknown method is detected by its first line, but only at the start of a
    /// stream.
    fn probe(_: &L4Payload<'_>, bytes: &[u8], is_start: bool) -> Probe {
        let detected = match is_start {
            true => http::detect_by_line(bytes),
            false => http::detect(bytes),
        };
        match detected {
            Detected::Request | Detected::Response => Probe::Yes,
            Detected::NeedMore if is_start => Probe::NeedMore,
            Detected::NeedMore | Detected::No => Probe::No,
        }
    }

    fn start(_: &mut Services) -> Self {
        Self::default()
    }

    /// Reads the HTTP/1 message that starts with `bytes`, or skips them if none does.
    fn segment(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Verdict {
        match http::detect_by_line(bytes) {
            Detected::Request => match http::parse_request(bytes) {
                Head::Partial => Verdict::NeedMore,
                // The parser may reject a request line before its end. Wait for the whole line, so
                // that the target is complete.
                Head::Invalid if http::is_partial_line(bytes) => Verdict::NeedMore,
                Head::Invalid => {
                    read_terminated_head(cx, self, bytes, true);
                    Verdict::Consumed(bytes.len())
                }
                Head::Complete(head) => {
                    record_request(cx, self, &head);
                    body_end(head.length, head.body, bytes.len())
                }
            },
            Detected::Response => {
                if !self.has_first_byte {
                    // A response before any request answers one that was not seen.
                    self.time = match self.requests {
                        0 => Nanoseconds::new(Nanoseconds::UNKNOWN),
                        _ => self.time.until(cx.packet.time_ns),
                    };
                    self.has_first_byte = true;
                }
                match http::parse_response(bytes) {
                    Head::Partial => Verdict::NeedMore,
                    Head::Invalid => {
                        read_terminated_head(cx, self, bytes, true);
                        Verdict::Consumed(bytes.len())
                    }
                    Head::Complete(head) => {
                        record_http_response(cx, self, &head);
                        let body = if self.bodiless {
                            Body::Length(0)
                        } else {
                            head.body
                        };
                        body_end(head.length, body, bytes.len())
                    }
                }
            }
            // The tunnel of a proxy (CONNECT), or an upgrade to TLS (RFC 2817).
            _ if self.requests > 0 && matches!(tls::detect(bytes), tls::Detected::Hello(_)) => {
                Verdict::StartTls
            }
            _ => Verdict::Consumed(bytes.len()),
        }
    }

    /// Reads the complete lines of a head that remains incomplete.
    fn evict(&mut self, cx: &mut Context<'_>, bytes: &[u8]) {
        if matches!(
            http::detect_by_line(bytes),
            Detected::Request | Detected::Response
        ) {
            read_terminated_head(cx, self, bytes, false);
        }
    }

    fn is_first(bytes: &[u8]) -> bool {
        matches!(http::detect_by_line(bytes), Detected::Request)
    }

    /// The start of a message is a safe point to continue from.
    fn can_continue_at(bytes: &[u8]) -> bool {
        matches!(
            http::detect_by_line(bytes),
            Detected::Request | Detected::Response
        )
    }

    fn new_connection(&mut self) {
        self.bodiless = false;
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

/// Reads the valid lines of an incomplete or invalid head.
fn read_terminated_head(
    cx: &mut Context<'_>,
    state: &mut HttpState,
    bytes: &[u8],
    first_line: bool,
) {
    let mut terminated = std::mem::take(&mut cx.services.scratch);
    http::terminate_head(bytes, first_line, &mut terminated);
    if let Head::Complete(head) = http::parse_request(&terminated) {
        record_request(cx, state, &head);
    } else if let Head::Complete(head) = http::parse_response(&terminated) {
        record_http_response(cx, state, &head);
    } else if let Some(line) = http::parse_request_line(&terminated) {
        record_request(cx, state, &line);
    }
    cx.services.scratch = terminated;
}

fn record_request(cx: &mut Context<'_>, state: &mut HttpState, head: &http::Request<'_>) {
    if state.requests == 0 {
        if !state.has_first_byte {
            state.time = Nanoseconds::new(cx.packet.time_ns);
        }
        state.method = Some(head.method);
        state.host = cx.intern(head.host.unwrap_or_default());
        record_target(cx, state, head);
        state.user_agent = cx.intern(head.user_agent.unwrap_or_default());
    }
    state.requests = state.requests.saturating_add(1);
    state.bodiless = matches!(head.method.name(), "HEAD" | "CONNECT");
}

fn record_target(cx: &mut Context<'_>, state: &mut HttpState, head: &http::Request<'_>) {
    let target = head.target;
    let kept = &target[..target.len().min(TARGET_MAX)];
    if kept.len() < target.len() {
        cx.common.incomplete.add(Incomplete::TEXT);
    }
    state.target = if head.method == Method::OTHER {
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

fn record_http_response(cx: &mut Context<'_>, state: &mut HttpState, head: &http::Response<'_>) {
    if state.responses == 0 {
        state.status = head.status;
        state.content_type = cx.intern(head.content_type.unwrap_or_default());
    }
    state.responses = state.responses.saturating_add(1);
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

columns! {
    pub(crate) COLUMNS
    Http {
        "httpRequestMethod" Text "" [459] "" "Method of the flow's first HTTP/1 request (RFC 9112 section 3.1)."
            = |r| text(r.http.as_ref().map(|h| &h.method));
        "httpRequestHost" Text "" [460] "" "Host field of that request (RFC 9110 section 7.2)."
            = |r| text(r.http.as_ref().map(|h| &h.host));
        "httpRequestTarget" Text "" [461] "" "Target of that request as sent (RFC 9112 section 3.2), up to 255 bytes."
            = |r| text(r.http.as_ref().map(|h| &h.target));
        "httpUserAgent" Text "" [468] "" "User-Agent field of that request (RFC 9110 section 10.1.5)."
            = |r| text(r.http.as_ref().map(|h| &h.user_agent));
        "httpStatusCode" Number "" [457] "http_res" "Status code of the flow's first HTTP/1 response (RFC 9112 section 4)."
            = |r| number(r.http.as_ref().and_then(|h| h.status));
        "httpContentType" Text "" [469] "" "Content-Type field of that response (RFC 9110 section 8.3)."
            = |r| text(r.http.as_ref().map(|h| &h.content_type));
        "httpRequestCount" Number "messages" [] "http_req_cnt" "Number of HTTP/1 requests in the flow."
            = |r| number(r.http.as_ref().map(|h| h.requests));
        "httpResponseCount" Number "messages" [] "http_res_cnt" "Number of HTTP/1 responses in the flow."
            = |r| number(r.http.as_ref().map(|h| h.responses));
        "httpFirstByteSeconds" Real "seconds" [] "" "Time from the packet that completes the head of the first request to the first byte of the first response. Empty if the response came first."
            = |r| seconds(r.http.as_ref().and_then(|h| h.first_byte_ns));
    }
}
