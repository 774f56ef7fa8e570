//! Tables that tests hold results against: those in pages of the docs, which are written from the
//! code, and those of `tests/golden`, which other programs have answered.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// With this in the environment, pages are written instead of compared.
const UPDATE: &str = "UPDATE_DOCS";

/// With this, which names a file, differences are written there instead of compared.
const WRITE_DIFFERENCES: &str = "WRITE_DIFFERENCES";

fn path(within: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(within)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A page of the docs.
#[must_use]
pub fn page(name: &str) -> String {
    read(&path("docs").join(name))
}

/// Asserts that `page` of the docs has `table` between its marks `name: begin` and `name: end`.
///
/// # Panics
/// When it has another, or no such marks.
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
        panic!("docs/{page} has no marks {begin:?} and {end:?}");
    };
    if std::env::var_os(UPDATE).is_some() {
        let written = fs::write(&path, format!("{before}{begin}{table}{end}{after}"));
        assert!(written.is_ok(), "{}: {written:?}", path.display());
    } else {
        assert_eq!(
            old, table,
            "docs/{page} is behind the code: run this test with {UPDATE}=1"
        );
    }
}

/// A table of `tests/golden`.
#[must_use]
pub fn golden(name: &str) -> String {
    read(&path("tests/golden").join(name))
}

/// Asserts that these differences from another program are those of a table of `tests/golden`: a
/// line each, behind its kind, which the docs explain. One more, or one less, fails.
///
/// # Panics
/// When they are not.
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
