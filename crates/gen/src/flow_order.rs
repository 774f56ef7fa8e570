//! Which flow the next packet belongs to.

use crate::alias::AliasTable;
use crate::error::GeneratorError;
use hw::random::Random;
use std::fmt;

/// How packets are spread over flows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum FlowOrder {
    /// Every packet draws its flow, all alike.
    #[default]
    Uniform,
    /// One flow after the other: the gap of each is the number of flows less one, exactly.
    RoundRobin,
    /// Every packet draws its flow, the k-th with weight k^-alpha.
    Zipf(f64),
    /// The k-th flow sends in every k-th round, from its k-th on: k times slower than the first, to
    /// the packet.
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

/// Draws flow numbers below a bound, in an [`Order`].
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
    /// Draws from flows 0 to `flows` - 1.
    ///
    /// # Errors
    /// No flows, or an exponent that is no number or below 0.
    pub fn new(order: FlowOrder, flows: u32) -> Result<Self, GeneratorError> {
        if flows == 0 {
            return Err(GeneratorError::new("at least one flow is needed"));
        }
        let kind = match order {
            FlowOrder::Uniform => Kind::Uniform {
                flows: u64::from(flows),
            },
            FlowOrder::RoundRobin => Kind::RoundRobin { flows, next: 0 },
            FlowOrder::Zipf(alpha) => {
                if !(alpha.is_finite() && (0.0..=100.0).contains(&alpha)) {
                    return Err(GeneratorError::new(format!(
                        "Zipf exponent {alpha:?}: give a number from 0 to 100"
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

    /// The flows of the next packets.
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

/// No flow.
const NONE: u32 = u32::MAX;

/// Rounds as the hours of a clock: each hour has the flows that send then, chained.
#[derive(Clone, Debug)]
struct Wheel {
    /// First flow of each hour, one hour more than there are flows.
    hours: Vec<u32>,
    /// The flow behind this one in the same hour.
    behind: Vec<u32>,
    hour: usize,
    at: u32,
}

impl Wheel {
    fn new(flows: u32) -> Self {
        let count = flows as usize;
        let mut hours = vec![NONE; count + 1];
        for flow in 0..flows {
            hours[flow as usize + 1] = flow;
        }
        Self {
            hours,
            behind: vec![NONE; count],
            hour: 0,
            at: NONE,
        }
    }

    fn next(&mut self) -> u32 {
        // The first flow sends in every round: no hour is empty.
        while self.at == NONE {
            self.hour = (self.hour + 1) % self.hours.len();
            self.at = std::mem::replace(&mut self.hours[self.hour], NONE);
        }
        let flow = self.at;
        self.at = self.behind[flow as usize];
        let again = (self.hour + flow as usize + 1) % self.hours.len();
        self.behind[flow as usize] = std::mem::replace(&mut self.hours[again], flow);
        flow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(order: FlowOrder, flows: u32, count: usize) -> Vec<u32> {
        let mut drawn = vec![0; count];
        let mut drawer = FlowSelector::new(order, flows).unwrap();
        let mut random = Random::new(11, 0);
        // In pieces of changing length: that must make no difference.
        let mut rest = &mut drawn[..];
        let mut length = 1;
        while !rest.is_empty() {
            let (piece, others) = rest.split_at_mut(length.min(rest.len()));
            drawer.select(&mut random, piece);
            rest = others;
            length = length * 2 % 251;
        }
        drawn
    }

    #[test]
    fn round_robin_comes_round() {
        let drawn = draw(FlowOrder::RoundRobin, 7, 1000);
        assert!(
            drawn
                .iter()
                .enumerate()
                .all(|(at, &flow)| flow as usize == at % 7)
        );
    }

    #[test]
    fn the_kth_flow_is_k_times_slower_to_the_packet() {
        // 12 rounds of 4 flows: 12 + 6 + 4 + 3 packets.
        let drawn = draw(FlowOrder::RateInverse, 4, 25);
        for flow in 0..4u32 {
            let count = drawn.iter().filter(|&&drawn| drawn == flow).count();
            assert_eq!(count as u32, 12 / (flow + 1));
        }
        assert_eq!(drawn[..2], [0, 0]);
    }

    /// Chi-square of the drawn frequencies against theory, flows of few expected packets together.
    fn chi_square(order: FlowOrder, flows: u32, weight: impl Fn(f64) -> f64) -> (f64, f64) {
        const DRAWS: usize = 2_000_000;
        let mut counts = vec![0u64; flows as usize];
        for flow in draw(order, flows, DRAWS) {
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
    fn frequencies_are_those_of_theory() {
        for alpha in [0.5, 1.0, 1.5] {
            let (statistic, freedom) =
                chi_square(FlowOrder::Zipf(alpha), 1 << 16, |rank| rank.powf(-alpha));
            // About normal with that many degrees: 4 standard deviations either way. The seed is
            // fixed, so this holds always or never.
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
    fn what_cannot_be_drawn_is_refused() {
        assert!(FlowSelector::new(FlowOrder::Uniform, 0).is_err());
        assert!(FlowSelector::new(FlowOrder::Zipf(f64::NAN), 5).is_err());
        assert!(FlowSelector::new(FlowOrder::Zipf(-1.0), 5).is_err());
        assert_eq!(draw(FlowOrder::Zipf(2.0), 1, 10), [0; 10]);
        assert_eq!(draw(FlowOrder::RateInverse, 1, 10), [0; 10]);
    }
}
