//! The books of a trial, from the generator to the sums over the flows.
//!
//! ```text
//! intended  = shortfall + offered              shortfall: not sent in time by the generator
//! offered   = link loss + delivered            link loss: before the monitor's device
//! delivered = monitor loss + waiting + received         monitor loss: by reason
//! received  = in flows + in no flow + unattributed + counted only
//! in flows  = the sum over the flows' records, with each flow's count correct
//! ```

use serde::{Deserialize, Serialize};

/// The packets of one trial, at each point where they are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Packets that the generator was to send.
    pub intended: u64,
    /// Packets that were sent.
    pub offered: u64,
    /// Packets that the link lost or rejected before the monitor's device.
    pub link_loss: u64,
    /// Packets that the monitor's side lost, by reason.
    pub monitor_loss: Vec<(String, u64)>,
    /// Packets left in the monitor's device at the end.
    pub waiting: u64,
    /// Packets delivered to the monitor.
    pub received: u64,
    /// Packets counted in a flow.
    pub in_flows: u64,
    /// Packets that belong to no flow (ARP and the like).
    pub no_flow: u64,
    /// Packets that the table had no slot for.
    pub unattributed: u64,
    /// Packets that are only counted, at packet level.
    #[serde(default)]
    pub counted_only: u64,
    /// The comparison of each flow's count, if the truth is known.
    pub flows: Option<FlowTruth>,
}

/// The comparison of the monitor's counts with the truth, flow by flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowTruth {
    /// Flows with packets.
    pub flows: u64,
    /// Flows whose records have exactly their packets.
    pub exact: u64,
    /// The sum over the flows of the absolute difference of packets in records and packets delivered.
    pub deviation: u64,
    /// Packets in records of flows that do not exist.
    pub unexpected: u64,
}

impl FlowTruth {
    /// Whether every count is correct.
    #[must_use]
    pub const fn is_exact(&self) -> bool {
        self.exact == self.flows && self.deviation == 0 && self.unexpected == 0
    }
}

impl Ledger {
    /// Packets that the generator did not send in time.
    #[must_use]
    pub const fn shortfall(&self) -> u64 {
        self.intended.saturating_sub(self.offered)
    }

    /// Packets that the monitor's side lost, all reasons together.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.monitor_loss.iter().map(|(_, packets)| packets).sum()
    }

    /// The packet drop ratio: packets that the monitor lost, divided by packets offered; NaN of 0.
    #[must_use]
    pub fn drop_ratio(&self) -> f64 {
        if self.offered == 0 {
            return f64::NAN;
        }
        self.lost() as f64 / self.offered as f64
    }

    /// Returns a line for each equation that does not hold; empty when the books balance.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut compare = |what: &str, left: u64, right: u64| {
            if left != right {
                let off = i128::from(left) - i128::from(right);
                faults.push(format!("{what}: {left} against {right}, off by {off}"));
            }
        };
        let delivered = self.received + self.lost() + self.waiting;
        compare(
            "offered = link loss + monitor loss + waiting + received",
            self.offered,
            self.link_loss + delivered,
        );
        compare(
            "received = in flows + in no flow + unattributed + counted only",
            self.received,
            self.in_flows + self.no_flow + self.unattributed + self.counted_only,
        );
        if self.offered > self.intended {
            compare("offered is at most intended", self.intended, self.offered);
        }
        faults
    }

    /// Formats the books in one line.
    #[must_use]
    pub fn identity(&self) -> String {
        let losses: Vec<String> = self
            .monitor_loss
            .iter()
            .filter(|(_, packets)| *packets > 0)
            .map(|(reason, packets)| format!("{reason} {packets}"))
            .collect();
        let losses = if losses.is_empty() {
            "0".into()
        } else {
            losses.join(" + ")
        };
        let flows = match &self.flows {
            None if self.counted_only > 0 => format!(" + counted only {}", self.counted_only),
            None => String::new(),
            Some(truth) => format!("; {} of {} flows exact", truth.exact, truth.flows),
        };
        format!(
            "intended {} - shortfall {} = offered {} = link loss {} + lost ({losses}) + waiting {} + received {}; \
             received = in flows {} + in no flow {} + unattributed {}{flows}",
            self.intended,
            self.shortfall(),
            self.offered,
            self.link_loss,
            self.waiting,
            self.received,
            self.in_flows,
            self.no_flow,
            self.unattributed,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn balanced() -> Ledger {
        Ledger {
            intended: 110,
            offered: 100,
            link_loss: 3,
            monitor_loss: vec![("missed".into(), 4), ("ring".into(), 1)],
            waiting: 2,
            received: 90,
            in_flows: 80,
            no_flow: 5,
            unattributed: 3,
            counted_only: 2,
            flows: None,
        }
    }

    #[test]
    fn balanced_books_have_no_faults() {
        let ledger = balanced();
        assert_eq!(ledger.faults(), Vec::<String>::new());
        assert_eq!((ledger.shortfall(), ledger.lost()), (10, 5));
        assert!((ledger.drop_ratio() - 0.05).abs() < 1e-12);
        assert!(ledger.identity().contains("missed 4 + ring 1"));
    }

    #[test]
    fn reports_each_equation_that_does_not_hold() {
        for (change, equation) in [
            (
                (|ledger| ledger.received -= 1) as fn(&mut Ledger),
                "offered =",
            ),
            (|ledger| ledger.link_loss += 1, "offered ="),
            (|ledger| ledger.unattributed += 1, "received ="),
            (|ledger| ledger.in_flows -= 1, "received ="),
            (|ledger| ledger.counted_only -= 1, "received ="),
            (|ledger| ledger.intended = 99, "offered is at most"),
        ] {
            let mut ledger = balanced();
            change(&mut ledger);
            let faults = ledger.faults();
            assert!(
                faults.iter().any(|fault| fault.starts_with(equation)),
                "{faults:?}"
            );
        }
    }
}
