//! More holes than are kept, and segments after their acknowledgement: the measures are exact, or
//! `tcpLimits` marks them.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Bytes of a unit. All segments begin and end at a multiple of it.
const UNIT: u32 = 100;

/// Measures of the client's data in one record.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    unique_bytes: u64,
    retransmitted: u32,
    retransmitted_bytes: u64,
    out_of_order: u32,
    missed_bytes: u64,
}

/// An event at the probe, in units of data.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A segment: first unit, and number of units.
    Data(u32, u32),
    /// An acknowledgement of all units below this one.
    Acknowledgement(u32),
    /// The active timeout cuts the flow.
    Cut,
}

/// Computes the truth from a set of all units.
#[derive(Debug, Default)]
struct Truth {
    seen: BTreeSet<u32>,
    /// Whether a packet of the client was seen.
    has_begun: bool,
    first: Option<u32>,
    highest: u32,
    acknowledged: u32,
    /// Units that earlier records counted as missed.
    missed: BTreeSet<u32>,
    counts: Counts,
}

impl Truth {
    fn process(&mut self, event: Event) {
        match event {
            Event::Data(from, units) => {
                if !self.has_begun && from >= self.acknowledged {
                    // Earlier data was in flight when the capture began.
                    (self.first, self.acknowledged) = (Some(from), 0);
                }
                self.has_begun = true;
                let repeated = (from..from + units).filter(|unit| self.seen.contains(unit));
                let repeated = repeated.count() as u32;
                self.counts.unique_bytes += u64::from((units - repeated) * UNIT);
                self.counts.retransmitted += u32::from(repeated > 0);
                self.counts.retransmitted_bytes += u64::from(repeated * UNIT);
                self.counts.out_of_order += u32::from(repeated == 0 && from < self.highest);
                self.seen.extend(from..from + units);
                self.first = Some(self.first.map_or(from, |first| first.min(from)));
                self.highest = self.highest.max(from + units);
            }
            // Acknowledgements of bytes before the first one seen do not count.
            Event::Acknowledgement(below) if self.first.is_some_and(|first| below < first) => {}
            Event::Acknowledgement(below) => {
                self.first = self.first.or(Some(below));
                self.acknowledged = self.acknowledged.max(below);
                self.highest = self.highest.max(below);
            }
            Event::Cut => {}
        }
    }

    fn end_record(&mut self) -> Counts {
        let mut missed: BTreeSet<u32> = (self.first.unwrap_or(0)..self.acknowledged).collect();
        missed.retain(|unit| !self.seen.contains(unit) && !self.missed.contains(unit));
        self.counts.missed_bytes = missed.len() as u64 * u64::from(UNIT);
        self.missed.append(&mut missed);
        std::mem::take(&mut self.counts)
    }
}

/// Returns the records of a flow that begins at `base`: measures, truth, and limits of each.
fn records(base: u32, has_syn: bool, events: &[Event]) -> Vec<(Counts, Counts, u8)> {
    let mut pool = TcpColdPool::new(2).unwrap();
    let (mut tcp, mut truth) = (Tcp::default(), Truth::default());
    let (mut payload, mut ended) = (0, Vec::new());
    if has_syn {
        truth.process(Event::Acknowledgement(0));
        truth.has_begun = true;
        let syn = segment(base.wrapping_sub(1), 0, SYN, 0, 1000);
        tcp.count(0, 0, &syn, &mut pool);
        let syn_ack = segment(49, base, SYN | ACK, 0, 1000);
        tcp.count(1, MS, &syn_ack, &mut pool);
    }
    for (&event, at) in events.iter().chain([&Event::Cut]).zip(2..) {
        truth.process(event);
        match event {
            Event::Data(from, units) => {
                let data = PacketInfo {
                    identification: at as u16,
                    ..segment(base.wrapping_add(from * UNIT), 50, ACK, units * UNIT, 1000)
                };
                payload += u64::from(data.payload_length);
                tcp.count(0, at * MS, &data, &mut pool);
            }
            Event::Acknowledgement(below) => {
                let number = base.wrapping_add(below * UNIT);
                let acknowledgement = segment(50, number, ACK, 0, 1000);
                tcp.count(1, at * MS, &acknowledgement, &mut pool);
            }
            Event::Cut => {
                let [cold, _] = cold_of(&tcp, &pool);
                let measured = Counts {
                    unique_bytes: std::mem::take(&mut payload) - cold.anomalies.repeated_bytes,
                    retransmitted: cold.anomalies.retransmitted,
                    retransmitted_bytes: cold.anomalies.retransmitted_bytes,
                    out_of_order: cold.anomalies.out_of_order,
                    missed_bytes: tcp.missed_bytes(0, &cold),
                };
                let limits = tcp.limits() & !limit::SEGMENTS;
                ended.push((measured, truth.end_record(), limits));
                tcp.next_record(&mut pool);
            }
        }
    }
    ended
}

/// Returns whether the measures of all records are exact, and their limits.
fn is_exact(events: &[Event]) -> (bool, u8) {
    let records = records(u32::MAX - 250, true, events);
    let is_exact = records.iter().all(|(measured, truth, _)| measured == truth);
    (
        is_exact,
        records.iter().fold(0, |all, record| all | record.2),
    )
}

#[test]
fn late_bytes_of_a_hole_that_was_given_up_are_marked() {
    use Event::{Acknowledgement, Cut, Data};
    let three_holes = [1, 3, 5].map(|from| Data(from, 1));
    let acknowledged = [
        Acknowledgement(6),
        Data(7, 1),
        Acknowledgement(8),
        Data(9, 1),
    ];
    let acknowledged = [&three_holes[..], &acknowledged].concat();
    // Acknowledged bytes of a hole that was given up count as missed, which is exact.
    assert_eq!(is_exact(&acknowledged), (true, 0));
    // So are retransmissions, except of bytes that may belong to the hole.
    let with_late = |from| [&acknowledged[..], &[Data(from, 1)]].concat();
    assert_eq!(is_exact(&with_late(9)), (true, 0));
    assert_eq!(is_exact(&with_late(6)), (true, 0));
    assert_eq!(is_exact(&with_late(0)), (false, limit::HOLES));
    // An acknowledged hole is not kept for the next record.
    let cut = [Data(1, 1), Acknowledgement(2), Cut, Data(0, 1)];
    assert_eq!(is_exact(&cut), (false, limit::HOLES));
    // A hole given up before it was acknowledged is marked in this record and the next.
    let open = [&three_holes[..], &[Data(7, 1), Cut, Data(0, 1)]].concat();
    let limits: Vec<u8> = records(7, true, &open).iter().map(|it| it.2).collect();
    assert_eq!(limits, [limit::HOLES; 2]);
}

proptest! {
    #[test]
    fn measures_are_exact_or_marked(
        base: u32,
        has_syn: bool,
        events in prop::collection::vec((0u32..12, -8i32..6, 1u32..3), 1..40),
    ) {
        let mut next = 8u32;
        let events: Vec<Event> = events
            .into_iter()
            .map(|(kind, away, units)| {
                let at = next.saturating_add_signed(away);
                match kind {
                    0 => Event::Cut,
                    1..4 => Event::Acknowledgement(at),
                    4..8 => {
                        next += units;
                        Event::Data(next - units, units)
                    }
                    _ => {
                        next = next.max(at + units);
                        Event::Data(at, units)
                    }
                }
            })
            .collect();
        for (measured, truth, limits) in records(base, has_syn, &events) {
            prop_assert!(limits != 0 || measured == truth, "{measured:?}, not {truth:?}: {events:?}");
        }
    }
}
