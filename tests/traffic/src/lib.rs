//! Real captures for tests and developers' commands. Those that are shared may not be passed on, so
//! whoever has the source alone has none of them: tests that cannot do without are skipped, and say
//! so; others make copies of a capture that is shipped, with addresses of their own ([`shift`]).

mod shift;

pub use shift::shift_addresses;

use std::ffi::OsString;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The variable of the environment that names the directory.
const VARIABLE: &str = "FLOWATCH_TRAFFIC";

/// Lists the captures of the directory: it is taken for theirs if it has this file.
const MANIFEST: &str = "MANIFEST.tsv";

/// What a line on a skipped test begins with.
pub const SKIPPED: &str = "SKIPPED ";

/// The environment names a directory that has no captures.
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

/// The directory of the shared captures, if there are any: the one that `FLOWATCH_TRAFFIC` names, or
/// where that is not set, `../shared/traffic` beside the workspace.
///
/// # Errors
/// `FLOWATCH_TRAFFIC` names something else.
pub fn find() -> Result<Option<PathBuf>, NotCaptures> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traffic");
    choose(std::env::var_os(VARIABLE), beside)
}

fn choose(named: Option<OsString>, beside: PathBuf) -> Result<Option<PathBuf>, NotCaptures> {
    let has_captures = |directory: &PathBuf| directory.join(MANIFEST).is_file();
    match named.map(PathBuf::from) {
        Some(named) if has_captures(&named) => Ok(Some(named)),
        Some(named) => Err(NotCaptures(named)),
        None => Ok(Some(beside).filter(has_captures)),
    }
}

/// Whether there are shared captures, for a test that needs them to ask first and to return if not:
/// that it did is written to standard error, past the test harness, which hides what a test that
/// passes has said.
///
/// # Panics
/// If `FLOWATCH_TRAFFIC` names something else.
#[must_use]
pub fn present() -> bool {
    let present = found().is_some();
    if !present {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        // One write for the line, so that lines of tests side by side stay whole.
        let line = format!("{SKIPPED}{test}: no captures; set {VARIABLE}\n");
        // Nobody reads a standard error that takes nothing.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    present
}

/// The directory of the shared captures, for a test that knows that they are [`present`].
///
/// # Panics
/// If there are none, or `FLOWATCH_TRAFFIC` names something else.
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

    /// A directory of captures: it has their list.
    fn captures() -> PathBuf {
        let directory =
            std::env::temp_dir().join(format!("flowatch-traffic-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(MANIFEST), "").unwrap();
        directory
    }

    #[test]
    fn what_is_named_must_hold_captures_and_what_lies_beside_may() {
        let (there, elsewhere) = (captures(), PathBuf::from("/nowhere"));
        let name = |directory: &Path| Some(OsString::from(directory));
        assert_eq!(
            choose(name(&there), elsewhere.clone()),
            Ok(Some(there.clone()))
        );
        let wrong = choose(name(&elsewhere), there.clone()).unwrap_err();
        assert!(wrong.to_string().starts_with("FLOWATCH_TRAFFIC=/nowhere: "));
        assert!(choose(name(Path::new("")), there.clone()).is_err());
        assert_eq!(choose(None, there.clone()), Ok(Some(there.clone())));
        assert_eq!(choose(None, elsewhere), Ok(None));
        std::fs::remove_dir_all(there).unwrap();
    }
}
