//! The options of synthetic traffic.

use crate::fields::{FlowFields, Protocol};
use crate::flow_order::FlowOrder;
use crate::frame::{Layout, MacAddresses};
use crate::match_filter::MatchFilter;
use crate::probe::Probe;
use crate::random_fields::RandomFields;
use crate::sizes::{FCS_BYTES, FrameSizes};
use wire::toeplitz::MICROSOFT_KEY;

/// The options of synthetic traffic.
#[derive(Clone, Debug)]
pub struct TrafficOptions {
    /// Number of flows.
    pub flows: u32,
    /// How packets are distributed over the flows.
    pub order: FlowOrder,
    /// Kinds of flows, at most one per address family and protocol. Each flow has a random kind.
    pub kinds: Vec<FlowFields>,
    /// Frame sizes.
    pub sizes: FrameSizes,
    /// A filter, and the share of packets (0 to 1) that match it; the others do not match. The matching
    /// flows are the last ones, and [`FlowOrder`] applies to each of the two parts separately.
    pub matching: Option<(MatchFilter, f64)>,
    /// Fields with a random value in every packet.
    pub random: RandomFields,
    /// Whether payloads contain sequence numbers, starting with 0.
    pub sequence: bool,
    /// Whether payloads also contain a timestamp, copied from [`Slot::time_ns`](port::Slot::time_ns).
    pub timestamps: bool,
    /// Ethernet addresses.
    pub mac: MacAddresses,
    /// Key of the Toeplitz hash of addresses and ports in [`Slot::rss_hash`](port::Slot::rss_hash); at
    /// least 40 bytes.
    pub rss_key: Vec<u8>,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Default for TrafficOptions {
    /// 65,536 uniform UDP flows over IPv4, with frames of 64 bytes.
    fn default() -> Self {
        Self {
            flows: 1 << 16,
            order: FlowOrder::Uniform,
            kinds: vec![FlowFields::ipv4(Protocol::Udp)],
            sizes: FrameSizes::min_frame(),
            matching: None,
            random: RandomFields::default(),
            sequence: false,
            timestamps: false,
            mac: MacAddresses::default(),
            rss_key: MICROSOFT_KEY.to_vec(),
            seed: 1,
        }
    }
}

impl TrafficOptions {
    /// The minimum frame size, including the frame check sequence, for the headers of all kinds and the
    /// probe.
    #[must_use]
    pub fn min_frame_size(&self) -> usize {
        let headers = |kind: &FlowFields| Layout::new(kind.version(), kind.protocol).payload();
        let headers = self.kinds.iter().map(headers).max().unwrap_or(0);
        headers + self.probe_bytes() + FCS_BYTES
    }

    /// Size of the probe at the start of each payload; 0 if there is none.
    pub(crate) fn probe_bytes(&self) -> usize {
        if self.sequence || self.timestamps {
            Probe::size(self.timestamps)
        } else {
            0
        }
    }
}
