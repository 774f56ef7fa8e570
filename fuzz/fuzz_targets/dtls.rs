//! Inspects the datagrams of a flow that may be DTLS.
//!
//! Input, datagram after datagram: a byte with the direction (bit 0) and the length, and the payload.

#![no_main]

use app::{Applications, InspectState, Inspector, InspectorLimits, L4Payload};
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};
use wire::FlowKey;

/// Parsed once, because that takes longer than most inputs.
static APPLICATIONS: LazyLock<Arc<Applications>> = LazyLock::new(Arc::default);

fuzz_target!(|input: &[u8]| {
    let limits = InspectorLimits::default();
    let Ok(mut inspector) = Inspector::new(1, &limits, Arc::clone(&APPLICATIONS), 1) else {
        return;
    };
    let key = FlowKey {
        version: 4,
        protocol: 17,
        source_port: 40_000,
        destination_port: 4433,
        ..FlowKey::default()
    };
    let mut state = InspectState::default();
    let mut rest = input;
    while let Some((&what, after)) = rest.split_first() {
        let (payload, after) = after.split_at(usize::from(what >> 1).min(after.len()));
        rest = after;
        let direction = what & 1;
        let packet = L4Payload {
            time_ns: 0,
            direction,
            protocol: 17,
            tcp_flags: 0,
            sequence: 0,
            source_port: if direction == 0 { 40_000 } else { 4433 },
            destination_port: if direction == 0 { 4433 } else { 40_000 },
            payload,
            payload_length: payload.len() as u32,
        };
        inspector.observe(&mut state, &packet, || key);
    }
    let record = inspector.finish(&mut state, &key);
    if let Some(ja4) = record.tls.and_then(|tls| tls.ja4) {
        assert_eq!(ja4.len(), 36);
    }
    assert!(
        inspector.is_idle(),
        "a state, text or buffer was not released"
    );
});
