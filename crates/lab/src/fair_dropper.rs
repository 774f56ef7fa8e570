//! An emulated device under test that divides its capacity fairly among flows and drops the rest (max-min
//! fairness, Bertsekas and Gallager, "Data Networks", 6.5.2).

use std::collections::HashMap;
use std::hash::Hash;

/// Divides the capacity of each time slot; packets of a flow above its fair share of the slot are dropped.
#[derive(Clone, Debug)]
pub struct FairDropper {
    /// Packets forwarded per slot.
    capacity: u64,
}

impl FairDropper {
    /// Forwards at most `capacity` packets per slot.
    #[must_use]
    pub const fn new(capacity: u64) -> Self {
        Self { capacity }
    }

    /// Returns for each packet of a slot, given by its flow in order of arrival, whether it is forwarded.
    pub fn forward<F: Copy + Eq + Hash>(&self, arrivals: &[F]) -> Vec<bool> {
        let mut counts: HashMap<F, u64> = HashMap::new();
        for &flow in arrivals {
            *counts.entry(flow).or_default() += 1;
        }
        let demands: Vec<u64> = counts.values().copied().collect();
        let (level, mut extra) = fair_level(&demands, self.capacity);
        let mut sent: HashMap<F, u64> = HashMap::new();
        arrivals
            .iter()
            .map(|&flow| {
                let sent = sent.entry(flow).or_default();
                if *sent < level {
                    *sent += 1;
                    return true;
                }
                // The remainder of the division goes to the first flows that need it.
                if *sent == level && extra > 0 {
                    *sent += 1;
                    extra -= 1;
                    return true;
                }
                false
            })
            .collect()
    }
}

/// Returns the packets that each flow may send so that all together send `capacity`, and the number of
/// flows that may send one more.
fn fair_level(demands: &[u64], capacity: u64) -> (u64, u64) {
    let mut sorted = demands.to_vec();
    sorted.sort_unstable();
    let mut left = capacity;
    for (index, &demand) in sorted.iter().enumerate() {
        let flows = (sorted.len() - index) as u64;
        if demand.saturating_mul(flows) > left {
            return (left / flows, left % flows);
        }
        left -= demand;
    }
    (u64::MAX, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_flows_pass_and_large_ones_share_the_rest() {
        assert_eq!(fair_level(&[1, 2, 10, 10], 13), (5, 0));
        assert_eq!(fair_level(&[1, 2, 10, 10], 14), (5, 1));
        assert_eq!(fair_level(&[3, 4], 7), (u64::MAX, 0));
        assert_eq!(fair_level(&[], 7), (u64::MAX, 0));
    }

    proptest! {
        #[test]
        fn uses_the_capacity_and_is_max_min_fair(
            arrivals in prop::collection::vec(0u8..12, 0..400), capacity in 0u64..300
        ) {
            let forwarded = FairDropper::new(capacity).forward(&arrivals);
            let mut sent = [0u64; 12];
            let mut demand = [0u64; 12];
            for (&flow, &passed) in arrivals.iter().zip(&forwarded) {
                demand[usize::from(flow)] += 1;
                sent[usize::from(flow)] += u64::from(passed);
            }
            let total: u64 = sent.iter().sum();
            prop_assert_eq!(total, capacity.min(arrivals.len() as u64));
            let most = sent.iter().copied().max().unwrap_or(0);
            for flow in 0..12 {
                // A flow that lost packets has at most one packet less than any other.
                prop_assert!(sent[flow] == demand[flow] || sent[flow] + 1 >= most);
            }
        }
    }
}
