//! Flows that have ended, as their table knew them: their lines and their openings, copied. Records are
//! made of them when somebody wants to read one, which is no part of the packet path: in a flood each
//! packet ends a flow.

use crate::batch::Packet;
use crate::entry::{Entry, FlowEntry};
use crate::record::{EndReason, Record};
use crate::statistic::Value;
use wire::FlowKey;

/// What is kept of a flow's first packet: its time; its ICMP type and code (16 bits), direction (1)
/// and number (47). Its clock is in the entry.
pub(crate) type Opening = [u64; 2];

/// Where the number of the first packet is in the second word.
const NUMBER: u32 = 17;

/// The opening of a flow of this first packet, in this direction.
#[inline(always)]
pub(crate) fn opening(packet: &Packet, direction: u8) -> Opening {
    [
        packet.time_ns.cast_unsigned(),
        u64::from(packet.icmp_type_code) | u64::from(direction & 1) << 16 | packet.number << NUMBER,
    ]
}

/// Corrects the direction of the first packet.
pub(crate) fn set_direction(opening: &mut Opening, direction: u8) {
    opening[1] = opening[1] & !(1 << 16) | u64::from(direction & 1) << 16;
}

/// Whether a flow has had gaps and inter-arrival times: its first packet has none.
#[inline]
pub(crate) fn has_intervals(entry: &Entry) -> bool {
    let [there, back] = entry.packets();
    there + back > 1
}

/// The exact mean of what a flow's packets have shown of a value, in the unit of its statistics; NaN of
/// nothing. That of gaps: the other packets between the first and the last of this one, shared among its
/// gaps. Of times: from the first to the latest, which is their sum.
pub(crate) fn mean_of(value: Value, entry: &Entry, opening: &Opening) -> f64 {
    let [there, back] = entry.packets();
    let packets = there + back;
    let intervals = packets.saturating_sub(1);
    let [start_ns, rest] = *opening;
    let (sum, count) = match value {
        Value::Size => (entry.bytes().iter().sum(), packets),
        Value::InterArrivalTime => {
            let passed_ns = entry.last_ns().wrapping_sub(start_ns.cast_signed());
            (passed_ns.cast_unsigned(), intervals)
        }
        Value::Gap => {
            let mask = u64::MAX >> NUMBER;
            let passed = entry.last_number().wrapping_sub(rest >> NUMBER) & mask;
            (passed.saturating_sub(intervals), intervals)
        }
    };
    sum as f64 / count as f64
}

/// Fills an empty record, where it lies, by what is known of a flow; `wide_key` tells its whole key
/// where the entry has but a digest of it.
#[inline(always)]
pub(crate) fn fill(
    record: &mut Record,
    entry: &Entry,
    opening: &Opening,
    wide_key: impl FnOnce() -> FlowKey,
) {
    let [start_ns, rest] = *opening;
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

/// Flows that have ended and are no records yet, in their order.
#[derive(Clone, Debug, Default)]
pub struct EndedFlows {
    pub(crate) entries: Vec<Entry>,
    pub(crate) openings: Vec<Opening>,
    pub(crate) reasons: Vec<EndReason>,
    /// Whole keys of those whose entries have digests.
    pub(crate) wide_keys: Vec<FlowKey>,
}

impl EndedFlows {
    /// None, with the memory of so many, taken from the machine.
    #[must_use]
    pub(crate) fn populated(count: usize) -> Self {
        let mut ended = Self {
            entries: vec![Entry::default(); count],
            openings: vec![[1; 2]; count],
            reasons: vec![EndReason::EndOfInput; count],
            wide_keys: vec![FlowKey::default(); count],
        };
        ended.clear();
        ended
    }

    /// Takes memory for so many more, unless it is there.
    pub(crate) fn reserve(&mut self, count: usize) {
        self.entries.reserve(count);
        self.openings.reserve(count);
        self.reasons.reserve(count);
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.reasons.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.reasons.is_empty()
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.openings.clear();
        self.reasons.clear();
        self.wide_keys.clear();
    }

    /// Makes records of all of them, behind those that there are.
    pub(crate) fn complete(&mut self, records: &mut Vec<Record>) {
        let mut wide_keys = self.wide_keys.iter();
        let flows = self.entries.iter().zip(&self.openings).zip(&self.reasons);
        records.reserve(self.reasons.len());
        for ((entry, opening), &reason) in flows {
            let record = records.push_mut(Record::default());
            fill(record, entry, opening, || {
                wide_keys.next().copied().unwrap_or_default()
            });
            record.end_reason = reason;
        }
        self.clear();
    }
}
