//! What a run gives up once its inputs and outputs are open, and what the kernel offers for it.

use super::finding::Finding;
use super::system::System;
use sandbox::{State, Status};

/// The capability to receive packets, by its number in the kernel.
const CAP_NET_RAW: u32 = 13;

pub(super) fn findings(system: &System, offered: &Status) -> Vec<Finding> {
    let mut findings = vec![rights(system)];
    for (name, state) in offered.parts() {
        findings.push(match state {
            State::InForce(detail) if detail.is_empty() => Finding::ok(
                name,
                "a run has this in force once its inputs and outputs are open",
            ),
            State::InForce(detail) => Finding::ok(
                name,
                format!("{detail}; a run has this in force once its inputs and outputs are open"),
            ),
            State::Off(reason) | State::Missing(reason) => {
                Finding::note(name, format!("{reason}; runs go without it"))
            }
        });
    }
    findings
}

/// What this process is now: the rights that a run starts with.
fn rights(system: &System) -> Finding {
    let Some(status) = system.read("proc/self/status") else {
        return Finding::note("rights", "/proc/self/status cannot be read");
    };
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map_or("?", |value| value.split_whitespace().next().unwrap_or("?"))
    };
    let capabilities = u64::from_str_radix(field("CapEff:"), 16).unwrap_or(0);
    let text = format!(
        "a run starts as user {}, with {} capabilities (effective {:#x}), no_new_privs {}, seccomp mode {}",
        field("Uid:"),
        capabilities.count_ones(),
        capabilities,
        field("NoNewPrivs:"),
        field("Seccomp:"),
    );
    let can_capture = capabilities >> CAP_NET_RAW & 1 == 1;
    if can_capture && field("Uid:") == "0" {
        let text = format!("{text}; --user NAME changes the user once the interfaces are open");
        return Finding::ok("rights", text);
    }
    Finding::ok("rights", text)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status as FindingStatus;
    use super::super::system::fake::FakeSystem;
    use super::*;

    #[test]
    fn says_what_a_run_starts_with_and_what_the_kernel_lacks() {
        let tree = FakeSystem::new(&[(
            "proc/self/status",
            "Name:\tx\nUid:\t0\t0\t0\t0\nCapEff:\t0000000000003000\nNoNewPrivs:\t0\nSeccomp:\t2\n",
        )]);
        let mut offered = sandbox::offered();
        offered.landlock = State::Missing("the kernel does not have it".into());
        offered.seccomp = State::InForce(String::new());
        let found = findings(&tree.system(), &offered);
        assert!(found[0].text.contains("user 0, with 2 capabilities"));
        assert!(found[0].text.contains("--user NAME"));
        let landlock = found.iter().find(|found| found.subject == "Landlock");
        assert_eq!(landlock.unwrap().status, FindingStatus::Note);
        let seccomp = found.iter().find(|found| found.subject == "seccomp");
        assert_eq!(seccomp.unwrap().status, FindingStatus::Ok);
    }
}
