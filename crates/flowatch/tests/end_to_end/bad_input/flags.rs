//! Invalid and contradictory flags, filters and interface names.

use super::{assert_fails, file};
use crate::captures;
use crate::command::{run, watch};
use std::fs;
use std::process::Command;

/// A cooked capture records the direction of its packets.
#[test]
fn direction_filters_work_on_cooked_captures() {
    let frames = captures::read(&fs::read(captures::example()).unwrap());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cooked.pcap");
    captures::write(&path, 113, &frames);
    let outcome = run(watch("-q --summary json -r").arg(&path).arg("outbound"));
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let outcome = run(watch("-q --summary json -r")
        .arg("/nowhere.pcap")
        .arg("outbound"));
    assert_fails(&outcome, 2, &["/nowhere.pcap: no such file"]);
}

#[test]
fn rejects_bad_filters_and_unknown_interfaces() {
    let bad = run(watch("--summary none -r")
        .arg(captures::example())
        .args(["tcp", "prt", "80"]));
    assert_fails(
        &bad,
        2,
        &["filter 'tcp prt 80'", "syntax error", "pcap-filter(7)"],
    );
    let bad = run(&mut watch("--summary none -i nosuch0"));
    assert_fails(&bad, 2, &["nosuch0: no such interface; available: ", "lo"]);
    for (flags, words) in [
        ("-i any@2", "any@2: any has no receive queues"),
        ("-i any --queues 2", "have no queues"),
        ("-i any --promiscuous", "--promiscuous is for "),
        ("-i any -i lo", "-i any and -i lo overlap"),
        ("-i null:", "nothing can be received from it"),
    ] {
        let bad = run(&mut watch(&format!("--summary none {flags}")));
        assert_fails(&bad, 2, &[words]);
    }
    for command in ["watch", "gen"] {
        let bad = run(Command::new(env!("CARGO_BIN_EXE_flowatch")).args([command, "-i", ""]));
        assert_fails(&bad, 2, &["'--interface <", "but none was supplied"]);
    }
}

#[test]
fn rejects_contradictory_flags_with_a_reason() {
    const CASES: [(&str, &[&str]); 40] = [
        ("", &["nothing to watch", "-i eth0", "-r FILE"]),
        ("-r EXAMPLE -i lo", &["-i and -r together"]),
        (
            "-r - -r -",
            &["standard input (-r -) can be read once only"],
        ),
        (
            "-r EXAMPLE --monitors 2",
            &["--monitors needs --model pipeline"],
        ),
        ("-r EXAMPLE --ring 512", &["--ring needs --model pipeline"]),
        (
            "-r EXAMPLE --queues 2 --model pipeline",
            &["use --monitors"],
        ),
        (
            "-r EXAMPLE --promiscuous",
            &["interfaces (-i eth0), not for files"],
        ),
        (
            "-r EXAMPLE --promiscuous --queues 2",
            &["interfaces (-i eth0), not for files"],
        ),
        ("-i lo -i lo", &["-i lo is given twice"]),
        ("-i lo@0 --queues 2", &["lo@0 names one queue"]),
        ("-i lo@9", &["lo has one receive queue, number 0"]),
        (
            "-i lo --max-flows 60000000 --queues 250",
            &["in each of 250 tables", "MiB of memory"],
        ),
        (
            "-r EXAMPLE --cores 99",
            &["core 99", "not available", "this process may use"],
        ),
        (
            "-r EXAMPLE -o parquet",
            &["parquet needs a target", "parquet:flows"],
        ),
        (
            "-r EXAMPLE -o xml",
            &["unknown format `xml`", "csv:flows.csv"],
        ),
        ("-r EXAMPLE -o csv:", &["no target after `csv:`"]),
        ("-r EXAMPLE -o json -o csv", &["-o csv", "named twice"]),
        (
            "-r EXAMPLE --table tree",
            &["unknown table 'tree'", "bucket"],
        ),
        ("-r EXAMPLE --hash md5", &["unknown hash `md5`", "keyed"]),
        (
            "-r EXAMPLE --statistics mode",
            &["unknown statistic `mode`", "moments"],
        ),
        (
            "-r EXAMPLE --statistics full --flow 5tuple",
            &["--statistics full", "--flow bidirectional"],
        ),
        (
            "-r EXAMPLE --statistics tcp,app --table combined",
            &["--statistics full", "--table bucket"],
        ),
        ("-r EXAMPLE --estimator guess", &["guess"]),
        (
            "-r EXAMPLE --max-flows 999999999999999",
            &["--max-flows 999999999999999: at most "],
        ),
        (
            "-r EXAMPLE --model pipeline --ring 100000000000",
            &["--ring 100000000000: at most 67108864 packets"],
        ),
        (
            "-r EXAMPLE --ring-memory 8",
            &["interfaces (-i eth0), not for files"],
        ),
        (
            "-r EXAMPLE -o rrd:/tmp/x,5",
            &["rrd has no option `5`", "10s or 2m"],
        ),
        (
            "-r EXAMPLE --flow bidirectional -o tstat:/tmp/ts,bz2",
            &["tstat has no option `bz2`", "gz or zst"],
        ),
        (
            "-r EXAMPLE inbound",
            &["inbound is not known for packets of", "example.pcap"],
        ),
        (
            "-r EXAMPLE tcp and not outbound",
            &["outbound is not known"],
        ),
        ("-r EXAMPLE ifindex 3", &["ifindex is not known"]),
        (
            "-i lo udp and inbound",
            &["inbound is known to the kernel only", "tcpdump -i"],
        ),
        (
            "-r EXAMPLE -n EXAMPLE EXAMPLE",
            &["is a file, not a filter", "the files after -r", "-r /"],
        ),
        (
            "EXAMPLE",
            &["nothing to watch: to read the file", "use -r /"],
        ),
        (
            "-r EXAMPLE --flow src --community-id",
            &["--community-id", "5-tuple"],
        ),
        (
            "-r EXAMPLE --flow src-dst --community-id -o json",
            &["--community-id", "5-tuple"],
        ),
        (
            "-i lo --buffer 64TiB",
            &["--buffer 67108864MiB", "MiB of memory"],
        ),
        (
            "-r EXAMPLE --flow bidirectional -o tstat:/dev/null",
            &["/dev/null: a file exists where a directory is needed"],
        ),
        (
            "-r EXAMPLE -o rrd:/dev/null",
            &["/dev/null: a file exists where a directory is needed"],
        ),
        (
            "-r EXAMPLE --statistics full --applications /nowhere",
            &["--applications /nowhere: no such file"],
        ),
    ];
    let example = captures::example().display().to_string();
    for (flags, words) in CASES {
        let flags = flags.replace("EXAMPLE", &example);
        let outcome = run(&mut watch(&format!("--summary none {flags}")));
        assert_ne!(outcome.code, Some(0), "{flags}");
        assert_fails(&outcome, 2, words);
    }
}

#[test]
fn rejects_invalid_flag_values() {
    const CASES: [(&str, &str); 17] = [
        (
            "--flow six",
            "5tuple, bidirectional, src, dst, src-dst, rss",
        ),
        ("--whole-flows --idle-timeout 3s", "cannot be used with"),
        ("-q -v", "cannot be used with"),
        ("--idle-timeout 3", "write a time such as 15s"),
        ("--idle-timeout 0s", "at least 1ms"),
        ("--active-timeout 11days", "at most "),
        ("--max-flows 0", "at least 1"),
        ("-c 0", "at least 1"),
        ("--duration 0s", "must be above 0"),
        ("--rotate 1ns", "the minimum is 1s or 1kB"),
        ("--rotate 1B", "the minimum is 1s or 1kB"),
        ("--queues 0", "1..=256"),
        ("--monitors 999", "1..=256"),
        ("--cores 3-1", "is not a range of cores"),
        ("--garbage 10s,0,1", "the parts at least 1"),
        ("--model other", "run-to-completion, pipeline, cooperative"),
        ("--no-such-flag", "--no-such-flag"),
    ];
    for (flags, words) in CASES {
        let outcome = run(watch(flags).arg("-r").arg(captures::example()));
        assert_eq!(outcome.code, Some(2), "{flags}");
        assert!(
            outcome.stderr.contains(words),
            "{flags}: {}",
            outcome.stderr
        );
        assert_eq!(outcome.stdout, b"", "{flags}");
    }
}

#[test]
fn bad_usage_keeps_an_existing_output() {
    let (_directory, path) = file("flows.csv", b"earlier\n");
    let mut command = watch("-q --summary none --cores 99 -r");
    command
        .arg(captures::example())
        .arg("-o")
        .arg(format!("csv:{}", path.display()));
    assert_fails(&run(&mut command), 2, &["core 99"]);
    assert_eq!(fs::read(&path).unwrap(), b"earlier\n");
}
