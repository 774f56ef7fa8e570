//! Selects flows ahead of time and prefetches their frame templates.

use crate::error::GeneratorError;
use crate::flow_order::{FlowOrder, FlowSelector};
use crate::population::{FrameTemplates, Population};
use hw::random::Random;

/// Flows selected at a time. A template is prefetched when its flow is selected, and copied one to
/// two blocks later. Blocks make this distance independent of the burst size: with small bursts a
/// prefetch per burst would come too late.
const BLOCK: usize = 256;

/// Streams of random numbers.
const FLOW_STREAM: u64 = 0x666c_6f77;
const SHARE_STREAM: u64 = 0x7368_6172;

/// Selects the flow of each packet, in a ring of two blocks.
pub(crate) struct LookaheadSelector {
    non_matching: Option<FlowSelector>,
    matching: Option<FlowSelector>,
    /// The first flow that matches the filter.
    first_matching: u32,
    /// The probability that a packet matches the filter, times 2^64.
    share: u128,
    random: Random,
    share_random: Random,
    flows_ahead: Box<[u32; 2 * BLOCK]>,
    at: usize,
}

impl LookaheadSelector {
    pub(crate) fn new(
        order: FlowOrder,
        population: &Population,
        share: f64,
        seed: u64,
    ) -> Result<Self, GeneratorError> {
        let selector = |count: u32| match count {
            0 => Ok(None),
            count => FlowSelector::new(order, count).map(Some),
        };
        let mut lookahead = Self {
            non_matching: selector(population.non_matching)?,
            matching: selector(population.flows() - population.non_matching)?,
            first_matching: population.non_matching,
            // Shares of 0 and 1 are exact: 0 and 2^64.
            share: (share * 18_446_744_073_709_551_616.0) as u128,
            random: Random::new(seed, FLOW_STREAM),
            share_random: Random::new(seed, SHARE_STREAM),
            flows_ahead: Box::new([0; 2 * BLOCK]),
            at: 0,
        };
        lookahead.select_block(0, &population.templates);
        lookahead.select_block(BLOCK, &population.templates);
        Ok(lookahead)
    }

    /// Fills `flows` with the flows of the next packets.
    pub(crate) fn next_flows(&mut self, mut flows: &mut [u32], templates: &FrameTemplates) {
        while !flows.is_empty() {
            let end = (self.at / BLOCK + 1) * BLOCK;
            let (current, rest) = flows.split_at_mut(flows.len().min(end - self.at));
            current.copy_from_slice(&self.flows_ahead[self.at..self.at + current.len()]);
            self.at += current.len();
            flows = rest;
            if self.at == end {
                self.at %= 2 * BLOCK;
                self.select_block(end - BLOCK, templates);
            }
        }
    }

    /// Selects and prefetches the block that starts at index `from`.
    fn select_block(&mut self, from: usize, templates: &FrameTemplates) {
        let block = &mut self.flows_ahead[from..from + BLOCK];
        match (&mut self.non_matching, &mut self.matching) {
            (Some(selector), None) | (None, Some(selector)) => {
                selector.select(&mut self.random, block);
            }
            (Some(non_matching), Some(matching)) => {
                let mut is_match = [false; BLOCK];
                for is_match in &mut is_match {
                    *is_match = u128::from(self.share_random.bits()) < self.share;
                }
                let count = is_match.iter().filter(|&&is_match| is_match).count();
                let mut selected = [0; BLOCK];
                let (matches, rest) = selected.split_at_mut(count);
                matching.select(&mut self.random, matches);
                non_matching.select(&mut self.random, rest);
                let (mut matches, mut rest) = (matches.iter(), rest.iter());
                for (flow, is_match) in block.iter_mut().zip(is_match) {
                    // Both iterators have exactly as many elements as were counted above.
                    *flow = if is_match {
                        matches.next().map_or(0, |flow| flow + self.first_matching)
                    } else {
                        rest.next().copied().unwrap_or(0)
                    };
                }
            }
            (None, None) => {}
        }
        templates.prefetch(block);
    }
}
