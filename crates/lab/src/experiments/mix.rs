//! Generated traffic that imitates a trace.

use crate::trial::TrialError;
use generator::{FlowFields, FlowOrder, FrameSizes, Protocol, TrafficOptions};

/// Number of flows, protocols, and frame sizes with weights.
pub(super) struct Mix {
    pub(super) name: &'static str,
    pub(super) flows: u32,
    pub(super) protocols: &'static [Protocol],
    pub(super) sizes: &'static [(usize, f64)],
}

/// Traffic like a campus network's.
pub(super) const CAMPUS: Mix = Mix {
    name: "campus",
    flows: 1 << 16,
    protocols: &[Protocol::Tcp, Protocol::Udp],
    sizes: &[(64, 4.0), (300, 2.0), (1000, 1.0), (1518, 4.0)],
};

impl Mix {
    /// The generator's options, with Zipf-distributed flows.
    pub(super) fn traffic(&self, seed: u64) -> Result<TrafficOptions, TrialError> {
        let protocols = self.protocols.iter().copied();
        Ok(TrafficOptions {
            flows: self.flows,
            order: FlowOrder::Zipf(0.9),
            kinds: protocols.map(FlowFields::ipv4).collect(),
            sizes: FrameSizes::list(self.sizes.to_vec()).map_err(TrialError::missing)?,
            seed,
            ..TrafficOptions::default()
        })
    }
}
