//! Names in packets and files that attack what reads them: terminals, spreadsheets, shells.

use crate::captures;
use crate::command::{run, watch};
use crate::records;
use export::printable::is_unprintable;
use std::fs;
use std::process::Command;

fn injection(flags: &str) -> Command {
    let mut command = watch(&format!("--statistics full {flags} -r"));
    command.arg(captures::shipped("../hostile/injection.pcap"));
    command
}

/// Asserts that nothing in `bytes` acts on a terminal.
#[track_caller]
fn is_harmless(bytes: &[u8], what: &str) {
    let text = std::str::from_utf8(bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
    for line in text.lines() {
        assert!(!line.contains(is_unprintable), "{what}: {line:?}");
    }
}

/// Reads the escapes of CSV.
fn unescaped(cell: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = cell.as_bytes().iter();
    while let Some(&byte) = rest.next() {
        match (byte, rest.as_slice()) {
            (b'\\', [b'x', high, low, ..]) => {
                let digits = String::from_utf8(vec![*high, *low]).unwrap();
                bytes.push(u8::from_str_radix(&digits, 16).unwrap());
                rest.nth(2);
            }
            (b'\\', [b'\\', ..]) => {
                bytes.push(b'\\');
                rest.next();
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn text_of_packets_is_harmless_in_every_format_and_reads_back() {
    let csv = run(&mut injection("-q --summary none --sort -o csv")).quiet_success();
    let json = run(&mut injection("-q --summary none --sort -o json")).quiet_success();
    is_harmless(&csv, "csv");
    is_harmless(&json, "json");
    let (csv, json) = (records::csv(&csv), records::json(&json));
    assert_eq!(csv.len(), json.len());
    let mut escaped = 0;
    for (csv, json) in csv.iter().zip(&json) {
        for (name, cell) in csv {
            let formula = cell.starts_with(['=', '+', '-', '@']);
            assert!(!formula || cell.parse::<f64>().is_ok(), "{name}: {cell}");
            // A letter keeps a program from reading digits as a number.
            let text = unescaped(cell);
            let text = match name.as_str() {
                "tlsVersionsOffered" => text.replace('x', ""),
                _ => text,
            };
            assert_eq!(text, json[name], "{name}");
            escaped += u64::from(*cell != json[name]);
        }
    }
    assert!(escaped > 10, "{escaped}");

    let directory = tempfile::tempdir().unwrap();
    let flags = format!("-q --summary none -o tstat:{}", directory.path().display());
    run(&mut injection(&flags)).quiet_success();
    for logs in fs::read_dir(directory.path()).unwrap() {
        for log in fs::read_dir(logs.unwrap().path()).unwrap() {
            let bytes = fs::read(log.unwrap().path()).unwrap();
            is_harmless(&bytes, "tstat");
            let text = String::from_utf8(bytes).unwrap();
            let mut lines = text.lines().map(|line| line.split_whitespace().count());
            let columns = lines.next().unwrap();
            assert!(lines.all(|count| count == columns), "{text}");
        }
    }
    for summary in ["text -v", "json"] {
        let outcome = run(&mut injection(&format!("--summary {summary}")));
        is_harmless(&outcome.stdout, summary);
        is_harmless(outcome.stderr.as_bytes(), summary);
    }
}

#[test]
fn names_of_files_are_harmless_in_messages_and_summaries() {
    let directory = tempfile::tempdir().unwrap();
    let hostile = "\u{1b}]0;x\u{7}\n=1+1\u{9b}2J\u{202e}\u{7f}";
    let path = |end: &str| directory.path().join(format!("{hostile}{end}"));
    fs::write(path("damaged.pcap"), "no capture").unwrap();
    for summary in ["text", "json"] {
        let mut command = watch(&format!("-v --summary {summary} --overwrite -r"));
        command.arg(captures::example()).arg(path("damaged.pcap"));
        let mut output = std::ffi::OsString::from("csv:");
        output.push(path("out.csv"));
        let outcome = run(command.arg("-o").arg(output));
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert!(outcome.stderr.contains("\\x1b]0;x"), "{}", outcome.stderr);
        is_harmless(outcome.stderr.as_bytes(), "messages");
        is_harmless(&outcome.stdout, summary);
    }
    for flags in ["-r", "--applications", "-i", "-o", "--nonsense"] {
        let outcome = run(watch("-q").arg(flags).arg(path("")));
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        is_harmless(outcome.stderr.as_bytes(), flags);
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
    }
}
