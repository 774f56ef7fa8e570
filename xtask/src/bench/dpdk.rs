//! `cargo xtask bench dpdk`: flowatch counts packets through DPDK beside `dpdk-testpmd` in mode
//! `rxonly`, by turns in one run, on a device that always has frames. The CPU time of the receiving
//! thread is compared, not the elapsed time, since other programs may share the cores.

use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use lexopt::prelude::*;

use super::statistics::{median, ratio};
use crate::workspace;

/// Runs of each program.
const ROUNDS: usize = 5;

/// EAL arguments and device of both programs.
const EAL: [&str; 6] = [
    "--in-memory",
    "--no-pci",
    "-m",
    "128",
    "--lcores",
    "0@0,1@1",
];
const DEVICE: &str = "net_null0,size=60";

/// Burst sizes of both programs: testpmd's default, up to the best one of the paper.
const BATCHES: [&str; 4] = ["32", "64", "128", "256"];

/// Descriptors of the receive ring of both programs.
const RING: &str = "4096";

/// Ticks per second of the times in /proc/PID/stat: USER_HZ, which is 100 on every Linux of today.
const TICKS: f64 = 100.0;

/// How long testpmd may take to start receiving.
const START_MAX: Duration = Duration::from_secs(30);

pub(crate) fn run(mut parser: lexopt::Parser) -> anyhow::Result<()> {
    let mut seconds = 3.0;
    while let Some(argument) = parser.next()? {
        match argument {
            Long("seconds") => seconds = parser.value()?.parse()?,
            other => return Err(other.unexpected().into()),
        }
    }
    ensure!(
        workspace::on_path("dpdk-testpmd"),
        "no dpdk-testpmd: run ./setup --dpdk"
    );
    workspace::run(workspace::cargo(&[
        "build",
        "--release",
        "-p",
        "flowatch",
        "--features",
        "dpdk",
    ]))?;
    println!("{DEVICE}, CPU time of the receiving thread in ns per packet, median of {ROUNDS}:");
    println!("  bursts of  testpmd rxonly  flowatch watch --level packet  speed (95 % interval)");
    let mut bests = [f64::INFINITY; 2];
    for batch in BATCHES {
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            theirs.push(testpmd(batch, seconds)?);
            ours.push(flowatch(batch, seconds)?);
        }
        let ratio = ratio(&theirs, &ours);
        let medians = [median(&theirs), median(&ours)];
        println!(
            "  {batch:>9} {:>15.2} {:>30.2}  {:.3} ({:.3} to {:.3})",
            medians[0], medians[1], ratio.value, ratio.low, ratio.high
        );
        bests = [bests[0].min(medians[0]), bests[1].min(medians[1])];
    }
    println!("each at its own best: {:.3}", bests[0] / bests[1]);
    Ok(())
}

/// CPU time of flowatch per packet, in nanoseconds.
fn flowatch(batch: &str, seconds: f64) -> anyhow::Result<f64> {
    let mut command = Command::new(workspace::target().join("release/flowatch"));
    command
        .args(["watch", "-i", &format!("dpdk:{DEVICE}")])
        .args(["--level", "packet", "--batch", batch, "--rx-ring", RING])
        .args(["--cores", "1", "-q", "--summary", "json"])
        .arg("--duration")
        .arg(format!("{}ms", (seconds * 1000.0) as u64))
        .arg("--")
        .args(EAL);
    let summary = String::from_utf8(workspace::output(command)?)?;
    let queue = summary
        .split_once("\"per_queue\":")
        .map(|(_, queues)| queues)
        .context("flowatch printed a summary without queues")?;
    let packets = number(queue, "\"processed\":")?;
    let cpu_seconds = number(queue, "\"cpu_seconds\":")?;
    Ok(cpu_seconds * 1e9 / packets)
}

/// CPU time of testpmd per packet, in nanoseconds.
fn testpmd(batch: &str, seconds: f64) -> anyhow::Result<f64> {
    let mut command = Command::new("dpdk-testpmd");
    command
        .args(EAL)
        .args([&format!("--vdev={DEVICE}"), "--"])
        .args(["--forward-mode=rxonly", "--auto-start"])
        .arg(format!("--burst={batch}"))
        .arg(format!("--rxd={RING}"))
        .args(["--total-num-mbufs=9216", "--mbcache=512"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().context("cannot run dpdk-testpmd")?;
    let measured = measure(&mut child, seconds);
    // testpmd prints its report and exits when its standard input ends.
    drop(child.stdin.take());
    let mut report = String::new();
    if let Some(mut output) = child.stdout.take() {
        output.read_to_string(&mut report)?;
    }
    ensure!(child.wait()?.success(), "dpdk-testpmd failed:\n{report}");
    let cpu_seconds = measured?;
    let at = report
        .rfind("RX-packets:")
        .context("dpdk-testpmd printed no report")?;
    let packets = number(&report[at..], "RX-packets:")?;
    Ok(cpu_seconds * 1e9 / packets)
}

/// CPU time of the receiving thread in seconds, read `seconds` after it started to receive. The thread
/// then runs for a few milliseconds more, whose packets are counted too.
fn measure(child: &mut Child, seconds: f64) -> anyhow::Result<f64> {
    let start = Instant::now();
    while worker_cpu_s(child.id()).unwrap_or(0.0) <= 0.0 {
        ensure!(
            start.elapsed() < START_MAX,
            "dpdk-testpmd does not start to receive"
        );
        thread::sleep(Duration::from_millis(10));
    }
    thread::sleep(Duration::from_secs_f64(seconds));
    worker_cpu_s(child.id()).context("dpdk-testpmd has no receiving thread")
}

/// CPU time of the receiving thread in seconds; `None` before it exists.
fn worker_cpu_s(process: u32) -> Option<f64> {
    for task in fs::read_dir(format!("/proc/{process}/task"))
        .ok()?
        .flatten()
    {
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        // `rte-worker-1` or `lcore-worker-1`, depending on the version of DPDK.
        if name.contains("-worker-") {
            let fields: Vec<&str> = rest.split_whitespace().collect();
            // utime and stime are fields 14 and 15 of the line, so 12 and 13 after the name.
            let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
            return Some((ticks(11)? + ticks(12)?) / TICKS);
        }
    }
    None
}

/// The number that follows `label` in `text`.
fn number(text: &str, label: &str) -> anyhow::Result<f64> {
    let (_, rest) = text
        .split_once(label)
        .with_context(|| format!("{label} is missing"))?;
    let rest = rest.trim_start();
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    rest[..end]
        .parse()
        .with_context(|| format!("{label} has no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_after_its_label() {
        let text = "{\"processed\":12,\"cpu_seconds\":0.5}";
        assert_eq!(number(text, "\"processed\":").unwrap(), 12.0);
        assert_eq!(number(text, "\"cpu_seconds\":").unwrap(), 0.5);
        assert_eq!(
            number("RX-packets: 70   RX-dropped", "RX-packets:").unwrap(),
            70.0
        );
        assert!(number(text, "none").is_err());
    }
}
