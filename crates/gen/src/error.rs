//! The error of invalid generator options.

/// Why traffic cannot be generated as requested: one line that names the cause and the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GeneratorError(String);

impl GeneratorError {
    /// Creates an error with this message, which must be one line.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}
