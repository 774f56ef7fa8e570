//! Reads any bytes as a pcapng file: no panic, no hang, and the same packets with any read sizes.
#![no_main]

use flowatch_fuzz::same_in_pieces;
use libfuzzer_sys::fuzz_target;

/// The section header block at the start of a file, in both byte orders.
const SECTIONS: [&[u8]; 2] = [
    b"\n\r\r\n\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x1c\0\0\0",
    b"\n\r\r\n\0\0\0\x1c\x1a\x2b\x3c\x4d\0\x01\0\0\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\x1c",
];

fuzz_target!(|input: &[u8]| same_in_pieces(input, &SECTIONS));
