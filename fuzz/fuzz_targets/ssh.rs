//! Inspects the two streams of a connection that may be SSH, cut into segments.
//!
//! Input, segment after segment: a byte with the direction (bit 0) and the length, and the payload.

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
        protocol: 6,
        source_port: 40_000,
        destination_port: 22,
        ..FlowKey::default()
    };
    let mut state = InspectState::default();
    let mut sequences = [1_u32; 2];
    let mut rest = input;
    while let Some((&what, after)) = rest.split_first() {
        let (payload, after) = after.split_at(usize::from(what >> 1).min(after.len()));
        rest = after;
        let direction = what & 1;
        let sequence = &mut sequences[usize::from(direction)];
        let packet = L4Payload {
            time_ns: 0,
            direction,
            protocol: 6,
            tcp_flags: 0,
            sequence: *sequence,
            source_port: if direction == 0 { 40_000 } else { 22 },
            destination_port: if direction == 0 { 22 } else { 40_000 },
            payload,
            payload_length: payload.len() as u32,
        };
        *sequence = sequence.wrapping_add(payload.len() as u32);
        inspector.observe(&mut state, &packet, || key);
    }
    if let Some(ssh) = inspector.finish(&mut state, &key).ssh {
        for fingerprint in [ssh.hassh, ssh.hassh_server].into_iter().flatten() {
            assert_eq!(fingerprint.len(), 32);
        }
    }
    assert!(
        inspector.is_idle(),
        "a state, text or buffer was not released"
    );
});
