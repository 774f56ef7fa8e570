//! Why a run of `gen` fails.

use export::ExportError;
use port::PortError;

/// Why a run fails.
pub(super) enum Failure {
    /// Any error with a message.
    Message(String),
    /// A permission is missing.
    Permission(String),
    /// The reader of the output has gone: exit silently.
    ReaderGone,
}

impl From<PortError> for Failure {
    fn from(error: PortError) -> Self {
        match error {
            PortError::Permission(message) => Self::Permission(message),
            PortError::BrokenPipe(_) => Self::ReaderGone,
            PortError::Failed(message) => Self::Message(message),
        }
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Permission { .. } => Self::Permission(error.to_string()),
            ExportError::BrokenPipe { .. } => Self::ReaderGone,
            _ => Self::Message(error.to_string()),
        }
    }
}

impl From<generator::GeneratorError> for Failure {
    fn from(error: generator::GeneratorError) -> Self {
        Self::Message(error.to_string())
    }
}
