//! `flowatch doctor`: what this machine can do, what is missing, and how to get it.
//!
//! It looks and tries, and changes nothing. What it reads of /proc and /sys goes through
//! [`System`], so that tests show it machines that are not there.

mod capture;
mod dpdk;
mod finding;
mod interfaces;
mod kernel;
mod machine;
mod processor;
mod system;
mod terminal;

use crate::standard_output;
use finding::{Finding, State};
use std::io::{self, Write};
use system::System;

/// Findings that belong together.
struct Section {
    title: &'static str,
    findings: Vec<Finding>,
}

/// Looks at this machine and says on standard output what there is.
///
/// # Errors
/// When standard output cannot be written; a reader that has gone is no error.
pub(crate) fn run() -> anyhow::Result<()> {
    let system = System::of_this_machine();
    let terminal = terminal::Terminal::look();
    let width = terminal.width();
    let sections = examine(&system, &terminal);
    let mut text = Vec::new();
    report(&sections, width, terminal.paints(), &mut text)?;
    Ok(standard_output::print(text)?)
}

fn examine(system: &System, terminal: &terminal::Terminal) -> Vec<Section> {
    let section = |title, findings| Section { title, findings };
    let interfaces = interfaces::list(system);
    let try_on = interfaces
        .iter()
        .find(|interface| interface.is_loopback())
        .or(interfaces.first());
    let mut capturing = vec![capture::packet_socket(
        try_on.map(|interface| interface.name()),
    )];
    capturing.push(capture::libpcap(system));
    capturing.extend(capture::not_in_this_build());
    vec![
        section("Machine", machine::findings(system)),
        section(
            "Processor",
            processor::findings(system, processor::Instructions::of_this_machine()),
        ),
        section("Capture", capturing),
        section("DPDK", dpdk::findings(system)),
        section(
            "Interfaces",
            interfaces::findings(&interfaces, interfaces::offloads),
        ),
        section("Kernel", kernel::findings(system)),
        section("Reports", terminal.findings()),
    ]
}

fn report(
    sections: &[Section],
    width: usize,
    colour: bool,
    output: &mut impl Write,
) -> io::Result<()> {
    writeln!(output, "flowatch {}", env!("CARGO_PKG_VERSION"))?;
    for section in sections {
        writeln!(output, "\n{}", section.title)?;
        for finding in &section.findings {
            finding.print(width, colour, output)?;
        }
    }
    let findings = || sections.iter().flat_map(|section| &section.findings);
    let count = |state| findings().filter(|finding| finding.state == state).count();
    let missing = match count(State::Missing) {
        0 => "Nothing is missing".to_owned(),
        1 => "1 thing is missing".to_owned(),
        number => format!("{number} things are missing"),
    };
    let notes = match count(State::Note) {
        0 => String::new(),
        1 => ", 1 is worth a note".to_owned(),
        number => format!(", {number} are worth a note"),
    };
    writeln!(output, "\n{missing}{notes}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_can_be_examined() {
        let terminal = terminal::Terminal::look();
        let sections = examine(&System::of_this_machine(), &terminal);
        let mut text = Vec::new();
        report(&sections, 80, false, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for title in [
            "Machine",
            "Processor",
            "Capture",
            "DPDK",
            "Interfaces",
            "Kernel",
            "Reports",
        ] {
            assert!(text.lines().any(|line| line == title), "{text}");
        }
        assert!(text.contains("packet socket"), "{text}");
        assert!(text.lines().last().unwrap().ends_with('.'), "{text}");
    }

    #[test]
    fn a_machine_of_which_nothing_can_be_read_is_no_failure() {
        let nowhere = System::at("/nonexistent");
        let mut text = Vec::new();
        report(
            &examine(&nowhere, &terminal::Terminal::look()),
            10,
            true,
            &mut text,
        )
        .unwrap();
        assert!(!text.is_empty());
    }

    #[test]
    fn the_end_counts_what_is_missing() {
        let section = |findings| {
            [Section {
                title: "X",
                findings,
            }]
        };
        let last = |findings| {
            let mut text = Vec::new();
            report(&section(findings), 80, false, &mut text).unwrap();
            String::from_utf8(text)
                .unwrap()
                .lines()
                .last()
                .unwrap()
                .to_owned()
        };
        assert_eq!(last(vec![Finding::ok("a", "b")]), "Nothing is missing.");
        assert_eq!(
            last(vec![
                Finding::missing("a", "b"),
                Finding::note("c", "d"),
                Finding::note("e", "f")
            ]),
            "1 thing is missing, 2 are worth a note."
        );
    }
}
