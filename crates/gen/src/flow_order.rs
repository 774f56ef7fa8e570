//! The distribution of packets over flows.

use crate::alias::AliasTable;
use crate::error::GeneratorError;
use hw::random::Random;
use std::fmt;

/// How packets are distributed over flows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum FlowOrder {
    /// Every packet belongs to a random flow, all with the same probability.
    #[default]
    Uniform,
    /// One flow after the other: the gap is always the number of flows minus one.
    RoundRobin,
    /// Every packet belongs to a random flow, the k-th with weight k^-alpha.
    Zipf(f64),
    /// The k-th flow sends one packet in every k-th round, so its rate is exactly 1/k of the rate of
    /// the first.
    RateInverse,
}

impl fmt::Display for FlowOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::RoundRobin => f.write_str("round-robin"),
            Self::Zipf(alpha) => write!(f, "Zipf({alpha})"),
            Self::RateInverse => f.write_str("rate-inverse"),
        }
    }
}

/// Selects the flow of each packet in a [`FlowOrder`].
#[derive(Clone, Debug)]
pub struct FlowSelector {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Uniform { flows: u64 },
    RoundRobin { flows: u32, next: u32 },
    Alias(AliasTable),
    Wheel(Wheel),
}

impl FlowSelector {
    /// Creates a selector over flows 0 to `flows` - 1.
    ///
    /// # Errors
    /// If there are no flows, or the exponent is not from 0 to 100.
    pub fn new(order: FlowOrder, flows: u32) -> Result<Self, GeneratorError> {
        if flows == 0 {
            return Err(GeneratorError::new("at least one flow is required"));
        }
        let kind = match order {
            FlowOrder::Uniform => Kind::Uniform {
                flows: u64::from(flows),
            },
            FlowOrder::RoundRobin => Kind::RoundRobin { flows, next: 0 },
            FlowOrder::Zipf(alpha) => {
                if !(alpha.is_finite() && (0.0..=100.0).contains(&alpha)) {
                    return Err(GeneratorError::new(format!(
                        "invalid Zipf exponent {alpha:?}: use a number from 0 to 100"
                    )));
                }
                let weights: Vec<f64> = (1..=flows)
                    .map(|rank| f64::from(rank).powf(-alpha))
                    .collect();
                Kind::Alias(AliasTable::new(&weights))
            }
            FlowOrder::RateInverse => Kind::Wheel(Wheel::new(flows)),
        };
        Ok(Self { kind })
    }

    /// Fills `flows` with the flows of the next packets.
    pub fn select(&mut self, random: &mut Random, flows: &mut [u32]) {
        match &mut self.kind {
            Kind::Uniform { flows: bound } => {
                for flow in flows {
                    *flow = random.below(*bound) as u32;
                }
            }
            Kind::RoundRobin { flows: bound, next } => {
                for flow in flows {
                    *flow = *next;
                    *next = if *next + 1 == *bound { 0 } else { *next + 1 };
                }
            }
            Kind::Alias(table) => table.fill(|| random.bits(), flows),
            Kind::Wheel(wheel) => {
                for flow in flows {
                    *flow = wheel.next();
                }
            }
        }
    }
}

/// The end of a list of flows.
const NONE: u32 = u32::MAX;

/// A timing wheel with one slot per round. A slot holds the list of flows that send in this round.
#[derive(Clone, Debug)]
struct Wheel {
    /// The first flow of each slot. There is one slot more than flows, so that the slowest flow does not
    /// return to its own slot.
    slots: Vec<u32>,
    /// The next flow in the same slot, by flow.
    next: Vec<u32>,
    slot: usize,
    /// The next flow to send, or [`NONE`] at the end of the slot.
    flow: u32,
}

impl Wheel {
    fn new(flows: u32) -> Self {
        let count = flows as usize;
        let mut slots = vec![NONE; count + 1];
        for flow in 0..flows {
            slots[flow as usize + 1] = flow;
        }
        Self {
            slots,
            next: vec![NONE; count],
            slot: 0,
            flow: NONE,
        }
    }

    fn next(&mut self) -> u32 {
        // Ends, because the first flow sends in every round: no slot is empty.
        while self.flow == NONE {
            self.slot = (self.slot + 1) % self.slots.len();
            self.flow = std::mem::replace(&mut self.slots[self.slot], NONE);
        }
        let flow = self.flow;
        self.flow = self.next[flow as usize];
        let slot = (self.slot + flow as usize + 1) % self.slots.len();
        self.next[flow as usize] = std::mem::replace(&mut self.slots[slot], flow);
        flow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(order: FlowOrder, flows: u32, count: usize) -> Vec<u32> {
        let mut selected = vec![0; count];
        let mut selector = FlowSelector::new(order, flows).unwrap();
        let mut random = Random::new(11, 0);
        // Calls of different lengths must not change the result.
        let mut rest = &mut selected[..];
        let mut length = 1;
        while !rest.is_empty() {
            let (piece, others) = rest.split_at_mut(length.min(rest.len()));
            selector.select(&mut random, piece);
            rest = others;
            length = length * 2 % 251;
        }
        selected
    }

    #[test]
    fn round_robin_repeats_all_flows() {
        let selected = select(FlowOrder::RoundRobin, 7, 1000);
        assert!(
            selected
                .iter()
                .enumerate()
                .all(|(at, &flow)| flow as usize == at % 7)
        );
    }

    #[test]
    fn rate_inverse_gives_exactly_one_kth_of_the_rate() {
        // 12 rounds of 4 flows: 12 + 6 + 4 + 3 packets.
        let selected = select(FlowOrder::RateInverse, 4, 25);
        for flow in 0..4u32 {
            let count = selected
                .iter()
                .filter(|&&selected| selected == flow)
                .count();
            assert_eq!(count as u32, 12 / (flow + 1));
        }
        assert_eq!(selected[..2], [0, 0]);
    }

    /// The chi-square statistic of the frequencies against theory, and the degrees of freedom. Flows
    /// with few expected packets are combined.
    fn chi_square(order: FlowOrder, flows: u32, weight: impl Fn(f64) -> f64) -> (f64, f64) {
        const DRAWS: usize = 2_000_000;
        let mut counts = vec![0u64; flows as usize];
        for flow in select(order, flows, DRAWS) {
            counts[flow as usize] += 1;
        }
        let sum: f64 = (1..=flows).map(|rank| weight(f64::from(rank))).sum();
        let (mut statistic, mut classes) = (0.0, 0.0);
        let (mut expected, mut observed) = (0.0, 0.0);
        for (index, &count) in counts.iter().enumerate() {
            expected += weight(index as f64 + 1.0) / sum * DRAWS as f64;
            observed += count as f64;
            if expected >= 20.0 || index + 1 == counts.len() {
                statistic += (observed - expected).powi(2) / expected;
                classes += 1.0;
                (expected, observed) = (0.0, 0.0);
            }
        }
        (statistic, classes - 1.0)
    }

    #[test]
    fn frequencies_match_theory() {
        for alpha in [0.5, 1.0, 1.5] {
            let (statistic, freedom) =
                chi_square(FlowOrder::Zipf(alpha), 1 << 16, |rank| rank.powf(-alpha));
            // Nearly normal with this many degrees of freedom: accept 4 standard deviations. The seed
            // is fixed, so the result is always the same.
            let deviations = (statistic - freedom) / (2.0 * freedom).sqrt();
            assert!(
                deviations.abs() < 4.0,
                "Zipf({alpha}): {statistic} of {freedom}"
            );
        }
        let (statistic, freedom) = chi_square(FlowOrder::Uniform, 1000, |_| 1.0);
        let deviations = (statistic - freedom) / (2.0 * freedom).sqrt();
        assert!(deviations.abs() < 4.0, "uniform: {statistic} of {freedom}");
    }

    #[test]
    fn rejects_invalid_orders() {
        assert!(FlowSelector::new(FlowOrder::Uniform, 0).is_err());
        assert!(FlowSelector::new(FlowOrder::Zipf(f64::NAN), 5).is_err());
        assert!(FlowSelector::new(FlowOrder::Zipf(-1.0), 5).is_err());
        assert_eq!(select(FlowOrder::Zipf(2.0), 1, 10), [0; 10]);
        assert_eq!(select(FlowOrder::RateInverse, 1, 10), [0; 10]);
    }
}
