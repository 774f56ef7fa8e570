//! Parses any bytes as a QUIC datagram, and as the payload of an Initial packet.

#![no_main]

use app::message::quic::{InitialKeys, Sender, Version, crypto_frames, read_long_packet};
use flowatch_fuzz::budget;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|datagram: &[u8]| {
    budget::start();
    let mut rest = datagram;
    let mut buffer = Vec::new();
    let mut packets = 0;
    while let Some((packet, after)) = read_long_packet(rest) {
        assert!(packet.packet.len() + after.len() <= rest.len());
        assert!(packet.number_offset <= packet.packet.len());
        if packets < 2
            && let Some(version) = Version::known(packet.version)
        {
            let keys = InitialKeys::new(version, packet.destination_id, Sender::Client);
            let opened = keys.open(packet.packet, packet.number_offset, &mut buffer);
            assert!(opened.is_none_or(|offset| offset <= buffer.len()));
        }
        packets += 1;
        assert!(packets <= datagram.len(), "an empty packet");
        rest = after;
    }
    let bytes: usize = crypto_frames(datagram).map(|frame| frame.data.len()).sum();
    assert!(bytes <= datagram.len());
    budget::check_payload(1, datagram.len());
});
