//! Bad input and contradictory flags: an exit status, and one line on standard error with the problem
//! and what to do. What was read before an error is still reported, and the error counted.

mod files;
mod flags;
mod targets;

use crate::captures;
use crate::command::{Outcome, run};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The user `nobody`.
const NOBODY: &str = "65534";

/// Asserts that the run failed with `code` and one line that contains all of `words`.
#[track_caller]
pub(crate) fn assert_fails(outcome: &Outcome, code: i32, words: &[&str]) {
    let stderr = &outcome.stderr;
    assert_eq!(outcome.code, Some(code), "{outcome:?}");
    assert_eq!(stderr.lines().count(), 1, "not one line: {stderr:?}");
    assert!(stderr.starts_with("flowatch: "), "{stderr:?}");
    for word in words {
        assert!(stderr.contains(word), "no `{word}` in {stderr:?}");
    }
}

/// Creates a file in a new temporary directory.
fn file(name: &str, content: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    fs::write(&path, content).unwrap();
    (directory, path)
}

/// Returns `flowatch watch` as run by `nobody`, with a copy of the program that `nobody` can execute.
pub(crate) fn as_nobody(flags: &str) -> (tempfile::TempDir, Command) {
    command_as_nobody(&format!("watch {flags}"))
}

/// Returns `flowatch` with any arguments as run by `nobody`.
pub(crate) fn command_as_nobody(line: &str) -> (tempfile::TempDir, Command) {
    let directory = tempfile::tempdir().unwrap();
    let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    open(directory.path(), 0o755).unwrap();
    let program = directory.path().join("flowatch");
    // Copy in a separate process: a process that another test starts meanwhile would inherit a file
    // open for writing here, and a program that is open for writing cannot be executed.
    let mut install = Command::new("install");
    install.args(["-m", "755", env!("CARGO_BIN_EXE_flowatch")]);
    assert!(install.arg(&program).status().unwrap().success());
    let mut command = Command::new("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
    command.arg(program).args(line.split_whitespace());
    (directory, command)
}

#[test]
fn missing_permission_exits_with_77_and_a_hint() {
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
        &["no permission to read the file", "sudo chmod a+r", &name],
    );
}

#[test]
fn missing_permission_for_a_file_in_a_flag_exits_with_77() {
    let (directory, path) = file("secret", b"none");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let name = path.display().to_string();
    for (flags, words) in [
        (
            format!("--anonymise crypto-pan={name}"),
            [
                "--anonymise: key file",
                "no permission to read it; run as its owner",
            ],
        ),
        (
            format!("--statistics app --applications {name}"),
            [
                "--applications",
                "no permission to read the file; run as its owner, or: sudo chmod a+r",
            ],
        ),
    ] {
        let (_program, mut command) = as_nobody(&format!("--summary none {flags} -r -"));
        let outcome = run(command.stdin(fs::File::open(captures::example()).unwrap()));
        assert_fails(&outcome, 77, &[&name, words[0], words[1]]);
    }
}

/// The file is readable, but its directory cannot be entered.
#[test]
fn permission_hint_names_the_closed_directory() {
    let example = fs::read(captures::example()).unwrap();
    let (directory, path) = file("open.pcap", &example);
    let open = directory.path().join("open");
    fs::create_dir(&open).unwrap();
    let closed = open.join("closed");
    fs::create_dir_all(closed.join("in")).unwrap();
    fs::rename(&path, closed.join("in/a.pcap")).unwrap();
    std::os::unix::fs::symlink("open/closed/in", directory.path().join("link")).unwrap();
    for (path, mode) in [(directory.path(), 0o755), (&open, 0o755), (&closed, 0o700)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let line = format!(
        "no permission to enter the directory {0}; run as its owner, or: sudo chmod a+x '{0}'",
        closed.display()
    );
    let direct = closed.join("in/a.pcap");
    for path in [direct, directory.path().join("link/a.pcap")] {
        let (_program, mut command) = as_nobody("--summary none -r");
        let outcome = run(command.arg(&path));
        assert_fails(&outcome, 77, &[&path.display().to_string(), &line]);
    }
    // The suggested command helps.
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o711)).unwrap();
    let (_program, mut command) = as_nobody("--summary none -r");
    run(command.arg(closed.join("in/a.pcap"))).quiet_success();
}
