//! Every packet that a generator sends to another process over a memif is accounted for, flow by flow,
//! in every model, table and scheduler, with and without huge pages.

#[path = "../identity/mod.rs"]
mod ways;

use crate::dpdk::{NO_HUGE, exchange};
use engine::Model;
use flow::TableKind;
use hw::schedule::Schedule;
use std::sync::{Mutex, PoisonError};
use ways::{Case, Link, Outcome};

/// Few enough to be quick, enough for many flows.
const PACKETS: u64 = 10_000;

/// Before a monitor there is room for all packets, in batches of one each: it may get no turn for as
/// long as they take. Over a memif, whose sender waits for room, nothing is lost then.
const RING: u64 = 256 * PACKETS;

/// Of the two processes together, where they have huge pages.
const MEMORY_MIB: u64 = 128;

/// Enough flows that some find no place in a double hash.
const FLOWS: &str = "2^16";

fn model(model: Model) -> &'static str {
    match model {
        Model::RunToCompletion => "run-to-completion",
        Model::Pipeline => "pipeline",
        Model::Cooperative => "cooperative",
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

fn carry_out(case: &Case, order: &str) -> Outcome {
    let memory = if case.huge_pages { "-- -m 64" } else { NO_HUGE };
    // Threads that nobody may interrupt have one core at a time between them.
    static UNINTERRUPTED: Mutex<()> = Mutex::new(());
    let _turn = matches!(case.schedule, Schedule::Fifo(_))
        .then(|| UNINTERRUPTED.lock().unwrap_or_else(PoisonError::into_inner));
    // A keyed hash merges no flows.
    let ring = match case.model {
        Model::RunToCompletion => String::new(),
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
            assert!(outcome.stderr.contains("no room"), "{case:?}: {outcome:?}");
            return Outcome::Refused(outcome.stderr);
        }
    };
    let sent = |name: &str| exchanged.sent[name].as_u64().unwrap();
    assert_eq!(sent("intended"), PACKETS, "{case:?}");
    let parts = ["sent", "refused", "skipped", "unsent"].map(sent);
    assert_eq!(parts, [PACKETS, 0, 0, 0], "{case:?}");
    // `exchange` has added up the rest of the books.
    let summary = &exchanged.summary;
    assert_eq!(summary.number("/books/received"), PACKETS, "{case:?}");
    assert_eq!(summary.number("/books/processed"), PACKETS, "{case:?}");
    // Its threads may have found no room in the end.
    let refused = exchanged.said.contains("goes on without");
    if !refused {
        assert_eq!(
            summary.at("/per_queue/0/schedule").as_str(),
            Some(&*case.schedule.to_string())
        );
    }
    let miscounted = summary.number("/books/miscounted");
    let mut missing = 0;
    for (flow, &(packets, _)) in &exchanged.truth {
        if !exchanged.records.contains_key(flow) {
            missing += packets;
        }
    }
    // A flow has a place from its first packet on, or none of its packets has.
    assert_eq!(missing, miscounted, "{case:?}");
    assert_eq!(
        miscounted > 0,
        case.table == TableKind::DoubleHash,
        "{case:?}"
    );
    for (flow, counts) in &exchanged.records {
        assert_eq!(exchanged.truth.get(flow), Some(counts), "{case:?} {flow:?}");
    }
    if refused {
        Outcome::Refused(exchanged.said)
    } else {
        Outcome::CarriedOut
    }
}

fn every_packet_is_accounted_for(huge_pages: bool) {
    if huge_pages && !ways::has_huge_pages(MEMORY_MIB) {
        eprintln!("SKIPPED: no huge pages are free");
        return;
    }
    ways::carry_out(&ways::over(Link::Memif, huge_pages), |number, case| {
        carry_out(case, ["--uniform", "--zipf 1"][number % 2])
    });
}

#[test]
fn every_packet_between_two_processes_is_accounted_for_in_ordinary_pages() {
    every_packet_is_accounted_for(false);
}

#[test]
fn every_packet_between_two_processes_is_accounted_for_in_huge_pages() {
    every_packet_is_accounted_for(true);
}
