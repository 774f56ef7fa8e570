//! Traffic for the benchmarks.

use hw::random::Random;

/// Returns `length` flow numbers below `flows`: uniform, or Zipf(1) with the ranks in random order.
pub(crate) fn flow_numbers(flows: usize, length: usize, zipf: bool) -> Vec<u32> {
    let mut random = Random::from_state(9);
    if !zipf {
        return (0..length)
            .map(|_| random.below(flows as u64) as u32)
            .collect();
    }
    let mut order: Vec<u32> = (0..flows as u32).collect();
    for index in (1..flows).rev() {
        order.swap(index, random.below(index as u64 + 1) as usize);
    }
    let mut sum = 0.0;
    let cumulative: Vec<f64> = (1..=flows)
        .map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        })
        .collect();
    (0..length)
        .map(|_| {
            let target = random.unit() * sum;
            order[cumulative
                .partition_point(|&bound| bound < target)
                .min(flows - 1)]
        })
        .collect()
}

/// Returns the median.
pub(crate) fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
