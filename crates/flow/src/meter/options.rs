//! The options of a meter.

use crate::batch::KeyMaker;
use crate::definition::FlowDefinition;
use crate::ended::FlowStart;
use crate::entry::Entry;
use crate::expiry::{Expiry, Timeouts};
use crate::garbage::GarbageSchedule;
use crate::hash::{FlowHash, HashKind};
use crate::record::Schema;
use crate::statistic::Selection;
use crate::table::{TableKind, WIDE_KEY_BYTES};
use app::Applications;
use hw::lines::Rows;
use std::sync::Arc;

/// The options of a meter.
#[derive(Clone, Debug)]
pub struct MeterOptions {
    /// Which packets form a flow.
    pub flow: FlowDefinition,
    /// Whether VLAN tags are part of the key.
    pub vlan: bool,
    /// The kind of flow table.
    pub table: TableKind,
    /// The hash of the flow keys.
    pub hash: HashKind,
    /// The secret seed of the keyed hash and of the digests of wide keys.
    pub seed: u64,
    /// The maximum number of concurrent flows.
    pub flows_max: usize,
    /// The timeouts.
    pub timeouts: Timeouts,
    /// The sweep for expired flows.
    pub garbage: GarbageSchedule,
    /// The statistics and the analysis of each flow.
    pub statistics: Selection,
    /// Application classes for an analysis that needs them; `None` for the built-in ones.
    pub applications: Option<Arc<Applications>>,
    /// Whether to map the memory of the table, the statistics and the first flows' analyses at start.
    /// A live link needs it: the first access to a huge page takes half a millisecond. Otherwise memory
    /// is mapped as flows come.
    pub populate: bool,
    /// Whether the tables of the FloWatcher paper, and statistics with them, prefetch what a batch
    /// needs before it is counted. The bucket table always does. The paper's program does not: it
    /// handles one packet at a time.
    pub prefetches: bool,
    /// Whether names come from the [DNS answers](crate::batch::Batch::push_dns_answer) in batches, not
    /// from this table's own packets. Tables that share a link need it, because a flow and the DNS flow
    /// before it may be in different tables.
    pub dns_from_batches: bool,
    /// The number of largest flows in a [`LiveView`](crate::LiveView); 0 disables views.
    pub view_flows: usize,
}

impl Default for MeterOptions {
    fn default() -> Self {
        Self {
            flow: FlowDefinition::default(),
            vlan: false,
            table: TableKind::default(),
            hash: HashKind::default(),
            seed: 0,
            flows_max: 1 << 20,
            timeouts: Timeouts::default(),
            garbage: GarbageSchedule::default(),
            statistics: Selection::default(),
            applications: None,
            populate: false,
            prefetches: true,
            dns_from_batches: false,
            view_flows: 0,
        }
    }
}

impl MeterOptions {
    /// Returns the contents of this meter's records.
    #[must_use]
    pub fn schema(&self) -> Schema {
        Schema {
            flow: self.flow,
            vlan: self.vlan,
            statistics: self.statistics.columns(),
            analysis: self.statistics.analysis,
        }
    }

    /// Returns the bytes per flow that [`MeterOptions::populate`] maps, without those of an analysis
    /// and of some tables' lists.
    #[must_use]
    pub fn bytes_per_flow(&self) -> usize {
        let statistics = self.statistics.build(&mut Rows::default());
        let statistics = statistics
            .iter()
            .map(|(_, statistic)| statistic.bytes_per_flow());
        size_of::<Entry>() + WIDE_KEY_BYTES + size_of::<FlowStart>() + statistics.sum::<usize>()
    }

    /// Returns the rules by which this meter's flows end.
    pub(crate) fn expiry(&self) -> Expiry {
        let connections = matches!(
            self.flow,
            FlowDefinition::FiveTuple | FlowDefinition::Bidirectional
        );
        let both_directions = self.flow == FlowDefinition::Bidirectional;
        Expiry::new(&self.timeouts, connections, both_directions)
    }

    /// Returns the maker of this meter's keys.
    #[must_use]
    pub fn key_maker(&self) -> KeyMaker {
        KeyMaker::new(self.flow, self.vlan, self.seed)
    }

    /// Returns the hash of this meter's keys.
    #[must_use]
    pub fn flow_hash(&self) -> FlowHash {
        match self.flow {
            FlowDefinition::Rss => FlowHash::precomputed(),
            _ => FlowHash::new(self.hash, self.seed),
        }
    }

    /// Returns the hash for packets without a device hash, if flows are identified by their RSS hash.
    #[must_use]
    pub fn identity_hash(&self) -> Option<FlowHash> {
        (self.flow == FlowDefinition::Rss).then(|| FlowHash::new(self.hash, self.seed))
    }
}
