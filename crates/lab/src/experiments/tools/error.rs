//! The device and the error that all programs share.

use crate::trial::TrialError;

/// A device that delivers packets of 64 bytes (60 and the frame check sequence) as fast as they are
/// received.
pub(super) const DEVICE: &str = "net_null0,size=60";

/// An error of a program.
pub(super) fn missing(program: &str, error: impl std::fmt::Display) -> TrialError {
    TrialError::Missing(format!("{program}: {error}"))
}
