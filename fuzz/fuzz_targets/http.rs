//! Parses any bytes as heads of HTTP/1 messages.

#![no_main]

use app::message::http::{
    Detected, Head, detect, may_start, parse_request, parse_request_line, parse_response,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let detected = detect(bytes);
    if let Head::Complete(head) = parse_request(bytes) {
        assert!(head.length <= bytes.len() && !head.method_name.is_empty());
    }
    if let Some(head) = parse_request_line(bytes) {
        assert!(head.length <= bytes.len() && !head.method_name.is_empty());
        assert!(!head.target.is_empty());
    }
    if let Head::Complete(head) = parse_response(bytes) {
        assert!(head.length <= bytes.len() && head.status < 1000);
    }
    for cut in 1..bytes.len().min(24) {
        // What the first bytes rule out starts no message.
        if !may_start(&bytes[..cut]) {
            assert_eq!(detected, Detected::No);
        }
    }
});
