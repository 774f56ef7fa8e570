//! Reference tables that tests compare results with: tables in the docs, which are generated from the
//! code, and tables in `tests/golden`, which contain the results of other programs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// If this environment variable is set, pages are updated instead of compared.
const UPDATE: &str = "UPDATE_DOCS";

/// If this environment variable names a file, differences are written there instead of compared.
const WRITE_DIFFERENCES: &str = "WRITE_DIFFERENCES";

/// Converts a path relative to the workspace.
fn path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(relative)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Reads a page of the docs.
///
/// # Panics
/// If the page cannot be read.
#[must_use]
pub fn page(name: &str) -> String {
    read(&path("docs").join(name))
}

/// Asserts that `page` of the docs contains `table` between the markers `name: begin` and `name: end`.
///
/// # Panics
/// If the table differs, or the markers are missing.
#[track_caller]
pub fn assert_in_page(page: &str, name: &str, table: &str) {
    let begin = format!("<!-- {name}: begin (written by the test of this table) -->\n");
    let end = format!("<!-- {name}: end -->");
    let path = path("docs").join(page);
    let text = read(&path);
    let parts = text
        .split_once(&begin)
        .and_then(|(before, rest)| Some((before, rest.split_once(&end)?)));
    let Some((before, (old, after))) = parts else {
        panic!("docs/{page} has no markers {begin:?} and {end:?}");
    };
    if std::env::var_os(UPDATE).is_some() {
        let written = fs::write(&path, format!("{before}{begin}{table}{end}{after}"));
        assert!(written.is_ok(), "{}: {written:?}", path.display());
    } else {
        assert_eq!(
            old, table,
            "docs/{page} is out of date: run this test with {UPDATE}=1"
        );
    }
}

/// Reads a table of `tests/golden`.
///
/// # Panics
/// If the table cannot be read.
#[must_use]
pub fn golden(name: &str) -> String {
    read(&path("tests/golden").join(name))
}

/// Asserts that these differences from another program are exactly the lines of a table of
/// `tests/golden`. There, each line starts with the kind of difference, which the docs explain.
///
/// # Panics
/// If a difference is missing in the table, or the table has one that no longer occurs.
#[track_caller]
pub fn assert_explained(name: &str, different: &BTreeSet<String>) {
    if let Some(path) = std::env::var_os(WRITE_DIFFERENCES) {
        let lines: String = different.iter().map(|line| format!("{line}\n")).collect();
        let written = fs::write(&path, lines);
        assert!(written.is_ok(), "{}: {written:?}", path.display());
        return;
    }
    let explained: BTreeSet<String> = golden(name)
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once('\t'))
        .map(|(_, difference)| difference.to_owned())
        .collect();
    let new: Vec<_> = different.difference(&explained).collect();
    let gone: Vec<_> = explained.difference(different).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "new: {new:#?}\ngone: {gone:#?}"
    );
}
