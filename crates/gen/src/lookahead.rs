//! Which flow comes next, and asking for its image ahead.

use crate::error::GeneratorError;
use crate::flow_order::{FlowSelector, FlowOrder};
use crate::population::{FrameTemplates, Population};
use hw::random::Random;

/// Flow numbers drawn at a time. From one to two of these lie between drawing a flow, when its image
/// is asked for, and copying it, however small the bursts are.
const BLOCK: usize = 256;

/// What the random sequences are for.
const FLOW_USE: u64 = 0x666c_6f77;
const SHARE_USE: u64 = 0x7368_6172;

pub(crate) struct LookaheadSelector {
    non_matching: Option<FlowSelector>,
    matching: Option<FlowSelector>,
    /// The first flow that matches.
    first_matching: u32,
    /// The probability of a matching packet, times 2^64.
    share: u128,
    random: Random,
    share_random: Random,
    drawn: Box<[u32; 2 * BLOCK]>,
    at: usize,
}

impl LookaheadSelector {
    pub(crate) fn new(
        order: FlowOrder,
        population: &Population,
        share: f64,
        seed: u64,
    ) -> Result<Self, GeneratorError> {
        let drawer = |count: u32| match count {
            0 => Ok(None),
            count => FlowSelector::new(order, count).map(Some),
        };
        let mut drawing = Self {
            non_matching: drawer(population.non_matching)?,
            matching: drawer(population.flows() - population.non_matching)?,
            first_matching: population.non_matching,
            // Both ends are exact: 0, and 2^64.
            share: (share * 18_446_744_073_709_551_616.0) as u128,
            random: Random::new(seed, FLOW_USE),
            share_random: Random::new(seed, SHARE_USE),
            drawn: Box::new([0; 2 * BLOCK]),
            at: 0,
        };
        drawing.select_block(0, &population.templates);
        drawing.select_block(BLOCK, &population.templates);
        Ok(drawing)
    }

    /// The next flows.
    pub(crate) fn next_flows(&mut self, mut flows: &mut [u32], images: &FrameTemplates) {
        while !flows.is_empty() {
            let end = (self.at / BLOCK + 1) * BLOCK;
            let (now, later) = flows.split_at_mut(flows.len().min(end - self.at));
            now.copy_from_slice(&self.drawn[self.at..self.at + now.len()]);
            self.at += now.len();
            flows = later;
            if self.at == end {
                self.at %= 2 * BLOCK;
                self.select_block(end - BLOCK, images);
            }
        }
    }

    /// Draws the block that starts at `from`.
    fn select_block(&mut self, from: usize, images: &FrameTemplates) {
        let block = &mut self.drawn[from..from + BLOCK];
        match (&mut self.non_matching, &mut self.matching) {
            (Some(drawer), None) | (None, Some(drawer)) => drawer.select(&mut self.random, block),
            (Some(others), Some(matching)) => {
                let mut is_match = [false; BLOCK];
                for is_match in &mut is_match {
                    *is_match = u128::from(self.share_random.bits()) < self.share;
                }
                let count = is_match.iter().filter(|&&is_match| is_match).count();
                let mut drawn = [0; BLOCK];
                let (matches, rest) = drawn.split_at_mut(count);
                matching.select(&mut self.random, matches);
                others.select(&mut self.random, rest);
                let (mut matches, mut rest) = (matches.iter(), rest.iter());
                for (flow, is_match) in block.iter_mut().zip(is_match) {
                    // Each has as many as were counted.
                    *flow = if is_match {
                        matches.next().map_or(0, |flow| flow + self.first_matching)
                    } else {
                        rest.next().copied().unwrap_or(0)
                    };
                }
            }
            (None, None) => {}
        }
        images.prefetch(block);
    }
}
