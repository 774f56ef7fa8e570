//! `cargo xtask ci`: everything that must hold before a commit, the quickest to fail first.

use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::workspace::{cargo, run as run_command, shown};
use crate::{readme, tidy};

/// Everything that can be built: with it lints, tests and documentation are done once.
const ALL: &str = "flowatch/dpdk,flowatch-port/dpdk";

pub(crate) fn run() -> anyhow::Result<()> {
    let start = Instant::now();
    // What it names wrongly would otherwise fail many tests, much later.
    let captures = traffic::find()?;
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
    let mut skipped = 0;
    step("tests", || {
        let tests = cargo(&["test", "--workspace", "--features", ALL]);
        skipped = run_tests(tests)?;
        Ok(())
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
    match captures {
        Some(directory) => println!("ci: captures from {}", directory.display()),
        None => println!(
            "ci: no shared captures, and {skipped} tests skipped for want of them; \
             FLOWATCH_TRAFFIC names their directory"
        ),
    }
    Ok(())
}

/// Runs tests with their output shown; how many say that they were skipped.
fn run_tests(mut tests: Command) -> anyhow::Result<usize> {
    let line = shown(&tests);
    if std::io::stderr().is_terminal() {
        tests.env("CARGO_TERM_COLOR", "always");
    }
    let mut child = tests
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {line}"))?;
    let stderr = child.stderr.take().context("standard error is piped")?;
    let skipped = pass_on(BufReader::new(stderr), &mut std::io::stderr())?;
    let status = child.wait()?;
    ensure!(status.success(), "{line}: {status}");
    Ok(skipped)
}

/// Hands on lines as they come; how many of them tell of a skipped test.
fn pass_on(mut from: impl BufRead, to: &mut impl Write) -> std::io::Result<usize> {
    let (mut skipped, mut line) = (0, Vec::new());
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        skipped += usize::from(line.starts_with(traffic::SKIPPED.as_bytes()));
        line.clear();
    }
    Ok(skipped)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_passed_on_as_they_are_and_skipped_tests_counted() {
        let said: &[u8] =
            b"SKIPPED a::test: no captures\nno test SKIPPED\n\xff\nSKIPPED another: none";
        let mut shown = Vec::new();
        assert_eq!(pass_on(said, &mut shown).unwrap(), 2);
        assert_eq!(shown, said);
    }
}
