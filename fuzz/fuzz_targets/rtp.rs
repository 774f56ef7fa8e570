//! Any bytes as a datagram of RTP or RTCP.

#![no_main]

use libfuzzer_sys::fuzz_target;
use app::message::rtp::{HEADER, Rtp, clock_rate, codec, is_rtcp};

fuzz_target!(|datagram: &[u8]| {
    let rtcp = is_rtcp(datagram, datagram.len());
    if let Some(rtp) = Rtp::plausible(datagram, datagram.len()) {
        assert!(datagram.len() >= HEADER && rtp.payload_type < 128);
        assert!(!rtcp, "both RTP and RTCP");
        let _ = (codec(rtp.payload_type), clock_rate(rtp.payload_type));
    }
});
