//! Any bytes as a datagram of QUIC, and as the payload of an Initial packet.

#![no_main]

use libfuzzer_sys::fuzz_target;
use app::message::quic::initial::Sender;
use app::message::quic::{InitialKeys, Version, crypto_frames, long_packet};

fuzz_target!(|datagram: &[u8]| {
    let mut rest = datagram;
    let mut buffer = Vec::new();
    let mut packets = 0;
    while let Some((packet, after)) = long_packet(rest) {
        assert!(packet.packet.len() + after.len() <= rest.len());
        assert!(packet.number_at <= packet.packet.len());
        if packets < 2
            && let Some(version) = Version::known(packet.version)
        {
            let keys = InitialKeys::new(version, packet.destination_id, Sender::Client);
            let opened = keys.open(packet.packet, packet.number_at, &mut buffer);
            assert!(opened.is_none_or(|at| at <= buffer.len()));
        }
        packets += 1;
        assert!(packets <= datagram.len(), "a packet of no bytes");
        rest = after;
    }
    let bytes: usize = crypto_frames(datagram).map(|frame| frame.data.len()).sum();
    assert!(bytes <= datagram.len());
});
