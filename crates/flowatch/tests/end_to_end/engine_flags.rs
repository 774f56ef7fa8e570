//! The flags of the engine: counting level, flows by device hash, scheduling policies, acquisition.

use crate::bad_input::as_nobody;
use crate::captures;
use crate::command::{Outcome, run, watch};
use crate::records;
use crate::summary::Summary;
use std::collections::BTreeMap;

#[track_caller]
fn on_example(flags: &str) -> Outcome {
    run(watch(flags).arg("-r").arg(captures::example()))
}

#[test]
fn packet_level_counts_the_same_packets_as_capinfos() {
    for queues in [1, 2] {
        let flags = format!("-q --summary json --level packet --queues {queues}");
        let summary = Summary::balanced(&on_example(&flags));
        // As capinfos 4.0 counts the example.
        assert_eq!(summary.number("/books/counted_only"), 548);
        assert_eq!(summary.number("/bytes"), 128_478);
        assert_eq!(summary.number("/flows"), 0);
    }
    let text = String::from_utf8(on_example("--level packet").quiet_success()).unwrap();
    assert!(
        text.contains("--level packet: headers are not read"),
        "{text}"
    );
}

#[test]
fn rss_flows_have_a_hash_and_no_addresses() {
    let outcome = on_example("-q --summary json --flow rss");
    let summary = Summary::balanced(&outcome);
    let in_flows = summary.number("/books/in_flows");
    assert_eq!(summary.number("/hashes/in_software"), in_flows);
    assert_eq!(summary.number("/hashes/by_device"), 0);
    let packets = |rows: &[records::Row]| -> u64 {
        rows.iter()
            .map(|row| row["packets"].parse::<u64>().unwrap())
            .sum()
    };
    let csv = on_example("-q --summary none --whole-flows --flow rss -o csv").quiet_success();
    let rows = records::csv(&csv);
    assert_eq!(packets(&rows), in_flows);
    let mut hashes = BTreeMap::new();
    for row in &rows {
        assert!(!row.keys().any(|name| name.contains("Address")), "{row:?}");
        *hashes.entry(&row["flowHash"]).or_insert(0) += 1;
    }
    assert!(
        hashes.values().all(|&count| count == 1),
        "a flow is one record"
    );
    // With so few flows, a 32-bit hash has no collisions: there are as many flows as 5-tuples.
    let csv = on_example("-q --summary none --whole-flows -o csv").quiet_success();
    assert_eq!(rows.len(), records::csv(&csv).len());
    let text = String::from_utf8(on_example("--flow rss").quiet_success()).unwrap();
    assert!(text.contains("0 packets hashed by the device"), "{text}");
}

#[test]
fn rejects_contradictory_engine_flags_with_a_reason() {
    const CASES: [(&str, &[&str]); 8] = [
        (
            "--level packet -o csv",
            &["-o with --level packet", "no flows"],
        ),
        (
            "--level packet --model pipeline",
            &["--model with --level packet"],
        ),
        (
            "--level packet --statistics gap",
            &["--statistics with --level packet"],
        ),
        (
            "--table linked-list --hash symmetric-toeplitz",
            &["--table linked-list", "16 bits of entropy"],
        ),
        (
            "--flow rss --hash symmetric-toeplitz",
            &["16 bits of entropy", "select a queue"],
        ),
        ("--flow rss --vlan", &["--vlan with --flow rss"]),
        ("--flow rss --community-id", &["--community-id with"]),
        (
            "--flow rss --decapsulate",
            &["--decapsulate with --flow rss", "headers are not read"],
        ),
    ];
    for (flags, words) in CASES {
        let outcome = on_example(&format!("--summary none {flags}"));
        assert_eq!(outcome.code, Some(2), "{flags}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        for word in words {
            assert!(outcome.stderr.contains(word), "{flags}: {}", outcome.stderr);
        }
    }
}

/// Whether the kernel refused a deadline thread, because other programs may have reserved the CPU time.
fn deadline_refused(outcome: &Outcome) -> bool {
    let refused = outcome.stderr.contains("not enough CPU time");
    if refused {
        eprintln!("SKIPPED: {}", outcome.stderr);
    }
    refused
}

#[test]
fn threads_run_under_their_policies() {
    let flags = "-q --summary json --schedule";
    let summary = Summary::balanced(&on_example(&format!("{flags} fifo=7")));
    assert_eq!(summary.at("/per_queue/0/schedule"), "fifo=7");
    for model in [
        "--model pipeline",
        "--model cooperative",
        "",
        "--level packet",
    ] {
        let outcome = on_example(&format!("{flags} deadline=1ms/20ms/20ms {model}"));
        if deadline_refused(&outcome) {
            continue;
        }
        let summary = Summary::balanced(&outcome);
        assert_eq!(
            summary.at("/per_queue/0/schedule"),
            "deadline=1ms/20ms/20ms"
        );
        assert_eq!(summary.number("/packets"), 548);
    }
    // The second thread of a pipeline gets the second policy.
    let flags = format!("{flags} fifo,other --model pipeline");
    let summary = Summary::balanced(&on_example(&flags));
    let policies: Vec<_> = (0..2)
        .map(|queue| summary.at(&format!("/per_queue/{queue}/schedule")).clone())
        .collect();
    assert!(policies.contains(&"fifo=50".into()) && policies.contains(&"other".into()));
}

#[test]
fn rejects_impossible_policies_with_a_reason() {
    for (schedule, words) in [
        (
            "deadline=10us/20us/20us",
            "this kernel accepts periods from",
        ),
        ("deadline=3ms/2ms/5ms", "runtime <= deadline <= period"),
        ("deadline=1ms/2ms", "runtime, deadline, period"),
        ("fifo=100", "the priority must be 1 to 99"),
        ("batch", "is not a policy"),
    ] {
        let outcome = on_example(&format!("--schedule {schedule}"));
        assert_eq!(outcome.code, Some(2), "{schedule}");
        assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
    }
    let cores = std::thread::available_parallelism().unwrap().get();
    let all = format!("--schedule deadline=10ms/10ms/10ms --queues {cores}");
    let outcome = on_example(&all);
    assert_eq!(outcome.code, Some(2));
    assert!(
        outcome
            .stderr
            .contains("not enough CPU time: the threads request"),
        "{}",
        outcome.stderr
    );
    if cores > 1 {
        let outcome = on_example("--schedule deadline=1ms/20ms/20ms --cores 0");
        assert_eq!(outcome.code, Some(2));
        let words = "only if it may run on every core";
        assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
    }
}

#[test]
fn missing_cap_sys_nice_gives_the_command_that_grants_it() {
    for schedule in ["fifo", "deadline=1ms/20ms/20ms"] {
        let (_program, mut command) = as_nobody(&format!("--schedule {schedule} -r -"));
        let outcome = run(&mut command);
        assert_eq!(outcome.code, Some(77), "{}", outcome.stderr);
        assert!(
            outcome.stderr.contains("cap_sys_nice+ep"),
            "{}",
            outcome.stderr
        );
    }
}

#[test]
fn link_gap_needs_gap_statistics() {
    let outcome = on_example("--gap link");
    assert_eq!(outcome.code, Some(2));
    assert!(
        outcome.stderr.contains("--statistics gap"),
        "{}",
        outcome.stderr
    );
    for statistics in ["gap", "gap-mean", "moments", "size,gap-percentile=99"] {
        let outcome = on_example(&format!(
            "-q --summary json --gap link --statistics {statistics}"
        ));
        assert_eq!(Summary::balanced(&outcome).at("/gap_scope"), "link");
    }
}

#[test]
fn acquisition_buffer_gives_the_same_records_and_a_report() {
    let records = |flags: &str| {
        let mut command = watch(&format!("-q --summary none --sort -o csv {flags}"));
        run(command.arg("-r").arg(&captures::large().path)).quiet_success()
    };
    let expected = records("");
    for flags in [
        "--buffer 16MiB",
        "--buffer 1MiB --acquisition periodic=500us --model pipeline",
        "--buffer 1MiB --acquisition polled --model cooperative --monitors 2",
        "--buffer 4MiB --queues 2",
    ] {
        assert!(records(flags) == expected, "{flags}");
    }
    let whole = "--whole-flows";
    let sorted = records(&format!("--buffer 8MiB --sort-buffer 4MiB {whole}"));
    assert!(sorted == records(whole), "sorted within 4 MiB");
    let outcome = on_example("-q --summary json --buffer 1MiB --acquisition periodic=1ms");
    let summary = Summary::balanced(&outcome);
    assert!(summary.number("/acquisition/0/rounds") > 0);
    assert_eq!(summary.at("/acquisition/0/occupancy/source"), "round");
    let text = on_example("--buffer 1MiB --acquisition periodic=1ms").quiet_success();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("occupancy of the receive queue"), "{text}");
    let outcome =
        on_example("-q --summary json --buffer 1MiB --schedule deadline=2ms/20ms/20ms,other");
    if !deadline_refused(&outcome) {
        let summary = Summary::balanced(&outcome);
        // The acquisition thread gets the first policy.
        assert_eq!(summary.at("/per_queue/0/schedule"), "other");
        assert_eq!(summary.at("/per_queue/1/name"), "acquisition-0");
        assert_eq!(
            summary.at("/per_queue/1/schedule"),
            "deadline=2ms/20ms/20ms"
        );
    }
}

#[test]
fn rejects_invalid_acquisition_flags() {
    for (flags, words) in [
        ("--buffer 1GB", "is not a size; write 256MiB"),
        ("--buffer 0", "is not a size"),
        (
            "--buffer 999999GiB",
            "one for each of 1 receiving threads: the machine has",
        ),
        (
            // Threads that share the work on a capture have one receiver.
            "--buffer 17179869183GiB --queues 2",
            "one for each of 1 receiving threads: the machine has",
        ),
        ("--acquisition polled", "--buffer"),
        (
            "--buffer 1MiB --acquisition often",
            "neither polled nor periodic",
        ),
        ("--buffer 1MiB --acquisition periodic=2s", "at most 1s"),
        (
            "--buffer 1MiB --sort-buffer 1MiB",
            "at most half of --buffer",
        ),
        (
            "--buffer 1MiB --sort-buffer 512KiB --statistics gap-percentile=99",
            "sorting changes the order of packets",
        ),
        (
            "--buffer 1MiB --sort-buffer 512KiB --statistics size,gap-mean",
            "sorting changes the order of packets",
        ),
    ] {
        let outcome = on_example(flags);
        assert_eq!(outcome.code, Some(2), "{flags}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains(words),
            "{flags}: {}",
            outcome.stderr
        );
    }
}
