//! Ended flows, as copied out of the table: entries and [`FlowStart`]s. Records are built from them
//! later, off the packet path, because in a flood every packet ends a flow.

use crate::batch::Packet;
use crate::end_reason::EndReason;
use crate::entry::{Entry, FlowEntry};
use crate::record::Record;
use crate::statistic::Value;
use wire::FlowKey;
use wire::tcp::flag::{ACK, SYN};

/// A flow's first packet: its time in the first word; its ICMP type and code (16 bits), the direction of
/// the initiator (1 bit) and its number (47 bits) in the second.
pub(crate) type FlowStart = [u64; 2];

/// Bit position of the first packet's number in the second word.
const NUMBER_SHIFT: u32 = 17;

/// Returns the direction of the initiator of a flow whose first packet is `packet`: the packet's own or,
/// if both directions are one flow and the packet answers a SYN that was not seen yet, the other one.
#[inline]
pub(crate) fn initiator_direction(packet: &Packet, both_directions: bool) -> u8 {
    let is_syn_ack = packet.tcp_flags & (SYN | ACK) == SYN | ACK;
    packet.direction ^ u8::from(both_directions && is_syn_ack)
}

/// Returns the start of a flow whose first packet is `packet` and whose initiator is in direction
/// `initiator`.
#[inline]
pub(crate) fn flow_start(packet: &Packet, initiator: u8) -> FlowStart {
    [
        packet.time_ns.cast_unsigned(),
        u64::from(packet.icmp_type_code)
            | u64::from(initiator & 1) << 16
            | packet.number << NUMBER_SHIFT,
    ]
}

/// Corrects the direction of the initiator.
pub(crate) fn set_start_direction(start: &mut FlowStart, direction: u8) {
    start[1] = start[1] & !(1 << 16) | u64::from(direction & 1) << 16;
}

/// Returns whether a flow has gaps and inter-arrival times, which its first packet does not have.
#[inline]
pub(crate) fn has_intervals(entry: &Entry) -> bool {
    entry.packets().iter().sum::<u64>() > 1
}

/// Returns the exact mean of a value over a flow's packets, in the unit of [`Value`]'s statistics; NaN
/// if the flow has none.
///
/// The entry and the start suffice: gaps add up to the other packets between the flow's first and last
/// packet, and inter-arrival times to the time between the first and the latest.
pub(crate) fn exact_mean(value: Value, entry: &Entry, start: &FlowStart) -> f64 {
    let packets = entry.packets().iter().sum::<u64>();
    let intervals = packets.saturating_sub(1);
    let [start_ns, rest] = *start;
    let (sum, count) = match value {
        Value::Size => (entry.bytes().iter().sum(), packets),
        Value::InterArrivalTime => {
            let elapsed_ns = entry.last_ns().wrapping_sub(start_ns.cast_signed());
            (elapsed_ns.cast_unsigned(), intervals)
        }
        Value::Gap => {
            let mask = u64::MAX >> NUMBER_SHIFT;
            let delta = entry.last_number().wrapping_sub(rest >> NUMBER_SHIFT) & mask;
            (delta.saturating_sub(intervals), intervals)
        }
    };
    sum as f64 / count as f64
}

/// Fills an empty record from a flow's entry and start. `wide_key` returns the whole key; it is called
/// only if the entry holds a digest.
#[inline]
pub(crate) fn fill_record(
    record: &mut Record,
    entry: &Entry,
    start: &FlowStart,
    wide_key: impl FnOnce() -> FlowKey,
) {
    let [start_ns, rest] = *start;
    let initiator = (rest >> 16 & 1) as usize;
    let key = entry.key();
    record.key = if key & FlowKey::WIDE_MARK != 0 {
        let key = wide_key();
        if initiator == 1 { key.reversed() } else { key }
    } else {
        FlowKey::from_compact(if initiator == 1 {
            FlowKey::compact_reversed(key)
        } else {
            key
        })
    };
    record.start_ns = start_ns.cast_signed();
    record.end_ns = entry.last_ns().max(record.start_ns);
    let (packets, bytes, tcp_flags) = (entry.packets(), entry.bytes(), entry.tcp_flags());
    for direction in [0, 1] {
        record.packets[direction ^ initiator] = packets[direction];
        record.bytes[direction ^ initiator] = bytes[direction];
        record.tcp_flags[direction ^ initiator] = tcp_flags[direction];
    }
    record.icmp_type_code = rest as u16;
}

/// Ended flows that are not records yet, in the order in which they ended.
#[derive(Clone, Debug, Default)]
pub struct EndedFlows {
    pub(crate) entries: Vec<Entry>,
    pub(crate) starts: Vec<FlowStart>,
    pub(crate) reasons: Vec<EndReason>,
    /// Whole keys of the flows whose entries hold digests.
    pub(crate) wide_keys: Vec<FlowKey>,
}

impl EndedFlows {
    /// Memory of a flow, in bytes.
    pub(crate) const BYTES_PER_FLOW: usize =
        size_of::<Entry>() + size_of::<FlowStart>() + size_of::<EndReason>() + size_of::<FlowKey>();

    /// Creates an empty list with memory for `count` flows, already mapped.
    #[must_use]
    pub(crate) fn populated(count: usize) -> Self {
        let mut ended = Self {
            entries: vec![Entry::default(); count],
            starts: vec![[1; 2]; count],
            reasons: vec![EndReason::EndOfInput; count],
            wide_keys: vec![FlowKey::default(); count],
        };
        ended.clear();
        ended
    }

    /// Reserves memory for `count` more flows.
    pub(crate) fn reserve(&mut self, count: usize) {
        self.entries.reserve(count);
        self.starts.reserve(count);
        self.reasons.reserve(count);
    }

    /// Returns the number of flows.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.reasons.len()
    }

    /// Returns whether the list is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.reasons.is_empty()
    }

    /// Removes all flows.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.starts.clear();
        self.reasons.clear();
        self.wide_keys.clear();
    }

    /// Appends a record for each flow to `records`, and removes the flows.
    pub(crate) fn complete(&mut self, records: &mut Vec<Record>) {
        let mut wide_keys = self.wide_keys.iter();
        let flows = self.entries.iter().zip(&self.starts).zip(&self.reasons);
        records.reserve(self.reasons.len());
        for ((entry, start), &reason) in flows {
            let record = records.push_mut(Record::default());
            fill_record(record, entry, start, || {
                wide_keys.next().copied().unwrap_or_default()
            });
            record.end_reason = reason;
        }
        self.clear();
    }
}
