//! `-i dpdk:…`: a device that replays a capture gives the same records as the file, books balance
//! between two processes, and open errors are one line. Debian's `dpdk-testpmd` is the independent
//! generator. Needs the feature `dpdk`, and what `./setup --dpdk` installs.

mod closed_loop;
mod devices;
mod memif;

use crate::command::{Outcome, Running, run, watch};
use crate::records;
use crate::summary::Summary;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// EAL arguments for runs without huge pages. (The buffers of the default pool take 21 MiB.)
pub(crate) const NO_HUGE: &str = "-- --no-huge -m 96";

/// Whether enough huge pages are free.
pub(crate) fn huge_pages() -> bool {
    let file = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
    let free = fs::read_to_string(file).unwrap_or_default();
    free.trim().parse::<u32>().unwrap_or(0) >= 48
}

/// Returns `flowatch gen` with these flags.
fn generate(flags: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowatch"));
    command.arg("gen").args(flags.split_whitespace());
    command.stdin(Stdio::null());
    command
}

/// Packets and bytes of each flow, by its key as text.
pub(crate) type Flows = BTreeMap<Vec<String>, (u64, u64)>;

/// What the generator sent to another process, and what that process reports.
pub(crate) struct Exchange {
    /// The generator's summary.
    pub(crate) sent: serde_json::Value,
    /// The receiver's summary, whose books balance.
    pub(crate) summary: Summary,
    /// The receiver's standard error.
    pub(crate) stderr: String,
    pub(crate) records: Flows,
    pub(crate) truth: Flows,
}

/// Sends `count` packets between two flowatch processes over a memif. The receiver ends by count,
/// before its peer closes, because the driver frees the rings while they are being read
/// (docs/dpdk.md). Returns the receiver's outcome if it does not start.
pub(crate) fn exchange(
    count: u64,
    watching_flags: &str,
    sending_flags: &str,
    eal: &str,
) -> Result<Exchange, Outcome> {
    let directory = tempfile::tempdir().unwrap();
    let (socket, truth) = (
        directory.path().join("memif"),
        directory.path().join("truth.csv"),
    );
    let records = directory.path().join("flows.csv");
    let device = format!("socket={},socket-abstract=no", socket.display());
    let watching = format!(
        "-i dpdk:net_memif0,role=server,{device} --interval 20ms --summary json -o csv:{} \
         -c {count} {watching_flags} {eal}",
        records.display()
    );
    let mut watching = Running::start(&mut watch(&watching));
    if !watching.prints_line(|line| line.contains("the link is down")) {
        return Err(watching.finish());
    }
    watching.wait_for_packets(0);
    let sending = format!(
        "-i dpdk:net_memif0,role=client,{device} {sending_flags} --count {count} --truth {} --summary json {eal}",
        truth.display()
    );
    let sent = run(&mut generate(&sending));
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let sent: serde_json::Value = serde_json::from_slice(&sent.stdout).unwrap();
    let outcome = watching.finish();
    assert_eq!(outcome.code, Some(0), "{watching_flags}: {outcome:?}");
    Ok(Exchange {
        sent,
        summary: Summary::balanced(&outcome),
        stderr: outcome.stderr,
        records: flows(&records),
        truth: flows(&truth),
    })
}

/// Returns the flows in a file of records.
fn flows(path: &Path) -> Flows {
    let mut flows = Flows::new();
    for row in records::csv(&fs::read(path).unwrap()) {
        let is_key = |name: &str| {
            ["Address", "Port", "protocol"]
                .iter()
                .any(|part| name.contains(part))
        };
        let key: Vec<_> = row
            .iter()
            .filter(|(name, _)| is_key(name))
            .map(|(_, value)| value.clone())
            .collect();
        let counts = flows.entry(key).or_default();
        counts.0 += records::number(&row, "packets");
        counts.1 += records::number(&row, "bytes");
    }
    flows
}
