//! What a meter is to do.

use crate::batch::KeyMaker;
use crate::ended::Opening;
use crate::entry::Entry;
use crate::expiry::{Expiry, Timeouts};
use crate::garbage::GarbageSchedule;
use crate::hash::{FlowHash, HashKind};
use crate::record::{FlowDefinition, Schema};
use crate::statistic::Selection;
use crate::table::{TableKind, WIDE_KEY_BYTES};
use app::Applications;
use hw::lines::Rows;
use std::sync::Arc;

/// What a meter is to do.
#[derive(Clone, Debug)]
pub struct MeterOptions {
    /// Which packets form a flow.
    pub flow: FlowDefinition,
    /// Whether VLAN tags are part of the key.
    pub vlan: bool,
    /// Which table.
    pub table: TableKind,
    /// Hash of the flow keys.
    pub hash: HashKind,
    /// Secret of the keyed hash and of the digests of wide keys.
    pub seed: u64,
    /// The most flows at a time.
    pub flows_max: usize,
    /// When flows end.
    pub timeouts: Timeouts,
    /// How the table is looked through for flows that have ended.
    pub garbage: GarbageSchedule,
    /// What is computed of every flow beside its counts.
    pub statistics: Selection,
    /// Classes of applications, for an analysis that looks for them; none for those built in.
    pub applications: Option<Arc<Applications>>,
    /// Take the memory of the table, of statistics and of the first flows of an analysis in the
    /// beginning, as a link that waits for nobody needs: a huge page costs half a millisecond when it
    /// is first touched. Otherwise memory is taken as flows come.
    pub populate: bool,
    /// Whether the paper's tables and statistics ask for what a burst needs before they count it, as
    /// the default table always does. The paper's program does not: it takes packet by packet.
    pub asks_ahead: bool,
    /// Whether batches have what DNS responses [told](crate::batch::Batch::tell) clients: tables that
    /// share a link's packets ask for it, as a flow and the DNS flow before it may be in different ones.
    pub overhears: bool,
    /// How many of the largest flows a [`LiveView`](crate::LiveView) shows; 0 for no view.
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
            asks_ahead: true,
            overhears: false,
            view_flows: 0,
        }
    }
}

impl MeterOptions {
    /// What the records of this meter hold.
    #[must_use]
    pub fn schema(&self) -> Schema {
        Schema {
            flow: self.flow,
            vlan: self.vlan,
            statistics: self.statistics.columns(),
            analysis: self.statistics.analysis,
        }
    }

    /// Bytes for each flow that [`MeterOptions::populate`] takes, but for what an analysis and the
    /// lists of some tables take.
    #[must_use]
    pub fn bytes_per_flow(&self) -> usize {
        let statistics = self.statistics.build(&mut Rows::default());
        let statistics = statistics.iter().map(|(_, each)| each.bytes_per_flow());
        size_of::<Entry>() + WIDE_KEY_BYTES + size_of::<Opening>() + statistics.sum::<usize>()
    }

    /// When this meter's flows end.
    pub(crate) fn expiry(&self) -> Expiry {
        let connections = matches!(
            self.flow,
            FlowDefinition::FiveTuple | FlowDefinition::Bidirectional
        );
        let both_directions = self.flow == FlowDefinition::Bidirectional;
        Expiry::new(&self.timeouts, connections, both_directions)
    }

    /// The maker of this meter's keys.
    #[must_use]
    pub fn key_maker(&self) -> KeyMaker {
        KeyMaker::new(self.flow, self.vlan, self.seed)
    }

    /// The hash of this meter's keys.
    #[must_use]
    pub fn flow_hash(&self) -> FlowHash {
        match self.flow {
            FlowDefinition::Rss => FlowHash::of_hashes(),
            _ => FlowHash::new(self.hash, self.seed),
        }
    }

    /// The hash that takes the place of a device's, where flows are known by it.
    #[must_use]
    pub fn identity_hash(&self) -> Option<FlowHash> {
        (self.flow == FlowDefinition::Rss).then(|| FlowHash::new(self.hash, self.seed))
    }
}
