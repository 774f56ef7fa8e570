//! Rules for every file: names that say nothing, paths of one machine, promises to fix later.

use std::path::Path;

use super::Finding;

/// A file does one thing that its name says; these say none.
const EMPTY_NAMES: [&str; 8] = [
    "util", "utils", "common", "helper", "helpers", "misc", "manager", "managers",
];

/// Beginnings of paths that exist on one machine only (written apart, so that this file passes).
const MACHINE_PATHS: [&str; 5] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/tm", "p/w/"),
    concat!("/tm", "p/target-"),
    concat!("/Use", "rs/"),
];

const PROMISE: &str = concat!("FIX", "ME");

pub(super) fn check_name(file: &Path) -> Option<Finding> {
    let empty = file
        .components()
        .filter_map(|component| Path::new(component.as_os_str()).file_stem()?.to_str())
        .flat_map(|name| name.split(['_', '-', '.']))
        .find(|word| EMPTY_NAMES.contains(word))?;
    let message = format!("the name `{empty}` does not say what is inside");
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
        if line.contains(PROMISE) {
            let message = format!("{PROMISE}: do it, or say why not");
            found.push(Finding::new(file, index + 1, message));
        }
    }
    found
}

/// Whether `path` stands in `line` at the start of a path, not in the middle of a longer one.
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
    fn names_that_say_nothing_are_found_as_words_only() {
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
    fn a_promise_is_found_with_its_line() {
        let text = format!("one\n// {PROMISE} later\n");
        let found = check(Path::new("a.rs"), &text);
        assert_eq!((found.len(), found[0].line), (1, 2));
    }
}
