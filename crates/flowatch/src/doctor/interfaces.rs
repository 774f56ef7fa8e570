//! Network interfaces and their state, from /sys/class/net.

use super::finding::{Finding, Status};
use super::system::System;
use crate::units;
use std::process::{Command, Stdio};

/// Bits of `flags` (linux/if.h).
const UP: i64 = 0x1;
const LOOPBACK: i64 = 0x8;
const PROMISCUOUS: i64 = 0x100;

/// One interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    name: String,
    flags: i64,
    /// Whether there is a carrier; `None` if the interface is down or does not report it.
    carrier: Option<bool>,
    /// Driver of the device; `None` for virtual interfaces.
    driver: Option<String>,
    queues: usize,
    mtu: Option<i64>,
    /// Speed in Mbit/s, if known.
    speed: Option<i64>,
    numa_node: Option<i64>,
}

impl Interface {
    fn read(system: &System, name: String) -> Self {
        let path = |file: &str| format!("sys/class/net/{name}/{file}");
        let flags = system.read(&path("flags")).unwrap_or_default();
        let queues = system.names(&path("queues"));
        Self {
            flags: i64::from_str_radix(flags.trim_start_matches("0x"), 16).unwrap_or(0),
            carrier: system.number(&path("carrier")).map(|carrier| carrier != 0),
            driver: system.link(&path("device/driver")),
            queues: queues
                .iter()
                .filter(|queue| queue.starts_with("rx-"))
                .count(),
            mtu: system.number(&path("mtu")),
            speed: system.number(&path("speed")).filter(|&speed| speed > 0),
            numa_node: system
                .number(&path("device/numa_node"))
                .filter(|&node| node >= 0),
            name,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_loopback(&self) -> bool {
        self.flags & LOOPBACK != 0
    }

    fn state(&self) -> &'static str {
        match (self.flags & UP != 0, self.carrier) {
            (false, _) => "down",
            (true, Some(false)) => "no carrier",
            (true, _) => "up",
        }
    }

    fn columns(&self) -> [String; 6] {
        let queues = match self.queues {
            1 => "1 queue".to_owned(),
            number => format!("{number} queues"),
        };
        let mut notes = Vec::new();
        if self.flags & PROMISCUOUS != 0 {
            notes.push("promiscuous".to_owned());
        }
        if let Some(node) = self.numa_node {
            notes.push(format!("NUMA node {node}"));
        }
        [
            self.state().to_owned(),
            match &self.driver {
                Some(driver) => driver.clone(),
                None if self.is_loopback() => "loopback".to_owned(),
                None => "virtual".to_owned(),
            },
            queues,
            self.mtu
                .map_or_else(|| "MTU ?".to_owned(), |mtu| format!("MTU {mtu}")),
            self.speed.map_or_else(
                || "-".to_owned(),
                |speed| units::rate_bits(speed as f64 * 1e6),
            ),
            notes.join(", "),
        ]
    }
}

/// Returns all interfaces, sorted by name.
pub(super) fn list(system: &System) -> Vec<Interface> {
    let names = system.names("sys/class/net");
    // The bonding driver has a file among the interfaces.
    let names = names.into_iter().filter(|name| name != "bonding_masters");
    names.map(|name| Interface::read(system, name)).collect()
}

/// Returns a finding per interface, in columns, and one for each device that merges packets before
/// they can be captured. `offloads` returns the active merging offloads of an interface.
pub(super) fn findings(
    interfaces: &[Interface],
    offloads: impl Fn(&str) -> Vec<&'static str>,
) -> Vec<Finding> {
    if interfaces.is_empty() {
        return vec![Finding::missing(
            "interfaces",
            "none found in /sys/class/net",
        )];
    }
    let rows: Vec<[String; 6]> = interfaces.iter().map(Interface::columns).collect();
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut findings = Vec::new();
    for (interface, row) in interfaces.iter().zip(&rows) {
        let cells: Vec<String> = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        let state = if interface.state() == "up" {
            Status::Ok
        } else {
            Status::Note
        };
        findings.push(Finding::new(
            state,
            interface.name(),
            cells.join("  ").trim_end(),
        ));
    }
    for interface in interfaces
        .iter()
        .filter(|interface| interface.driver.is_some())
    {
        let merging = offloads(interface.name());
        if !merging.is_empty() {
            let off: Vec<String> = merging
                .iter()
                .map(|name| format!("{} off", name.to_lowercase()))
                .collect();
            let name = interface.name();
            findings.push(
                Finding::note(
                    name,
                    format!(
                        "{} on: consecutive packets of a flow are merged and counted as one large packet",
                        merging.join(" and ")
                    ),
                )
                .with_command(format!("sudo ethtool -K {name} {}", off.join(" "))),
            );
        }
    }
    findings
}

/// Returns which of GRO and LRO are on, according to ethtool(8) if it is installed.
pub(super) fn offloads(interface: &str) -> Vec<&'static str> {
    // The name of an interface may look like a flag.
    if interface.starts_with('-') {
        return Vec::new();
    }
    let run = |program: &str| {
        Command::new(program)
            .args(["-k", interface])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()
    };
    let output = run("ethtool").or_else(|| run("/usr/sbin/ethtool"));
    output.map_or_else(Vec::new, |output| {
        merging(&String::from_utf8_lossy(&output.stdout))
    })
}

fn merging(features: &str) -> Vec<&'static str> {
    let is_on = |feature: &str| {
        features.lines().any(|line| {
            line.trim().split_once(':').is_some_and(|(name, value)| {
                name == feature && value.split_whitespace().next() == Some("on")
            })
        })
    };
    [
        ("generic-receive-offload", "GRO"),
        ("large-receive-offload", "LRO"),
    ]
    .into_iter()
    .filter(|(feature, _)| is_on(feature))
    .map(|(_, name)| name)
    .collect()
}

#[cfg(all(test, unix))]
mod tests {
    use super::super::system::fake::FakeSystem;
    use super::*;

    #[test]
    fn interfaces_are_listed_in_columns() {
        let tree = FakeSystem::new(&[
            ("sys/class/net/bonding_masters", "\n"),
            ("sys/class/net/lo/flags", "0x9\n"),
            ("sys/class/net/lo/carrier", "1\n"),
            ("sys/class/net/lo/mtu", "65536\n"),
            ("sys/class/net/lo/queues/rx-0/x", ""),
            ("sys/class/net/ens1f0/flags", "0x1103\n"),
            ("sys/class/net/ens1f0/carrier", "1\n"),
            ("sys/class/net/ens1f0/mtu", "1500\n"),
            ("sys/class/net/ens1f0/speed", "25000\n"),
            ("sys/class/net/ens1f0/device/numa_node", "1\n"),
            ("sys/class/net/ens1f0/queues/rx-0/x", ""),
            ("sys/class/net/ens1f0/queues/rx-1/x", ""),
            ("sys/class/net/ens1f0/queues/tx-0/x", ""),
            ("sys/class/net/veth0/flags", "0x1002\n"),
            ("sys/class/net/veth0/mtu", "1500\n"),
            ("sys/class/net/veth0/speed", "-1\n"),
            ("sys/class/net/veth0/queues/rx-0/x", ""),
        ])
        .with_link(
            "sys/class/net/ens1f0/device/driver",
            "../../../../bus/pci/drivers/ice",
        );
        let interfaces = list(&tree.system());
        assert!(
            interfaces
                .iter()
                .find(|interface| interface.name() == "lo")
                .unwrap()
                .is_loopback()
        );
        let found = findings(&interfaces, |name| {
            if name == "ens1f0" {
                vec!["GRO", "LRO"]
            } else {
                vec![]
            }
        });
        let lines: Vec<(&str, &str)> = found
            .iter()
            .map(|finding| (&finding.subject[..], &finding.text[..]))
            .collect();
        assert_eq!(
            lines[..3],
            [
                (
                    "ens1f0",
                    "up    ice       2 queues  MTU 1500   25.00 Gbit/s  promiscuous, NUMA node 1"
                ),
                ("lo", "up    loopback  1 queue   MTU 65536  -"),
                ("veth0", "down  virtual   1 queue   MTU 1500   -"),
            ]
        );
        assert_eq!(found[2].status, Status::Note);
        assert!(lines[3].1.starts_with("GRO and LRO on: "));
        assert_eq!(
            found[3].command.as_deref(),
            Some("sudo ethtool -K ens1f0 gro off lro off")
        );
    }

    #[test]
    fn parses_the_output_of_ethtool() {
        let text = "Features for eth0:\n\ttx-generic-receive-offload: on\ngeneric-receive-offload: on\n\
                    large-receive-offload: off [fixed]\n";
        assert_eq!(merging(text), ["GRO"]);
        assert_eq!(merging("large-receive-offload: on\n"), ["LRO"]);
        assert!(merging("").is_empty());
        assert!(offloads("-h").is_empty());
    }
}
