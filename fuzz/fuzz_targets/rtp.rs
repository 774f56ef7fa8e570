//! Parses any bytes as an RTP or RTCP datagram.

#![no_main]

use app::message::rtp::{HEADER_LENGTH, Rtp, clock_rate, codec, is_rtcp};
use flowatch_fuzz::budget;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|datagram: &[u8]| {
    budget::start();
    let rtcp = is_rtcp(datagram, datagram.len());
    if let Some(rtp) = Rtp::plausible(datagram, datagram.len()) {
        assert!(datagram.len() >= HEADER_LENGTH && rtp.payload_type < 128);
        assert!(!rtcp, "both RTP and RTCP");
        let _ = (codec(rtp.payload_type), clock_rate(rtp.payload_type));
    }
    budget::check_payload(1, datagram.len());
});
