//! Parses any bytes as heads of HTTP/1 messages.

#![no_main]

use app::message::http::{
    Detected, Head, chunk_size, detect, detect_by_line, ends_after, may_start, parse_request,
    parse_response, starts_response,
};
use app::message::proxy;
use flowatch_fuzz::budget;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    budget::start();
    let detected = detect(bytes);
    if let Head::Complete(head, length) = parse_request(bytes) {
        assert!(length <= bytes.len() && !head.method_name.is_empty());
        assert!(!head.target.is_empty());
        assert!(ends_after(bytes, 0));
    }
    if let Head::Complete(head, length) = parse_response(bytes) {
        assert!(length <= bytes.len() && head.status < 1000);
        assert_eq!(starts_response(bytes), Detected::Response);
    }
    let _ = (chunk_size(bytes), proxy::header_length(bytes));
    budget::check_payload(1, bytes.len());
    for cut in 1..bytes.len().min(24) {
        // What the first bytes rule out starts no message.
        if !may_start(&bytes[..cut]) {
            assert_eq!(detected, Detected::No);
        }
        let _ = detect_by_line(bytes, cut);
    }
});
