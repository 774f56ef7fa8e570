//! `flowatch doctor`: checks what this machine supports, what is missing, and how to fix it.
//!
//! It reads and tries things, but changes nothing. It reads /proc and /sys through [`System`], so
//! that tests can use fake machines.

pub(crate) mod capture;
mod cpu;
pub(crate) mod dpdk;
pub(crate) mod finding;
mod interfaces;
mod kernel;
mod machine;
mod sandbox;
pub(crate) mod system;
mod terminal;

use crate::sources;
use crate::standard_output;
use finding::{Finding, Status};
use std::io::{self, Write};
use system::System;

/// A group of findings.
struct Section {
    title: &'static str,
    findings: Vec<Finding>,
}

/// Examines this machine and prints a report on standard output.
///
/// # Errors
/// If standard output cannot be written, unless its reader has gone.
pub(crate) fn run() -> anyhow::Result<()> {
    let system = System::host();
    let terminal = terminal::Terminal::detect();
    let width = terminal.width();
    let sections = examine(&system, &terminal);
    let mut text = Vec::new();
    report(&sections, width, terminal.uses_colour(), &mut text)?;
    Ok(standard_output::print(text)?)
}

fn examine(system: &System, terminal: &terminal::Terminal) -> Vec<Section> {
    let section = |title, findings| Section { title, findings };
    let interfaces = interfaces::list(system);
    let mut sections = vec![
        section("Machine", machine::findings(system)),
        section("CPU", cpu::findings(system, cpu::Instructions::host())),
        section("Capture", Vec::new()),
    ];
    for (title, findings) in sources::findings(system) {
        match sections.iter_mut().find(|section| section.title == title) {
            Some(section) => section.findings.extend(findings),
            None => sections.push(section(title, findings)),
        }
    }
    let capture = &mut sections[2].findings;
    capture.push(capture::libpcap(system));
    capture.extend(capture::missing_backends());
    sections.extend([
        section(
            "Interfaces",
            interfaces::findings(&interfaces, interfaces::offloads),
        ),
        section("Kernel", kernel::findings(system)),
        section("Sandbox", sandbox::findings(system, &::sandbox::offered())),
        section("Reports", terminal.findings()),
    ]);
    sections
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
    let count = |state| findings().filter(|finding| finding.status == state).count();
    let missing = match count(Status::Missing) {
        0 => "Nothing is missing".to_owned(),
        1 => "1 thing is missing".to_owned(),
        number => format!("{number} things are missing"),
    };
    let notes = match count(Status::Note) {
        0 => String::new(),
        1 => ", 1 note".to_owned(),
        number => format!(", {number} notes"),
    };
    writeln!(output, "\n{missing}{notes}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examines_this_machine() {
        let terminal = terminal::Terminal::detect();
        let sections = examine(&System::host(), &terminal);
        let mut text = Vec::new();
        report(&sections, 80, false, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for title in [
            "Machine",
            "CPU",
            "Capture",
            "DPDK",
            "Interfaces",
            "Kernel",
            "Sandbox",
            "Reports",
        ] {
            assert!(text.lines().any(|line| line == title), "{text}");
        }
        assert!(text.contains("packet socket"), "{text}");
        assert!(text.lines().last().unwrap().ends_with('.'), "{text}");
    }

    #[test]
    fn examines_a_machine_without_readable_files() {
        let nowhere = System::at("/nonexistent");
        let mut text = Vec::new();
        report(
            &examine(&nowhere, &terminal::Terminal::detect()),
            10,
            true,
            &mut text,
        )
        .unwrap();
        assert!(!text.is_empty());
    }

    #[test]
    fn last_line_counts_findings_by_status() {
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
            "1 thing is missing, 2 notes."
        );
    }
}
