//! Warnings about invalid snaplens in capture file headers.

use crate::messages;
use port::SnaplenErrors;

/// Prints warnings for invalid and exceeded snaplens. They cost no packets and do not change the
/// exit status.
pub(crate) fn warn(errors: &SnaplenErrors) {
    if errors.invalid > 0 {
        messages::warn(&format!(
            "invalid snaplens in file headers: {}, the largest {} bytes; they are ignored, and packets are read with \
             their own lengths",
            errors.invalid, errors.invalid_max
        ));
    }
    if errors.exceeded > 0 {
        messages::warn(&format!(
            "packets longer than the snaplen in their file header: {}; they are read whole",
            errors.exceeded
        ));
    }
}
