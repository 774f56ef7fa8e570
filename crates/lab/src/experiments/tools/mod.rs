//! Programs that receive through DPDK, run alternately on the same device.

use crate::statistics::{abba, median};
use crate::trial::TrialError;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

mod error;
mod generator;

use error::missing;
pub(super) use generator::Kind as Generator;

/// A program that receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Receiver {
    /// This one, counting packets.
    Flowatch,
    /// DPDK's own test program, which counts packets and drops them.
    Testpmd,
    /// A generator, and where it is installed.
    Generator(Generator, PathBuf),
}

impl Receiver {
    /// Its name and receiving mode.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Flowatch => "flowatch --level packet",
            Self::Testpmd => "testpmd rxonly",
            Self::Generator(kind, _) => kind.name(),
        }
    }
}

use error::DEVICE;

/// Memory of each process, in MiB.
const MEMORY_MIB: &str = "192";

/// Measures the packets per second of each program in ABBA order; by program and repetition.
pub(super) fn rates(
    receivers: &[Receiver],
    repetitions: usize,
    seconds: f64,
) -> Result<Vec<Vec<f64>>, TrialError> {
    if cfg!(not(feature = "dpdk")) {
        return Err(missing("DPDK", "this program was built without it"));
    }
    let mut rates = vec![Vec::new(); receivers.len()];
    for repetition in 0..repetitions {
        for index in abba(receivers.len(), repetition) {
            rates[index].push(match &receivers[index] {
                Receiver::Flowatch => flowatch(seconds)?,
                Receiver::Testpmd => testpmd(seconds)?,
                Receiver::Generator(kind, program) => kind.rate(program, seconds)?,
            });
        }
    }
    Ok(rates)
}

fn flowatch(seconds: f64) -> Result<f64, TrialError> {
    let program = std::env::current_exe().map_err(|error| missing("this program", error))?;
    let output = Command::new(program)
        .args(["watch", "-i", &format!("dpdk:{DEVICE}")])
        .args(["--level", "packet", "--summary", "json", "--interval", "1h"])
        .arg("--duration")
        .arg(format!("{}ms", (seconds * 1e3) as u64))
        .args(["--", "-m", MEMORY_MIB, "--in-memory"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| missing("flowatch", error))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(missing("flowatch", text.lines().last().unwrap_or_default()));
    }
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| missing("flowatch's summary", error))?;
    let number = |name: &str| summary.get(name).and_then(serde_json::Value::as_f64);
    match (number("packets"), number("seconds")) {
        (Some(packets), Some(seconds)) if seconds > 0.0 => Ok(packets / seconds),
        _ => Err(missing("flowatch's summary", "no packets or seconds in it")),
    }
}

fn testpmd(seconds: f64) -> Result<f64, TrialError> {
    let cores = hw::cores::allowed();
    // testpmd's main thread, which only waits, uses the first core.
    let list: Vec<String> = cores.iter().take(2).map(ToString::to_string).collect();
    let mut child = Command::new("dpdk-testpmd")
        .args([
            "--no-pci",
            "-m",
            MEMORY_MIB,
            "--vdev",
            DEVICE,
            "-l",
            &list.join(","),
        ])
        .args(["--in-memory", "--", "--forward-mode=rxonly"])
        .args([
            "--auto-start",
            "--burst=256",
            "--total-num-mbufs=16384",
            "--stats-period=1",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| missing("dpdk-testpmd (apt-get install dpdk-dev)", error))?;
    let mut text = String::new();
    // Without the thread nothing is read, which is reported as a missing rate.
    let reading = child.stdout.take().and_then(|mut stdout| {
        hw::threads::spawn("testpmd", move || {
            let mut text = Vec::new();
            // After an error the text so far is used.
            let _ = stdout.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        })
        .ok()
    });
    // Starting takes a second; the first rate covers only part of its interval.
    thread::sleep(Duration::from_secs_f64(seconds.max(2.0) + 2.2));
    // testpmd exits on a line of input; it is killed if it does not.
    if let Some(stdin) = &mut child.stdin {
        let _ = stdin.write_all(b"\n");
    }
    drop(child.stdin.take());
    thread::sleep(Duration::from_millis(300));
    let _ = child.kill();
    let _ = child.wait();
    if let Some(read) = reading.and_then(|reading| reading.join().ok()) {
        text = read;
    }
    received_rates(&text).ok_or_else(|| {
        missing(
            "dpdk-testpmd",
            "no rate in its output (is enough memory free?)",
        )
    })
}

/// Returns the median of the rates in testpmd's output, in packets per second.
fn received_rates(text: &str) -> Option<f64> {
    let rates: Vec<f64> = text
        .lines()
        .filter_map(|line| {
            let (_, rest) = line.split_once("Rx-pps:")?;
            rest.split_whitespace().next()?.parse::<f64>().ok()
        })
        .filter(|rate| *rate > 0.0)
        .collect();
    // The first covers the start.
    let later = rates.get(1..).filter(|later| !later.is_empty());
    later
        .or((!rates.is_empty()).then_some(&rates[..]))
        .map(median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_testpmd_rates_except_the_first() {
        let text = "  Throughput (since last show)\n  Rx-pps:      1000          Rx-bps: 5\n\
            Rx-pps:    250000000   Rx-bps: 0\n  Rx-pps: 270000000 Rx-bps: 0\nRx-pps: 0\n";
        assert_eq!(received_rates(text), Some(260_000_000.0));
        assert_eq!(received_rates("nothing"), None);
        assert_eq!(received_rates("Rx-pps: 7"), Some(7.0));
    }
}
