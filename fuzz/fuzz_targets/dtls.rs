//! Inspects the datagrams of a media session: DTLS, RTP, RTCP and STUN on the same ports.

#![no_main]

use flowatch_fuzz::conversation;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let record = conversation::inspect(input, 17, 4433);
    if let Some(ja4) = record.tls.and_then(|tls| tls.ja4) {
        assert_eq!(ja4.len(), 36);
    }
    for side in record.rtp.into_iter().flatten() {
        assert!(side.packets >= 5 && side.sources >= 1);
        assert!(side.jitter_ns.is_none_or(|jitter| jitter >= 0.0));
    }
});
