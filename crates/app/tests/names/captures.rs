//! Whole captures through an [`Inspector`], each flow from its first packet to its last.

use std::collections::HashMap;
use std::sync::Arc;

use app::{AppRecord, Incomplete, InspectState, Inspector, InspectorLimits, L4Payload};
use port::{CaptureFiles, Input, Port, Received};
use wire::{Decapsulate, FlowKey, Fragment, dissect};

/// File names of all captures, the mix last.
pub(crate) fn listed() -> Vec<String> {
    std::fs::read_to_string(traffic::directory().join("MANIFEST.tsv"))
        .unwrap()
        .lines()
        .skip(1)
        .filter_map(|line| line.split('\t').next())
        .map(str::to_owned)
        .chain(std::iter::once("mix-200k.pcap.zst".to_owned()))
        .collect()
}

/// The flows of a capture with their records. A key is as the initiator sent it.
pub(crate) fn read(name: &str) -> Vec<(FlowKey, AppRecord)> {
    read_with(name, &InspectorLimits::default(), 1 << 15)
}

fn read_with(name: &str, limits: &InspectorLimits, slots: usize) -> Vec<(FlowKey, AppRecord)> {
    let input = Input::from_argument(traffic::directory().join(name).as_os_str());
    let mut inspector = Inspector::new(slots, limits, Arc::default(), 1).unwrap();
    let mut flows: HashMap<FlowKey, usize> = HashMap::new();
    let mut started: Vec<(FlowKey, InspectState)> = Vec::new();
    let Ok(mut port) = CaptureFiles::open(&[input]) else {
        return Vec::new();
    };
    loop {
        let burst = match port.receive() {
            Ok(Received::Burst(burst)) => burst,
            Ok(Received::Idle | Received::Fault(_)) => continue,
            Ok(Received::End) | Err(_) => break,
        };
        for frame in burst.frames {
            let headers = dissect(
                burst.link,
                frame.bytes,
                frame.wire_length,
                Decapsulate::Innermost,
            );
            if headers.no_flow.is_some() || headers.fragment == Fragment::Later {
                continue;
            }
            let details = wire::PacketInfo::from_headers(frame.bytes, &headers);
            let key = FlowKey {
                vlan: [0; 2],
                ..headers.key
            };
            let flow = *flows.entry(key.min(key.reversed())).or_insert_with(|| {
                started.push((key, InspectState::default()));
                started.len() - 1
            });
            let (initiator, state) = &mut started[flow];
            let initiator = *initiator;
            let at = details.payload_at as usize;
            let payload = frame.bytes.get(at..at + details.payload_captured as usize);
            let packet = L4Payload {
                time_ns: frame.time_ns,
                direction: u8::from(key != initiator),
                protocol: key.protocol,
                tcp_flags: headers.tcp_flags,
                sequence: details.sequence,
                acknowledgement: details.acknowledgement,
                source_port: key.source_port,
                destination_port: key.destination_port,
                payload: payload.unwrap_or_default(),
                payload_length: details.payload_length,
            };
            inspector.observe(state, &packet, || initiator);
        }
    }
    started
        .into_iter()
        .map(|(key, mut state)| (key, inspector.finish(&mut state, &key)))
        .collect()
}

/// No capture causes a panic or a hang with any limits. Tight limits may truncate a name but never
/// change it.
#[test]
fn reads_every_capture_with_any_limits() {
    if !traffic::present() {
        return;
    }
    let tight = InspectorLimits {
        reassembly_buffers_max: 2,
        reassembly_bytes: 2000,
        text_bytes: 50 * 68,
        resolved_names_max: 4,
        dns_queries_max: 8,
    };
    let (mut flows, mut with_names, mut truncated) = (0, 0, 0);
    for name in listed() {
        let all = read(&name);
        let some = read_with(&name, &tight, 1 << 15);
        assert_eq!(all.len(), some.len());
        for ((key, full), (_, less)) in all.iter().zip(&some) {
            flows += 1;
            let server_name = |record: &AppRecord| {
                let tls = record.tls.as_ref()?;
                tls.server_name.clone()
            };
            with_names += usize::from(server_name(full).is_some());
            truncated += usize::from(less.incomplete != Incomplete::default());
            if let (Some(full), Some(less)) = (server_name(full), server_name(less)) {
                assert!(full.starts_with(&*less), "{name} {key:?}");
            }
        }
    }
    println!(
        "{flows} flows, {with_names} with a server name, {truncated} incomplete with tight limits"
    );
    assert!(with_names > 500 && truncated > 0);
}
