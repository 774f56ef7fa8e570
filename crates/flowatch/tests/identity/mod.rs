//! The ways to run that must all account for every packet: model by table by scheduler, each over one
//! of two links and in one of two kinds of memory, so that every pair of choices is met.

use engine::Model;
use flow::TableKind;
use hw::schedule::Schedule;
use std::time::Duration;

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
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (m, model) in MODELS.into_iter().enumerate() {
        for (t, table) in TableKind::ALL.into_iter().enumerate() {
            for (s, schedule) in SCHEDULES.into_iter().enumerate() {
                cases.push(Case {
                    model,
                    table,
                    schedule,
                    link: if (m + t + s).is_multiple_of(2) {
                        Link::Memif
                    } else {
                        Link::SoftwareNic
                    },
                    huge_pages: (m + t / 2 + s).is_multiple_of(2),
                });
            }
        }
    }
    cases
}

/// Those over a link.
pub(crate) fn over(link: Link) -> impl Iterator<Item = Case> {
    cases().into_iter().filter(move |case| case.link == link)
}

#[test]
fn every_pair_of_choices_is_met() {
    let cases = cases();
    let choices = |case: &Case| {
        [
            format!("{:?}", case.model),
            format!("{:?}", case.table),
            format!("{:?}", case.schedule),
            format!("{:?}", case.link),
            format!("huge pages {}", case.huge_pages),
        ]
    };
    let names: Vec<Vec<String>> = (0..5)
        .map(|place| {
            let mut names: Vec<_> = cases
                .iter()
                .map(|case| choices(case)[place].clone())
                .collect();
            names.sort_unstable();
            names.dedup();
            names
        })
        .collect();
    let numbers: Vec<usize> = names.iter().map(Vec::len).collect();
    assert_eq!((cases.len(), &numbers[..]), (36, &[3, 4, 3, 2, 2][..]));
    for first in 0..5 {
        for second in first + 1..5 {
            for one in &names[first] {
                for other in &names[second] {
                    let met = cases.iter().any(|case| {
                        let choices = choices(case);
                        choices[first] == *one && choices[second] == *other
                    });
                    assert!(met, "{one} never meets {other}");
                }
            }
        }
    }
}
