//! Compares the bucket table with a map of entries, packet by packet: its fast path must count what its
//! slow path would.

use super::*;
use std::time::Duration;

/// The number of a flow, and one of its packets.
type Arrival = (u32, Packet);

/// Packets, mostly of few flows. Their numbers and clocks mostly increase slightly, but also leap, fall
/// and wrap.
fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let first_number = prop_oneof![
        Just((1u64 << 32) - 200),
        Just((1 << 48) - 200),
        Just(u64::MAX - 300),
        any::<u64>()
    ];
    let first_clock = prop_oneof![Just(0u32), Just(u32::MAX - 500)];
    let numbers = prop_oneof![
        40 => Just(1i64), 2 => -5i64..9, 1 => Just(1 << 32), 1 => Just(-(1i64 << 32)), 1 => -(1i64 << 48)..1 << 48
    ];
    let times = prop_oneof![10 => 0i64..2000, 1 => -3_000_000i64..3_000_000, 1 => any::<i64>()];
    let clocks =
        prop_oneof![30 => Just(0u32), 6 => 0u32..300, 1 => 0u32..100_000, 1 => any::<u32>()];
    let flags = prop_oneof![5 => Just(0x10u8), 1 => Just(2), 1 => any::<u8>()];
    let flows = prop_oneof![3 => 0u32..4, 1 => 0u32..60];
    let step = (flows, numbers, times, clocks, flags, 0u8..2, any::<u32>());
    (
        first_number,
        first_clock,
        prop::collection::vec(step, 1..600),
    )
        .prop_map(|(number, clock, steps)| {
            let mut last = Packet {
                number,
                clock_ms: clock,
                ..Packet::default()
            };
            let arrival = |(flow, number, time, clock, tcp_flags, direction, length)| {
                last = Packet {
                    number: last.number.wrapping_add_signed(number),
                    time_ns: last.time_ns.saturating_add(time),
                    clock_ms: last.clock_ms.wrapping_add(clock),
                    tcp_flags,
                    direction,
                    length,
                    ..Packet::default()
                };
                (flow, last)
            };
            steps.into_iter().map(arrival).collect()
        })
}

/// The results for a packet: inter-arrival time and gap, if selected, and whether it opened a flow.
type PacketResult = (Option<u64>, Option<u64>, bool);

/// The key, entry and end reason of an ended flow.
type EndedFlow = (FlowKey, [u64; 8], EndReason);

/// A map that does what the table must do.
#[derive(Default)]
struct Reference(HashMap<FlowKey, Entry>);

impl Reference {
    fn count(
        &mut self,
        batch: &Batch,
        outputs: Outputs,
        expiry: &Expiry,
        ended: &mut Vec<EndedFlow>,
    ) -> Vec<PacketResult> {
        let results = batch.packets().iter().enumerate().map(|(at, packet)| {
            let key = batch.flow_key(at);
            if let Some(entry) = self.0.get(&key)
                && let Some(reason) = expiry.ended_before(entry, packet)
            {
                ended.push((key, entry.0, reason));
                self.0.remove(&key);
            }
            let Some(entry) = self.0.get_mut(&key) else {
                let mut entry = Entry::default();
                let tick = expiry.active_tick(packet.clock_ms);
                entry.open(batch.keys()[at], packet, tick);
                self.0.insert(key, entry);
                let none = |selected: bool| selected.then_some(NO_VALUE);
                return (none(outputs.inter_arrival), none(outputs.gaps), true);
            };
            let silence_ns = packet.time_ns.saturating_sub(entry.last_ns()).max(0);
            let delta = packet.number.wrapping_sub(entry.last_number());
            let gap = delta.wrapping_sub(1) % (1 << 48);
            if outputs.numbers {
                entry.count::<true>(packet);
            } else {
                entry.count::<false>(packet);
            }
            let silence_ns = silence_ns.cast_unsigned();
            let inter_arrival = outputs.inter_arrival.then_some(silence_ns);
            (inter_arrival, outputs.gaps.then_some(gap), false)
        });
        results.collect()
    }
}

/// Counts a batch in pieces, as a meter does.
fn count(
    table: &mut BucketTable,
    batch: &Batch,
    piece: usize,
    outputs: Outputs,
    expiry: &Expiry,
    ended: &mut Vec<EndedFlow>,
) -> Vec<PacketResult> {
    let (mut results, mut observed, mut start) = (Vec::new(), Observed::default(), 0);
    while table.grow(&mut |_, _| {}).is_err() {}
    table.prefetch_batch(batch);
    while start < batch.len() {
        let end = batch.len().min(start + piece);
        let step = table.update(batch, start..end, expiry, &mut observed);
        let end = match step {
            Step::Done => end,
            Step::Ended { at, .. } => at,
        };
        results.extend((start..end).map(|at| {
            let slot = observed.slots[at];
            assert_eq!(table.key(slot, table.entry(slot)), batch.flow_key(at));
            let inter_arrival = outputs
                .inter_arrival
                .then_some(observed.inter_arrival_ns[at]);
            let gap = outputs.gaps.then_some(observed.gaps[at]);
            (inter_arrival, gap, observed.opened.contains(&(at as u16)))
        }));
        observed.opened.clear();
        start = end;
        if let Step::Ended { slot, reason, .. } = step {
            let entry = *table.entry(slot);
            ended.push((table.key(slot, &entry), entry.0, reason));
            table.remove(&[slot]);
        }
    }
    results
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn the_table_counts_every_packet_like_a_map_of_entries(
        arrivals in arrivals(),
        numbers: bool, gaps: bool, inter_arrival: bool,
        sizes in prop::collection::vec(1usize..=BURST, 1..20),
        piece in 1usize..=BURST,
        [idle, active, tcp_close] in prop::array::uniform3(prop::option::of(1u64..3000)),
        connections: bool, both_directions: bool,
    ) {
        let [idle, active, tcp_close] = [idle, active, tcp_close].map(|ms| ms.map(Duration::from_millis));
        let expiry = Expiry::new(&Timeouts { idle, active, tcp_close }, connections, both_directions);
        let outputs = Outputs { numbers: numbers || gaps, gaps, inter_arrival };
        let mut table = bucket(4096, FlowHash::new(HashKind::Keyed, SEED), outputs);
        let mut reference = Reference::default();
        let mut rest = &arrivals[..];
        for &size in sizes.iter().cycle() {
            let (now, later) = rest.split_at(size.min(rest.len()));
            rest = later;
            let batch = batch_of(now.iter().copied());
            let (mut ended, mut expected_ended) = (Vec::new(), Vec::new());
            let results = count(&mut table, &batch, piece, outputs, &expiry, &mut ended);
            prop_assert_eq!(results, reference.count(&batch, outputs, &expiry, &mut expected_ended));
            prop_assert_eq!(ended, expected_ended);
            if rest.is_empty() {
                break;
            }
        }
        let mut slots = Vec::new();
        table.find_occupied(0, table.slots(), &mut slots);
        let held = slots.iter().map(|&slot| (table.key(slot, table.entry(slot)), *table.entry(slot)));
        prop_assert_eq!(held.collect::<HashMap<_, _>>(), reference.0);
    }
}
