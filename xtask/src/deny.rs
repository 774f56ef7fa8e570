//! `cargo xtask deny`: licences, sources, duplicates and advisories of dependencies, as `deny.toml` says.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::workspace::{cargo, run as run_command};

/// What needs no network.
const LOCAL_CHECKS: [&str; 3] = ["bans", "licenses", "sources"];

/// How long fetching the advisories may take. Without a way to them, some networks drop packets.
const FETCH_TIMEOUT: Duration = Duration::from_secs(60);

/// Time between looks at the fetching program.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Checks the dependencies. Advisories are in a Git repository: where it cannot be reached, a line says
/// that they were not checked.
pub(crate) fn run() -> anyhow::Result<()> {
    ensure!(
        is_installed(),
        "cargo-deny is not installed: ./setup --deny"
    );
    let mut check = cargo(&["deny", "--offline", "check", "--hide-inclusion-graph"]);
    check.args(LOCAL_CHECKS);
    run_command(check)?;
    if !fetch_advisories()? {
        println!(
            "deny: ADVISORIES NOT CHECKED: their database cannot be fetched from this machine; \
             checked were {}",
            LOCAL_CHECKS.join(", ")
        );
        return Ok(());
    }
    run_command(cargo(&["deny", "--offline", "check", "advisories"]))
}

/// Whether `cargo deny` can run.
pub(crate) fn is_installed() -> bool {
    let status = cargo(&["deny", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// Fetches the advisories. Returns whether they are here.
fn fetch_advisories() -> anyhow::Result<bool> {
    let mut fetch: Command = cargo(&["deny", "fetch", "db"]);
    fetch.stdout(Stdio::null()).stderr(Stdio::null());
    let mut fetching = fetch.spawn().context("cannot run cargo deny fetch")?;
    let started = Instant::now();
    while started.elapsed() < FETCH_TIMEOUT {
        if let Some(status) = fetching.try_wait()? {
            return Ok(status.success());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    let _ = fetching.kill();
    fetching.wait()?;
    Ok(false)
}
