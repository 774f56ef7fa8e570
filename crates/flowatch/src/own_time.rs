//! Processor time of this program, without that of a program that became it: `cargo run` does, and a
//! shell's `exec`, and the kernel counts on.

use std::sync::LazyLock;
use std::time::Duration;

static BEFORE: LazyLock<Duration> = LazyLock::new(hw::time::process_cpu);

/// Counts from here on.
pub(crate) fn begin() {
    LazyLock::force(&BEFORE);
}

/// What all threads have used since [`begin`].
pub(crate) fn used() -> Duration {
    hw::time::process_cpu().saturating_sub(*BEFORE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_before_does_not_count() {
        begin();
        let all = hw::time::process_cpu();
        assert!(used() >= all.saturating_sub(*BEFORE));
        assert!(used() < hw::time::process_cpu());
    }
}
