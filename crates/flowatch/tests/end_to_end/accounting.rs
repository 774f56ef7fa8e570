//! Every packet that a generator sends to another process over a memif is accounted for, flow by flow,
//! with every model, table and scheduling policy, with and without huge pages.

#[path = "../run_matrix/mod.rs"]
mod run_matrix;

use crate::dpdk::{NO_HUGE, exchange};
use engine::Model;
use flow::TableKind;
use hw::schedule::Schedule;
use run_matrix::{Case, Link, Outcome};
use std::sync::{Mutex, PoisonError};

/// Few enough to be fast, enough for many flows.
const PACKETS: u64 = 10_000;

/// A monitor's ring holds all packets, even in batches of one each, in case the monitor is not
/// scheduled while they arrive. The sender of a memif waits for room, so no packet is lost.
const RING: u64 = 256 * PACKETS;

/// Huge pages that the two processes need together.
const MEMORY_MIB: u64 = 128;

/// Enough flows that a double hash has no slot for some.
const FLOWS: &str = "2^16";

fn model(model: Model) -> &'static str {
    match model {
        Model::RunToCompletion => "run-to-completion",
        Model::Pipeline => "pipeline",
        Model::Cooperative => "cooperative",
        Model::SharedReading => unreachable!("a link is not a file"),
    }
}

fn table(table: TableKind) -> &'static str {
    match table {
        TableKind::Bucket => "bucket",
        TableKind::DoubleHash => "double-hash",
        TableKind::LinkedList => "linked-list",
        TableKind::Combined => "combined",
    }
}

fn run_case(case: &Case, order: &str) -> Outcome {
    let memory = if case.huge_pages { "-- -m 64" } else { NO_HUGE };
    // FIFO threads cannot be preempted, so cases with them run one at a time.
    static FIFO_CASES: Mutex<()> = Mutex::new(());
    let _guard = matches!(case.schedule, Schedule::Fifo(_))
        .then(|| FIFO_CASES.lock().unwrap_or_else(PoisonError::into_inner));
    let ring = match case.model {
        Model::RunToCompletion | Model::SharedReading => String::new(),
        Model::Pipeline | Model::Cooperative => format!("--ring {RING}"),
    };
    let watching = format!(
        "--model {} --table {} --schedule {} --hash keyed --seed 1 --whole-flows {ring}",
        model(case.model),
        table(case.table),
        case.schedule
    );
    let sending = format!("--flows {FLOWS} {order} --rate 1Mpps --when-full retry");
    let exchanged = match exchange(PACKETS, &watching, &sending, memory) {
        Ok(exchanged) => exchanged,
        Err(outcome) => {
            assert!(
                outcome.stderr.contains("not enough CPU time"),
                "{case:?}: {outcome:?}"
            );
            return Outcome::Refused(outcome.stderr);
        }
    };
    let sent = |name: &str| exchanged.sent[name].as_u64().unwrap();
    assert_eq!(sent("intended"), PACKETS, "{case:?}");
    let parts = ["sent", "refused", "skipped", "unsent"].map(sent);
    assert_eq!(parts, [PACKETS, 0, 0, 0], "{case:?}");
    // `exchange` has checked the rest of the books.
    let summary = &exchanged.summary;
    assert_eq!(summary.number("/books/received"), PACKETS, "{case:?}");
    assert_eq!(summary.number("/books/processed"), PACKETS, "{case:?}");
    // The kernel may have refused the policy when the threads started.
    let refused = exchanged.stderr.contains("continues without");
    if !refused {
        assert_eq!(
            summary.at("/per_queue/0/schedule").as_str(),
            Some(&*case.schedule.to_string())
        );
    }
    let unattributed = summary.number("/books/unattributed");
    let mut missing = 0;
    for (flow, &(packets, _)) in &exchanged.truth {
        if !exchanged.records.contains_key(flow) {
            missing += packets;
        }
    }
    // A flow has a slot from its first packet on, or none of its packets is attributed.
    assert_eq!(missing, unattributed, "{case:?}");
    assert_eq!(
        unattributed > 0,
        case.table == TableKind::DoubleHash,
        "{case:?}"
    );
    for (flow, counts) in &exchanged.records {
        assert_eq!(exchanged.truth.get(flow), Some(counts), "{case:?} {flow:?}");
    }
    if refused {
        Outcome::Refused(exchanged.stderr)
    } else {
        Outcome::Completed
    }
}

fn every_packet_is_accounted_for(huge_pages: bool) {
    if huge_pages && !run_matrix::has_huge_pages(MEMORY_MIB) {
        eprintln!("SKIPPED: no huge pages are free");
        return;
    }
    run_matrix::run_all(
        &run_matrix::cases_for(Link::Memif, huge_pages),
        |number, case| run_case(case, ["--uniform", "--zipf 1"][number % 2]),
    );
}

#[test]
fn every_packet_between_two_processes_is_accounted_for_in_ordinary_pages() {
    every_packet_is_accounted_for(false);
}

#[test]
fn every_packet_between_two_processes_is_accounted_for_in_huge_pages() {
    every_packet_is_accounted_for(true);
}
