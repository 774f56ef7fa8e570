//! Output files: one file by two names is rejected in any spelling, and an existing file is not
//! truncated if the run fails to start.

use crate::captures;
use crate::command::{Outcome, run, watch};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

/// A temporary working directory. Flags refer to it as `$PWD`.
struct WorkDirectory(tempfile::TempDir);

impl WorkDirectory {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns `flowatch` with these flags, to be run in the directory.
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

    /// Asserts that the flags are rejected with one line that contains `words`, and change no file.
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

    /// Returns the names and contents of the files.
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
fn rejects_one_new_file_by_two_spellings() {
    let directory = WorkDirectory::new();
    fs::create_dir(directory.path().join("d")).unwrap();
    symlink("d", directory.path().join("link")).unwrap();
    symlink("n.json", directory.path().join("late")).unwrap();
    for outputs in [
        "-o json:n.json -o csv:./n.json",
        "-o csv:n.csv -o csv:$PWD/n.csv",
        "-o parquet:p.parquet -o parquet:./p.parquet",
        "-o parquet:p -o parquet:p/",
        "-o json:d/n -o csv:link/n",
        "-o json:d/n -o csv:d/../d/n",
        "-o json:n.json -o csv:late",
    ] {
        directory.refused(
            &format!("watch -q --summary none -r EXAMPLE {outputs}"),
            "named twice",
        );
    }
    let outcome = directory.run("watch -q --summary none -r EXAMPLE -o json:n -o csv:d/n -o csv:m");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    let csv = fs::read(directory.path().join("m")).unwrap();
    assert!(
        csv.starts_with(b"flowStart") && csv == fs::read(directory.path().join("d/n")).unwrap()
    );
}

#[test]
fn standard_output_is_one_file_by_any_name() {
    let directory = WorkDirectory::new();
    for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        directory.refused(
            &format!("watch -q --summary none -r EXAMPLE -o json -o csv:{name}"),
            "named twice",
        );
        // The summary goes to standard error, as with `-o csv`.
        let path = directory.path().join("f");
        let mut command = directory.flowatch(&format!("watch --seed 1 -r EXAMPLE -o csv:{name}"));
        let output = command.stdout(File::create(&path).unwrap()).output();
        let output = output.unwrap();
        let plain = run(watch("-q --seed 1 --summary none -o csv -r").arg(captures::example()));
        assert_eq!(output.status.code(), Some(0));
        assert!(fs::read(&path).unwrap() == plain.stdout, "{name}");
        assert!(
            String::from_utf8_lossy(&output.stderr).contains("Books: packet accounting (balanced)")
        );
    }
    // A file that standard output is redirected to, by its own name.
    let path = directory.path().join("f");
    for flags in [
        "watch -r EXAMPLE -o json -o csv:f",
        "watch -r EXAMPLE -o csv:f",
        "gen -i null: -c 5 --truth f",
        "gen -c 5 -w ./f",
    ] {
        let mut command = directory.flowatch(flags);
        let output = command.stdout(File::create(&path).unwrap()).output();
        let output = output.unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{flags}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{flags}: {stderr}");
        assert_eq!(fs::read(&path).unwrap(), b"", "{flags}");
    }
}

#[test]
fn existing_output_is_kept_if_the_run_fails_to_start() {
    let directory = WorkDirectory::new();
    let file = |name: &str| {
        fs::write(directory.path().join(name), "precious").unwrap();
    };
    file("keep.json");
    file("keep.csv");
    file("keep.parquet");
    fs::create_dir(directory.path().join("d")).unwrap();
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
        directory.refused(
            &format!("watch -q --summary none --overwrite -r EXAMPLE {flags}"),
            words,
        );
    }
    directory.refused(
        "gen -c 5 -w none/x.pcap --truth keep.csv",
        "no such directory",
    );
    directory.refused("gen -c 5 -w keep.json --truth none/x", "no such directory");
    directory.refused("gen -c 5 -i nosuch0 --truth keep.csv", "no such interface");
}

#[test]
fn refuses_to_overwrite_key_and_table_files() {
    let directory = WorkDirectory::new();
    fs::write(directory.path().join("key"), [7; 32]).unwrap();
    fs::write(directory.path().join("table"), "name example.com example\n").unwrap();
    for (flags, words) in [
        (
            "--anonymise crypto-pan=key -o csv:./key",
            "is an input (--anonymise)",
        ),
        (
            "--statistics app --applications table -o csv:./table",
            "is an input (--applications)",
        ),
    ] {
        directory.refused(
            &format!("watch -q --summary none -r EXAMPLE {flags}"),
            words,
        );
    }
    assert_eq!(fs::read(directory.path().join("key")).unwrap(), [7; 32]);
}

#[test]
fn gen_refuses_to_overwrite_its_inputs_and_outputs() {
    let directory = WorkDirectory::new();
    fs::copy(captures::example(), directory.path().join("r.pcap")).unwrap();
    fs::write(directory.path().join("old"), "old").unwrap();
    for (flags, words) in [
        ("gen -c 5 -w y.pcap --truth y.pcap", "also written by -w"),
        ("gen -c 5 -w y.pcap --truth ./y.pcap", "also written by -w"),
        ("gen -c 5 -w old --truth $PWD/old", "also written by -w"),
        ("gen -c 5 -w - --truth /dev/stdout", "also written by -w"),
        ("gen -w ./r.pcap --replay r.pcap", "is an input (--replay)"),
        (
            "gen -i null: --replay r.pcap --truth ./r.pcap",
            "is an input (--replay)",
        ),
        ("gen -c 5 -w x.pcap.gz", "captures are written uncompressed"),
        (
            "gen -c 5 -w x.pcap.zst",
            "captures are written uncompressed",
        ),
    ] {
        directory.refused(flags, words);
    }
}
