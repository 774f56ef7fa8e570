//! Why a run cannot be decided.

/// One line that says which flags contradict each other, what is wrong in one, or which right is
/// missing.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Whatever is not the other.
    Failed(String),
    /// A right to read a file that a flag names.
    MissingRight(String),
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Self::Failed(message)
    }
}

impl From<&str> for Refusal {
    fn from(message: &str) -> Self {
        Self::Failed(message.to_owned())
    }
}
