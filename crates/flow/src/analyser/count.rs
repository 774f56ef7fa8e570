//! Counts the packets of a burst in the states of their flows, and asks for the states of those that
//! come next.

use super::{Analyser, key_from};
use crate::batch::{BURST, Batch, Packet, Payloads};
use analysis::tcp::RarePool;
use analysis::{Tcp, Volume};
use app::Names;
use hw::pool::{NONE, Pool};
use std::ops::Range;
use wire::{Segment, ip_protocol};

/// Packets ahead of which a flow's state, then its TCP state is asked for.
const VOLUMES_AHEAD: usize = 12;
const AHEAD: usize = 6;

/// Where the cache lines of a flow's state begin that a packet may touch: all but that of the first
/// packets.
const VOLUME_LINES: [usize; 4] = [0, 64, 128, 192];

/// Handles of the flows of a burst, with room behind them to look ahead.
pub(super) type Handles = [u32; BURST + VOLUMES_AHEAD];

/// Of no flow.
pub(super) const NO_HANDLES: Handles = [NONE; BURST + VOLUMES_AHEAD];

impl Analyser {
    /// Asks for the states of the first flows of these packets, before they are [counted](Self::count).
    pub(super) fn look_ahead(&mut self, Range { start, end }: Range<usize>) {
        // Behind these packets there is nothing to be asked for.
        self.burst[end..][..VOLUMES_AHEAD].fill(NONE);
        for &handle in &self.burst[start..][..VOLUMES_AHEAD] {
            self.volumes.prefetch(handle, VOLUME_LINES);
        }
    }

    /// Takes packets `start..end` in, whose handles were found.
    pub(super) fn count(&mut self, batch: &Batch, packets: Range<usize>, payloads: &impl Payloads) {
        let Self {
            volumes,
            tcp,
            rare,
            names,
            burst,
            ..
        } = self;
        let burst = (batch, packets, &*burst);
        match (tcp, names) {
            // Where there is all, no packet asks whether there is.
            (Some(tcp), Some(names)) => {
                count(volumes, Some((tcp, rare)), Some(names), burst, payloads);
            }
            (tcp, names) => {
                let tcp = tcp.as_mut().map(|tcp| (tcp, rare));
                count(volumes, tcp, names.as_mut(), burst, payloads);
            }
        }
    }
}

/// Counts packets of a burst in the states of their flows, by the handles of these.
#[inline(always)]
fn count(
    volumes: &mut Pool<Volume>,
    mut tcp: Option<(&mut Pool<Tcp>, &mut RarePool)>,
    mut names: Option<&mut Names>,
    (batch, packets, burst): (&Batch, Range<usize>, &Handles),
    payloads: &impl Payloads,
) {
    let Range { start, end } = packets;
    let packets = batch.packets()[start..end].iter();
    let details = packets.zip(&batch.segments()[start..end]);
    let handles = burst[start..].windows(VOLUMES_AHEAD + 1);
    for (at, (handles, (packet, segment))) in (start..).zip(handles.zip(details)) {
        volumes.prefetch(handles[VOLUMES_AHEAD], VOLUME_LINES);
        if let Some(ahead) = volumes.get(handles[AHEAD])
            && ahead.tcp != NONE
            && let Some((states, _)) = &tcp
        {
            states.prefetch(ahead.tcp, Tcp::LINES);
        }
        let Some(volume) = volumes.get_mut(handles[0]) else {
            continue;
        };
        let side = usize::from((packet.direction ^ volume.initiator) & 1);
        volume.count(side, packet, segment);
        if segment.transport == ip_protocol::TCP
            && let Some((states, rare)) = &mut tcp
        {
            if states.get(volume.tcp).is_none() {
                volume.tcp = states.take();
            }
            if let Some(state) = states.get_mut(volume.tcp) {
                state.count(side, packet.time_ns, segment, rare);
            }
        }
        if volume
            .names
            .wants(segment.payload_length, segment.tcp_flags)
            && let Some(names) = &mut names
        {
            let may_begin = || may_begin(batch, segment, payloads);
            if !names.passes_over(volume.names, side, segment, may_begin) {
                read(names, volume, (packet, segment), batch, at, payloads);
            }
        }
    }
}

/// Whether something may begin with the payload of a packet, where nothing is known of its stream.
#[inline(never)]
fn may_begin(batch: &Batch, segment: &Segment, payloads: &impl Payloads) -> bool {
    let payload = match segment.payload_captured {
        0 => &[],
        _ => payloads.payload(batch, segment),
    };
    app::may_begin(payload, segment)
}

/// Reads packet `at` of a flow for its names. Apart from the loop, most of whose packets are not read:
/// what only this needs would take registers from all of them.
#[inline(never)]
fn read(
    names: &mut Names,
    volume: &mut Volume,
    (packet, segment): (&Packet, &Segment),
    batch: &Batch,
    at: usize,
    payloads: &impl Payloads,
) {
    let initiator = volume.initiator;
    let side = usize::from(packet.direction ^ initiator);
    let payload = || payloads.payload(batch, segment);
    let segment = app::Segment::of(packet.time_ns, side, segment, payload);
    names.read(&mut volume.names, &segment, || {
        key_from(initiator, batch, at)
    });
}
