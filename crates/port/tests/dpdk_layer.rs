//! The last handle of the EAL is dropped while other threads try to start it. The EAL starts once per
//! process, so that each round runs in a process of its own: this test again.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use port::dpdk::Eal;

const ROUND: &str = "FLOWATCH_TEST_ROUND";
const ROUNDS: usize = 5;
const THREADS: usize = 4;

/// Time limit of a round, far above what it takes.
const LIMIT: Duration = Duration::from_secs(60);

/// Starts the EAL; `long`: with enough arguments that the error message takes time to build.
fn start(long: bool) -> Result<Eal, String> {
    let mut arguments = ["--no-huge", "-m", "64"].map(str::to_owned).to_vec();
    if long {
        arguments.extend(vec!["--log-level=lib.eal:warning".to_owned(); 2000]);
    }
    Eal::start(&[], &arguments).map_err(|error| error.to_string())
}

/// Threads get errors from `Eal::start`, for which it holds the EAL, while the last handle is dropped.
fn round() {
    let eal = start(true).unwrap();
    let barrier = Barrier::new(THREADS + 1);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                loop {
                    let error = start(false).unwrap_err();
                    if error.contains("cannot start a second time") {
                        break;
                    }
                    assert!(error.contains("was started in this process"), "{error}");
                }
            });
        }
        barrier.wait();
        thread::sleep(Duration::from_millis(5));
        drop(eal);
    });
}

#[test]
fn last_handle_may_be_dropped_during_a_start() {
    if std::env::var_os(ROUND).is_some() {
        return round();
    }
    for _ in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "last_handle_may_be_dropped_during_a_start"])
            .env(ROUND, "1")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let started = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            if started.elapsed() > LIMIT {
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
            thread::sleep(Duration::from_millis(5));
        };
        assert!(status.expect("the round hangs").success());
    }
}
