//! Packets counted through DPDK: flowatch beside `dpdk-testpmd` in `rxonly`, by turns in one run, on
//! a device that always has frames. Processor time of the receiving thread counts, since other
//! programs may share the cores.

use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use lexopt::prelude::*;

use super::statistics::{median, ratio};
use crate::workspace;

/// Turns of each.
const ROUNDS: usize = 5;

/// The EAL and the device of both.
const EAL: [&str; 6] = [
    "--in-memory",
    "--no-pci",
    "-m",
    "128",
    "--lcores",
    "0@0,1@1",
];
const DEVICE: &str = "net_null0,size=60";

/// Frames asked for at a time, of both: testpmd's own default, and up to the paper's best.
const BATCHES: [&str; 4] = ["32", "64", "128", "256"];

/// Descriptors of both.
const RING: &str = "4096";

/// Ticks a second of the times in /proc/PID/stat (USER_HZ, the same on every Linux of today).
const TICKS: f64 = 100.0;

/// Within this testpmd has begun to receive.
const START: Duration = Duration::from_secs(30);

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
    println!("{DEVICE}, ns of the receiving thread a packet, median of {ROUNDS}:");
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

/// Nanoseconds of processor time a packet.
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
        .context("a summary without queues")?;
    let packets = number(queue, "\"processed\":")?;
    let cpu_seconds = number(queue, "\"cpu_seconds\":")?;
    Ok(cpu_seconds * 1e9 / packets)
}

/// The same of testpmd, from a little after its start to a little before its end.
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
    // Its standard input ends, and so does it, with a report.
    drop(child.stdin.take());
    let mut report = String::new();
    if let Some(mut output) = child.stdout.take() {
        output.read_to_string(&mut report)?;
    }
    ensure!(child.wait()?.success(), "dpdk-testpmd failed:\n{report}");
    let cpu_seconds = measured?;
    let at = report
        .rfind("RX-packets:")
        .context("no report of testpmd")?;
    let packets = number(&report[at..], "RX-packets:")?;
    Ok(cpu_seconds * 1e9 / packets)
}

/// Processor time of the receiving thread, after so many seconds of its work. (It works until the
/// end, a few milliseconds longer.)
fn measure(child: &mut Child, seconds: f64) -> anyhow::Result<f64> {
    let begun = Instant::now();
    while worker_cpu_s(child.id()).unwrap_or(0.0) <= 0.0 {
        ensure!(begun.elapsed() < START, "dpdk-testpmd does not receive");
        thread::sleep(Duration::from_millis(10));
    }
    thread::sleep(Duration::from_secs_f64(seconds));
    worker_cpu_s(child.id()).context("dpdk-testpmd has no receiving thread")
}

/// Processor time of the thread that receives.
fn worker_cpu_s(process: u32) -> Option<f64> {
    for task in fs::read_dir(format!("/proc/{process}/task"))
        .ok()?
        .flatten()
    {
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        // `rte-worker-1` or `lcore-worker-1`, by DPDK's version.
        if name.contains("-worker-") {
            let fields: Vec<&str> = rest.split_whitespace().collect();
            // utime and stime are fields 14 and 15 of all, 12 and 13 behind the name.
            let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
            return Some((ticks(11)? + ticks(12)?) / TICKS);
        }
    }
    None
}

/// The number behind a label.
fn number(text: &str, label: &str) -> anyhow::Result<f64> {
    let (_, rest) = text
        .split_once(label)
        .with_context(|| format!("no {label}"))?;
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
    fn numbers_stand_behind_their_labels() {
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
