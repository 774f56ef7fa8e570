//! Reads any bytes as a pcap file: no panic, no hang, and the same packets with any read sizes.
#![no_main]

use flowatch_fuzz::same_in_pieces;
use libfuzzer_sys::fuzz_target;

/// The first bytes of the six file variants.
const STARTS: [&[u8]; 6] = [
    b"\xd4\xc3\xb2\xa1\x02\0\x04\0",
    b"\xa1\xb2\xc3\xd4\0\x02\0\x04",
    b"\x4d\x3c\xb2\xa1\x02\0\x04\0",
    b"\xa1\xb2\x3c\x4d\0\x02\0\x04",
    b"\x34\xcd\xb2\xa1\x02\0\x04\0",
    b"\xa1\xb2\xc3\xd4\0\x02\0\x02",
];

fuzz_target!(|input: &[u8]| same_in_pieces(input, &STARTS));
