//! Confines this whole process: a program of its own, so that no other test is in it.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use hw::confine::{Confinement, all_threads};
use std::fs;
use std::sync::mpsc::channel;

/// Returns the values of a field in the status of every thread.
fn field(name: &str) -> Vec<String> {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    threads
        .filter_map(|thread| {
            let text = fs::read_to_string(thread.unwrap().path().join("status")).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim().to_owned())
        })
        .collect()
}

#[test]
fn threads_that_run_already_are_confined_and_so_are_those_that_they_start() {
    let (stop, stopped) = channel::<()>();
    let (started, has_started) = channel();
    let waiting = std::thread::spawn(move || {
        started.send(()).unwrap();
        let _ = stopped.recv();
        std::thread::spawn(|| field("NoNewPrivs:")).join().unwrap()
    });
    has_started.recv().unwrap();
    // Not a ruleset, which must be an error and not a success.
    let file = fs::File::open("/dev/null").unwrap();
    let report = all_threads(Confinement {
        no_new_privs: true,
        bounding_set: true,
        capabilities: Some(0),
        landlock: Some(file.into()),
    })
    .unwrap();
    assert!(report.threads >= 3, "{report:?}");
    assert!(report.unreached.is_empty(), "{report:?}");
    assert!(report.no_new_privs.is_none() && report.capabilities.is_none());
    assert!(report.landlock.is_some());
    let values = field("NoNewPrivs:");
    assert!(values.iter().all(|value| value == "1"), "{values:?}");
    for set in ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:"] {
        let values = field(set);
        assert!(
            values.iter().all(|value| value == "0000000000000000"),
            "{set} {values:?}"
        );
    }
    drop(stop);
    assert!(waiting.join().unwrap().iter().all(|value| value == "1"));
}
