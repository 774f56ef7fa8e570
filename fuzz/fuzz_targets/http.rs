//! Any bytes as heads of HTTP/1 messages.

#![no_main]

use libfuzzer_sys::fuzz_target;
use app::message::http::{Begins, Head, begins, may_begin, request, request_line, response};

fuzz_target!(|bytes: &[u8]| {
    let begun = begins(bytes);
    if let Head::Whole(head) = request(bytes) {
        assert!(head.length <= bytes.len() && !head.method_name.is_empty());
    }
    if let Some(head) = request_line(bytes) {
        assert!(head.length <= bytes.len() && !head.method_name.is_empty());
        assert!(!head.target.is_empty());
    }
    if let Head::Whole(head) = response(bytes) {
        assert!(head.length <= bytes.len() && head.status < 1000);
    }
    for cut in 1..bytes.len().min(24) {
        // What is passed over by its first bytes begins nothing.
        if !may_begin(&bytes[..cut]) {
            assert_eq!(begun, Begins::No);
        }
    }
});
