//! The packets of one flow, for the targets that inspect a conversation.
//!
//! Input, packet after packet: two bytes, of which the highest bit is the direction and the others are
//! the length of the payload, and the payload.

use crate::budget;
use app::{AppRecord, Applications, InspectState, Inspector, InspectorLimits, L4Payload};
use std::sync::{Arc, LazyLock};
use wire::FlowKey;

/// Parsed once, because that takes longer than most inputs.
static APPLICATIONS: LazyLock<Arc<Applications>> = LazyLock::new(Arc::default);

/// The bit of the direction.
const FROM_RESPONDER: u16 = 1 << 15;

/// Time between two packets, in nanoseconds.
const GAP_NS: i64 = 1000;

/// Splits an input into packets of a direction and a payload. The last one may be shorter than its
/// length says.
fn packets(input: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = input;
    std::iter::from_fn(move || {
        let (&head, after) = rest.split_first_chunk::<2>()?;
        let head = u16::from_be_bytes(head);
        let length = usize::from(head & !FROM_RESPONDER).min(after.len());
        let (payload, after) = after.split_at(length);
        rest = after;
        Some((u8::from(head & FROM_RESPONDER != 0), payload))
    })
}

/// Inspects the packets of a flow of this protocol to this port, and returns its record.
///
/// # Panics
/// If a state, a text or a buffer was not released, or if the packets cost too much.
pub fn inspect(input: &[u8], protocol: u8, port: u16) -> AppRecord {
    let limits = InspectorLimits::default();
    let Ok(mut inspector) = Inspector::new(1, &limits, Arc::clone(&APPLICATIONS), 1) else {
        return AppRecord::default();
    };
    let key = FlowKey {
        version: 4,
        protocol,
        source_port: 40_000,
        destination_port: port,
        ..FlowKey::default()
    };
    let mut state = InspectState::default();
    let mut sequences = [1_u32; 2];
    let (mut count, mut bytes) = (1, 0);
    budget::start();
    for (time_ns, (direction, payload)) in (0..).step_by(GAP_NS as usize).zip(packets(input)) {
        let sequence = &mut sequences[usize::from(direction)];
        let packet = L4Payload {
            time_ns,
            direction,
            protocol,
            tcp_flags: 0,
            sequence: *sequence,
            acknowledgement: 0,
            source_port: if direction == 0 { 40_000 } else { port },
            destination_port: if direction == 0 { port } else { 40_000 },
            payload,
            payload_length: payload.len() as u32,
        };
        *sequence = sequence.wrapping_add(payload.len() as u32);
        inspector.observe(&mut state, &packet, || key);
        (count, bytes) = (count + 1, bytes + payload.len());
    }
    let record = inspector.finish(&mut state, &key);
    budget::check_payload(count, bytes);
    assert!(
        inspector.is_idle(),
        "a state, text or buffer was not released"
    );
    record
}
