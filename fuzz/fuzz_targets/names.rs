//! Inspects any packets of a few flows.
//!
//! Input, packet after packet: a byte with flow, direction, transport, SYN and number of bytes beyond
//! the snaplen, two bytes of sequence number, two bytes of length, and the payload.

#![no_main]

use app::{Applications, InspectState, Inspector, InspectorLimits, L4Payload};
use flowatch_fuzz::budget;
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};
use wire::FlowKey;

const PORTS: [u16; 4] = [443, 53, 80, 30_000];

/// Parsed once, because that takes longer than most inputs.
static APPLICATIONS: LazyLock<Arc<Applications>> = LazyLock::new(Arc::default);

fuzz_target!(|input: &[u8]| {
    let limits = InspectorLimits {
        reassembly_buffers_max: 3,
        reassembly_bytes: 1000,
        text_bytes: 20 * 68,
        resolved_names_max: 4,
        dns_queries_max: 8,
    };
    let Ok(mut inspector) = Inspector::new(4, &limits, Arc::clone(&APPLICATIONS), 1) else {
        return;
    };
    let mut flows = [InspectState::default(); 4];
    let mut rest = input;
    let mut time_ns = 0;
    let (mut count, mut bytes) = (1, 0);
    budget::start();
    while let Some((&[what, high, low, more, less], after)) = rest.split_first_chunk::<5>() {
        let length = usize::from(u16::from_be_bytes([more, less])).min(after.len());
        let (payload, after) = after.split_at(length);
        rest = after;
        time_ns += 1000;
        let flow = usize::from(what & 3);
        let direction = what >> 2 & 1;
        let protocol = if what & 8 == 0 { 6 } else { 17 };
        let port = PORTS[flow];
        let key = FlowKey {
            version: 4,
            protocol,
            source_port: 40_000,
            destination_port: port,
            ..FlowKey::default()
        };
        let packet = L4Payload {
            time_ns,
            direction,
            protocol,
            tcp_flags: what >> 3 & 2,
            sequence: u32::from(u16::from_be_bytes([high, low])),
            acknowledgement: 0,
            source_port: if direction == 0 { 40_000 } else { port },
            destination_port: if direction == 0 { port } else { 40_000 },
            payload,
            payload_length: payload.len() as u32 + u32::from(what >> 6),
        };
        inspector.observe(&mut flows[flow], &packet, || key);
        (count, bytes) = (count + 1, bytes + payload.len());
    }
    for flow in &mut flows {
        let _ = inspector.finish(flow, &FlowKey::default());
    }
    budget::check_payload(count, bytes);
    assert!(
        inspector.is_idle(),
        "a state, text or buffer was not released"
    );
});
