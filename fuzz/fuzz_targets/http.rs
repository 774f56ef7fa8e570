//! Any bytes as heads of HTTP/1 messages.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::app::http::{Begins, Head, begins, request, response};

fuzz_target!(|bytes: &[u8]| {
    let begun = begins(bytes);
    if let Head::Whole(head) = request(bytes) {
        assert!(head.length <= bytes.len() && !head.method.name().is_empty());
    }
    if let Head::Whole(head) = response(bytes) {
        assert!(head.length <= bytes.len() && head.status < 1000);
    }
    for cut in 0..bytes.len().min(24) {
        // Fewer bytes never tell more.
        if begins(&bytes[..cut]) == Begins::No {
            assert_eq!(begun, Begins::No);
        }
    }
});
