//! What can be wrong with what a generator is asked for.

/// Why traffic cannot be made as asked, in one line: what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GeneratorError(String);

impl GeneratorError {
    /// With this line.
    pub fn new(line: impl Into<String>) -> Self {
        Self(line.into())
    }
}
