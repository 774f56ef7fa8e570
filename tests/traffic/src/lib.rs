//! Finds captures of real traffic for tests and developer commands. The shared captures may not be
//! published, so they are missing next to a plain copy of the source. Tests that require them are
//! skipped with a message. Other tests use copies of the published example with shifted addresses
//! ([`shift_addresses`]).

mod shift;

pub use shift::shift_addresses;

use std::ffi::OsString;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The environment variable that names the directory of the captures.
const VARIABLE: &str = "FLOWATCH_TRAFFIC";

/// The list of captures. A directory that contains this file is accepted as a directory of captures.
const MANIFEST: &str = "MANIFEST.tsv";

/// The start of the line that reports a skipped test.
pub const SKIPPED: &str = "SKIPPED ";

/// The environment variable names a directory without captures.
#[derive(Debug, PartialEq, Eq)]
pub struct NotCaptures(PathBuf);

impl fmt::Display for NotCaptures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{VARIABLE}={}: no {MANIFEST} there; name the directory that holds it, or unset {VARIABLE}",
            self.0.display()
        )
    }
}

impl std::error::Error for NotCaptures {}

/// Returns the directory of the shared captures, if it exists: the one that `FLOWATCH_TRAFFIC` names, or
/// `../shared/traffic` next to the workspace if the variable is not set.
///
/// # Errors
/// If `FLOWATCH_TRAFFIC` names a directory without captures.
pub fn find() -> Result<Option<PathBuf>, NotCaptures> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traffic");
    choose(std::env::var_os(VARIABLE), default)
}

fn choose(named: Option<OsString>, default: PathBuf) -> Result<Option<PathBuf>, NotCaptures> {
    let has_captures = |directory: &PathBuf| directory.join(MANIFEST).is_file();
    match named.map(PathBuf::from) {
        Some(named) if has_captures(&named) => Ok(Some(named)),
        Some(named) => Err(NotCaptures(named)),
        None => Ok(Some(default).filter(has_captures)),
    }
}

/// Returns whether there are shared captures. A test that requires them calls this first, and returns
/// if it is false. The skipped test is reported on standard error directly, because the test harness
/// hides the output of tests that pass.
///
/// # Panics
/// If `FLOWATCH_TRAFFIC` names a directory without captures.
#[must_use]
pub fn present() -> bool {
    let present = found().is_some();
    if !present {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        // A single write, so that lines of parallel tests are not mixed.
        let line = format!("{SKIPPED}{test}: no captures; set {VARIABLE}\n");
        // If standard error does not accept the line, there is no other place to report it.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    present
}

/// Returns the directory of the shared captures, for a test that has checked that they are [`present`].
///
/// # Panics
/// If there are no captures, or `FLOWATCH_TRAFFIC` names a directory without captures.
#[must_use]
pub fn directory() -> PathBuf {
    found()
        .unwrap_or_else(|| panic!("no captures; set {VARIABLE} to the directory that holds them"))
}

fn found() -> Option<PathBuf> {
    find().unwrap_or_else(|error| panic!("{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a directory with a list of captures.
    fn captures() -> PathBuf {
        let directory =
            std::env::temp_dir().join(format!("flowatch-traffic-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(MANIFEST), "").unwrap();
        directory
    }

    #[test]
    fn named_directory_must_contain_captures_and_default_may() {
        let (captures_dir, missing) = (captures(), PathBuf::from("/nowhere"));
        let name = |directory: &Path| Some(OsString::from(directory));
        assert_eq!(
            choose(name(&captures_dir), missing.clone()),
            Ok(Some(captures_dir.clone()))
        );
        let wrong = choose(name(&missing), captures_dir.clone()).unwrap_err();
        assert!(wrong.to_string().starts_with("FLOWATCH_TRAFFIC=/nowhere: "));
        assert!(choose(name(Path::new("")), captures_dir.clone()).is_err());
        assert_eq!(
            choose(None, captures_dir.clone()),
            Ok(Some(captures_dir.clone()))
        );
        assert_eq!(choose(None, missing), Ok(None));
        std::fs::remove_dir_all(captures_dir).unwrap();
    }
}
