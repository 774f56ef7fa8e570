//! Network outputs: real receivers that start late, restart, do not read or do not exist.

use super::example;
use crate::captures;
use crate::command::{Running, run, watch};
use crate::summary::Summary;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixListener;
use std::process::Stdio;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Flags of a run whose records have the same order each time.
const QUIET: &str = "-q --seed 1 --summary json";

/// Accepts a connection and reads it to its end.
fn read_one(listener: TcpListener) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut text = String::new();
        let (mut connection, _) = listener.accept().unwrap();
        connection.read_to_string(&mut text).unwrap();
        text
    })
}

/// Returns a listener and its port.
fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Returns what an output to a file contains.
fn file_output(format: &str, flags: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flows");
    let path = path.display();
    let outcome = run(&mut example(&format!("{QUIET} {flags} -o {format}:{path}")));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    fs::read_to_string(directory.path().join("flows")).unwrap()
}

/// Asserts that written and lost records of the output are those of the run. Returns both.
#[track_caller]
fn accounted(summary: &Summary) -> [u64; 2] {
    let number = |name: &str| summary.number(&format!("/outputs/0/{name}"));
    let [written, lost] = ["written", "lost"].map(number);
    assert_eq!(written + lost, summary.number("/flows"), "{summary:?}");
    assert_eq!(lost, summary.number("/records_lost"), "{summary:?}");
    let reasons = ["queue_full", "unsent", "broken", "too_long"];
    let sum: u64 = reasons
        .map(|it| number(&format!("net/lost/{it}")))
        .iter()
        .sum();
    assert_eq!(sum, lost, "{summary:?}");
    [written, lost]
}

#[test]
fn stream_receivers_get_what_a_file_gets() {
    for format in ["json", "csv"] {
        let expected = file_output(format, "");
        let (listener, port) = listen();
        let received = read_one(listener);
        let flags = format!("{QUIET} -o {format}:tcp://127.0.0.1:{port}");
        let outcome = run(&mut example(&flags));
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
        assert_eq!(received.join().unwrap(), expected, "{format}");
        assert_eq!(accounted(&Summary::balanced(&outcome))[1], 0);

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let received = thread::spawn(move || {
            let mut text = String::new();
            let (mut connection, _) = listener.accept().unwrap();
            connection.read_to_string(&mut text).unwrap();
            text
        });
        let flags = format!("{QUIET} -o {format}:unix:{}", path.display());
        let outcome = run(&mut example(&flags));
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
        assert_eq!(received.join().unwrap(), expected, "{format}");
        assert_eq!(accounted(&Summary::balanced(&outcome))[1], 0);
    }
}

/// The datagrams of a run, in order: few enough that the system's buffer holds them all.
fn datagrams(format: &str, flags: &str) -> Vec<String> {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = receiver.local_addr().unwrap().port();
    let flags = format!("{QUIET} {flags} -o {format}:udp://127.0.0.1:{port}");
    let outcome = run(&mut example(&flags));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    let summary = Summary::balanced(&outcome);
    assert_eq!(accounted(&summary)[1], 0);
    receiver.set_nonblocking(true).unwrap();
    let mut bytes = vec![0; 65_536];
    let mut datagrams = Vec::new();
    while let Ok(length) = receiver.recv(&mut bytes) {
        datagrams.push(String::from_utf8(bytes[..length].to_vec()).unwrap());
    }
    let header = usize::from(format == "csv");
    let messages = summary.number("/outputs/0/net/messages") as usize;
    assert_eq!(datagrams.len(), messages + header);
    datagrams
}

#[test]
fn datagrams_contain_whole_records_and_csv_begins_with_its_header() {
    for format in ["json", "csv"] {
        let datagrams = datagrams(format, "");
        assert_eq!(datagrams.concat(), file_output(format, ""));
        for datagram in &datagrams {
            assert!(datagram.len() <= 1400, "{}", datagram.len());
            assert!(datagram.ends_with('\n'));
        }
        if format == "csv" {
            assert_eq!(datagrams[0].lines().count(), 1);
            assert!(datagrams[0].starts_with("flowStart"));
        }
    }
}

#[test]
fn record_longer_than_a_packet_has_a_datagram_of_its_own() {
    let flags = "--statistics full -c 20";
    let datagrams = datagrams("json", flags);
    assert_eq!(datagrams.concat(), file_output("json", flags));
    let long = datagrams.iter().filter(|it| it.len() > 1400);
    let mut lines = long.map(|it| it.lines().count()).peekable();
    assert!(lines.peek().is_some());
    assert!(lines.all(|lines| lines == 1));
}

/// The system reports each datagram that nothing receives; the last one is asked for at the end.
#[test]
fn records_to_a_closed_udp_port_are_lost() {
    let port = {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.local_addr().unwrap().port()
    };
    let flags = format!("{QUIET} -o json:udp://127.0.0.1:{port}");
    let outcome = run(&mut example(&flags));
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains("port is closed"), "{outcome:?}");
    assert_eq!(accounted(&Summary::balanced(&outcome))[0], 0);
}

#[test]
fn records_wait_for_a_receiver_that_starts_late() {
    let (listener, port) = listen();
    drop(listener);
    let flags = format!("{QUIET} -o csv:tcp://127.0.0.1:{port}");
    let mut running = Running::start(&mut example(&flags));
    running.wait_for_line(|line| line.contains("Connection refused") && line.contains("retrying"));
    thread::sleep(Duration::from_millis(500));
    let received = read_one(TcpListener::bind(("127.0.0.1", port)).unwrap());
    let outcome = running.finish();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(received.join().unwrap(), file_output("csv", ""));
    // Each change is reported once, however many attempts there are.
    assert_eq!(outcome.stderr.matches("retrying").count(), 1, "{outcome:?}");
    assert_eq!(outcome.stderr.matches(": connected").count(), 1);
    let summary = Summary::balanced(&outcome);
    assert_eq!(accounted(&summary)[1], 0);
    assert!(summary.number("/outputs/0/net/failures") > 1);
}

/// Reads lines until there are `bytes` bytes, then closes the connection in the middle of its data.
fn read_some(connection: TcpStream, bytes: usize) -> String {
    let mut text = String::new();
    let mut reader = BufReader::new(connection);
    while text.len() < bytes {
        assert!(reader.read_line(&mut text).unwrap() > 0);
    }
    text
}

#[test]
fn restarted_receiver_gets_whole_records_again() {
    let (listener, port) = listen();
    let mut command = watch(&format!(
        "{QUIET} --idle-timeout 1ms -o csv:tcp://127.0.0.1:{port} -r -"
    ));
    let mut running = Running::start(command.stdin(Stdio::piped()));
    let mut stdin = running.stdin();
    let mut half = fs::read(&captures::large().path).unwrap();
    let rest = half.split_off(half.len() / 2);
    let first = thread::spawn(move || {
        let (connection, _) = listener.accept().unwrap();
        read_some(connection, 200_000)
    });
    // The queue may be full until the receiver returns.
    let writing = thread::spawn(move || {
        stdin.write_all(&half).unwrap();
        stdin
    });
    let first = first.join().unwrap();
    running.wait_for_line(|line| line.contains("retrying"));
    let received = read_one(TcpListener::bind(("127.0.0.1", port)).unwrap());
    let mut stdin = writing.join().unwrap();
    stdin.write_all(&rest).unwrap();
    drop(stdin);
    let outcome = running.finish();
    let second = received.join().unwrap();
    let summary = Summary::balanced(&outcome);
    let [written, lost] = accounted(&summary);
    assert_eq!(summary.number("/outputs/0/net/connects"), 2, "{outcome:?}");
    // A run that loses a record of a file fails.
    assert_eq!(
        outcome.code,
        Some(if lost > 0 { 2 } else { 0 }),
        "{outcome:?}"
    );
    let header = first.lines().next().unwrap();
    let columns = header.split(',').count();
    assert_eq!(second.lines().next(), Some(header));
    assert!(second.ends_with('\n'));
    assert!(
        second
            .lines()
            .all(|line| line.split(',').count() == columns)
    );
    // What was in the first connection's buffers had been accepted by the system.
    let second_records = second.lines().count() as u64 - 1;
    assert!(second_records > 0 && second_records < written);
}

#[test]
fn receiver_that_does_not_read_costs_records_and_little_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let _listener = UnixListener::bind(&path).unwrap();
    let started = Instant::now();
    let mut command = watch(&format!("{QUIET} -o json:unix:{} -r", path.display()));
    let outcome = run(command.arg(&captures::large().path));
    let elapsed = started.elapsed();
    assert!(elapsed < Duration::from_secs(40), "{elapsed:?}");
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains("records were not delivered"));
    let [written, lost] = accounted(&Summary::balanced(&outcome));
    // The system's buffer holds some.
    assert!(written > 0 && lost > 0, "{outcome:?}");
}

#[test]
fn missing_receivers_cost_all_records_after_a_time_limit() {
    let (listener, port) = listen();
    drop(listener);
    for (target, words) in [
        (format!("tcp://127.0.0.1:{port}"), "Connection refused"),
        ("unix:/nonexistent/socket".to_owned(), "No such file"),
        ("udp://name.invalid:9000".to_owned(), "does not resolve"),
    ] {
        let started = Instant::now();
        let flags = format!("{QUIET} --fail-on-loss -o json:{target}");
        let outcome = run(&mut example(&flags));
        let elapsed = started.elapsed();
        assert!(elapsed < Duration::from_secs(60), "{target}: {elapsed:?}");
        // The failure of the output outweighs the loss.
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        // At once, and at the end.
        assert_eq!(outcome.stderr.matches(words).count(), 2, "{outcome:?}");
        let summary = Summary::balanced(&outcome);
        assert_eq!(accounted(&summary)[0], 0);
        assert_eq!(summary.number("/outputs/0/net/connects"), 0);
        let error = summary.at("/outputs/0/net/last_error/text");
        assert!(error.as_str().unwrap().contains(words));
    }
}

#[test]
fn rejects_options_of_files_and_invalid_receivers() {
    for (flags, words) in [
        ("-o json:tcp://127.0.0.1:9 --rotate 5m", "cannot be rotated"),
        ("-o parquet:tcp://127.0.0.1:9", "use json or csv"),
        ("-o tstat:unix:/s", "use json or csv"),
        ("-o json:tcp://127.0.0.1:9,gz", "no options"),
        ("-o json:tcp://127.0.0.1", "does not end in a port"),
        ("-o json:tcp:127.0.0.1:9", "use tcp://127.0.0.1:9"),
        ("-o csv:udp://::1:9", "in brackets"),
        ("-o csv:kafka://h:9", "cannot send to kafka://"),
        (
            "-o csv:tcp://127.0.0.1:9 -o json:tcp://127.0.0.1:9",
            "named twice",
        ),
    ] {
        let outcome = run(&mut example(&format!("{QUIET} {flags}")));
        assert_eq!(outcome.code, Some(2), "{flags}: {outcome:?}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{flags}: {outcome:?}");
        assert!(outcome.stderr.contains(words), "{flags}: {outcome:?}");
    }
}
