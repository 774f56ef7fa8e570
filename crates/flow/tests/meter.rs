//! Compares the meter with a simple implementation of its rules: the same packets give the same records
//! with every table, sweep schedule and batch size.

use analysis::{Analyses, COLUMNS};
use flow::hash::HashKind;
use flow::statistic::{Estimator, Selection};
use flow::{
    BURST, Batch, EndReason, FlowDefinition, GarbageSchedule, Meter, MeterOptions, Packet, Record,
    RecordBatch, RecordSink, TableKey, TableKind, Timeouts,
};
use proptest::prelude::*;
use std::collections::HashMap;
use std::time::Duration;
use wire::tcp::flag::{ACK, FIN, RST, SYN};
use wire::{FlowKey, PacketInfo, ip_protocol};

#[derive(Clone, Copy, Debug)]
struct Event {
    flow: u32,
    backward: bool,
    wait_ms: u32,
    length: u32,
    tcp_flags: u8,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = (
        0u32..12,
        any::<bool>(),
        prop_oneof![4 => 0u32..50, 1 => 900u32..1100, 1 => 0u32..9000],
        60u32..1500,
        prop::sample::select(vec![0, ACK, ACK, ACK, SYN, SYN | ACK, FIN | ACK, RST]),
    )
        .prop_map(|(flow, backward, wait_ms, length, tcp_flags)| Event {
            flow,
            backward,
            wait_ms,
            length,
            tcp_flags,
        });
    prop::collection::vec(event, 1..400)
}

fn key(event: &Event) -> FlowKey {
    let mut key = FlowKey {
        version: 4,
        protocol: 6,
        source_port: 1000,
        destination_port: 80,
        ..FlowKey::default()
    };
    key.source[0] = 10;
    key.source[1..4].copy_from_slice(&event.flow.to_be_bytes()[1..]);
    key.destination[0] = 9;
    if event.flow.is_multiple_of(3) {
        key.version = 6;
        key.source[15] = 1;
    }
    if event.backward { key.reversed() } else { key }
}

/// Records, the values of their statistics, and their analyses.
#[derive(Default)]
struct Collect(Vec<Record>, Vec<f64>, Analyses);

impl RecordSink for Collect {
    fn take(&mut self, batch: &mut RecordBatch) {
        self.0.append(&mut batch.records);
        self.1.append(&mut batch.values);
        self.2.append(&mut batch.analyses);
    }
}

/// Makes the details of packets, each side's data in sequence.
#[derive(Default)]
struct Details(HashMap<FlowKey, u32>);

impl Details {
    fn of(&mut self, event: &Event) -> PacketInfo {
        let key = key(event);
        let payload_length = event.length - 60;
        let sent = self.0.entry(key).or_default();
        let sequence = *sent;
        *sent += payload_length + u32::from(event.tcp_flags & (SYN | FIN) != 0);
        PacketInfo {
            sequence,
            acknowledgement: self.0.get(&key.reversed()).copied().unwrap_or(0),
            payload_length,
            source_port: key.source_port,
            destination_port: key.destination_port,
            window: 1000,
            transport: ip_protocol::TCP,
            tcp_flags: event.tcp_flags,
            time_to_live: 64,
            ..PacketInfo::default()
        }
    }
}

fn metered(options: &MeterOptions, events: &[Event], batch_size: usize) -> Vec<Record> {
    let mut records = collected(options, events, batch_size).0;
    records.sort_by_key(|record| (record.start_ns, record.key, record.packets));
    records
}

fn collected(options: &MeterOptions, events: &[Event], batch_size: usize) -> Collect {
    let (maker, hash) = (options.key_maker(), options.flow_hash());
    let mut meter = Meter::new(options).expect("memory");
    let mut sink = Collect::default();
    let (mut batch, mut clock_ms) = (Batch::default(), 1u32);
    let mut details = Details::default();
    for (number, event) in events.iter().enumerate() {
        clock_ms += event.wait_ms;
        let mut whole = key(event);
        let (key, direction) = maker.from_key(&mut whole);
        let packet = Packet {
            time_ns: i64::from(clock_ms) * 1_000_000,
            number: number as u64,
            clock_ms,
            length: event.length,
            tcp_flags: event.tcp_flags,
            direction,
            ..Packet::default()
        };
        match key {
            TableKey::Compact(key) => batch.push(key, packet),
            TableKey::Wide(digest) => batch.push_wide(digest, &whole, packet),
        }
        if options.statistics.analysis.is_some() {
            batch.push_details(details.of(event));
        }
        if batch.len() == batch_size || number + 1 == events.len() {
            let (keys, hashes) = batch.keys_and_hashes();
            hash.hash_burst(keys, hashes);
            meter.process(&batch, &mut sink);
            batch.clear();
        }
    }
    meter.finish(clock_ms, &mut sink);
    let counters = meter.counters();
    assert_eq!(
        counters.recorded[0] + counters.unattributed[0],
        events.len() as u64
    );
    assert_eq!(counters.flows, 0);
    sink
}

/// The records that the rules give: one flow at a time, without a table or a sweep.
fn expected(
    events: &[Event],
    bidirectional: bool,
    idle_ms: u64,
    active_ms: u64,
    close_ms: Option<u64>,
) -> Vec<Record> {
    struct Open {
        record: Record,
        last_ms: u64,
        start_ms: u64,
    }
    let closed = |record: &Record| {
        let [first, second] = record.tcp_flags;
        let finished = if bidirectional {
            first & second
        } else {
            first | second
        };
        if (first | second) & RST != 0 {
            Some(EndReason::TcpReset)
        } else {
            (finished & FIN != 0).then_some(EndReason::TcpFin)
        }
    };
    let ended = |open: &Open, now_ms: u64| {
        let (limit_ms, reason) = closed(&open.record)
            .map_or((idle_ms, EndReason::IdleTimeout), |reason| {
                (close_ms.unwrap_or(idle_ms).min(idle_ms), reason)
            });
        let (active_at, silent_at) = (open.start_ms + active_ms, open.last_ms + limit_ms);
        if active_at <= silent_at {
            (now_ms >= active_at).then_some(EndReason::ActiveTimeout)
        } else {
            (now_ms > silent_at).then_some(reason)
        }
    };
    let mut records = Vec::new();
    let mut flows = HashMap::<FlowKey, Open>::new();
    let mut now_ms = 1;
    for event in events {
        now_ms += u64::from(event.wait_ms);
        let own = key(event);
        let identity = if bidirectional {
            own.min(own.reversed())
        } else {
            own
        };
        if let Some(open) = flows.get(&identity) {
            let opens = event.tcp_flags & (SYN | ACK) == SYN && close_ms.is_some();
            let reason = ended(open, now_ms).or_else(|| closed(&open.record).filter(|_| opens));
            if let Some(end_reason) = reason {
                records.push(Record {
                    end_reason,
                    ..open.record
                });
                flows.remove(&identity);
            }
        }
        let time_ns = now_ms as i64 * 1_000_000;
        // The sender of a first SYN-ACK answers a SYN that was not seen.
        let answers = bidirectional && event.tcp_flags & (SYN | ACK) == SYN | ACK;
        let open = flows.entry(identity).or_insert_with(|| Open {
            record: Record {
                key: if answers { own.reversed() } else { own },
                start_ns: time_ns,
                end_ns: time_ns,
                packets: [0; 2],
                bytes: [0; 2],
                tcp_flags: [0; 2],
                icmp_type_code: 0,
                end_reason: EndReason::EndOfInput,
            },
            last_ms: now_ms,
            start_ms: now_ms,
        });
        let side = usize::from(own != open.record.key);
        open.record.packets[side] += 1;
        open.record.bytes[side] += u64::from(event.length);
        open.record.tcp_flags[side] |= event.tcp_flags;
        open.record.end_ns = time_ns;
        open.last_ms = now_ms;
    }
    for open in flows.into_values() {
        let end_reason = ended(&open, now_ms)
            .or_else(|| closed(&open.record))
            .unwrap_or(EndReason::EndOfInput);
        records.push(Record {
            end_reason,
            ..open.record
        });
    }
    records.sort_by_key(|record| (record.start_ns, record.key, record.packets));
    records
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn records_follow_the_rules_with_every_table_and_sweep(
        events in events(),
        bidirectional: bool,
        (idle_ms, active_ms, close_ms) in (200u64..4000, 100u64..8000, prop::option::of(50u64..4000)),
        sweep_ms in 1u64..5000,
        parts in 1u32..50,
        batch_size in 1usize..=BURST,
    ) {
        let expected = expected(&events, bidirectional, idle_ms, active_ms, close_ms);
        for table in TableKind::ALL {
            let options = MeterOptions {
                flow: if bidirectional { FlowDefinition::Bidirectional } else { FlowDefinition::FiveTuple },
                table,
                hash: HashKind::Keyed,
                flows_max: 500,
                timeouts: Timeouts {
                    idle: Some(Duration::from_millis(idle_ms)),
                    active: Some(Duration::from_millis(active_ms)),
                    tcp_close: close_ms.map(Duration::from_millis),
                },
                garbage: GarbageSchedule { period: Duration::from_millis(sweep_ms), parts, fraction: 1.0 },
                ..MeterOptions::default()
            };
            let records = metered(&options, &events, batch_size);
            prop_assert_eq!(&records, &expected, "{:?}", table);
        }
    }

    /// The analysis of a flow that ends within a burst completes after the whole burst, unless the flow
    /// continues.
    #[test]
    fn the_analysis_does_not_depend_on_the_burst_size(
        events in events(),
        (idle_ms, active_ms, close_ms) in (20u64..4000, 100u64..8000, prop::option::of(0u64..4000)),
        flows_max in prop_oneof![1usize..8, 500usize..501],
        sizes in (1usize..=BURST, 1usize..=BURST),
    ) {
        let analyse = |batch_size: usize| {
            let options = MeterOptions {
                flow: FlowDefinition::Bidirectional,
                flows_max,
                timeouts: Timeouts {
                    idle: Some(Duration::from_millis(idle_ms)),
                    active: Some(Duration::from_millis(active_ms)),
                    tcp_close: close_ms.map(Duration::from_millis),
                },
                statistics: Selection::parse("full", Estimator::default()).expect("a good list"),
                ..MeterOptions::default()
            };
            let Collect(records, _, analyses) = collected(&options, &events, batch_size);
            assert_eq!(records.len(), analyses.len());
            let mut rows: Vec<_> = records.iter().zip(&analyses).map(|(record, analysis)| {
                let values = COLUMNS.iter().map(|column| column.value(analysis));
                (record.start_ns, record.key, record.packets, format!("{:?}", values.collect::<Vec<_>>()))
            }).collect();
            rows.sort();
            for (record, analysis) in records.iter().zip(&analyses) {
                let counted = analysis.volume.sides.each_ref().map(|side| u64::from(side.packets));
                assert_eq!(counted, record.packets);
            }
            rows
        };
        // In a full table, which flow is evicted depends on the packets of the same burst.
        if flows_max > 12 {
            prop_assert_eq!(analyse(sizes.0), analyse(sizes.1));
        } else {
            analyse(sizes.0);
        }
    }

    /// Statistics are the same alone and together, and the mean gap equals that of the moments.
    #[test]
    fn the_mean_gap_follows_from_the_first_and_the_last_packet(
        events in events(), idle_ms in 200u64..4000, flows_max in 4usize..500, batch_size in 1usize..=BURST,
    ) {
        for table in TableKind::ALL {
            let [gaps, times, both, means] = ["gap", "iat", "gap,iat", "gap-mean"].map(|list| {
                let options = MeterOptions {
                    flow: FlowDefinition::Bidirectional,
                    table,
                    flows_max,
                    timeouts: Timeouts { idle: Some(Duration::from_millis(idle_ms)), ..Timeouts::NONE },
                    statistics: Selection::parse(list, Estimator::default()).expect("a good list"),
                    ..MeterOptions::default()
                };
                collected(&options, &events, batch_size)
            });
            prop_assert_eq!(&gaps.0, &means.0);
            let alone = gaps.1.chunks(4).zip(times.1.chunks(4)).flat_map(|(gap, time)| [gap, time].concat());
            let alone: Vec<u64> = alone.map(f64::to_bits).collect();
            prop_assert_eq!(alone, both.1.iter().map(|value| value.to_bits()).collect::<Vec<_>>());
            prop_assert_eq!(means.1.len(), means.0.len());
            for (moments, mean) in gaps.1.chunks(4).zip(&means.1) {
                let equal = moments[1].is_nan() && mean.is_nan() || (moments[1] - mean).abs() <= 1e-9 * (1.0 + mean);
                prop_assert!(equal, "{:?}: {} and {}", table, moments[1], mean);
            }
        }
    }

    #[test]
    fn a_small_table_accounts_for_every_packet(events in events(), flows_max in 1usize..8) {
        let options = MeterOptions { flows_max, timeouts: Timeouts::NONE, ..MeterOptions::default() };
        let records = metered(&options, &events, 64);
        let evicted = records.iter().filter(|record| record.end_reason == EndReason::LackOfResources).count();
        let keys: std::collections::HashSet<_> = events.iter().map(key).collect();
        prop_assert!(evicted > 0 || keys.len() <= flows_max);
        let bytes: u64 = records.iter().map(|record| record.bytes[0]).sum();
        prop_assert_eq!(bytes, events.iter().map(|event| u64::from(event.length)).sum::<u64>());
    }
}

/// New flows take the slots of ended flows that the sweep has not reached yet, so no live flow is
/// evicted from buckets that ended flows fill.
#[test]
fn a_table_with_room_evicts_no_flow_however_many_come_and_end() {
    let events: Vec<Event> = (0..150_000)
        .map(|flow| Event {
            flow,
            backward: false,
            wait_ms: u32::from(flow.is_multiple_of(5)),
            length: 100,
            tcp_flags: ACK,
        })
        .collect();
    let options = MeterOptions {
        timeouts: Timeouts {
            idle: Some(Duration::from_millis(20)),
            ..Timeouts::NONE
        },
        ..MeterOptions::default()
    };
    let records = metered(&options, &events, BURST);
    assert_eq!(records.len(), events.len());
    let evicted = |record: &&Record| record.end_reason == EndReason::LackOfResources;
    assert_eq!(records.iter().filter(evicted).count(), 0);
}

/// A flood evicts its own flows. Flows that send again before the clock hand completes a round continue
/// in one record.
#[test]
fn active_flows_stay_in_the_table_during_a_flood() {
    const FLOWS: u32 = 500;
    const PACKETS: u32 = 200_000;
    let events: Vec<Event> = (0..PACKETS)
        .map(|number| Event {
            flow: match number % 5 {
                0 => number / 5 % FLOWS,
                _ => FLOWS + number,
            },
            backward: false,
            wait_ms: u32::from(number % 5 == 0),
            length: 100,
            tcp_flags: ACK,
        })
        .collect();
    let options = MeterOptions {
        flows_max: 4096,
        timeouts: Timeouts::NONE,
        ..MeterOptions::default()
    };
    let records = metered(&options, &events, BURST);
    let packets = |record: &Record| record.packets[0] + record.packets[1];
    let total: u64 = records.iter().map(packets).sum();
    assert_eq!(total, u64::from(PACKETS));
    let active = records.iter().filter(|record| packets(record) > 1);
    // In its first round, the hand goes by the mean age in a bucket, and evicts some of them.
    let records = active.count();
    assert!((500..600).contains(&records), "{records}");
}
