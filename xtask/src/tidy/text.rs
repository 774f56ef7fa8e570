//! Rules for every text file: meaningless names, paths of one machine, notes to fix something later,
//! and the length of Rust files.

use std::path::Path;

use super::finding::Finding;

/// A file does one thing, and its name says which; these words do not.
const MEANINGLESS_NAMES: [&str; 8] = [
    "util", "utils", "common", "helper", "helpers", "misc", "manager", "managers",
];

/// Starts of paths that exist on one machine only (split, so that this file passes).
const MACHINE_PATHS: [&str; 5] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/tm", "p/w/"),
    concat!("/tm", "p/target-"),
    concat!("/Use", "rs/"),
];

/// Rust files with more lines get a warning, and above [`LINES_MAX`] an error.
const LINES_WARNED: usize = 600;
const LINES_MAX: usize = 800;

const FIX_LATER: &str = concat!("FIX", "ME");

pub(super) fn check_name(file: &Path) -> Option<Finding> {
    let word = file
        .components()
        .filter_map(|component| Path::new(component.as_os_str()).file_stem()?.to_str())
        .flat_map(|name| name.split(['_', '-', '.']))
        .find(|word| MEANINGLESS_NAMES.contains(word))?;
    let message = format!("the name `{word}` does not say what the file contains");
    Some(Finding::new(file, 0, message))
}

pub(super) fn check(file: &Path, content: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, line) in content.lines().enumerate() {
        for path in MACHINE_PATHS {
            if starts_a_path(line, path) {
                let message = format!("`{path}` is a path of one machine");
                found.push(Finding::new(file, index + 1, message));
            }
        }
        if line.contains(FIX_LATER) {
            let message = format!("{FIX_LATER}: fix it, or explain why not");
            found.push(Finding::new(file, index + 1, message));
        }
    }
    found
}

/// A Rust file is short enough to be read at once.
pub(super) fn check_length(file: &Path, content: &str) -> Option<Finding> {
    let lines = content.lines().count();
    let message = format!("{lines} lines; {LINES_MAX} is the maximum: split the file");
    let finding = Finding {
        warning: lines <= LINES_MAX,
        ..Finding::new(file, 0, message)
    };
    (lines > LINES_WARNED).then_some(finding)
}

/// Whether `line` contains a path that starts with `path`.
fn starts_a_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-}/~)".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meaningless_names_are_found_as_whole_words_only() {
        for name in [
            "src/utils.rs",
            "tests/common/mod.rs",
            "a/flow_helpers.rs",
            "manager.c",
        ] {
            assert!(check_name(Path::new(name)).is_some(), "{name}");
        }
        for name in ["src/utilisation.rs", "commonality.md", "src/bucket.rs"] {
            assert!(check_name(Path::new(name)).is_none(), "{name}");
        }
    }

    #[test]
    fn paths_of_one_machine_are_found_at_the_start_of_a_path_only() {
        let found = |line: &str| check(Path::new("a.md"), line).len();
        assert_eq!(found(concat!("see `/wo", "rk/x`")), 1);
        assert_eq!(found(concat!("include!(\"/ro", "ot/x\")")), 1);
        assert_eq!(found(concat!("out/wo", "rk/x and $D/ro", "ot/x")), 0);
        assert_eq!(
            found(concat!("https://a.example/wo", "rk/x ../wo", "rk/x")),
            0
        );
    }

    #[test]
    fn a_note_to_fix_later_is_found_with_its_line() {
        let text = format!("one\n// {FIX_LATER} later\n");
        let found = check(Path::new("a.rs"), &text);
        assert_eq!((found.len(), found[0].line), (1, 2));
    }

    #[test]
    fn long_files_get_a_warning_then_an_error() {
        let finding = |lines: usize| check_length(Path::new("a.rs"), &"x\n".repeat(lines));
        assert!(finding(600).is_none());
        assert!(finding(601).is_some_and(|finding| finding.warning));
        assert!(finding(800).is_some_and(|finding| finding.warning));
        assert!(finding(801).is_some_and(|finding| !finding.warning));
    }
}
