//! What a run of `watch` reads.

use port::Input;

/// What to read.
#[derive(Debug)]
pub(crate) enum Source {
    /// Capture files, in order.
    Files(Vec<Input>),
    /// Interfaces.
    Live(Vec<String>),
}
