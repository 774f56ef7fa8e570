//! More gaps than are kept, and segments that come after their acknowledgement: what is counted is
//! true, or `tcpLimits` says that it may not be.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Bytes of a unit: all segments begin and end at a multiple of it.
const UNIT: u32 = 100;

/// What is told, or true, of the client's data in one record.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    unique_bytes: u64,
    retransmitted: u32,
    retransmitted_bytes: u64,
    out_of_order: u32,
    missed_bytes: u64,
}

/// What happens at the probe, in units of data.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A segment from here, so long.
    Data(u32, u32),
    /// An acknowledgement of all before.
    Acknowledgement(u32),
    /// An active time-out cuts the flow.
    Cut,
}

/// Remembers every unit.
#[derive(Debug, Default)]
struct Truth {
    came: BTreeSet<u32>,
    /// Whether a packet of the client came.
    has_begun: bool,
    first: Option<u32>,
    highest: u32,
    acknowledged: u32,
    /// Units that records before counted as missed.
    missed: BTreeSet<u32>,
    counts: Counts,
}

impl Truth {
    fn take(&mut self, event: Event) {
        match event {
            Event::Data(from, units) => {
                if !self.has_begun && from >= self.acknowledged {
                    // What was acknowledged before, or is yet to be, was under way when all began.
                    (self.first, self.acknowledged) = (Some(from), 0);
                }
                self.has_begun = true;
                let again = (from..from + units).filter(|unit| self.came.contains(unit));
                let again = again.count() as u32;
                self.counts.unique_bytes += u64::from((units - again) * UNIT);
                self.counts.retransmitted += u32::from(again > 0);
                self.counts.retransmitted_bytes += u64::from(again * UNIT);
                self.counts.out_of_order += u32::from(again == 0 && from < self.highest);
                self.came.extend(from..from + units);
                self.first = Some(self.first.map_or(from, |first| first.min(from)));
                self.highest = self.highest.max(from + units);
            }
            // Of what lies before the first byte seen nothing is known, nor that it was acknowledged.
            Event::Acknowledgement(before) if self.first.is_some_and(|first| before < first) => {}
            Event::Acknowledgement(before) => {
                self.first = self.first.or(Some(before));
                self.acknowledged = self.acknowledged.max(before);
                self.highest = self.highest.max(before);
            }
            Event::Cut => {}
        }
    }

    fn end_record(&mut self) -> Counts {
        let mut missed: BTreeSet<u32> = (self.first.unwrap_or(0)..self.acknowledged).collect();
        missed.retain(|unit| !self.came.contains(unit) && !self.missed.contains(unit));
        self.counts.missed_bytes = missed.len() as u64 * u64::from(UNIT);
        self.missed.append(&mut missed);
        std::mem::take(&mut self.counts)
    }
}

/// The records of a flow that begins at `base`: what is told of each, what is true, and the limits.
fn records(base: u32, has_syn: bool, events: &[Event]) -> Vec<(Counts, Counts, u8)> {
    let mut pool = RarePool::new(2).unwrap();
    let (mut tcp, mut truth) = (Tcp::default(), Truth::default());
    let (mut payload, mut ended) = (0, Vec::new());
    if has_syn {
        truth.take(Event::Acknowledgement(0));
        truth.has_begun = true;
        let syn = segment(base.wrapping_sub(1), 0, SYN, 0, 1000);
        tcp.count(0, 0, &syn, &mut pool);
        let answer = segment(49, base, SYN | ACK, 0, 1000);
        tcp.count(1, MS, &answer, &mut pool);
    }
    for (&event, at) in events.iter().chain([&Event::Cut]).zip(2..) {
        truth.take(event);
        match event {
            Event::Data(from, units) => {
                let data = Segment {
                    identification: at as u16,
                    ..segment(base.wrapping_add(from * UNIT), 50, ACK, units * UNIT, 1000)
                };
                payload += u64::from(data.payload_length);
                tcp.count(0, at * MS, &data, &mut pool);
            }
            Event::Acknowledgement(before) => {
                let number = base.wrapping_add(before * UNIT);
                let acknowledgement = segment(50, number, ACK, 0, 1000);
                tcp.count(1, at * MS, &acknowledgement, &mut pool);
            }
            Event::Cut => {
                let [rare, _] = rare_of(&tcp, &pool);
                let told = Counts {
                    unique_bytes: std::mem::take(&mut payload) - rare.anomalies.repeated_bytes,
                    retransmitted: rare.anomalies.retransmitted,
                    retransmitted_bytes: rare.anomalies.retransmitted_bytes,
                    out_of_order: rare.anomalies.out_of_order,
                    missed_bytes: tcp.sides[0].missed_bytes(&rare),
                };
                ended.push((told, truth.end_record(), tcp.limits() & !limit::SEGMENTS));
                tcp.next_record(&mut pool);
            }
        }
    }
    ended
}

/// Whether what is told of all records is true, and their limits.
fn is_true(events: &[Event]) -> (bool, u8) {
    let records = records(u32::MAX - 250, true, events);
    let is_true = records.iter().all(|(told, truth, _)| told == truth);
    (
        is_true,
        records.iter().fold(0, |all, record| all | record.2),
    )
}

#[test]
fn what_comes_late_for_a_gap_that_is_not_kept_is_marked() {
    use Event::{Acknowledgement, Cut, Data};
    let three_gaps = [1, 3, 5].map(|from| Data(from, 1));
    let acknowledged = [
        Acknowledgement(6),
        Data(7, 1),
        Acknowledgement(8),
        Data(9, 1),
    ];
    let acknowledged = [&three_gaps[..], &acknowledged].concat();
    // Missed, and told to be: no limit changes that.
    assert_eq!(is_true(&acknowledged), (true, 0));
    // What was sent again is, too.
    let again = |from| [&acknowledged[..], &[Data(from, 1)]].concat();
    assert_eq!(is_true(&again(9)), (true, 0));
    assert_eq!(is_true(&again(6)), (true, 0));
    assert_eq!(is_true(&again(0)), (false, limit::GAPS));
    // A gap that was acknowledged is not kept for the next record.
    let cut = [Data(1, 1), Acknowledgement(2), Cut, Data(0, 1)];
    assert_eq!(is_true(&cut), (false, limit::GAPS));
    // Given up before it was acknowledged: marked from there on, in the next record, too.
    let open = [&three_gaps[..], &[Data(7, 1), Cut, Data(0, 1)]].concat();
    let limits: Vec<u8> = records(7, true, &open).iter().map(|it| it.2).collect();
    assert_eq!(limits, [limit::GAPS; 2]);
}

proptest! {
    #[test]
    fn what_is_told_is_true_or_marked(
        base: u32,
        has_syn: bool,
        events in prop::collection::vec((0u32..12, -8i32..6, 1u32..3), 1..40),
    ) {
        let mut place = 8u32;
        let events: Vec<Event> = events
            .into_iter()
            .map(|(kind, away, units)| {
                let at = place.saturating_add_signed(away);
                match kind {
                    0 => Event::Cut,
                    1..4 => Event::Acknowledgement(at),
                    4..8 => {
                        place += units;
                        Event::Data(place - units, units)
                    }
                    _ => {
                        place = place.max(at + units);
                        Event::Data(at, units)
                    }
                }
            })
            .collect();
        for (told, truth, limits) in records(base, has_syn, &events) {
            prop_assert!(limits != 0 || told == truth, "{told:?}, not {truth:?}: {events:?}");
        }
    }
}
