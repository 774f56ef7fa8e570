//! The flags of `watch` that only some kinds of sources have.

use crate::arguments::WatchArguments;

pub(super) const PROMISCUOUS: &str = "--promiscuous";
pub(super) const RING_MEMORY: &str = "--ring-memory";
pub(super) const BATCH: &str = "--batch";
pub(super) const RX_RING: &str = "--rx-ring";
pub(super) const POOLS: &str = "--pools";
pub(super) const POOL_SIZE: &str = "--pool-size";

/// Returns these flags, and whether each was given.
pub(super) fn given(arguments: &WatchArguments) -> [(&'static str, bool); 6] {
    let (input, dpdk) = (&arguments.input, &arguments.dpdk);
    [
        (PROMISCUOUS, input.promiscuous),
        (RING_MEMORY, input.ring_memory.is_some()),
        (BATCH, dpdk.batch.is_some()),
        (RX_RING, dpdk.rx_ring.is_some()),
        (POOLS, dpdk.pools.is_some()),
        (POOL_SIZE, dpdk.pool_size.is_some()),
    ]
}
