//! Cost of a program: CPU time and memory of its whole process tree.
//!
//! The kernel adds up the usage of all children of a process that it has waited for. So each
//! measurement runs in a process of its own with a single child: this program, with [`COMMAND`].

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use crate::workspace;

/// The subcommand that measures one program; its arguments are `REPORT PROGRAM ARGUMENTS..`.
pub(crate) const COMMAND: &str = "measure-one";

/// Resource usage of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cost {
    /// CPU seconds in user mode.
    pub(crate) user_s: f64,
    /// CPU seconds in the kernel.
    pub(crate) system_s: f64,
    /// Seconds from start to end.
    pub(crate) elapsed_s: f64,
    /// Maximum resident set size in KiB.
    pub(crate) memory_kib: i64,
}

impl Cost {
    /// CPU seconds in user mode and the kernel.
    pub(crate) fn cpu_s(&self) -> f64 {
        self.user_s + self.system_s
    }
}

/// Runs `command` and measures it; its output goes to the file `log`.
pub(crate) fn cost(command: &Command, log: &Path) -> anyhow::Result<Cost> {
    let report = log.with_extension("cost");
    let file = fs::File::create(log).with_context(|| log.display().to_string())?;
    let status = Command::new(std::env::current_exe()?)
        .current_dir(workspace::root())
        .arg(COMMAND)
        .arg(&report)
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .status()?;
    if !status.success() {
        let output = fs::read_to_string(log).unwrap_or_default();
        let end = output.lines().rev().take(5).collect::<Vec<_>>();
        let end: Vec<_> = end.into_iter().rev().collect();
        bail!(
            "{}: {status}\n{}",
            workspace::shown(command),
            end.join("\n")
        );
    }
    let text = fs::read_to_string(&report)?;
    parse(&text).with_context(|| format!("{}: {text}", report.display()))
}

fn parse(text: &str) -> Option<Cost> {
    let mut words = text.split_whitespace();
    Some(Cost {
        user_s: words.next()?.parse().ok()?,
        system_s: words.next()?.parse().ok()?,
        elapsed_s: words.next()?.parse().ok()?,
        memory_kib: words.next()?.parse().ok()?,
    })
}

/// Runs the program in the arguments and writes its cost to the report file.
pub(crate) fn run(mut arguments: impl Iterator<Item = OsString>) -> anyhow::Result<()> {
    let report = arguments.next().context("measure-one REPORT PROGRAM ..")?;
    let program = arguments.next().context("measure-one REPORT PROGRAM ..")?;
    let start = Instant::now();
    let status = Command::new(&program)
        .args(arguments)
        .status()
        .with_context(|| format!("cannot run {}", program.to_string_lossy()))?;
    let elapsed_s = start.elapsed().as_secs_f64();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 * 1e-6;
    let line = format!(
        "{} {} {elapsed_s} {}\n",
        seconds(usage.user_time()),
        seconds(usage.system_time()),
        usage.max_rss()
    );
    fs::write(report, line)?;
    ensure!(status.success(), "{}: {status}", program.to_string_lossy());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_report_is_read_back() {
        let cost = parse("1.5 0.25 2 1024\n").unwrap();
        assert_eq!(cost.cpu_s(), 1.75);
        assert_eq!((cost.elapsed_s, cost.memory_kib), (2.0, 1024));
        assert_eq!(parse("1.5 0.25\n"), None);
    }
}
