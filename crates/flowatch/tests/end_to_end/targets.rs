//! Files to write: one file by two names is refused, by whatever spelling, and one that is there is
//! not emptied for a run that does not begin.

use crate::captures;
use crate::command::{Outcome, run, watch};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

/// Within a directory of its own; `$PWD` is its name.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// `flowatch` with these flags.
    fn flowatch(&self, flags: &str) -> Command {
        let directory = self.path().display().to_string();
        let example = captures::example().display().to_string();
        let flags = flags
            .replace("$PWD", &directory)
            .replace("EXAMPLE", &example);
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowatch"));
        command.args(flags.split_whitespace());
        command.current_dir(self.path()).stdin(Stdio::null());
        command
    }

    #[track_caller]
    fn run(&self, flags: &str) -> Outcome {
        run(&mut self.flowatch(flags))
    }

    /// It must be refused, with one line that has these words, and leave no file.
    #[track_caller]
    fn refused(&self, flags: &str, words: &str) {
        let before = self.content();
        let outcome = self.run(flags);
        assert_eq!(outcome.code, Some(2), "{flags}: {outcome:?}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        assert!(
            outcome.stderr.contains(words),
            "{flags}: {}",
            outcome.stderr
        );
        assert_eq!(self.content(), before, "{flags}");
    }

    /// Names and contents of the files.
    fn content(&self) -> Vec<(String, Vec<u8>)> {
        let mut files: Vec<_> = fs::read_dir(self.path())
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| {
                let name = entry.file_name().into_string().unwrap();
                (name, fs::read(entry.path()).unwrap_or_default())
            })
            .collect();
        files.sort();
        files
    }
}

#[test]
fn one_new_file_by_two_spellings_is_refused() {
    let place = Place::new();
    fs::create_dir(place.path().join("d")).unwrap();
    symlink("d", place.path().join("link")).unwrap();
    symlink("n.json", place.path().join("late")).unwrap();
    for outputs in [
        "-o json:n.json -o csv:./n.json",
        "-o csv:n.csv -o csv:$PWD/n.csv",
        "-o parquet:p.parquet -o parquet:./p.parquet",
        "-o parquet:p -o parquet:p/",
        "-o json:d/n -o csv:link/n",
        "-o json:d/n -o csv:d/../d/n",
        "-o json:n.json -o csv:late",
    ] {
        place.refused(
            &format!("watch -q --summary none -r EXAMPLE {outputs}"),
            "named twice",
        );
    }
    let outcome = place.run("watch -q --summary none -r EXAMPLE -o json:n -o csv:d/n -o csv:m");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    let csv = fs::read(place.path().join("m")).unwrap();
    assert!(csv.starts_with(b"flowStart") && csv == fs::read(place.path().join("d/n")).unwrap());
}

#[test]
fn standard_output_is_one_file_by_all_its_names() {
    let place = Place::new();
    for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        place.refused(
            &format!("watch -q --summary none -r EXAMPLE -o json -o csv:{name}"),
            "named twice",
        );
        // The summary gives way, as it does for `-o csv`.
        let path = place.path().join("f");
        let mut command = place.flowatch(&format!("watch --seed 1 -r EXAMPLE -o csv:{name}"));
        let output = command.stdout(File::create(&path).unwrap()).output();
        let output = output.unwrap();
        let plain = run(watch("-q --seed 1 --summary none -o csv -r").arg(captures::example()));
        assert_eq!(output.status.code(), Some(0));
        assert!(fs::read(&path).unwrap() == plain.stdout, "{name}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("Books (balanced)"));
    }
    // A file that standard output goes to, under its own name.
    let path = place.path().join("f");
    for flags in [
        "watch -r EXAMPLE -o json -o csv:f",
        "watch -r EXAMPLE -o csv:f",
        "gen -i null: -c 5 --truth f",
        "gen -c 5 -w ./f",
    ] {
        let mut command = place.flowatch(flags);
        let output = command.stdout(File::create(&path).unwrap()).output();
        let output = output.unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{flags}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{flags}: {stderr}");
        assert_eq!(fs::read(&path).unwrap(), b"", "{flags}");
    }
}

#[test]
fn a_file_that_is_there_is_not_emptied_for_a_run_that_does_not_begin() {
    let place = Place::new();
    let file = |name: &str| {
        fs::write(place.path().join(name), "precious").unwrap();
    };
    file("keep.json");
    file("keep.csv");
    file("keep.parquet");
    fs::create_dir(place.path().join("d")).unwrap();
    for (flags, words) in [
        ("-o json:keep.json -o csv:none/x.csv", "no such directory"),
        ("-o csv:keep.csv -o json:d", "is a directory"),
        (
            "-o parquet:keep.parquet -o csv:none/x.csv",
            "no such directory",
        ),
        ("-o json:keep.json -o tstat:t", "--flow bidirectional"),
        ("-o json:keep.json -o rrd:none/r", "no such directory"),
        ("-o csv:keep.csv -o parquet:none/p", "no such directory"),
    ] {
        place.refused(
            &format!("watch -q --summary none -r EXAMPLE {flags}"),
            words,
        );
    }
    place.refused(
        "gen -c 5 -w none/x.pcap --truth keep.csv",
        "no such directory",
    );
    place.refused("gen -c 5 -w keep.json --truth none/x", "no such directory");
    place.refused("gen -c 5 -i nosuch0 --truth keep.csv", "no such interface");
}

#[test]
fn no_output_takes_the_place_of_a_key_or_a_table() {
    let place = Place::new();
    fs::write(place.path().join("key"), [7; 32]).unwrap();
    fs::write(place.path().join("table"), "name example.com example\n").unwrap();
    for (flags, words) in [
        (
            "--anonymise crypto-pan=key -o csv:./key",
            "is read (--anonymise)",
        ),
        (
            "--statistics app --applications table -o csv:./table",
            "is read (--applications)",
        ),
    ] {
        place.refused(
            &format!("watch -q --summary none -r EXAMPLE {flags}"),
            words,
        );
    }
    assert_eq!(fs::read(place.path().join("key")).unwrap(), [7; 32]);
}

#[test]
fn gen_writes_over_nothing_that_it_reads_or_writes() {
    let place = Place::new();
    fs::copy(captures::example(), place.path().join("r.pcap")).unwrap();
    fs::write(place.path().join("old"), "old").unwrap();
    for (flags, words) in [
        ("gen -c 5 -w y.pcap --truth y.pcap", "-w too"),
        ("gen -c 5 -w y.pcap --truth ./y.pcap", "-w too"),
        ("gen -c 5 -w old --truth $PWD/old", "-w too"),
        ("gen -c 5 -w - --truth /dev/stdout", "-w too"),
        ("gen -w ./r.pcap --replay r.pcap", "is read (--replay)"),
        (
            "gen -i null: --replay r.pcap --truth ./r.pcap",
            "is read (--replay)",
        ),
        ("gen -c 5 -w x.pcap.gz", "captures are written unpacked"),
        ("gen -c 5 -w x.pcap.zst", "captures are written unpacked"),
    ] {
        place.refused(flags, words);
    }
}
