//! A device under test of our own: it forwards packets at a capacity that it divides fairly among
//! flows, and drops the rest (max-min fairness, Bertsekas and Gallager, "Data Networks", 6.5.2).

use std::collections::HashMap;
use std::hash::Hash;

/// Divides its capacity slot by slot: what a flow sends beyond the fair share of the slot is dropped.
#[derive(Clone, Debug)]
pub struct FairDropper {
    /// Packets that a slot forwards.
    capacity: u64,
}

impl FairDropper {
    /// Forwards at most `capacity` packets a slot.
    #[must_use]
    pub const fn new(capacity: u64) -> Self {
        Self { capacity }
    }

    /// Which of a slot's packets, given by their flows in order of arrival, are forwarded.
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
                // What whole packets cannot divide goes to the flows that come first.
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

/// The most packets that each flow may send so that all together send `capacity`, and how many flows
/// may send one more.
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
    fn small_flows_pass_whole_and_large_ones_share_the_rest() {
        assert_eq!(fair_level(&[1, 2, 10, 10], 13), (5, 0));
        assert_eq!(fair_level(&[1, 2, 10, 10], 14), (5, 1));
        assert_eq!(fair_level(&[3, 4], 7), (u64::MAX, 0));
        assert_eq!(fair_level(&[], 7), (u64::MAX, 0));
    }

    proptest! {
        #[test]
        fn nothing_is_wasted_and_nobody_has_more_than_one_who_wants_more(
            arrivals in prop::collection::vec(0u8..12, 0..400), capacity in 0u64..300
        ) {
            let forwarded = FairDropper::new(capacity).forward(&arrivals);
            let mut sent = [0u64; 12];
            let mut wanted = [0u64; 12];
            for (&flow, &passed) in arrivals.iter().zip(&forwarded) {
                wanted[usize::from(flow)] += 1;
                sent[usize::from(flow)] += u64::from(passed);
            }
            let total: u64 = sent.iter().sum();
            prop_assert_eq!(total, capacity.min(arrivals.len() as u64));
            let most = sent.iter().copied().max().unwrap_or(0);
            for flow in 0..12 {
                // A flow that lost packets has as much as any, but for one packet.
                prop_assert!(sent[flow] == wanted[flow] || sent[flow] + 1 >= most);
            }
        }
    }
}
