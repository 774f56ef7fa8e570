//! The provenance of a measurement: build, machine, command line and time.

use serde::{Deserialize, Serialize};
use std::fs;

/// The provenance that every result file starts with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// Seed of all random numbers.
    pub seed: u64,
    /// The command line.
    pub command: String,
    /// flowatch's version, and its commit if known.
    pub flowatch: String,
    /// The version of the DPDK in this build, or that there is none.
    pub dpdk: String,
    /// The CPU.
    pub cpu: String,
    /// Allowed cores.
    pub cores: String,
    /// The kernel.
    pub kernel: String,
    /// Free huge pages and their size.
    pub huge_pages: String,
    /// The load average over the last minute when the experiment began.
    pub load: String,
    /// When it began, in UTC.
    pub time: String,
}

impl Provenance {
    /// The provenance of a measurement that begins now.
    #[must_use]
    pub fn here(seed: u64, command: &str) -> Self {
        Self {
            seed,
            command: command.into(),
            flowatch: flowatch(),
            dpdk: dpdk(),
            cpu: cpu(),
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

    /// Returns names and values.
    #[must_use]
    pub fn pairs(&self) -> Vec<(String, String)> {
        [
            ("seed", self.seed.to_string()),
            ("command", self.command.clone()),
            ("flowatch", self.flowatch.clone()),
            ("dpdk", self.dpdk.clone()),
            ("cpu", self.cpu.clone()),
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

/// The CPU's name, the rate of its timestamp counter, and its last-level cache.
fn cpu() -> String {
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

/// The version, and the commit of the build if known.
fn flowatch() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match env!("FLOWATCH_COMMIT") {
        "" => version.into(),
        commit => format!("{version} ({commit})"),
    }
}

/// The version of the DPDK that the build contains.
#[cfg(feature = "dpdk")]
fn dpdk() -> String {
    port::dpdk::version()
}

#[cfg(not(feature = "dpdk"))]
fn dpdk() -> String {
    "not in this build".into()
}

/// Formats a time as `2026-01-31 12:34:56 UTC`.
fn utc(ns: i64) -> String {
    let [year, month, day, hour, minute, second] = export::time_text::civil(ns);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_times_by_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_400_000_000_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_767_225_599_999_999_999), "2025-12-31 23:59:59 UTC");
    }

    #[test]
    fn names_cpu_and_kernel() {
        let here = Provenance::here(7, "lab run");
        assert!(!here.cpu.is_empty() && !here.kernel.is_empty());
        assert!(
            here.pairs()
                .iter()
                .any(|(name, value)| name == "seed" && value == "7")
        );
    }

    #[test]
    fn names_dpdk_only_if_the_build_contains_it() {
        let dpdk = Provenance::here(7, "lab run").dpdk;
        assert_eq!(dpdk.starts_with("DPDK"), cfg!(feature = "dpdk"), "{dpdk}");
    }
}
