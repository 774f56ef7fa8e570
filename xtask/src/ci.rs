//! `cargo xtask ci`: all checks that must pass before a commit, the fastest first.

use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::workspace::{cargo, run as run_command, shown};
use crate::{readme, tidy};

/// All features, so that lints, tests and documentation run once and cover everything.
const ALL: &str = "flowatch/dpdk,flowatch-port/dpdk";

pub(crate) fn run() -> anyhow::Result<()> {
    let start = Instant::now();
    // A wrong FLOWATCH_TRAFFIC would otherwise fail many tests, much later.
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
            "ci: no shared captures, so {skipped} tests were skipped; \
             set FLOWATCH_TRAFFIC to their directory"
        ),
    }
    Ok(())
}

/// Runs tests and shows their output; returns how many printed that they were skipped.
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
    let skipped = copy_lines(BufReader::new(stderr), &mut std::io::stderr())?;
    let status = child.wait()?;
    ensure!(status.success(), "{line}: {status}");
    Ok(skipped)
}

/// Copies lines as they arrive; returns how many report a skipped test.
fn copy_lines(mut from: impl BufRead, to: &mut impl Write) -> std::io::Result<usize> {
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
    fn lines_are_copied_unchanged_and_skipped_tests_counted() {
        let output: &[u8] =
            b"SKIPPED a::test: no captures\nno test SKIPPED\n\xff\nSKIPPED another: none";
        let mut shown = Vec::new();
        assert_eq!(copy_lines(output, &mut shown).unwrap(), 2);
        assert_eq!(shown, output);
    }
}
