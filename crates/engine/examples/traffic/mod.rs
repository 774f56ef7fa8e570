//! Flow numbers for the benchmarks.

/// A small generator (SplitMix64), so that a run repeats.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Flow numbers below `flows`: uniform, or Zipf(1) over the flows in random order.
pub(crate) fn flow_numbers(flows: usize, length: usize, zipf: bool) -> Vec<u32> {
    let mut random = Random(9);
    if !zipf {
        return (0..length).map(|_| random.below(flows) as u32).collect();
    }
    let mut order: Vec<u32> = (0..flows as u32).collect();
    for index in (1..flows).rev() {
        order.swap(index, random.below(index + 1));
    }
    let mut sum = 0.0;
    let cumulated: Vec<f64> = (1..=flows)
        .map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        })
        .collect();
    (0..length)
        .map(|_| {
            let wanted = random.unit() * sum;
            order[cumulated
                .partition_point(|&upto| upto < wanted)
                .min(flows - 1)]
        })
        .collect()
}

/// The middle one.
pub(crate) fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
