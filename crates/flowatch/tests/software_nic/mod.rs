//! Every packet on the wire of the lab's software NIC is accounted for, flow by flow, with every
//! model, table and scheduling policy, whether or not its queue can hold all of them.

pub(crate) mod closed_loop;

use super::run_matrix::{Case, Link, Outcome, cases_for, has_huge_pages, run_all};
use flow::TableKind;
use flow::hash::HashKind;
use generator::{FlowOrder, TrafficOptions};
use lab::Monitor;
use lab::software_link::{Extent, Memory, RealOptions, RealTrial, start};
use port::dpdk::software_nic::NicOptions;
use std::sync::OnceLock;

/// Enough flows that a double hash has no slot for some.
const FLOWS: u32 = 1 << 14;

const PACKETS: u64 = 16_000;

/// Whether there were enough huge pages when the lab's DPDK process started.
pub(crate) fn huge_pages() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| has_huge_pages(lab::software_link::MEMORY_MIB))
}

/// Runs all configurations over the software NIC with one kind of memory, the only one that this
/// process can use.
pub(crate) fn every_packet_is_accounted_for(memory: Memory) {
    let huge = memory == Memory::HugePages;
    if huge && !huge_pages() {
        eprintln!("SKIPPED: no huge pages are free");
        return;
    }
    start(memory).unwrap();
    run_all(&cases_for(Link::SoftwareNic, huge), |number, case| {
        let order = [FlowOrder::Uniform, FlowOrder::Zipf(1.0)][number % 2];
        match nothing_is_lost(case, order) {
            Outcome::Completed => what_is_lost_is_counted(case, order),
            refused @ Outcome::Refused(_) => refused,
        }
    });
}

/// Runs a trial of all packets, whose books must balance.
fn trial(case: &Case, order: FlowOrder, rate_pps: f64, descriptors: u16) -> RealTrial {
    let traffic = TrafficOptions {
        flows: FLOWS,
        order,
        seed: 1,
        ..TrafficOptions::default()
    };
    let options = RealOptions {
        rate_pps,
        extent: Extent::Packets(PACKETS),
        nic: NicOptions {
            descriptors,
            ..NicOptions::default()
        },
        core: None,
    };
    let mut monitor = Monitor::counting(FLOWS as usize)
        .with_model(case.model)
        .with_table(case.table)
        .with_hash(HashKind::Keyed);
    monitor.options.schedules = vec![case.schedule];
    // A monitor's ring holds all packets, even in batches of one each.
    monitor.options.ring = 256 * PACKETS as usize;
    let trial = RealTrial::run(&traffic, &options, &monitor).unwrap();
    let identity = trial.ledger.identity();
    assert_eq!(
        trial.ledger.faults(),
        Vec::<String>::new(),
        "{case:?} {identity}"
    );
    assert_eq!(
        trial.validity.reasons,
        Vec::<String>::new(),
        "{case:?} {identity}"
    );
    let ledger = &trial.ledger;
    assert_eq!(
        (ledger.intended, ledger.offered, ledger.link_loss),
        (PACKETS, PACKETS, 0),
        "{case:?} {identity}"
    );
    trial
}

/// The kernel may refuse deadline threads; they then ran without their policy.
fn outcome(trial: &RealTrial) -> Outcome {
    if trial.faults.is_empty() {
        Outcome::Completed
    } else {
        Outcome::Refused(trial.faults.join("; "))
    }
}

/// Runs with a queue that holds all packets.
fn nothing_is_lost(case: &Case, order: FlowOrder) -> Outcome {
    let trial = trial(case, order, 1e6, 16_384);
    let ledger = &trial.ledger;
    assert_eq!((ledger.lost(), ledger.received), (0, PACKETS), "{case:?}");
    let flows = ledger.flows.unwrap();
    // Only the packets of flows without a slot are missing; all other flows are exact.
    assert_eq!(
        (flows.unexpected, flows.deviation),
        (0, ledger.unattributed),
        "{case:?}"
    );
    assert_eq!(
        ledger.unattributed > 0,
        case.table == TableKind::DoubleHash,
        "{case:?}"
    );
    assert_eq!(
        flows.is_exact(),
        case.table != TableKind::DoubleHash,
        "{case:?}"
    );
    outcome(&trial)
}

/// Runs with a queue that holds less than a burst of the generator, which never waits.
fn what_is_lost_is_counted(case: &Case, order: FlowOrder) -> Outcome {
    let trial = trial(case, order, 1e9, 64);
    let ledger = &trial.ledger;
    assert!(ledger.lost() > 0, "{case:?}: {}", ledger.identity());
    outcome(&trial)
}
