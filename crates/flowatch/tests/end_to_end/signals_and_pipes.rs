//! How runs end: by a signal, by a closed reader, by a limit; and runs with a closed standard input or
//! output.

use crate::captures;
use crate::command::{Running, named_pipe, run, watch};
use crate::namespace::Namespace;
use crate::records;
use crate::summary::Summary;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// Datagrams that a test on `lo` sends.
const SENT: u64 = 8;

/// Enough for every wait here, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Sends datagrams to closed ports, each to a different address, so that each is a flow of its own.
fn send_datagrams(namespace: &Namespace) {
    let mut bash = Command::new("bash");
    let script = format!("for i in {{1..{SENT}}}; do echo $i >/dev/udp/127.0.0.$i/9; done");
    namespace.output(bash.args(["-c", &script]));
}

/// Starts a run on the `lo` of a namespace, and waits until it receives. It counts the datagrams, but
/// not the ICMP answers.
fn listen(namespace: &Namespace, flags: &str) -> Running {
    let command = watch(&format!(
        "-i lo --interval 20ms --summary json {flags} udp and dst port 9"
    ));
    let mut running = Running::start(&mut namespace.command_inside(&command));
    running.wait_for_packets(0);
    running
}

#[test]
fn closed_reader_of_records_ends_the_run_quietly() {
    for format in ["json", "csv"] {
        let mut command = watch(&format!("-o {format} -r"));
        let mut running =
            Running::start(command.arg(&captures::large().path).arg("--summary=none"));
        let mut line = String::new();
        let mut reader = BufReader::new(running.stdout());
        reader.read_line(&mut line).unwrap();
        assert!(line.contains("flowStartNanoseconds"), "{line}");
        drop(reader);
        let outcome = running.finish();
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    }
}

#[test]
fn closed_reader_stops_reading_endless_input() {
    let mut command = watch("-q --summary none -o csv --idle-timeout 1ms -r -");
    let mut running = Running::start(command.stdin(Stdio::piped()));
    let mut line = String::new();
    let mut reader = BufReader::new(running.stdout());
    reader.read_line(&mut line).unwrap();
    assert!(line.starts_with("flowStartNanoseconds,"), "{line}");
    drop(reader);
    let mut stdin = running.stdin();
    let capture = fs::read(&captures::large().path).unwrap();
    // Write the same packets endlessly; writing fails when the pipe is closed.
    let mut result = stdin.write_all(&capture[..24]);
    let deadline = Instant::now() + Duration::from_secs(60);
    while result.is_ok() {
        assert!(Instant::now() < deadline, "it continues reading");
        result = stdin.write_all(&capture[24..]);
    }
    let outcome = running.finish();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
}

#[test]
fn reader_closed_before_the_start_is_no_error() {
    for format in ["json", "csv", "parquet:-"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = watch(&format!("-q --summary none -o {format} -r"));
        let output = command.arg(captures::example()).stdout(writer).output();
        let output = output.unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*stderr), (Some(0), ""), "{format}");
    }
}

#[test]
fn closed_reader_of_the_summary_is_no_error() {
    for form in ["text", "json"] {
        let mut command = watch(&format!("--summary {form} -r"));
        let mut running = Running::start(command.arg(captures::example()));
        drop(running.stdout());
        let outcome = running.finish();
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    }
}

#[test]
fn signal_ends_a_file_run_with_all_records() {
    let capture = fs::read(&captures::large().path).unwrap();
    let frames = captures::read(&capture);
    // A thousand packets, through a pipe that stays open after them.
    let frames = &frames[..1000];
    let bytes: usize = frames.iter().map(|frame| 16 + frame.bytes.len()).sum();
    for (signal, model) in [
        ("INT", "--queues 1"),
        ("TERM", "--model pipeline --monitors 2"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("flows.csv");
        let flags = format!(
            "--interval 20ms --summary json {model} -o csv:{} -r -",
            output.display()
        );
        let mut running = Running::start(watch(&flags).stdin(Stdio::piped()));
        let mut stdin = running.stdin();
        stdin.write_all(&capture[..24 + bytes]).unwrap();
        running.wait_for_packets(1000);
        running.signal(signal);
        let outcome = running.finish();
        let summary = Summary::balanced(&outcome);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert_eq!(summary.number("/books/received"), 1000);
        assert!(summary.faults().is_empty());
        let rows = records::csv(&fs::read(output).unwrap());
        assert_eq!(rows.len() as u64, summary.number("/flows"));
        let packets: u64 = rows.iter().map(|row| records::number(row, "packets")).sum();
        assert_eq!(packets, summary.number("/books/in_flows"));
        drop(stdin);
    }
}

#[test]
fn waits_for_a_named_pipe_until_a_writer_or_a_signal() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = named_pipe(directory.path());
    let start = || {
        let mut running = Running::start(watch("--interval 20ms --summary json -r").arg(&pipe));
        running.wait_for_packets(0);
        running
    };
    let running = start();
    running.signal("TERM");
    let outcome = running.finish();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(Summary::balanced(&outcome).number("/books/received"), 0);

    let running = start();
    fs::write(&pipe, fs::read(captures::example()).unwrap()).unwrap();
    let outcome = running.finish();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let expected = Summary::balanced(&run(watch("-q --summary json -r").arg(captures::example())));
    assert_eq!(
        Summary::balanced(&outcome).number("/books/received"),
        expected.number("/books/received")
    );
}

#[test]
fn signal_ends_a_live_run_with_all_records() {
    let namespace = Namespace::new();
    for (signal, model) in [("INT", "--queues 1"), ("TERM", "--model pipeline")] {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("flows.json");
        let mut running = listen(&namespace, &format!("{model} -o json:{}", output.display()));
        send_datagrams(&namespace);
        running.wait_for_packets(SENT);
        running.signal(signal);
        let outcome = running.finish();
        let summary = Summary::balanced(&outcome);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert_eq!(summary.number("/books/received"), SENT, "{model}");
        assert_eq!(summary.number("/books/in_flows"), SENT, "{model}");
        let rows = records::json(&fs::read(output).unwrap());
        assert_eq!(rows.len() as u64, SENT, "{model}");
        assert!(rows.iter().all(|row| row["endReason"] == "end-of-input"));
    }
}

/// When a terminal closes during the live screen, it sends SIGHUP and cannot be written to.
#[test]
fn closed_terminal_loses_no_record() {
    let namespace = Namespace::new();
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("flows.csv");
    let line = format!(
        "stty rows 40 cols 120; exec {} watch -i lo -o csv:{} udp and dst port 9",
        env!("CARGO_BIN_EXE_flowatch"),
        output.display()
    );
    let mut script = Command::new("script");
    script.args(["-qc", &line, "/dev/null"]);
    let mut command = namespace.command_inside(&script);
    command.env("TERM", "xterm").stdin(Stdio::piped());
    let mut terminal = command.stdout(Stdio::piped()).spawn().unwrap();
    let (sender, shown) = channel();
    let mut screen = terminal.stdout.take().unwrap();
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = screen.read(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
            if sender.send(text).is_err() {
                break;
            }
        }
    });
    let mut text = String::new();
    let mut wait_for_text = |words: &str| {
        let deadline = Instant::now() + TIMEOUT;
        while !text.contains(words) {
            assert!(Instant::now() < deadline, "no {words}: {text}");
            let more = shown.recv_timeout(TIMEOUT);
            text += &more.unwrap_or_else(|error| panic!("no {words} ({error}): {text}"));
        }
    };
    wait_for_text("flowatch");
    send_datagrams(&namespace);
    // In the list of flows.
    wait_for_text("127.0.0.1");
    let children = format!("/proc/{0}/task/{0}/children", terminal.id());
    let watching: u32 = fs::read_to_string(children)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    terminal.kill().unwrap();
    terminal.wait().unwrap();
    let deadline = Instant::now() + TIMEOUT;
    while Path::new(&format!("/proc/{watching}/exe"))
        .read_link()
        .is_ok()
    {
        assert!(Instant::now() < deadline, "it does not exit");
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(records::csv(&fs::read(&output).unwrap()).len() as u64, SENT);
}

#[test]
fn repeated_sighup_is_no_first_signal_and_nohup_ignores_it() {
    // Its output is not read, so the run cannot end in order. It has no terminal.
    let inner = watch("-q --summary none -o json -r");
    let mut command = Command::new("setsid");
    command.arg(inner.get_program()).args(inner.get_args());
    let mut running = Running::start(command.arg(&captures::large().path));
    let mut stdout = running.stdout();
    stdout.read_exact(&mut [0]).unwrap();
    for _ in 0..3 {
        running.signal("HUP");
        thread::sleep(Duration::from_millis(20));
    }
    // SIGHUP does not count as the first signal, so this SIGINT does not exit at once.
    running.signal("INT");
    thread::sleep(Duration::from_millis(100));
    assert!(!running.has_exited());
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(b"}\n"));
    assert_eq!(running.finish().code, Some(0));

    let mut ignoring = Command::new("sh");
    let line = format!(
        "trap '' HUP; exec {} watch -q --summary json -r -",
        env!("CARGO_BIN_EXE_flowatch")
    );
    let mut running = Running::start(ignoring.args(["-c", &line]).stdin(Stdio::piped()));
    let mut stdin = running.stdin();
    let capture = fs::read(&captures::large().path).unwrap();
    stdin.write_all(&capture[..capture.len() / 2]).unwrap();
    running.signal("HUP");
    thread::sleep(Duration::from_millis(100));
    stdin.write_all(&capture[capture.len() / 2..]).unwrap();
    drop(stdin);
    let packets = captures::read(&capture).len() as u64;
    let summary = Summary::balanced(&running.finish());
    assert_eq!(summary.number("/books/received"), packets);
}

#[test]
fn loopback_packets_are_counted_once_for_any_queue_count() {
    let namespace = Namespace::new();
    for queues in 1..=3 {
        let mut running = listen(&namespace, &format!("--queues {queues}"));
        send_datagrams(&namespace);
        running.wait_for_packets(SENT);
        running.signal("INT");
        let summary = Summary::balanced(&running.finish());
        assert_eq!(summary.number("/books/received"), SENT, "{queues} queues");
    }
}

#[test]
fn live_records_are_written_during_the_run() {
    let namespace = Namespace::new();
    for model in ["--queues 1", "--model pipeline"] {
        let flags = format!("{model} -o json --idle-timeout 100ms --garbage 100ms,10,1");
        let mut running = listen(&namespace, &flags);
        send_datagrams(&namespace);
        let mut lines = BufReader::new(running.stdout()).lines();
        for _ in 0..SENT {
            let line = lines.next().unwrap().unwrap();
            assert_eq!(records::json(line.as_bytes())[0]["endReason"], "idle");
        }
        assert!(!running.has_exited());
        running.signal("INT");
        let outcome = running.finish();
        // The summary goes to standard error, because the records go to standard output.
        let summary = Summary::parse(outcome.stderr.as_bytes()).unwrap();
        summary.check_balance().unwrap();
        assert_eq!(outcome.code, Some(0));
    }
}

#[test]
fn second_signal_exits_at_once() {
    // Its output is not read, so the run cannot end in order.
    let mut running =
        Running::start(watch("-q --summary none -o json -r").arg(&captures::large().path));
    let mut stdout = running.stdout();
    let mut byte = [0];
    stdout.read_exact(&mut byte).unwrap();
    let signals = running.interrupt_until_exit();
    let outcome = running.finish();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(130), ""));
    assert!(signals >= 2);
    drop(stdout);
}

/// `timeout` sends one signal to its child and one to the process group.
#[test]
fn two_signals_in_quick_succession_end_the_run_in_order() {
    let namespace = Namespace::new();
    let mut running = listen(&namespace, "-o json");
    send_datagrams(&namespace);
    running.wait_for_packets(SENT);
    running.signal("TERM");
    running.signal("TERM");
    let outcome = running.finish();
    let summary = Summary::parse(outcome.stderr.as_bytes()).unwrap();
    summary.check_balance().unwrap();
    assert_eq!(summary.number("/books/received"), SENT);
    assert_eq!(outcome.code, Some(0));
}

#[test]
fn closed_standard_input_is_an_empty_capture() {
    let line = format!(
        "exec {} watch -q --summary none -r - <&-",
        env!("CARGO_BIN_EXE_flowatch")
    );
    let outcome = run(Command::new("sh").args(["-c", &line]));
    assert_eq!(outcome.code, Some(2));
    assert_eq!(
        outcome.stderr,
        "flowatch: standard input: the input is empty; was the capture completed?\n"
    );
}

#[test]
fn closed_standard_output_and_error_are_no_error() {
    let line = format!(
        "exec {} watch -o json -r {} >&- 2>&-",
        env!("CARGO_BIN_EXE_flowatch"),
        captures::example().display()
    );
    assert_eq!(run(Command::new("sh").args(["-c", &line])).code, Some(0));
}

#[test]
fn duration_ends_a_live_run() {
    let namespace = Namespace::new();
    let started = Instant::now();
    let command = watch("-i lo -q --summary json --duration 1s");
    let outcome = run(&mut namespace.command_inside(&command));
    let summary = Summary::balanced(&outcome);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    assert_eq!(summary.number("/packets"), 0);
    assert!(started.elapsed() >= Duration::from_secs(1));
}

#[test]
fn count_ends_file_and_live_runs_exactly() {
    let summary = Summary::balanced(&run(
        watch("-q --summary json -c 5 -r").arg(captures::example())
    ));
    assert_eq!(summary.number("/books/received"), 5);
    let filtered = run(watch("-q --summary json -c 5 --model pipeline -r")
        .arg(captures::example())
        .arg("tcp"));
    assert_eq!(Summary::balanced(&filtered).number("/books/received"), 5);

    let namespace = Namespace::new();
    // The queues of a link share one count.
    for queues in [1, 3] {
        let running = listen(&namespace, &format!("-c 5 --queues {queues}"));
        send_datagrams(&namespace);
        let outcome = running.finish();
        let summary = Summary::balanced(&outcome);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert_eq!(summary.number("/books/received"), 5, "{queues} queues");
        assert_eq!(summary.number("/books/in_flows"), 5, "{queues} queues");
    }
}

#[test]
fn waiting_for_a_blocked_output_is_reported() {
    let mut command = watch("-o json --statistics full --sort");
    // More records than a pipe holds, which is not read.
    for _ in 0..20 {
        command.arg("-r").arg(captures::example());
    }
    let mut running = Running::start(&mut command);
    running.wait_for_line(|line| {
        line.contains("an output has not accepted all records")
            && line.contains("send SIGINT twice")
    });
    running.interrupt_until_exit();
    assert_eq!(running.finish().code, Some(130));
}

#[test]
fn second_signal_abandons_a_blocked_output() {
    let mut command = watch("-o json --sort --interval 20ms -r -");
    let mut running = Running::start(command.stdin(Stdio::piped()));
    let mut stdin = running.stdin();
    let capture = fs::read(&captures::large().path).unwrap();
    stdin.write_all(&capture).unwrap();
    // The input pipe stays open, and the output is not read.
    running.wait_for_packets(captures::read(&capture).len() as u64);
    running.signal("INT");
    running.wait_for_line(|line| line.contains("send SIGINT once more"));
    running.signal("INT");
    running.wait_for_exit();
    assert_eq!(running.finish().code, Some(130));
    drop(stdin);
}
