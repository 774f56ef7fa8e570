//! Why a run cannot be planned.

use crate::inputs::InputError;

/// An error with a one-line message: a flag is invalid, flags contradict each other, or a permission
/// is missing.
#[derive(Debug)]
pub(crate) enum PlanError {
    /// Any other error.
    Failed(String),
    /// No permission to read a file that a flag names.
    Permission(String),
}

impl From<InputError> for PlanError {
    fn from(error: InputError) -> Self {
        match error {
            InputError::Permission(message) => Self::Permission(message),
            InputError::Failed(message) => Self::Failed(message),
        }
    }
}

impl From<String> for PlanError {
    fn from(message: String) -> Self {
        Self::Failed(message)
    }
}

impl From<&str> for PlanError {
    fn from(message: &str) -> Self {
        Self::Failed(message.to_owned())
    }
}
