//! Runs in which the kernel refuses a thread, whichever it is: they end at once with a message that
//! names it, and neither hang nor panic. Needs root, to run as users with limits.

use crate::captures;
use crate::command::run_within;
use crate::namespace::Namespace;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Far longer than a run without packets takes.
const LIMIT: Duration = Duration::from_secs(60);

/// More threads than any of these runs starts.
const THREADS_MAX: u32 = 40;

/// Copies the program and a capture to where any user finds them.
fn share(directory: &Path) {
    fs::set_permissions(directory, Permissions::from_mode(0o777)).unwrap();
    let program = directory.join("flowatch");
    let built = env!("CARGO_BIN_EXE_flowatch");
    if fs::hard_link(built, &program).is_err() {
        fs::copy(built, &program).unwrap();
    }
    let capture = directory.join("example.pcap");
    fs::copy(captures::example(), &capture).unwrap();
    fs::set_permissions(&capture, Permissions::from_mode(0o644)).unwrap();
}

/// Returns the program in `directory` for a user who may have `threads` threads. No other test has a
/// process of this user.
fn limited(directory: &Path, threads: u32, number: u32) -> Command {
    let user = 1_000_000_000 + std::process::id() * 8 + number;
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={user}"), format!("--regid={user}")]);
    command.args(["--clear-groups", "--inh-caps=+net_raw,+net_admin"]);
    command.arg("--ambient-caps=+net_raw,+net_admin");
    command.args(["prlimit", &format!("--nproc={threads}:{threads}")]);
    command.arg(directory.join("flowatch")).stdin(Stdio::null());
    command
}

/// Runs with these flags and every limit that is too low. `DIR` stands for a directory.
fn refuse_each_thread(number: u32, flags: &str, threads_min: u32) {
    let directory = tempfile::tempdir().unwrap();
    share(directory.path());
    let namespace = Namespace::new();
    let flags = flags.replace("DIR", directory.path().to_str().unwrap());
    for threads in 1..THREADS_MAX {
        let mut command = limited(directory.path(), threads, number);
        command.args(flags.split_whitespace());
        let mut inside = namespace.command_inside(&command);
        let outcome = run_within(&mut inside, LIMIT);
        let outcome = outcome.unwrap_or_else(|| panic!("hangs with {threads} threads: {flags}"));
        if outcome.code == Some(0) {
            assert!(
                threads > threads_min,
                "{flags}: {threads} threads are enough?"
            );
            return;
        }
        let text = &outcome.stderr;
        assert_eq!(outcome.code, Some(2), "{flags}, {threads} threads: {text}");
        let names_it = text.contains("cannot start the thread ") && text.contains("ulimit -u");
        assert!(names_it, "{flags}, {threads} threads: {text}");
        assert!(
            !text.contains("panicked"),
            "{flags}, {threads} threads: {text}"
        );
        let records = directory.path().join("records");
        let files = fs::read_dir(&records).map_or(Vec::new(), |files| {
            files.map(|file| file.unwrap().file_name()).collect()
        });
        let is_partial = |name: &&std::ffi::OsString| name.to_string_lossy().ends_with(".partial");
        assert_eq!(
            files.iter().find(is_partial),
            None,
            "{flags}, {threads} threads"
        );
        let _ = fs::remove_dir_all(records);
        let _ = fs::remove_file(directory.path().join("flows.csv"));
    }
    panic!("{flags}: {THREADS_MAX} threads are not enough");
}

#[test]
fn refused_thread_ends_a_file_run_in_every_model() {
    let outputs =
        "--statistics full -o parquet:DIR/records -o csv:DIR/flows.csv -r DIR/example.pcap";
    for (number, flags, threads) in [
        (0, "--queues 3", 7),
        (1, "--model pipeline --monitors 2", 8),
        (2, "--model cooperative --monitors 2 --buffer 4MiB", 7),
        (3, "--queues 2 --buffer 4MiB", 7),
    ] {
        refuse_each_thread(number, &format!("watch -q {flags} {outputs}"), threads);
    }
}

#[test]
fn refused_thread_ends_live_runs_and_generators() {
    let live =
        "watch -q -i lo --duration 50ms --queues 2 -o csv:DIR/flows.csv -o json:udp://127.0.0.1:9";
    refuse_each_thread(4, live, 6);
    let generator = "gen -w DIR/made.pcap --flows 10 --count 100";
    refuse_each_thread(5, generator, 2);
}
