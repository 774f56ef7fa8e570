//! Several capture files at once: lists, directories and patterns, some of them unreadable, and
//! compressed captures.

use crate::bad_input::{as_nobody, assert_fails};
use crate::captures;
use crate::command::{Outcome, Running, run, watch};
use crate::summary::Summary;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Packets of the example, according to capinfos 4.0.
const PACKETS: u64 = 548;

/// A directory with the example as `a.pcap`, `b.pcap` and `c.pcapng` (a pcap file, too), each an hour
/// after the one before: captures of the same time would be noticed.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let mut frames = captures::read(&fs::read(captures::example()).unwrap());
    for name in ["a.pcap", "b.pcap", "c.pcapng"] {
        captures::write(&directory.path().join(name), captures::ETHERNET, &frames);
        for frame in &mut frames {
            frame.time_ns += 3_600_000_000_000;
        }
    }
    directory
}

/// Runs `watch` with these arguments in a directory.
fn watch_in(directory: &Path, arguments: &[&str]) -> Outcome {
    let mut command = watch("-q --summary json");
    run(command.current_dir(directory).args(arguments))
}

fn packets(outcome: &Outcome) -> u64 {
    Summary::balanced(outcome).number("/packets")
}

#[test]
fn lists_directories_and_patterns_are_read() {
    let directory = directory();
    for (arguments, files) in [
        (&["-r", "a.pcap", "b.pcap", "c.pcapng"][..], 3),
        (&["-r", "a.pcap", "b.pcap", "-r", "a.pcap"], 3),
        (&["-r", "*.pcap"], 2),
        (&["-r", "[bc].*", "a.pcap"], 3),
        (&["-r", "."], 3),
        (&["-r", ".", "*"], 6),
        (&["-r", "*.pcap", "--queues", "2"], 2),
    ] {
        let outcome = watch_in(directory.path(), arguments);
        assert_eq!(
            (outcome.code, &*outcome.stderr),
            (Some(0), ""),
            "{arguments:?}"
        );
        assert_eq!(packets(&outcome), files * PACKETS, "{arguments:?}");
    }
}

#[test]
fn filter_follows_the_files() {
    let directory = directory();
    let alone = packets(&watch_in(
        directory.path(),
        &["tcp port 80", "-r", "a.pcap"],
    ));
    assert!((1..PACKETS).contains(&alone), "{alone}");
    for arguments in [
        &["-r", "a.pcap", "b.pcap", "tcp port 80"][..],
        &["-r", "a.pcap", "b.pcap", "tcp", "port", "80"],
        &["-r", "*.pcap", "tcp port 80"],
        &["-r", "a.pcap", "b.pcap", "--whole-flows", "tcp port 80"],
        &["tcp port 80", "-r", "a.pcap", "b.pcap"],
    ] {
        let outcome = watch_in(directory.path(), arguments);
        assert_eq!(
            (outcome.code, &*outcome.stderr),
            (Some(0), ""),
            "{arguments:?}"
        );
        assert_eq!(packets(&outcome), 2 * alone, "{arguments:?}");
    }
}

#[test]
fn ambiguous_arguments_are_refused() {
    let directory = directory();
    fs::copy(captures::example(), directory.path().join("tcp")).unwrap();
    for (arguments, words) in [
        (
            &["-r", "a.pcap", "tcp"][..],
            &["'tcp' is a file and also begins a filter", "./tcp"][..],
        ),
        (
            &["-r", "a.pcap", "udq", "b.pcap"],
            &["'udq' is no file", "b.pcap follows"],
        ),
        (
            &["udp", "-r", "a.pcap", "port 80"],
            &["'udp' and 'port 80' are both filters"],
        ),
        (
            &["-r", "a.pcap", "-n", "b.pcap"],
            &["'b.pcap' is a file, not a filter", "after -r"],
        ),
        (
            &["-r", "x*.pcap"],
            &["-r 'x*.pcap': no file matches this pattern"],
        ),
    ] {
        assert_fails(&watch_in(directory.path(), arguments), 2, words);
    }
    let outcome = watch_in(directory.path(), &["-r", "a.pcap", "./tcp"]);
    assert_eq!(packets(&outcome), 2 * PACKETS);
}

#[test]
fn missing_file_among_several_is_reported_and_the_others_are_read() {
    let directory = directory();
    for arguments in [
        &["-r", "a.pcap", "-r", "none.pcap", "-r", "b.pcap"][..],
        &["-r", "a.pcap", "none.pcap", "b.pcap"],
        &["-r", "a.pcap", "b.pcap", "none.pcap"],
        &["-r", "none.pcap", "a.pcap", "b.pcap", "--queues", "3"],
    ] {
        let outcome = watch_in(directory.path(), arguments);
        assert_fails(&outcome, 2, &["none.pcap: no such file; check the path"]);
        assert_eq!(packets(&outcome), 2 * PACKETS, "{arguments:?}");
        assert_eq!(Summary::balanced(&outcome).faults().len(), 1);
    }
    let outcome = watch_in(directory.path(), &["-r", "none.pcap", "nil.pcap"]);
    assert_fails(&outcome, 2, &["none.pcap: no such file"]);
    assert_eq!(outcome.stdout, b"");
}

#[test]
fn directory_is_read_without_its_other_files() {
    let directory = directory();
    fs::write(directory.path().join("notes.txt"), "to do\n").unwrap();
    fs::write(directory.path().join("empty"), "").unwrap();
    fs::create_dir(directory.path().join("sub")).unwrap();
    fs::copy(captures::example(), directory.path().join("sub/d.pcap")).unwrap();
    let outcome = watch_in(directory.path(), &["-r", "."]);
    assert_fails(
        &outcome,
        0,
        &[
            "2 of 5 files in this directory are not captures",
            "empty: the input is empty",
        ],
    );
    assert_eq!(packets(&outcome), 3 * PACKETS);

    for (name, words) in [
        ("none", "contains no files"),
        ("texts", "none of the 1 files"),
    ] {
        let path = directory.path().join(name);
        fs::create_dir(&path).unwrap();
        if name == "texts" {
            fs::write(path.join("notes"), "to do\n").unwrap();
        }
        assert_fails(
            &watch_in(directory.path(), &["-r", name]),
            2,
            &[name, words],
        );
    }
}

#[test]
fn missing_permissions_are_reported_with_a_hint() {
    let directory = directory();
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    set(directory.path(), 0o755).unwrap();
    set(&directory.path().join("b.pcap"), 0o600).unwrap();
    let run_as_nobody = |path: &Path| {
        let (_program, mut command) = as_nobody("-q --summary json -r");
        run(command.arg(path))
    };
    // A file that cannot be read is an error, not a file to skip.
    let outcome = run_as_nobody(directory.path());
    assert_fails(&outcome, 2, &["b.pcap: no permission", "sudo chmod a+r"]);
    assert_eq!(packets(&outcome), 2 * PACKETS);
    for (mode, hint) in [
        (0o711, "sudo chmod a+r"),
        (0o744, "sudo chmod a+x"),
        (0o700, "sudo chmod a+r"),
    ] {
        set(directory.path(), mode).unwrap();
        assert_fails(
            &run_as_nobody(directory.path()),
            77,
            &["the directory", hint],
        );
    }
    set(directory.path(), 0o755).unwrap();
}

#[test]
fn compressed_captures_are_read_from_files_and_standard_input() {
    let directory = tempfile::tempdir().unwrap();
    let example = fs::read(captures::example()).unwrap();
    let half = example.len() / 2;
    for (program, kind) in [("xz", "xz"), ("bzip2", "bzip2"), ("lz4", "lz4")] {
        let pack = |bytes: &[u8]| {
            let mut child = Command::new(program)
                .arg("-c")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap_or_else(|_| panic!("this test needs {program}"));
            child.stdin.take().unwrap().write_all(bytes).unwrap();
            child.wait_with_output().unwrap().stdout
        };
        let whole = pack(&example);
        let joined = [pack(&example[..half]), pack(&example[half..])].concat();
        let path = directory.path().join(kind);
        for bytes in [&whole, &joined] {
            fs::write(&path, bytes).unwrap();
            let outcome = watch_in(directory.path(), &["-r", kind]);
            assert_eq!((outcome.code, &*outcome.stderr), (Some(0), ""), "{kind}");
            assert_eq!(packets(&outcome), PACKETS, "{kind}");

            let mut command = watch("-q --summary json -r -");
            let mut running = Running::start(command.stdin(Stdio::piped()));
            let mut input = running.stdin();
            // The pipe is empty for a while in the middle of a block.
            let (first, second) = bytes.split_at(bytes.len() / 3);
            input.write_all(first).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(250));
            input.write_all(second).unwrap();
            drop(input);
            assert_eq!(packets(&running.finish()), PACKETS, "{kind}");
        }
        let cut = &whole[..whole.len() - 1];
        fs::write(&path, cut).unwrap();
        let outcome = watch_in(directory.path(), &["-r", kind]);
        assert_fails(&outcome, 2, &[&format!("the {kind} data are truncated")]);
        Summary::balanced(&outcome);
        let damaged = [&whole[..], b"not compressed"].concat();
        fs::write(&path, damaged).unwrap();
        let outcome = watch_in(directory.path(), &["-r", kind]);
        assert_fails(&outcome, 2, &[&format!("the {kind} data are corrupt")]);
        assert_eq!(packets(&outcome), PACKETS, "{kind}");
    }
}
