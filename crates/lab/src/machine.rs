//! Where a measurement was taken, and with what.

use serde::{Deserialize, Serialize};
use std::fs;
use std::process::Command;

/// What every result file names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// The command line.
    pub command: String,
    /// flowatch's version, and its commit where it can be told.
    pub flowatch: String,
    /// DPDK's version, where it is used.
    pub dpdk: String,
    /// The processor.
    pub processor: String,
    /// Cores that may be used.
    pub cores: String,
    /// The kernel.
    pub kernel: String,
    /// Huge pages: how many are free, and of what size.
    pub huge_pages: String,
    /// Load of the machine when the experiment began: runnable processes over the last minute.
    pub load: String,
    /// When it began, in UTC.
    pub time: String,
}

impl Provenance {
    /// Of this machine, now.
    #[must_use]
    pub fn here(seed: u64, command: &str) -> Self {
        Self {
            seed,
            command: command.into(),
            flowatch: flowatch(),
            dpdk: dpdk(),
            processor: processor(),
            cores: format!(
                "{} ({})",
                hw::cores::allowed().len(),
                list(&hw::cores::allowed())
            ),
            kernel: read("/proc/sys/kernel/osrelease"),
            huge_pages: huge_pages(),
            load: read("/proc/loadavg")
                .split(' ')
                .next()
                .unwrap_or_default()
                .into(),
            time: utc(hw::time::realtime_ns()),
        }
    }

    /// Names and values.
    #[must_use]
    pub fn pairs(&self) -> Vec<(String, String)> {
        [
            ("seed", self.seed.to_string()),
            ("command", self.command.clone()),
            ("flowatch", self.flowatch.clone()),
            ("dpdk", self.dpdk.clone()),
            ("processor", self.processor.clone()),
            ("cores", self.cores.clone()),
            ("kernel", self.kernel.clone()),
            ("huge pages", self.huge_pages.clone()),
            ("load", self.load.clone()),
            ("time", self.time.clone()),
        ]
        .into_iter()
        .map(|(name, value)| (name.into(), value))
        .collect()
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path)
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

fn list(cores: &[usize]) -> String {
    let numbers: Vec<String> = cores.iter().map(ToString::to_string).collect();
    numbers.join(",")
}

/// The processor's name, its rate by the time-stamp counter, and its last-level cache.
fn processor() -> String {
    let information = read("/proc/cpuinfo");
    let field = |name: &str| {
        information
            .lines()
            .find(|line| line.starts_with(name))
            .and_then(|line| line.split_once(':'))
            .map(|(_, value)| value.trim().to_owned())
    };
    let model = field("model name").unwrap_or_else(|| std::env::consts::ARCH.into());
    let giga = hw::time::TickRate::get().per_second() / 1e9;
    let cache = field("cache size").map_or_else(String::new, |size| format!(", cache {size}"));
    let guest = if information.contains("hypervisor") {
        ", in a virtual machine"
    } else {
        ""
    };
    format!("{model}, counter at {giga:.3} GHz{cache}{guest}")
}

fn huge_pages() -> String {
    let information = read("/proc/meminfo");
    let field = |name: &str| {
        information
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .map(|value| value.trim_matches([':', ' ']).to_owned())
            .unwrap_or_default()
    };
    format!(
        "{} of {} free, {} each",
        field("HugePages_Free"),
        field("HugePages_Total"),
        field("Hugepagesize")
    )
}

/// The version, and the commit that it was built from, where that is known.
fn flowatch() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match env!("FLOWATCH_COMMIT") {
        "" => version.into(),
        commit => format!("{version} ({commit})"),
    }
}

fn dpdk() -> String {
    Command::new("pkg-config")
        .args(["--modversion", "libdpdk"])
        .output()
        .ok()
        .filter(|output| output.status.success())
        .map_or_else(
            || "not installed".into(),
            |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        )
}

/// A time as `2026-01-31 12:34:56 UTC`.
fn utc(ns: i64) -> String {
    let [year, month, day, hour, minute, second] = export::time_text::civil(ns);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_the_calendar_has_them() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_400_000_000_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_767_225_599_999_999_999), "2025-12-31 23:59:59 UTC");
    }

    #[test]
    fn this_machine_has_a_name_and_cores() {
        let here = Provenance::here(7, "lab run");
        assert!(!here.processor.is_empty() && !here.kernel.is_empty());
        assert!(
            here.pairs()
                .iter()
                .any(|(name, value)| name == "seed" && value == "7")
        );
    }
}
