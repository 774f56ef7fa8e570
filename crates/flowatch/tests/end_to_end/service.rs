//! How a long run answers: signals that ask it for something, what ended it, when it begins to listen.

use crate::captures;
use crate::command::{Running, run, watch};
use crate::namespace::Namespace;
use crate::records;
use crate::summary::Summary;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Enough for every wait here, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Datagrams of [`send`].
const SENT: u64 = 8;

fn send(namespace: &Namespace) {
    let mut bash = Command::new("bash");
    let script = format!("for i in {{1..{SENT}}}; do echo $i >/dev/udp/127.0.0.$i/9; done");
    namespace.output(bash.args(["-c", &script]));
}

/// Starts a run without a terminal, as a service.
fn start(namespace: &Namespace, flags: &str) -> Running {
    let inner = watch(&format!(
        "-i lo --interval 20ms --summary json {flags} udp and dst port 9"
    ));
    let mut command = Command::new("setsid");
    command.arg(inner.get_program()).args(inner.get_args());
    let mut running = Running::start(&mut namespace.command_inside(&command));
    running.wait_for_line(|line| line.contains("listening on lo"));
    running.wait_for_packets(0);
    running
}

fn wait_for_file(path: &Path) {
    let deadline = Instant::now() + TIMEOUT;
    while !path.exists() {
        assert!(Instant::now() < deadline, "no {}", path.display());
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn user_signals_print_the_books_and_the_run_continues() {
    let namespace = Namespace::new();
    for model in ["--queues 2", "--model pipeline", "--buffer 4MiB"] {
        let mut running = start(&namespace, model);
        for round in 1..=2 {
            send(&namespace);
            running.wait_for_packets(round * SENT);
            running.signal("USR2");
            running.signal("USR1");
            running.wait_for_line(|line| line.starts_with("Books after"));
            for name in ["received", "processed", "in flows"] {
                let expected = format!("{name} {}", round * SENT);
                let is_count = |line: &str| {
                    let words: Vec<&str> = line.split_whitespace().collect();
                    words.join(" ") == expected
                };
                running.wait_for_line(is_count);
            }
        }
        running.signal("TERM");
        let outcome = running.finish();
        let summary = Summary::balanced(&outcome);
        assert_eq!(
            (outcome.code, summary.number("/packets")),
            (Some(0), 2 * SENT),
            "{model}"
        );
        assert_eq!(summary.at("/ended/by"), "SIGTERM", "{model}");
    }
}

#[test]
fn hang_up_of_a_service_reopens_its_outputs() {
    let namespace = Namespace::new();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let flags = format!(
        "--idle-timeout 50ms --garbage 50ms,10,1 -o csv:{} -o json:{} -o parquet:{}",
        path("flows.csv").display(),
        path("flows.json").display(),
        path("parquet").display()
    );
    let mut running = start(&namespace, &flags);
    send(&namespace);
    running.wait_for_packets(SENT);
    // Records of both formats are in the files.
    let deadline = Instant::now() + TIMEOUT;
    while ["flows.csv", "flows.json"].iter().any(|name| {
        let lines = fs::read_to_string(path(name)).unwrap().lines().count() as u64;
        lines < SENT + u64::from(*name == "flows.csv")
    }) {
        assert!(Instant::now() < deadline, "no records");
        thread::sleep(Duration::from_millis(10));
    }
    for name in ["flows.csv", "flows.json"] {
        fs::rename(path(name), path(&format!("{name}.1"))).unwrap();
    }
    running.signal("HUP");
    for name in ["flows.csv", "flows.json", "parquet/flows-00000.parquet"] {
        wait_for_file(&path(name));
    }
    send(&namespace);
    running.wait_for_packets(2 * SENT);
    running.signal("INT");
    let outcome = running.finish();
    let summary = Summary::balanced(&outcome);
    assert_eq!(
        (outcome.code, summary.number("/records_lost")),
        (Some(0), 0),
        "{outcome:?}"
    );
    let csv = |name: &str| records::csv(&fs::read(path(name)).unwrap()).len() as u64;
    let json = |name: &str| records::json(&fs::read(path(name)).unwrap()).len() as u64;
    assert_eq!((csv("flows.csv.1"), csv("flows.csv")), (SENT, SENT));
    assert_eq!((json("flows.json.1"), json("flows.json")), (SENT, SENT));
    assert!(path("parquet/flows-00001.parquet").exists());
}

#[test]
fn summary_says_what_ended_the_run_and_at_which_share() {
    let ended = |flags: &str| {
        let outcome = run(watch(&format!("-q --summary json {flags} -r")).arg(captures::example()));
        let summary = Summary::balanced(&outcome);
        (
            summary.at("/ended/by").clone(),
            summary.at("/ended/input_share").as_f64(),
        )
    };
    assert_eq!(ended(""), ("end-of-input".into(), Some(1.0)));
    assert_eq!(ended("--queues 3"), ("end-of-input".into(), Some(1.0)));
    assert_eq!(ended("-c 10").0, "packet-limit");
    let text = run(watch("--summary text -c 10 -r").arg(captures::example()));
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.contains("Ended by the packet limit (-c) after "),
        "{text}"
    );

    for (signal, flags) in [
        ("INT", ""),
        ("TERM", "--queues 2"),
        ("INT", "--model pipeline"),
    ] {
        // Its output is not read, so that it is in the middle of the file.
        let mut command = watch(&format!(
            "--summary json -q -o json --idle-timeout 1ms {flags} -r"
        ));
        let mut running = Running::start(command.arg(&captures::large().path));
        let mut stdout = running.stdout();
        stdout.read_exact(&mut [0]).unwrap();
        running.signal(signal);
        thread::sleep(Duration::from_millis(200));
        running.return_stdout(stdout);
        let outcome = running.finish();
        let summary = Summary::parse(outcome.stderr.as_bytes()).unwrap();
        assert_eq!(summary.at("/ended/by"), &format!("SIG{signal}"), "{flags}");
        let share = summary.at("/ended/input_share").as_f64().unwrap();
        assert!(share > 0.0 && share < 1.0, "{flags}: {share}");
    }
    let mut running = Running::start(watch("-q --summary json -r -").stdin(Stdio::piped()));
    let stdin = running.stdin();
    running.signal_when_handled("TERM");
    let summary = Summary::balanced(&running.finish());
    assert_eq!(summary.at("/ended/by"), "SIGTERM");
    assert!(summary.at("/ended/input_share").is_null());
    drop(stdin);
}

/// The memory of the tables is committed while packets are already received.
#[test]
fn listens_before_its_memory_is_committed() {
    let namespace = Namespace::new();
    let command = watch("-i lo --statistics moments --max-flows 4000000 --summary json");
    let mut running = Running::start(&mut namespace.command_inside(&command));
    running.wait_for_line(|line| line.contains("listening on lo"));
    let status = fs::read_to_string(format!("/proc/{}/status", running.id())).unwrap();
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    let kib: u64 = resident
        .trim()
        .strip_suffix(" kB")
        .unwrap()
        .parse()
        .unwrap();
    running.signal("INT");
    let summary = Summary::balanced(&running.finish());
    let tables = summary.number("/memory/tables_bytes");
    assert!(
        kib * 1024 < tables / 2,
        "{kib} KiB are resident, the tables have {tables} bytes"
    );
}
