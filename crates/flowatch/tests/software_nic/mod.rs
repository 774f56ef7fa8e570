//! Every packet on the wire of the laboratory's software NIC is accounted for, flow by flow, in every
//! model, table and scheduler: where its queue holds all of them, and where it does not.

pub(crate) mod closed_loop;

use super::identity::{Case, Link, over};
use flow::TableKind;
use flow::hash::HashKind;
use generator::{Order, TrafficOptions};
use lab::Monitor;
use lab::software_link::{Memory, RealOptions, RealTrial, start};
use port::dpdk::software_nic::NicOptions;
use std::fs;
use std::time::Duration;

/// Enough flows that some find no place in a double hash.
const FLOWS: u32 = 1 << 14;

const PACKETS: u64 = 16_000;

/// Whether there are huge pages for the laboratory's DPDK process.
pub(crate) fn huge_pages() -> bool {
    let file = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
    let free = fs::read_to_string(file).unwrap_or_default();
    free.trim().parse::<u64>().unwrap_or(0) * 2 >= lab::software_link::MEMORY_MIB
}

/// All ways over the software NIC in one kind of memory; a process has DPDK in one alone.
pub(crate) fn every_packet_is_accounted_for(memory: Memory) {
    let huge = memory == Memory::HugePages;
    if huge && !huge_pages() {
        eprintln!("SKIPPED: no huge pages are free");
        return;
    }
    start(memory).unwrap();
    let mut cases = 0;
    for (number, case) in over(Link::SoftwareNic).enumerate() {
        if case.huge_pages == huge {
            let order = [Order::Uniform, Order::Zipf(1.0)][number % 2];
            nothing_is_lost(&case, order);
            what_is_lost_is_counted(&case, order);
            cases += 1;
        }
    }
    assert!(cases >= 6, "{cases}");
}

/// A trial of so many packets, and whether every thread had its policy.
fn trial(case: &Case, order: Order, rate_pps: f64, descriptors: u16) -> (RealTrial, u64) {
    let traffic = TrafficOptions {
        flows: FLOWS,
        order,
        seed: 1,
        ..TrafficOptions::default()
    };
    let options = RealOptions {
        rate_pps,
        time: Duration::from_secs_f64(PACKETS as f64 / rate_pps),
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
    // Before a monitor there is room for all.
    monitor.options.ring = 1 << 16;
    let trial = RealTrial::run(&traffic, &options, &monitor).unwrap();
    let identity = trial.ledger.identity();
    // The kernel may have no room for threads with deadlines; then they go on without.
    if !case.schedule.is_deadline() {
        assert_eq!(trial.faults, Vec::<String>::new(), "{case:?}");
    }
    assert_eq!(
        trial.ledger.faults(),
        Vec::<String>::new(),
        "{case:?} {identity}"
    );
    assert_eq!(
        trial.verdict.against,
        Vec::<String>::new(),
        "{case:?} {identity}"
    );
    let ledger = &trial.ledger;
    assert_eq!(
        (ledger.intended, ledger.offered, ledger.link_loss),
        (PACKETS, PACKETS, 0),
        "{case:?} {identity}"
    );
    let lost = ledger.lost();
    (trial, lost)
}

/// A queue that holds all packets.
fn nothing_is_lost(case: &Case, order: Order) {
    let (trial, lost) = trial(case, order, 1e6, 16_384);
    let ledger = &trial.ledger;
    assert_eq!((lost, ledger.received), (0, PACKETS), "{case:?}");
    let flows = ledger.flows.unwrap();
    // Flows without a place are told by their packets; all others are exact.
    assert_eq!(
        (flows.strangers, flows.off),
        (0, ledger.miscounted),
        "{case:?}"
    );
    assert_eq!(
        ledger.miscounted > 0,
        case.table == TableKind::DoubleHash,
        "{case:?}"
    );
    assert_eq!(
        flows.is_exact(),
        case.table != TableKind::DoubleHash,
        "{case:?}"
    );
}

/// A queue that holds less than a burst of the generator, which never waits.
fn what_is_lost_is_counted(case: &Case, order: Order) {
    let (trial, lost) = trial(case, order, 1e9, 64);
    assert!(lost > 0, "{case:?}: {}", trial.ledger.identity());
}
