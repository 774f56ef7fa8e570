//! The configurations that must account for every packet: every model, table and scheduling policy,
//! over both links, with both kinds of memory. FLOWATCH_CI=long runs all 144; otherwise 36 run, which
//! cover every pair of choices.

use engine::Model;
use flow::TableKind;
use hw::schedule::Schedule;
use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;
use std::{env, fs, io};

/// The link that packets arrive on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// A memif between two processes.
    Memif,
    /// A software NIC made of DPDK rings.
    SoftwareNic,
}

/// One configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) model: Model,
    pub(crate) table: TableKind,
    pub(crate) schedule: Schedule,
    pub(crate) link: Link,
    pub(crate) huge_pages: bool,
}

const LINKS: [Link; 2] = [Link::Memif, Link::SoftwareNic];

const MODELS: [Model; 3] = [Model::RunToCompletion, Model::Pipeline, Model::Cooperative];

/// The deadlines need so little CPU time that the kernel admits two threads next to other programs.
const SCHEDULES: [Schedule; 3] = [
    Schedule::Other,
    Schedule::Fifo(50),
    Schedule::Deadline {
        runtime: Duration::from_millis(2),
        deadline: Duration::from_millis(10),
        period: Duration::from_millis(10),
    },
];

/// Returns all configurations.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for link in LINKS {
        for huge_pages in [true, false] {
            for model in MODELS {
                for table in TableKind::ALL {
                    cases.extend(SCHEDULES.map(|schedule| Case {
                        model,
                        table,
                        schedule,
                        link,
                        huge_pages,
                    }));
                }
            }
        }
    }
    cases
}

/// Returns a quarter of the configurations, which covers every pair of choices: each model with each
/// table and policy, over one of the links with one kind of memory.
fn pairs() -> Vec<Case> {
    let parity = |first: bool| usize::from(!first);
    let chosen = |case: &Case| {
        let model = MODELS.iter().position(|model| *model == case.model);
        let table = TableKind::ALL.iter().position(|table| *table == case.table);
        let schedule = SCHEDULES.iter().position(|one| *one == case.schedule);
        let (Some(m), Some(t), Some(s)) = (model, table, schedule) else {
            return false;
        };
        (m + t + s) % 2 == parity(case.link == Link::Memif)
            && (m + t / 2 + s) % 2 == parity(case.huge_pages)
    };
    cases().into_iter().filter(chosen).collect()
}

/// Whether to run all configurations.
fn is_long() -> bool {
    env::var_os("FLOWATCH_CI").is_some_and(|form| form == "long")
}

/// Returns the configurations over a link with one kind of memory: all in the long form of the tests,
/// otherwise those that cover all pairs.
pub(crate) fn cases_for(link: Link, huge_pages: bool) -> Vec<Case> {
    let mut cases = if is_long() { cases() } else { pairs() };
    cases.retain(|case| case.link == link && case.huge_pages == huge_pages);
    cases
}

/// Whether `mib` MiB of huge pages are free. The long form of the tests fails without them.
pub(crate) fn has_huge_pages(mib: u64) -> bool {
    let file = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
    let free = fs::read_to_string(file).unwrap_or_default();
    let has_enough = free.trim().parse::<u64>().unwrap_or(0) * 2 >= mib;
    assert!(
        has_enough || !is_long(),
        "{mib} MiB of huge pages are needed; ./setup --dpdk reserves them"
    );
    has_enough
}

/// Result of running a configuration.
pub(crate) enum Outcome {
    Completed,
    /// The kernel refused, with its reason.
    Refused(String),
}

/// Runs all configurations. The kernel may refuse some deadline threads, but not all; prints those
/// refused to standard error directly, because the harness hides the output of passing tests.
pub(crate) fn run_all(cases: &[Case], mut one: impl FnMut(usize, &Case) -> Outcome) {
    let mut done = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        match one(number, case) {
            Outcome::Completed => done.push(case),
            Outcome::Refused(reason) => {
                assert!(case.schedule.is_deadline(), "{case:?}: {reason}");
                let _ = writeln!(io::stderr(), "SKIPPED: {case:?}: {}", reason.trim_end());
            }
        }
    }
    for schedule in SCHEDULES {
        let wanted = |case: &Case| case.schedule == schedule;
        assert!(
            !cases.iter().any(wanted) || done.iter().any(|case| wanted(case)),
            "all configurations with {schedule} were skipped"
        );
    }
}

#[test]
fn pairs_cover_every_pair_of_choices() {
    let choices = |case: &Case| {
        [
            format!("{:?}", case.model),
            format!("{:?}", case.table),
            format!("{:?}", case.schedule),
            format!("{:?}", case.link),
            format!("huge pages {}", case.huge_pages),
        ]
    };
    let all: BTreeSet<_> = cases().iter().map(choices).collect();
    assert_eq!(all.len(), 3 * 4 * 3 * 2 * 2);
    let names: Vec<BTreeSet<&String>> = (0..5)
        .map(|index| all.iter().map(|choices| &choices[index]).collect())
        .collect();
    let pairs: Vec<_> = pairs().iter().map(choices).collect();
    assert_eq!(pairs.len(), 36);
    for first in 0..5 {
        for second in first + 1..5 {
            for &one in &names[first] {
                for &other in &names[second] {
                    let met = pairs
                        .iter()
                        .any(|choices| choices[first] == *one && choices[second] == *other);
                    assert!(met, "{one} is never combined with {other}");
                }
            }
        }
    }
}
