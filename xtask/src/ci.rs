//! `cargo xtask ci`: everything that must hold before a commit, the quickest to fail first.

use std::time::Instant;

use crate::workspace::{cargo, run as run_command};
use crate::{readme, tidy};

/// Everything that can be built: with it lints, tests and documentation are done once.
const ALL: &str = "flowatch/dpdk,flowatch-port/dpdk";

pub(crate) fn run() -> anyhow::Result<()> {
    let start = Instant::now();
    step("formatting", || {
        run_command(cargo(&["fmt", "--all", "--check"]))?;
        run_command(cargo(&[
            "fmt",
            "--manifest-path",
            "fuzz/Cargo.toml",
            "--check",
        ]))
    })?;
    step("tidy", tidy::run)?;
    step("lints", || {
        run_command(cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--features",
            ALL,
            "--",
            "-D",
            "warnings",
        ]))
    })?;
    step("a build without DPDK", || {
        run_command(cargo(&["check", "--workspace", "--all-targets"]))
    })?;
    step("the fuzz targets compile", || {
        run_command(cargo(&["check", "--manifest-path", "fuzz/Cargo.toml"]))
    })?;
    step("tests", || {
        run_command(cargo(&["test", "--workspace", "--features", ALL]))
    })?;
    step("documentation", || {
        let mut doc = cargo(&[
            "doc",
            "--workspace",
            "--no-deps",
            "--quiet",
            "--features",
            ALL,
        ]);
        doc.env("RUSTDOCFLAGS", "-D warnings");
        run_command(doc)
    })?;
    step("the README's first command", readme::run)?;
    println!("ci: all passed in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn step(name: &str, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    println!("ci: {name}");
    let start = Instant::now();
    work()?;
    println!(
        "ci: {name} passed in {:.1} s",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}
