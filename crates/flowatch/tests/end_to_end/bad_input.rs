//! Bad input and contradictory flags: an exit status, one line on standard error that says what and
//! what to do, and what was read before a fault is still reported, with the fault counted.

use crate::captures;
use crate::command::{Outcome, run, watch};
use crate::records;
use crate::summary::Summary;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packets and bytes of the example, as capinfos 4.0 counts them.
const EXAMPLE: (u64, u64) = (548, 128_478);

/// A user who is nobody in particular.
const NOBODY: &str = "65534";

/// The run must have failed so, with one line that holds all of `words` and no panic.
#[track_caller]
fn assert_fails(outcome: &Outcome, code: i32, words: &[&str]) {
    let stderr = &outcome.stderr;
    assert_eq!(outcome.code, Some(code), "{outcome:?}");
    assert_eq!(stderr.lines().count(), 1, "not one line: {stderr:?}");
    assert!(stderr.starts_with("flowatch: "), "{stderr:?}");
    for word in words {
        assert!(stderr.contains(word), "no `{word}` in {stderr:?}");
    }
}

/// Reads a file that is bad from the start.
#[track_caller]
fn assert_refused(path: &Path, words: &[&str]) {
    let name = path.display().to_string();
    let all: Vec<&str> = words.iter().copied().chain([name.as_str()]).collect();
    for flags in [
        "",
        "--queues 2",
        "--model pipeline",
        "-o json",
        "--sort -o csv",
    ] {
        let outcome = run(watch(&format!("--summary none {flags} -r")).arg(path));
        assert_fails(&outcome, 2, &all);
    }
}

/// A file in a directory of its own.
fn file(name: &str, content: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    fs::write(&path, content).unwrap();
    (directory, path)
}

#[test]
fn what_is_no_capture_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    assert_refused(directory.path(), &["is a directory; name the files in it"]);
    assert_refused(
        &directory.path().join("none.pcap"),
        &["no such file; check the path"],
    );
    let (_directory, path) = file("empty.pcap", b"");
    assert_refused(&path, &["is empty; was the capture written to its end?"]);
    let (_directory, path) = file("notes.txt", b"hello world\n");
    assert_refused(
        &path,
        &["is not a pcap or pcapng file", "text: \"hello world\""],
    );
    let (_directory, path) = file("short.pcap", &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0]);
    assert_refused(&path, &["ends in the middle of its header"]);
    let (_directory, path) = file("packed.pcap.xz", b"\xfd7zXZ\0rest");
    assert_refused(&path, &["compressed with xz", "xz -dk"]);
    let (_directory, path) = file("noise.pcap.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\x03noise");
    assert_refused(&path, &["gzip data are damaged"]);
    let (_directory, path) = file(
        "nothing.pcap.zst",
        b"\x28\xb5\x2f\xfd\x24\0\x01\0\0\x99\xe9\xd8\x51",
    );
    assert_refused(&path, &["is empty once unpacked (zstd)"]);
}

#[test]
fn a_wrong_name_among_many_is_told_before_anything_is_read_or_written() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("flows.csv");
    let mut command = watch(&format!("--summary json -o csv:{} -r", output.display()));
    command
        .arg(captures::example())
        .args(["-r", "/nowhere/none.pcap"]);
    let outcome = run(&mut command);
    assert_fails(&outcome, 2, &["/nowhere/none.pcap: no such file"]);
    assert_eq!(outcome.stdout, b"");
    assert!(!output.exists());
}

#[test]
fn what_was_read_before_a_cut_is_reported_and_the_next_file_still_read() {
    let example = fs::read(captures::example()).unwrap();
    let whole = captures::read(&example);
    // In the middle of the 101st packet: of its bytes, of its header.
    let bytes: usize = whole[..100]
        .iter()
        .map(|frame| 16 + frame.bytes.len())
        .sum();
    let before: u64 = whole[..100]
        .iter()
        .map(|frame| u64::from(frame.wire_length))
        .sum();
    for extra in [20, 7] {
        let (_directory, cut) = file("cut.pcap", &example[..24 + bytes + extra]);
        let name = cut.display().to_string();
        for flags in ["", "--queues 3", "--model pipeline --monitors 2"] {
            let flags = format!("-q --summary json {flags} -r");
            let words = [
                &*name,
                "after 100 packets",
                "ends in the middle of a packet",
            ];

            let alone = run(watch(&flags).arg(&cut));
            assert_fails(&alone, 2, &words);
            let summary = Summary::balanced(&alone);
            assert_eq!(summary.number("/packets"), 100, "{flags}");
            assert_eq!(summary.number("/bytes"), before);
            assert_eq!(summary.faults().len(), 1);

            let mut both = watch(&flags);
            let both = run(both.arg(&cut).arg("-r").arg(captures::example()));
            assert_fails(&both, 2, &words);
            let summary = Summary::balanced(&both);
            assert_eq!(summary.number("/packets"), 100 + EXAMPLE.0, "{flags}");
            assert_eq!(summary.number("/bytes"), before + EXAMPLE.1);
            assert_eq!(summary.faults().len(), 1);
        }
    }
}

#[test]
fn records_of_what_was_read_before_a_cut_are_written() {
    let example = fs::read(captures::example()).unwrap();
    let (_directory, cut) = file("cut.pcap", &example[..example.len() - 1]);
    let outcome = run(watch("-q --summary none -o json -r").arg(&cut));
    assert_fails(&outcome, 2, &["after 547 packets"]);
    let rows = records::json(&outcome.stdout);
    let packets: u64 = rows.iter().map(|row| records::number(row, "packets")).sum();
    // All 548 packets but 8 without a flow, and the last one.
    assert_eq!(packets, 539);
}

#[test]
fn damaged_compression_is_a_fault_where_it_is() {
    let packed = Command::new("gzip")
        .arg("-c")
        .arg(captures::example())
        .output();
    let packed = packed.expect("this test needs gzip").stdout;
    let (_directory, cut) = file("cut.pcap.gz", &packed[..packed.len() / 2]);
    let outcome = run(watch("-q --summary json -r").arg(&cut));
    assert_fails(&outcome, 2, &["cut.pcap.gz", "the gzip data end too early"]);
    let packets = Summary::balanced(&outcome).number("/packets");
    assert!((100..500).contains(&packets), "{packets}");
}

/// In the middle of a file, where a length says how far it is to the next packet.
#[test]
fn a_packet_of_absurd_length_ends_its_file_and_those_before_are_reported() {
    let example = fs::read(captures::example()).unwrap();
    let whole = captures::read(&example);
    let middle: usize = whole[..300]
        .iter()
        .map(|frame| 16 + frame.bytes.len())
        .sum();
    for length in [(1 << 20) + 1, u32::MAX] {
        let mut damaged = example.clone();
        let captured = 24 + middle + 8;
        damaged[captured..captured + 4].copy_from_slice(&u32::to_le_bytes(length));
        let (_directory, path) = file("absurd.pcap", &damaged);
        let outcome = run(watch("-q --summary json -r").arg(&path));
        assert_fails(
            &outcome,
            2,
            &[
                "absurd.pcap: after 300 packets",
                &format!(
                    "a packet of {length} captured bytes is not possible, the limit is 1048576"
                ),
                "the rest cannot be found",
            ],
        );
        let summary = Summary::balanced(&outcome);
        assert_eq!(summary.number("/packets"), 300);
        assert_eq!(summary.number("/unreadable"), 1);
    }
}

/// All of the file is there to be read: what its header says is told and counted, and nothing refused
/// for it. (Programs that set no limit write such lengths.)
#[test]
fn a_snap_length_that_is_not_to_be_believed_is_told_and_the_file_read() {
    const WHOLE: &str = "they are taken for no limit, packets are read by their own lengths";
    let mut example = fs::read(captures::example()).unwrap();
    let packets = captures::read(&example);
    let longer = |than: usize| {
        let lengths = packets.iter().map(|frame| frame.bytes.len());
        lengths.filter(|length| *length > than).count() as u64
    };
    for (length, absurd, exceeded) in [
        (0, 0, 0),
        (100, 0, longer(100)),
        (1 << 30, 1, 0),
        (u32::MAX, 1, 0),
    ] {
        example[16..20].copy_from_slice(&u32::to_le_bytes(length));
        let (_directory, path) = file("snap.pcap", &example);
        for flags in ["", "--queues 2", "--model pipeline", "--buffer 16MiB"] {
            let outcome = run(watch(&format!("-q --summary json {flags} -r")).arg(&path));
            match (absurd, exceeded) {
                (0, 0) => assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), "")),
                (0, _) => assert_fails(
                    &outcome,
                    0,
                    &[&format!("header: {exceeded}; they are read whole")],
                ),
                _ => assert_fails(
                    &outcome,
                    0,
                    &[WHOLE, &format!(": 1, the largest {length} bytes")],
                ),
            }
            let summary = Summary::balanced(&outcome);
            assert_eq!(
                (summary.number("/packets"), summary.number("/bytes")),
                EXAMPLE
            );
            assert_eq!(summary.number("/snap_lengths/absurd"), absurd, "{flags}");
            assert_eq!(
                summary.number("/snap_lengths/exceeded"),
                exceeded,
                "{flags}"
            );
        }
    }
}

#[test]
fn the_summary_for_a_person_has_snap_lengths_that_are_not_to_be_believed() {
    let mut example = fs::read(captures::example()).unwrap();
    example[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
    let (_directory, path) = file("snap.pcap", &example);
    let outcome = run(watch("-r").arg(&path));
    let text = String::from_utf8_lossy(&outcome.stdout);
    let line = text
        .lines()
        .find(|line| line.contains("snap lengths that cannot be"));
    assert!(line.is_some_and(|line| line.ends_with(" 1")), "{text}");
}

#[test]
fn a_link_type_that_is_not_read_is_named_once_and_its_packets_counted() {
    let frames = captures::read(&fs::read(captures::example()).unwrap());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("user.pcap");
    // LINKTYPE_USER0.
    captures::write(&path, 147, &frames);
    let outcome = run(watch("-q --summary json -r")
        .arg(&path)
        .arg("-r")
        .arg(&path));
    assert_fails(&outcome, 0, &["link type 147"]);
    let summary = Summary::balanced(&outcome);
    assert_eq!(summary.number("/books/no_flow/unknown_link"), 2 * EXAMPLE.0);
    assert_eq!(summary.number("/flows"), 0);
}

/// The command as somebody without rights runs it; it is copied to where everybody can read it.
pub(crate) fn as_nobody(flags: &str) -> (tempfile::TempDir, Command) {
    let directory = tempfile::tempdir().unwrap();
    let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    open(directory.path(), 0o755).unwrap();
    let program = directory.path().join("flowatch");
    // By a process of its own: what another test starts meanwhile would hold a file that is written
    // here open, and a program that is written is not executed.
    let mut install = Command::new("install");
    install.args(["-m", "755", env!("CARGO_BIN_EXE_flowatch")]);
    assert!(install.arg(&program).status().unwrap().success());
    let mut command = Command::new("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
    command
        .arg(program)
        .arg("watch")
        .args(flags.split_whitespace());
    (directory, command)
}

#[test]
fn a_missing_right_is_77_and_the_line_grants_it() {
    let (_program, mut command) = as_nobody("--summary none -i lo");
    let outcome = run(&mut command);
    assert_fails(
        &outcome,
        77,
        &[
            "lo: no permission",
            "sudo setcap cap_net_raw,cap_net_admin+ep",
        ],
    );

    let (_directory, path) = file("secret.pcap", &fs::read(captures::example()).unwrap());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let directory = path.parent().unwrap();
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
    let (_program, mut command) = as_nobody("--summary none -r");
    let outcome = run(command.arg(&path));
    let name = path.display().to_string();
    assert_fails(
        &outcome,
        77,
        &["no permission to read it", "sudo chmod a+r", &name],
    );
}

#[test]
fn an_output_in_a_place_without_rights_is_refused() {
    let (directory, mut command) = as_nobody("--summary none -r -");
    command
        .arg("-o")
        .arg(format!("csv:{}/flows.csv", directory.path().display()));
    let outcome = run(command.stdin(fs::File::open(captures::example()).unwrap()));
    assert_fails(
        &outcome,
        77,
        &["flows.csv: permission denied; choose another target"],
    );
}

/// A read-only file system has no owner who may write.
#[test]
fn a_read_only_file_system_is_no_missing_right() {
    let line = format!(
        "mount -t tmpfs -o ro none /mnt && exec {} watch --summary none -o csv:/mnt/x.csv -r {}",
        env!("CARGO_BIN_EXE_flowatch"),
        captures::example().display()
    );
    let mut command = Command::new("unshare");
    let outcome = run(command.args(["--mount", "sh", "-c", &line]));
    assert_fails(&outcome, 2, &["/mnt/x.csv: the file system is read-only"]);
}

/// A cooked capture tells which way its packets went.
#[test]
fn directions_are_asked_of_captures_that_tell_them() {
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
fn a_bad_filter_and_an_unknown_interface_are_named() {
    let bad = run(watch("--summary none -r")
        .arg(captures::example())
        .args(["tcp", "prt", "80"]));
    assert_fails(
        &bad,
        2,
        &["filter 'tcp prt 80'", "syntax error", "pcap-filter(7)"],
    );
    let bad = run(&mut watch("--summary none -i nosuch0"));
    assert_fails(&bad, 2, &["nosuch0: no such interface; there are: ", "lo"]);
    let bad = run(&mut watch("--summary none -i any"));
    assert_fails(&bad, 2, &["any: name the interfaces, each with its own -i"]);
}

#[test]
fn flags_that_contradict_each_other_are_told_apart() {
    const CASES: [(&str, &[&str]); 40] = [
        ("", &["nothing to watch", "-i eth0", "-r FILE"]),
        ("-r EXAMPLE -i lo", &["-i and -r together"]),
        (
            "-r - -r -",
            &["standard input (-r -) can be read once only"],
        ),
        ("-r - --queues 2", &["one thread only", "--model pipeline"]),
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
            &["--promiscuous is for interfaces"],
        ),
        (
            "-r EXAMPLE --promiscuous --queues 2",
            &["--promiscuous is for interfaces"],
        ),
        ("-i lo -i lo", &["-i lo is given twice"]),
        ("-i lo@0 --queues 2", &["lo@0 is one queue"]),
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
        ("-r EXAMPLE -o csv:", &["no target behind `csv:`"]),
        ("-r EXAMPLE -o json -o csv", &["-o csv", "named twice"]),
        (
            "-r EXAMPLE --table tree",
            &["unknown table 'tree'", "bucket"],
        ),
        (
            "-r EXAMPLE --hash md5",
            &["no hash is called `md5`", "keyed"],
        ),
        (
            "-r EXAMPLE --statistics mode",
            &["no statistic is called `mode`", "moments"],
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
            &["--ring-memory is for interfaces"],
        ),
        (
            "-r EXAMPLE -o rrd:/tmp/x,5",
            &["rrd has no option `5`", "10s or 2m"],
        ),
        (
            "-r EXAMPLE --flow bidirectional -o tstat:/tmp/ts,bz2",
            &["tstat has no option `bz2`", "gz and zst"],
        ),
        (
            "-r EXAMPLE inbound",
            &[
                "inbound matches packets of interfaces alone",
                "example.pcap",
            ],
        ),
        ("-r EXAMPLE tcp and not outbound", &["outbound matches"]),
        ("-r EXAMPLE ifindex 3", &["ifindex matches"]),
        (
            "-r EXAMPLE EXAMPLE EXAMPLE",
            &["is a file, and no filter", "its own -r", "-r /"],
        ),
        ("EXAMPLE", &["nothing to watch: read the file", "with -r /"]),
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
            &["/dev/null: a file is where a directory should be"],
        ),
        (
            "-r EXAMPLE -o rrd:/dev/null",
            &["/dev/null: a file is where a directory should be"],
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
fn flags_that_cannot_be_understood_are_bad_usage() {
    const CASES: [(&str, &str); 17] = [
        (
            "--flow six",
            "5tuple, bidirectional, src, dst, src-dst, rss",
        ),
        ("--whole-flows --idle-timeout 3s", "cannot be used with"),
        ("-q -v", "cannot be used with"),
        ("--idle-timeout 3", "give a time as 15s"),
        ("--idle-timeout 0s", "at least 1ms"),
        ("--active-timeout 11days", "at most "),
        ("--max-flows 0", "at least 1"),
        ("-c 0", "at least 1"),
        ("--duration 0s", "a time above 0"),
        ("--rotate 1ns", "1s or 1kB is the least"),
        ("--rotate 1B", "1s or 1kB is the least"),
        ("--queues 0", "1..=256"),
        ("--monitors 999", "1..=256"),
        ("--cores 3-1", "is not a range of cores"),
        ("--garbage 10s,0,1", "at least one part"),
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
fn an_output_that_cannot_be_made_is_told_before_anything_is_read() {
    for (target, words) in [
        (
            "csv:/nowhere/flows.csv",
            "no such directory; create the directory",
        ),
        ("csv:/", "is a directory; name a file in it"),
        ("csv:/dev/full", "/dev/full: no space left on the device"),
    ] {
        let outcome = run(watch("--summary none -o")
            .arg(target)
            .arg("-r")
            .arg(captures::example()));
        assert_fails(&outcome, 2, &[words]);
    }
}

#[test]
fn a_full_disk_loses_records_and_counts_them() {
    let busy = captures::busy();
    for flags in ["", "--sort", "--model pipeline --monitors 2"] {
        for (capture, flows) in [
            (captures::example(), 195..250),
            (
                busy.path.clone(),
                busy.flows as u64..busy.flows as u64 * 9 / 8,
            ),
        ] {
            let mut command = watch(&format!("-q --summary json {flags} -o json:/dev/full -r"));
            let outcome = run(command.arg(capture));
            assert_fails(
                &outcome,
                2,
                &["/dev/full: no space left on the device; make room"],
            );
            let summary = Summary::balanced(&outcome);
            let records = summary.number("/flows");
            assert!(flows.contains(&records), "{records}");
            assert_eq!(summary.number("/outputs/0/written"), 0);
            assert_eq!(summary.number("/outputs/0/lost"), records, "{flags}");
            assert_eq!(summary.faults().len(), 1);
        }
    }
}

#[test]
fn a_full_standard_output_is_a_full_disk() {
    let outcome = run_into_full(&mut watch("-q --summary json -o csv -r"));
    assert_eq!(outcome.0, Some(2));
    assert!(
        outcome.1.contains("standard output: no space left"),
        "{}",
        outcome.1
    );
}

#[test]
fn what_cannot_be_said_is_a_failure() {
    let example = captures::example();
    let example = example.to_str().unwrap();
    for arguments in [
        &["watch", "-r", example][..],
        &["watch", "--summary", "json", "-r", example],
        &["gen", "-i", "null:", "-c", "10"],
        &["gen", "-i", "null:", "-c", "10", "--summary", "json"],
        &["lab", "list"],
        &["doctor"],
        &["completions", "bash"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowatch"));
        let outcome = into_full(command.args(arguments));
        assert_eq!(
            outcome,
            (
                Some(2),
                "flowatch: standard output: No space left on device (os error 28)\n".to_owned()
            ),
            "{arguments:?}"
        );
    }
}

/// Runs over the example with standard output on a full device.
fn run_into_full(command: &mut Command) -> (Option<i32>, String) {
    into_full(command.arg(captures::example()))
}

fn into_full(command: &mut Command) -> (Option<i32>, String) {
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = command.stdout(full).output().unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn a_capture_is_not_overwritten_by_its_own_records() {
    let example = fs::read(captures::example()).unwrap();
    let (_directory, path) = file("precious.pcap", &example);
    let mut command = watch("-q --summary none -r");
    command
        .arg(&path)
        .arg("-o")
        .arg(format!("csv:{}", path.display()));
    let outcome = run(&mut command);
    assert_fails(&outcome, 2, &["precious.pcap"]);
    assert!(fs::read(&path).unwrap() == example, "the capture is gone");
}

#[test]
fn an_earlier_result_outlives_bad_usage() {
    let (_directory, path) = file("flows.csv", b"earlier\n");
    let mut command = watch("-q --summary none --cores 99 -r");
    command
        .arg(captures::example())
        .arg("-o")
        .arg(format!("csv:{}", path.display()));
    assert_fails(&run(&mut command), 2, &["core 99"]);
    assert_eq!(fs::read(&path).unwrap(), b"earlier\n");
}
