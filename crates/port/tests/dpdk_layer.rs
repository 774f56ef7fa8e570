//! The layer's last holder goes while other threads ask for it. It starts once a process, so each round
//! is a process of its own: this test again.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use port::dpdk::Eal;

const ROUND: &str = "FLOWATCH_TEST_ROUND";
const ROUNDS: usize = 5;
const ASKING: usize = 4;

/// Nothing of a round takes nearly as long.
const LIMIT: Duration = Duration::from_secs(60);

/// `long`: with arguments that take time to be told.
fn start(long: bool) -> Result<Eal, String> {
    let mut arguments = ["--no-huge", "-m", "64"].map(str::to_owned).to_vec();
    if long {
        arguments.extend(vec!["--log-level=lib.eal:warning".to_owned(); 2000]);
    }
    Eal::start(&[], &arguments).map_err(|error| error.to_string())
}

/// Some hold it while they are refused another one, as it is let go.
fn round() {
    let eal = start(true).unwrap();
    let together = Barrier::new(ASKING + 1);
    thread::scope(|scope| {
        for _ in 0..ASKING {
            let together = &together;
            scope.spawn(move || {
                together.wait();
                loop {
                    let error = start(false).unwrap_err();
                    if error.contains("does not start a second time") {
                        break;
                    }
                    assert!(error.contains("was started in this process"), "{error}");
                }
            });
        }
        together.wait();
        thread::sleep(Duration::from_millis(5));
        drop(eal);
    });
}

#[test]
fn the_last_holder_may_go_while_others_ask() {
    if std::env::var_os(ROUND).is_some() {
        return round();
    }
    for _ in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_last_holder_may_go_while_others_ask"])
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
        assert!(status.expect("it hangs").success());
    }
}
