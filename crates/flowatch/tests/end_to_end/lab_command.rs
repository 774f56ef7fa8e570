//! `flowatch lab`: an experiment runs, its files name their origin, its page is complete, and unknown
//! names are rejected.

use crate::bad_input::{assert_fails, command_as_nobody};
use crate::command::run;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowatch"));
    command.arg("lab").args(arguments).stdin(Stdio::null());
    command
}

/// Checks that every element is closed, in the right order.
fn check_well_formed(page: &str) {
    const VOID: [&str; 3] = ["meta", "br", "!DOCTYPE"];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find('>').expect("a tag that does not end");
        let (tag, after) = (&rest[..end], &rest[end + 1..]);
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name.trim()), "closed out of order");
            continue;
        }
        let name = tag.split([' ', '\n', '/']).next().unwrap();
        let is_comment = tag.starts_with("!--");
        if !(tag.ends_with('/') || VOID.contains(&name) || is_comment) {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<&str>::new());
}

#[test]
fn experiment_runs_and_its_page_is_complete() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().to_str().unwrap();
    let outcome = run(&mut lab(&[
        "run", "fig6a", "fig9b", "--short", "--seed", "7", "--output", output,
    ]));
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let csv = fs::read_to_string(directory.path().join("fig6a-hashes.csv")).unwrap();
    for wanted in [
        "# seed: 7",
        "# cpu: ",
        "# kernel: ",
        "# flowatch: ",
        "# form: short",
    ] {
        assert!(csv.contains(wanted), "{wanted} in {csv}");
    }
    let json = fs::read_to_string(directory.path().join("fig9b.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(result["provenance"]["seed"], 7);
    assert!(
        result["findings"]
            .as_array()
            .is_some_and(|list| !list.is_empty())
    );
    let svg = fs::read_to_string(directory.path().join("fig9b-rates.svg")).unwrap();
    assert!(svg.trim_start().starts_with("<svg") && svg.contains("rate (kpps)"));
    let outcome = run(&mut lab(&["report", "--output", output]));
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let page = fs::read_to_string(directory.path().join("report.html")).unwrap();
    check_well_formed(&page);
    // The page is self-contained.
    assert!(!page.contains("<script") && !page.contains("<link") && !page.contains("src="));
    for name in ["fig6a", "fig9b"] {
        assert!(page.contains(&format!("<section id=\"{name}\">")));
    }
    assert!(page.matches("<svg").count() >= 2);
}

#[test]
fn rejects_unknown_experiments_and_empty_directories() {
    let outcome = run(&mut lab(&["run", "fig99"]));
    assert_eq!(outcome.code, Some(2));
    assert!(
        outcome.stderr.contains("unknown experiment fig99"),
        "{}",
        outcome.stderr
    );
    let directory = tempfile::tempdir().unwrap();
    let outcome = run(&mut lab(&[
        "report",
        "--output",
        directory.path().to_str().unwrap(),
    ]));
    assert_eq!(outcome.code, Some(2));
    assert_eq!(outcome.stderr.lines().count(), 1);
    assert!(
        outcome.stderr.contains("run experiments first"),
        "{}",
        outcome.stderr
    );
}

/// The results directory cannot be entered, written to or read from.
#[test]
fn missing_permission_for_results_exits_with_77() {
    let results = tempfile::tempdir().unwrap();
    let open = |mode| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(results.path(), mode).unwrap();
    };
    let output = results.path().to_str().unwrap();
    for (mode, command, words) in [
        (
            0o700,
            format!("lab run fig6a --output {output}/new"),
            "permission denied",
        ),
        (
            0o755,
            format!("lab run fig6a --output {output}/new"),
            "permission denied",
        ),
        (
            0o700,
            format!("lab report --output {output}"),
            "no permission to enter",
        ),
    ] {
        open(mode);
        let (_program, mut command) = command_as_nobody(&command);
        assert_fails(&run(&mut command), 77, &["--output: ", output, words]);
    }
    // The results are readable, but the page cannot be written.
    let made = run(&mut lab(&["run", "fig6a", "--output", output]));
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    open(0o755);
    let (_program, mut command) = command_as_nobody(&format!("lab report --output {output}"));
    assert_fails(&run(&mut command), 77, &["report.html: permission denied"]);
}

#[test]
fn lists_experiments_with_their_sources() {
    let outcome = run(&mut lab(&["list"]));
    let text = String::from_utf8(outcome.quiet_success()).unwrap();
    for name in [
        "gate",
        "fig5a",
        "fig5b",
        "fig5c",
        "table3",
        "fig6a",
        "fig6b",
        "fig6c",
        "fig7a",
        "fig7b",
        "fig7c",
        "fig8",
        "table4",
        "fig9a",
        "fig9b",
        "dpdkstat-fig2",
        "dpdkstat-fig5",
        "dpdkstat-fig8",
        "dpdkstat-fig9",
        "dpdkstat-fig11",
        "dpdkstat-fig12",
        "dpdkstat-rate",
        "anomalies",
    ] {
        assert!(
            text.lines()
                .any(|line| line.starts_with(&format!("{name} "))),
            "{name}"
        );
    }
}

#[test]
fn results_need_a_directory() {
    let outcome = run(&mut lab(&["run", "fig6a", "--output", "/dev/null"]));
    assert_eq!(
        (outcome.code, outcome.stderr.as_str()),
        (
            Some(2),
            "flowatch: --output: /dev/null: a file exists where a directory is needed; choose another target\n"
        )
    );
}
