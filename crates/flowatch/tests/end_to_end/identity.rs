//! Every packet that a generator sends to another process over a memif is accounted for, flow by flow,
//! in every model, table and scheduler, with and without huge pages.

#[path = "../identity/mod.rs"]
mod ways;

use crate::dpdk::{NO_HUGE, exchange, huge_pages};
use engine::Model;
use flow::TableKind;
use ways::{Case, Link};

/// Few enough to be quick, enough for many flows.
const PACKETS: u64 = 30_000;

/// Enough flows that some find no place in a double hash.
const FLOWS: &str = "2^14";

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

/// Whether it was carried out: the kernel may have no room for threads with deadlines.
fn carry_out(case: &Case, order: &str) -> bool {
    let memory = if case.huge_pages && huge_pages() {
        "-- -m 64"
    } else {
        NO_HUGE
    };
    // A keyed hash merges no flows. Before a monitor's ring there is room for all packets: over a
    // memif, whose sender waits for room, nothing is lost then.
    let ring = match case.model {
        Model::RunToCompletion => "",
        Model::Pipeline | Model::Cooperative => "--ring 65536",
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
                outcome.stderr.contains("no room") && case.schedule.is_deadline(),
                "{case:?}: {outcome:?}"
            );
            eprintln!("SKIPPED: {case:?}: {}", outcome.stderr);
            return false;
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
    assert_eq!(
        summary.at("/per_queue/0/schedule").as_str(),
        Some(&*case.schedule.to_string())
    );
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
    true
}

#[test]
fn every_packet_between_two_processes_is_accounted_for() {
    let mut carried_out = 0;
    for (number, case) in ways::over(Link::Memif).enumerate() {
        let order = ["--uniform", "--zipf 1"][number % 2];
        carried_out += usize::from(carry_out(&case, order));
    }
    // At least those without deadlines.
    assert!(carried_out >= 12, "{carried_out}");
}
