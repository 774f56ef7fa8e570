//! What a rule reports.

use std::fmt;
use std::path::{Path, PathBuf};

/// A violation of a rule.
#[derive(Debug, PartialEq)]
pub(super) struct Finding {
    /// Relative to the root.
    pub(super) file: PathBuf,
    /// From 1; 0 for the whole file.
    pub(super) line: usize,
    pub(super) message: String,
    /// A warning is printed and does not fail the check.
    pub(super) warning: bool,
}

impl Finding {
    pub(super) fn new(file: &Path, line: usize, message: impl Into<String>) -> Self {
        Self {
            file: file.to_path_buf(),
            line,
            message: message.into(),
            warning: false,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.warning { "warning: " } else { "" };
        let file = self.file.display();
        match self.line {
            0 => write!(f, "{file}: {kind}{}", self.message),
            line => write!(f, "{file}:{line}: {kind}{}", self.message),
        }
    }
}
