//! Kernel, cores, memory, huge pages and the clock.

use super::finding::Finding;
use super::system::System;
use crate::units;

/// The first kernel with PACKET_IGNORE_OUTGOING, which excludes outgoing packets from a socket.
/// TPACKET_V3 rings are older (3.2).
const KERNEL_MIN: (u32, u32) = (4, 20);

/// Below this, free memory is low for the default table and rings.
const MEMORY_LOW: u64 = 1 << 30;

pub(super) fn findings(system: &System) -> Vec<Finding> {
    let mut findings = vec![kernel(system)];
    findings.extend(virtual_machine(system));
    findings.extend(cores(system, &hw::cores::allowed()));
    findings.push(memory(system));
    findings.push(huge_pages(system));
    findings.push(clock(system));
    findings
}

fn kernel(system: &System) -> Finding {
    let Some(release) = system.read("proc/sys/kernel/osrelease") else {
        return Finding::note(
            "kernel",
            "unknown; live capture needs Linux, files can be read on any system",
        );
    };
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|part| part.parse().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let text = format!("Linux {release} ({})", std::env::consts::ARCH);
    if version < KERNEL_MIN {
        let (major, minor) = KERNEL_MIN;
        Finding::missing(
            "kernel",
            format!("{text}; live capture needs {major}.{minor} or newer"),
        )
    } else {
        Finding::ok("kernel", text)
    }
}

fn virtual_machine(system: &System) -> Option<Finding> {
    let cpuinfo = system.read("proc/cpuinfo")?;
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"))?;
    flags.split_whitespace().any(|flag| flag == "hypervisor").then(|| {
        Finding::note(
            "virtual machine",
            "cores and network are shared with other machines: speeds may vary from minute to minute",
        )
    })
}

fn cores(system: &System, allowed: &[usize]) -> Vec<Finding> {
    let online = system
        .read("sys/devices/system/cpu/online")
        .unwrap_or_default();
    let mut text = format!("{} ({})", allowed.len(), ranges(allowed));
    if !online.is_empty() && online != ranges(allowed) {
        text += &format!(" of {online} online");
    }
    if let Some(isolated) = system
        .read("sys/devices/system/cpu/isolated")
        .filter(|list| !list.is_empty())
    {
        text += &format!("; isolated: {isolated} (good for --cores)");
    }
    let mut findings = vec![Finding::ok("cores", text)];
    if let Some(cores) = quota(system) {
        findings.push(Finding::note(
            "core time",
            format!("limited to {cores:.1} cores (cgroup cpu.max): the kernel pauses a busy run when it exceeds this, and packets are lost meanwhile"),
        ));
    }
    let governor = system.read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    if let Some(governor) = governor.filter(|governor| governor != "performance") {
        findings.push(
            Finding::note(
                "frequency",
                format!(
                    "governor {governor}: the cores may run at a low frequency when packets arrive"
                ),
            )
            .with_command("sudo cpupower frequency-set -g performance"),
        );
    }
    findings
}

/// Returns the CPU limit of the control group in cores, if it has one.
fn quota(system: &System) -> Option<f64> {
    let text = system.read("sys/fs/cgroup/cpu.max")?;
    let (quota, period) = text.split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then(|| quota / period)
}

/// Formats sorted numbers such as `0-3,8`.
fn ranges(numbers: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let part = |(first, last): (usize, usize)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    };
    parts.into_iter().map(part).collect::<Vec<_>>().join(",")
}

fn memory(system: &System) -> Finding {
    let meminfo = system.read("proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let line = meminfo
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace()
            .next()?
            .parse::<u64>()
            .ok()?
            .checked_mul(1024)
    };
    match (field("MemTotal"), field("MemAvailable")) {
        (Some(total), Some(available)) => {
            let text = format!(
                "{}, {} available",
                units::memory(total),
                units::memory(available)
            );
            if available < MEMORY_LOW {
                Finding::note(
                    "memory",
                    format!("{text}: reduce --max-flows and --ring-memory"),
                )
            } else {
                Finding::ok("memory", text)
            }
        }
        _ => Finding::note("memory", "unknown"),
    }
}

fn huge_pages(system: &System) -> Finding {
    let transparent = system.read("sys/kernel/mm/transparent_hugepage/enabled");
    match transparent.as_deref() {
        Some(text) if text.contains("[always]") || text.contains("[madvise]") => {
            Finding::ok("huge pages", "flow tables use transparent huge pages")
        }
        Some(_) => Finding::missing(
            "huge pages",
            "transparent huge pages are off: large tables are slower",
        )
        .with_command("echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"),
        None => Finding::note(
            "huge pages",
            "this kernel has no transparent huge pages: large tables are slower",
        ),
    }
}

fn clock(system: &System) -> Finding {
    let source = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    match system.read(source).as_deref() {
        Some(name @ ("hpet" | "acpi_pm" | "jiffies" | "refined-jiffies" | "pit")) => {
            Finding::missing(
                "clock",
                format!(
                    "{name}: reading the clock takes the kernel about a microsecond, and it timestamps every packet"
                ),
            )
        }
        Some(name) => Finding::ok("clock", name),
        None => Finding::note("clock", "unknown clock source"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status;
    use super::super::system::fake::FakeSystem;
    use super::*;

    #[test]
    fn old_kernel_is_reported() {
        let kernel =
            |release| kernel(&FakeSystem::new(&[("proc/sys/kernel/osrelease", release)]).system());
        assert_eq!(kernel("4.19.0-27-amd64\n").status, Status::Missing);
        assert_eq!(kernel("4.20.0").status, Status::Ok);
        assert_eq!(kernel("6.18.44-fc").status, Status::Ok);
        assert!(kernel("6.18.44-fc").text.starts_with("Linux 6.18.44-fc ("));
    }

    #[test]
    fn reports_cpu_quota_and_governor() {
        let tree = FakeSystem::new(&[
            ("sys/devices/system/cpu/online", "0-7\n"),
            ("sys/devices/system/cpu/isolated", "6-7\n"),
            ("sys/fs/cgroup/cpu.max", "150000 100000\n"),
            (
                "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                "powersave\n",
            ),
        ]);
        let found = cores(&tree.system(), &[0, 1, 2, 5]);
        assert_eq!(
            found[0].text,
            "4 (0-2,5) of 0-7 online; isolated: 6-7 (good for --cores)"
        );
        assert!(found[1].text.contains("1.5 cores"));
        assert!(found[2].text.contains("powersave"));
        let unlimited = FakeSystem::new(&[("sys/fs/cgroup/cpu.max", "max 100000\n")]);
        assert_eq!(cores(&unlimited.system(), &[0]).len(), 1);
    }

    #[test]
    fn low_memory_is_a_note() {
        let memory = |text| memory(&FakeSystem::new(&[("proc/meminfo", text)]).system());
        let found =
            memory("MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:    8388608 kB\n");
        assert_eq!(
            (found.status, &found.text[..]),
            (Status::Ok, "16.0 GiB, 8.0 GiB available")
        );
        assert_eq!(
            memory("MemTotal: 1048576 kB\nMemAvailable: 524288 kB\n").status,
            Status::Note
        );
        assert_eq!(memory("nonsense").text, "unknown");
    }

    #[test]
    fn disabled_huge_pages_come_with_the_command() {
        let enabled = "sys/kernel/mm/transparent_hugepage/enabled";
        let states = |text| {
            let found = huge_pages(&FakeSystem::new(&[(enabled, text)]).system());
            (found.status, found.command.is_some())
        };
        assert_eq!(states("always [madvise] never\n"), (Status::Ok, false));
        assert_eq!(states("always madvise [never]\n"), (Status::Missing, true));
    }

    #[test]
    fn slow_clock_is_reported() {
        let path = "sys/devices/system/clocksource/clocksource0/current_clocksource";
        let state = |name| clock(&FakeSystem::new(&[(path, name)]).system()).status;
        assert_eq!(state("tsc\n"), Status::Ok);
        assert_eq!(state("hpet\n"), Status::Missing);
    }
}
