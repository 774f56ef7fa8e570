//! Files that exist before the run: none is erased unless that was asked for.

use super::example;
use crate::command::{Outcome, named_pipe, run, watch};
use crate::namespace::Namespace;
use crate::records;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::thread;

const FORMATS: [&str; 6] = [
    "json:{}/a.json",
    "csv:{}/a.csv",
    "json:{}/a.json.gz",
    "csv:{}/a.csv.zst",
    "parquet:{}/a.parquet",
    "csv:{}/statistics.csv",
];

/// Reads the example with these flags.
fn read_example(directory: &Path, spec: &str, flags: &str) -> Outcome {
    let spec = spec.replace("{}", directory.to_str().unwrap());
    run(&mut example(&format!(
        "-q --summary none --seed 1 {flags} -o {spec}"
    )))
}

fn only_file(directory: &Path) -> Vec<u8> {
    let mut files = fs::read_dir(directory).unwrap();
    let content = fs::read(files.next().unwrap().unwrap().path()).unwrap();
    assert!(files.next().is_none());
    content
}

#[test]
fn reading_again_is_refused_and_overwrite_replaces() {
    for spec in FORMATS {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(read_example(directory.path(), spec, "").code, Some(0));
        let first = only_file(directory.path());
        let refused = read_example(directory.path(), spec, "");
        assert_eq!(refused.code, Some(2), "{spec}");
        assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
        for words in ["the file exists", "--overwrite", "--append"] {
            assert!(refused.stderr.contains(words), "{}", refused.stderr);
        }
        assert!(only_file(directory.path()) == first, "{spec}");
        let replaced = read_example(directory.path(), spec, "--overwrite");
        assert_eq!((replaced.code, &*replaced.stderr), (Some(0), ""), "{spec}");
        assert!(only_file(directory.path()) == first, "{spec}");
    }
}

#[test]
fn append_continues_lines_with_the_same_columns() {
    for (spec, header_lines) in [("json:{}/a.json", 0), ("csv:{}/a.csv", 1)] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(spec.split('/').next_back().unwrap());
        read_example(directory.path(), spec, "");
        let first = fs::read(&path).unwrap();
        // The last line of a run that was killed, and what a power failure may leave.
        for torn in ["", "2013-01-01T0", "{\"schemaVer", "\0\0\0\0"] {
            fs::write(&path, [&first, torn.as_bytes()].concat()).unwrap();
            let outcome = read_example(directory.path(), spec, "--append");
            assert_eq!((outcome.code, &*outcome.stderr), (Some(0), ""), "{spec}");
            let lines: Vec<&[u8]> = first.split_inclusive(|&byte| byte == b'\n').collect();
            let expected = [&first[..], &lines[header_lines..].concat()].concat();
            assert!(fs::read(&path).unwrap() == expected, "{spec} {torn:?}");
        }
    }
}

#[test]
fn append_refuses_what_it_cannot_continue() {
    for (spec, content, words) in [
        ("csv:{}/a", "other,columns\n1,2\n", "does not begin like"),
        ("json:{}/a", "other,columns\n1,2\n", "does not begin like"),
        (
            "json:{}/a",
            "{\"schemaVersion\":9,\"a\":1}\n",
            "does not begin like",
        ),
        ("csv:{}/a.gz", "x", "cannot be continued"),
        ("json:{}/a.zst", "x", "cannot be continued"),
        ("parquet:{}/a.parquet", "x", "cannot be continued"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(spec.split('/').next_back().unwrap());
        fs::write(&path, content).unwrap();
        let outcome = read_example(directory.path(), spec, "--append");
        assert_eq!(outcome.code, Some(2), "{spec}");
        assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
    // The same format with other columns.
    let directory = tempfile::tempdir().unwrap();
    let spec = "csv:{}/a.csv";
    read_example(directory.path(), spec, "");
    let first = only_file(directory.path());
    let outcome = read_example(directory.path(), spec, "--append --statistics moments");
    assert_eq!(outcome.code, Some(2));
    assert!(
        outcome.stderr.contains("other columns?"),
        "{}",
        outcome.stderr
    );
    assert!(only_file(directory.path()) == first);
}

#[test]
fn restart_on_a_link_continues_the_file() {
    let namespace = Namespace::new();
    let directory = tempfile::tempdir().unwrap();
    for format in ["json", "csv"] {
        let path = directory.path().join(format);
        let flags = format!(
            "-i lo --summary none --duration 300ms -o {format}:{}",
            path.display()
        );
        let start = || {
            let mut command = namespace.command_inside(&watch(&flags));
            let ping = "sleep 0.2; echo x >/dev/udp/127.0.0.1/9";
            let mut bash = std::process::Command::new("bash");
            thread::scope(|scope| {
                let sender = scope.spawn(|| namespace.output(bash.args(["-c", ping])));
                let outcome = run(&mut command);
                sender.join().unwrap();
                outcome
            })
        };
        start();
        let before = fs::read(&path).unwrap();
        // Whether the datagram was in time or not.
        let before = match before.is_empty() {
            true => b"{\"schemaVersion\":1,\"endReason\":\"idle\"}\n".to_vec(),
            false => before,
        };
        fs::write(&path, &before).unwrap();
        let outcome = start();
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let continues = format!("continues the file after {} bytes", before.len());
        assert!(outcome.stderr.contains(&continues), "{}", outcome.stderr);
        let after = fs::read(&path).unwrap();
        assert!(after.starts_with(&before));
        match format {
            "csv" => drop(records::csv(&after)),
            _ => drop(records::json(&after)),
        }
    }
}

/// Pipes, devices, standard output, directories and files with a time in their name are not refused.
#[test]
fn what_loses_nothing_is_not_refused() {
    let directory = tempfile::tempdir().unwrap();
    for spec in [
        "json:/dev/null",
        "csv:-",
        "parquet:/dev/null",
        "json:{}/empty",
    ] {
        fs::write(directory.path().join("empty"), "").unwrap();
        let outcome = read_example(directory.path(), spec, "");
        assert_eq!((outcome.code, &*outcome.stderr), (Some(0), ""), "{spec}");
    }
    for (spec, flags) in [
        ("parquet:{}/p", ""),
        ("tstat:{}/t", "--flow bidirectional"),
        ("rrd:{}/r", ""),
        ("csv:{}/rotated.csv", "--rotate 1h"),
    ] {
        for _ in 0..2 {
            let outcome = read_example(directory.path(), spec, flags);
            assert_eq!((outcome.code, &*outcome.stderr), (Some(0), ""), "{spec}");
        }
    }
    for format in ["csv", "parquet"] {
        let directory = tempfile::tempdir().unwrap();
        let pipe = named_pipe(directory.path());
        let reader = {
            let pipe = pipe.clone();
            thread::spawn(move || {
                let mut bytes = Vec::new();
                let mut pipe = fs::File::open(pipe).unwrap();
                pipe.read_to_end(&mut bytes).unwrap();
                bytes
            })
        };
        let outcome = run(&mut example(&format!(
            "-q --summary none -o {format}:{}",
            pipe.display()
        )));
        assert_eq!((outcome.code, &*outcome.stderr), (Some(0), ""), "{format}");
        let bytes = reader.join().unwrap();
        match format {
            "csv" => assert!(records::csv(&bytes).len() > 100),
            _ => assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1")),
        }
    }
}

#[test]
fn append_and_overwrite_need_an_output_and_exclude_each_other() {
    for (flags, words) in [
        ("--append", "need an output"),
        ("--overwrite", "need an output"),
        ("--append --overwrite -o csv:x", "cannot be used with"),
    ] {
        let outcome = run(&mut example(&format!("-q {flags}")));
        assert_eq!(outcome.code, Some(2), "{flags}");
        assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
    }
}
