//! The kernel's receive limits, and whether they have dropped packets since boot.

use super::finding::Finding;
use super::system::System;
use crate::units;

pub(super) fn findings(system: &System) -> Vec<Finding> {
    let setting = |name: &str| {
        let value = system.number(&format!("proc/sys/net/core/{name}"));
        (
            value,
            value.map_or_else(|| "?".to_owned(), |value| value.to_string()),
        )
    };
    let mut findings = Vec::new();
    let (_, backlog) = setting("netdev_max_backlog");
    let (_, budget) = setting("netdev_budget");
    let (_, budget_usecs) = setting("netdev_budget_usecs");
    if let Some(softnet) = Softnet::read(system) {
        findings.push(if softnet.dropped == 0 {
            Finding::ok(
                "backlog",
                format!("nothing dropped since boot (net.core.netdev_max_backlog {backlog})"),
            )
        } else {
            let dropped = units::count(softnet.dropped);
            let text = format!(
                "{dropped} packets dropped since boot (net.core.netdev_max_backlog {backlog})"
            );
            Finding::note("backlog", text)
                .with_command("sudo sysctl -w net.core.netdev_max_backlog=16384")
        });
        let settings =
            format!("net.core.netdev_budget {budget} packets, netdev_budget_usecs {budget_usecs}");
        findings.push(if softnet.squeezed == 0 {
            Finding::ok(
                "budget",
                format!("no receive round was cut short since boot ({settings})"),
            )
        } else {
            let squeezed = units::count(softnet.squeezed);
            let text = format!("{squeezed} receive rounds were cut short since boot ({settings})");
            Finding::note("budget", text).with_command(
                "sudo sysctl -w net.core.netdev_budget=1200 net.core.netdev_budget_usecs=16000",
            )
        });
    }
    if let (Some(bytes), _) = setting("rmem_max") {
        let size = units::memory(u64::try_from(bytes).unwrap_or(0));
        let text = format!("net.core.rmem_max {size}; receive rings are not limited by it");
        findings.push(Finding::ok("socket buffers", text));
    }
    match setting("bpf_jit_enable") {
        (Some(0), _) => findings.push(
            Finding::note(
                "filters",
                "socket filters are interpreted (net.core.bpf_jit_enable 0)",
            )
            .with_command("sudo sysctl -w net.core.bpf_jit_enable=1"),
        ),
        (Some(_), _) => findings.push(Finding::ok(
            "filters",
            "socket filters are compiled (net.core.bpf_jit_enable)",
        )),
        (None, _) => {}
    }
    if findings.is_empty() {
        findings.push(Finding::note(
            "receiving",
            "no settings can be read in /proc",
        ));
    }
    findings
}

/// Sums over the cores of /proc/net/softnet_stat (net/core/net-procfs.c of the kernel).
#[derive(Debug, PartialEq, Eq)]
struct Softnet {
    dropped: u64,
    squeezed: u64,
}

impl Softnet {
    fn read(system: &System) -> Option<Self> {
        let text = system
            .read("proc/net/softnet_stat")
            .filter(|text| !text.is_empty())?;
        // Columns are hexadecimal: packets, dropped, rounds cut short, and more.
        let column = |line: &str, index: usize| {
            let field = line.split_whitespace().nth(index)?;
            u64::from_str_radix(field, 16).ok()
        };
        let sum = |index: usize| text.lines().filter_map(|line| column(line, index)).sum();
        Some(Self {
            dropped: sum(1),
            squeezed: sum(2),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status;
    use super::super::system::fake::FakeSystem;
    use super::*;

    #[test]
    fn sums_losses_since_boot_over_the_cores() {
        let tree = FakeSystem::new(&[
            (
                "proc/net/softnet_stat",
                "001c2ae3 0000000a 00000000 0\n0016ba9a 000003e8 00000001 0\n",
            ),
            ("proc/sys/net/core/netdev_max_backlog", "1000\n"),
            ("proc/sys/net/core/netdev_budget", "300\n"),
            ("proc/sys/net/core/netdev_budget_usecs", "8000\n"),
            ("proc/sys/net/core/rmem_max", "212992\n"),
            ("proc/sys/net/core/bpf_jit_enable", "0\n"),
        ]);
        let found = findings(&tree.system());
        assert_eq!(
            found[0].text,
            "1,010 packets dropped since boot (net.core.netdev_max_backlog 1000)"
        );
        assert!(found[1].text.starts_with("1 receive rounds were cut short"));
        assert_eq!(
            found[2].text,
            "net.core.rmem_max 208 KiB; receive rings are not limited by it"
        );
        assert_eq!(
            (found[3].status, found[3].command.is_some()),
            (Status::Note, true)
        );
    }

    #[test]
    fn unreadable_settings_are_a_note() {
        let found = findings(&System::at("/nonexistent"));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].status, Status::Note);
    }
}
