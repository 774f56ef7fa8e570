//! The ways to run that must all account for every packet: every model with every table and every
//! scheduler, over both links, in both kinds of memory. All 144 are carried out with FLOWATCH_CI=long;
//! without it 36, so that every pair of choices is met.

use engine::Model;
use flow::TableKind;
use hw::schedule::Schedule;
use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;
use std::{env, fs, io};

/// What packets come over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// Two processes with a memif between them.
    Memif,
    /// A network card made of DPDK's rings.
    SoftwareNic,
}

/// One way.
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

/// So little of a core that there is room for two threads, beside those of other programs.
const SCHEDULES: [Schedule; 3] = [
    Schedule::Other,
    Schedule::Fifo(50),
    Schedule::Deadline {
        runtime: Duration::from_millis(2),
        deadline: Duration::from_millis(10),
        period: Duration::from_millis(10),
    },
];

/// All of them.
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

/// A quarter of them, in which every choice meets every other: each model with each table and each
/// scheduler, over one of the links in one kind of memory.
fn pairs() -> Vec<Case> {
    let place = |here: bool| usize::from(!here);
    let chosen = |case: &Case| {
        let model = MODELS.iter().position(|model| *model == case.model);
        let table = TableKind::ALL.iter().position(|table| *table == case.table);
        let schedule = SCHEDULES.iter().position(|one| *one == case.schedule);
        let (Some(m), Some(t), Some(s)) = (model, table, schedule) else {
            return false;
        };
        (m + t + s) % 2 == place(case.link == Link::Memif)
            && (m + t / 2 + s) % 2 == place(case.huge_pages)
    };
    cases().into_iter().filter(chosen).collect()
}

/// Whether the tests have their long form.
fn is_long() -> bool {
    env::var_os("FLOWATCH_CI").is_some_and(|form| form == "long")
}

/// Those over a link in one kind of memory: all in the long form of the tests, else the pairs.
pub(crate) fn over(link: Link, huge_pages: bool) -> Vec<Case> {
    let mut cases = if is_long() { cases() } else { pairs() };
    cases.retain(|case| case.link == link && case.huge_pages == huge_pages);
    cases
}

/// Whether so many MiB of huge pages are free. A machine that has none can still run the rest, but not
/// the long form of the tests.
pub(crate) fn has_huge_pages(mib: u64) -> bool {
    let file = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
    let free = fs::read_to_string(file).unwrap_or_default();
    let are_there = free.trim().parse::<u64>().unwrap_or(0) * 2 >= mib;
    assert!(
        are_there || !is_long(),
        "{mib} MiB of huge pages are wanted; ./setup --dpdk reserves them"
    );
    are_there
}

/// What became of a way.
pub(crate) enum Outcome {
    CarriedOut,
    /// The kernel refused, with its reason.
    Refused(String),
}

/// Carries all of them out, and says what was refused, past the harness, which keeps to itself what a
/// test prints that passes. The kernel may have no room for threads with deadlines, but not for any.
pub(crate) fn carry_out(cases: &[Case], mut one: impl FnMut(usize, &Case) -> Outcome) {
    let mut done = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        match one(number, case) {
            Outcome::CarriedOut => done.push(case),
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
            "every one of {schedule} was skipped"
        );
    }
}

#[test]
fn every_pair_of_choices_is_met() {
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
        .map(|place| all.iter().map(|choices| &choices[place]).collect())
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
                    assert!(met, "{one} never meets {other}");
                }
            }
        }
    }
}
