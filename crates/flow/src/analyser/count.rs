//! Counts the packets of a batch in the states of their flows, and prefetches the states of packets
//! ahead.

use super::handles::{Handles, VOLUME_PREFETCH_PACKETS};
use super::{Analyser, initiator_key};
use crate::batch::{Batch, Packet, Payloads};
use analysis::tcp::TcpColdPool;
use analysis::{Tcp, Volume};
use app::Inspector;
use hw::pool::{NO_HANDLE, Pool};
use std::ops::Range;
use wire::{PacketInfo, ip_protocol};

/// How many packets ahead to prefetch a flow's TCP state. Its handle is in the volume state.
const TCP_PREFETCH_PACKETS: usize = 6;

/// Byte offsets of the cache lines of a volume state that a packet may touch: all except the line of
/// the flow's first packets.
const VOLUME_LINE_OFFSETS: [usize; 4] = [0, 64, 128, 192];

impl Analyser {
    /// Prefetches the volume states of the first of these packets, before they are
    /// [counted](Self::count).
    pub(super) fn prefetch_first_volumes(&mut self, Range { start, end }: Range<usize>) {
        // There is nothing to prefetch after these packets.
        self.batch_handles[end..][..VOLUME_PREFETCH_PACKETS].fill(NO_HANDLE);
        for &handle in &self.batch_handles[start..][..VOLUME_PREFETCH_PACKETS] {
            self.volumes.prefetch(handle, VOLUME_LINE_OFFSETS);
        }
    }

    /// Counts these packets, whose handles are looked up.
    pub(super) fn count(&mut self, batch: &Batch, packets: Range<usize>, payloads: &impl Payloads) {
        let Self {
            volumes,
            tcp,
            tcp_cold,
            inspector,
            batch_handles,
            ..
        } = self;
        let packets = (batch, packets, &*batch_handles);
        match (tcp, inspector) {
            // For full analysis, a copy of the loop in which the compiler knows that both are there.
            (Some(tcp), Some(inspector)) => {
                count(
                    volumes,
                    Some((tcp, tcp_cold)),
                    Some(inspector),
                    packets,
                    payloads,
                );
            }
            (tcp, inspector) => {
                let tcp = tcp.as_mut().map(|tcp| (tcp, tcp_cold));
                count(volumes, tcp, inspector.as_mut(), packets, payloads);
            }
        }
    }
}

/// Counts packets of a batch in the states of their flows.
#[inline]
fn count(
    volumes: &mut Pool<Volume>,
    mut tcp: Option<(&mut Pool<Tcp>, &mut TcpColdPool)>,
    mut inspector: Option<&mut Inspector>,
    (batch, packets, handles): (&Batch, Range<usize>, &Handles),
    payloads: &impl Payloads,
) {
    let Range { start, end } = packets;
    let packets = batch.packets()[start..end].iter();
    let details = packets.zip(&batch.details()[start..end]);
    let handles = handles[start..].windows(VOLUME_PREFETCH_PACKETS + 1);
    for (at, (handles, (packet, info))) in (start..).zip(handles.zip(details)) {
        volumes.prefetch(handles[VOLUME_PREFETCH_PACKETS], VOLUME_LINE_OFFSETS);
        if let Some(ahead) = volumes.get(handles[TCP_PREFETCH_PACKETS])
            && ahead.tcp != NO_HANDLE
            && let Some((states, _)) = &tcp
        {
            states.prefetch(ahead.tcp, Tcp::LINE_OFFSETS);
        }
        let Some(volume) = volumes.get_mut(handles[0]) else {
            continue;
        };
        let side = usize::from((packet.direction ^ volume.initiator) & 1);
        volume.count(side, packet, info);
        if info.transport == ip_protocol::TCP
            && let Some((states, tcp_cold)) = &mut tcp
        {
            if states.get(volume.tcp).is_none() {
                volume.tcp = states.allocate();
            }
            if let Some(state) = states.get_mut(volume.tcp) {
                state.count(side, packet.time_ns, info, tcp_cold);
            }
        }
        if volume.app.needs_packet(info.payload_length, info.tcp_flags)
            && let Some(inspector) = &mut inspector
        {
            let may_begin = || may_begin(batch, info, payloads);
            if !inspector.try_skip(volume.app, side, info, may_begin) {
                inspect(inspector, volume, (packet, info), batch, at, payloads);
            }
        }
    }
}

/// Returns whether an application message may begin with the payload of a packet in a stream of which
/// nothing is known yet.
#[inline(never)]
fn may_begin(batch: &Batch, info: &PacketInfo, payloads: &impl Payloads) -> bool {
    let payload = match info.payload_captured {
        0 => &[],
        _ => payloads.payload(batch, info),
    };
    app::may_start_message(payload, info)
}

/// Inspects the payload of packet `at`.
///
/// Not inlined: most packets are not inspected, and inlined its variables would take registers from the
/// loop.
#[inline(never)]
fn inspect(
    inspector: &mut Inspector,
    volume: &mut Volume,
    (packet, info): (&Packet, &PacketInfo),
    batch: &Batch,
    at: usize,
    payloads: &impl Payloads,
) {
    let initiator = volume.initiator;
    let side = usize::from(packet.direction ^ initiator);
    let payload = || payloads.payload(batch, info);
    let l4_payload = app::L4Payload::new(packet.time_ns, side, info, payload);
    inspector.inspect(&mut volume.app, &l4_payload, || {
        initiator_key(initiator, batch, at)
    });
}
