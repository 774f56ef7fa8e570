//! Eviction before a batch is counted.

use super::*;

/// A bucket table that evicts before each batch, as the meter does.
struct Evicting {
    table: BucketTable,
    expiry: Expiry,
    observed: Observed,
    evicted: Vec<u32>,
    ended: EndedFlows,
    /// Flows that ended otherwise: for the table to grow, or for the slot of another.
    ended_otherwise: usize,
}

impl Evicting {
    fn new(flows_max: usize) -> Self {
        let hash = FlowHash::new(HashKind::Keyed, SEED);
        Self {
            table: bucket(flows_max, hash, Outputs::ALL),
            expiry: Expiry::new(&Timeouts::NONE, false, false),
            observed: Observed::default(),
            evicted: Vec::new(),
            ended: EndedFlows::default(),
            ended_otherwise: 0,
        }
    }

    /// Copies the flow in `slot` out and removes it.
    fn end(&mut self, slot: u32) {
        self.table.copy_out(&[slot], &mut self.ended);
        self.ended.reasons.push(EndReason::LackOfResources);
        self.table.remove(&[slot]);
    }

    /// Counts a batch. Returns how many flows were evicted before it.
    fn count(&mut self, batch: &Batch) -> usize {
        while let Err(slot) = self.table.grow(&mut |_, _| {}) {
            self.ended_otherwise += 1;
            self.end(slot);
        }
        self.table.prefetch_batch(batch);
        self.evicted.clear();
        let flows = self.table.flows();
        self.table.evict(batch, &mut self.evicted, &mut self.ended);
        let evicted = self.evicted.len();
        let reasons = std::iter::repeat_n(EndReason::LackOfResources, evicted);
        self.ended.reasons.extend(reasons);
        assert_eq!(self.table.flows(), flows - evicted);
        assert_eq!(self.ended.entries.len(), self.ended.reasons.len());
        assert_eq!(self.ended.starts.len(), self.ended.reasons.len());
        let mut occupied = Vec::new();
        self.table
            .find_occupied(0, self.table.slots(), &mut occupied);
        assert!(self.evicted.iter().all(|slot| !occupied.contains(slot)));
        let mut start = 0;
        while let Step::Ended { at, slot, .. } =
            self.table
                .update(batch, start..batch.len(), &self.expiry, &mut self.observed)
        {
            self.ended_otherwise += 1;
            self.end(slot);
            start = at;
        }
        self.observed.opened.clear();
        evicted
    }

    /// Ends all flows. Returns the packets and bytes of each key, of all records.
    fn finish(mut self) -> HashMap<FlowKey, [u64; 2]> {
        let mut slots = Vec::new();
        self.table.find_occupied(0, self.table.slots(), &mut slots);
        for slot in slots {
            self.end(slot);
        }
        assert_eq!(self.table.flows(), 0);
        let mut records = Vec::new();
        self.ended.complete(&mut records);
        let mut sums = HashMap::<FlowKey, [u64; 2]>::new();
        for record in records {
            let sum = sums.entry(record.key).or_default();
            sum[0] += record.packets[0];
            sum[1] += record.bytes[0];
        }
        sums
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn evicted_flows_have_all_their_packets_and_whole_keys(
        numbers in prop::collection::vec(0u32..2000, 1..3000), flows_max in 1usize..400
    ) {
        let mut table = Evicting::new(flows_max);
        let mut number = 0;
        for burst in numbers.chunks(BURST) {
            table.count(&batch(burst, number));
            number += burst.len() as u64;
            prop_assert!(table.table.flows() <= flows_max);
        }
        prop_assert_eq!(table.finish(), reference(&numbers));
    }
}

#[test]
fn eviction_makes_room_for_the_new_flows_of_a_batch() {
    const FLOWS_MAX: usize = 4 * BURST;
    let mut table = Evicting::new(FLOWS_MAX);
    let mut evicted = 0;
    for burst in 0..40 {
        let first = burst * BURST as u32;
        let flows: Vec<u32> = (first..first + BURST as u32).collect();
        let before = table.count(&batch(&flows, u64::from(first)));
        // Nothing is evicted until the table is full.
        assert_eq!(before == 0, burst < 4, "burst {burst}");
        evicted += before;
    }
    // The first buckets are too few for the first batch. Later, a new flow with the tag of another in
    // its bucket is not recognised as new before the count.
    assert!(table.ended_otherwise < 30, "{}", table.ended_otherwise);
    let flows = table.table.flows();
    assert_eq!(evicted + table.ended_otherwise + flows, 40 * BURST);
    // A few more than needed, because a bucket's flows are evicted together.
    assert!(flows > FLOWS_MAX - 32, "{flows}");
}

#[test]
fn eviction_spares_flows_that_were_seen_since_the_last_visit() {
    const FLOWS_MAX: usize = 4 * BURST;
    const ACTIVE: u32 = 100;
    let mut table = Evicting::new(FLOWS_MAX);
    let active = 0..ACTIVE;
    for burst in 0..200_u32 {
        // The active flows come back in each batch, all others have a single packet.
        let first = ACTIVE + burst * BURST as u32;
        let others = first..first + BURST as u32 - ACTIVE;
        let packets = active.clone().chain(others).map(|flow| {
            let packet = Packet {
                length: 60,
                clock_ms: 1 + burst,
                ..Packet::default()
            };
            (flow, packet)
        });
        table.count(&batch_of(packets));
    }
    let mut ended = Vec::new();
    table.ended.complete(&mut ended);
    let records = ended.iter().filter(|record| record.packets[0] > 1).count();
    // In its first round, the hand goes by the mean age in a bucket.
    assert!(records < ACTIVE as usize / 10, "{records}");
}

#[test]
fn tables_that_do_not_evict_leave_their_flows() {
    for (kind, mut table) in tables(64) {
        if kind == TableKind::Bucket {
            continue;
        }
        let flows: Vec<u32> = (0..200).collect();
        let batch = batch(&flows, 0);
        let expiry = Expiry::new(&Timeouts::NONE, false, false);
        table.update(&batch, 0..batch.len(), &expiry, &mut Observed::default());
        let before = table.flows();
        let (mut evicted, mut ended) = (Vec::new(), EndedFlows::default());
        table.evict(&batch, &mut evicted, &mut ended);
        assert_eq!(
            (table.flows(), evicted.len(), ended.entries.len()),
            (before, 0, 0)
        );
    }
}
