//! CPU time of this program. The kernel's count survives `execve`, so the time used before it by
//! `cargo run` or a shell's `exec` is subtracted.

use std::sync::LazyLock;
use std::time::Duration;

static AT_START: LazyLock<Duration> = LazyLock::new(hw::time::process_cpu);

/// Starts the count; call it first in `main`.
pub(crate) fn start() {
    LazyLock::force(&AT_START);
}

/// CPU time that all threads have used since [`start`].
pub(crate) fn used() -> Duration {
    hw::time::process_cpu().saturating_sub(*AT_START)
}

/// Returns the largest resident memory of this process so far, in bytes, if the kernel shows it.
pub(crate) fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_used_before_start_does_not_count() {
        start();
        let all = hw::time::process_cpu();
        assert!(used() >= all.saturating_sub(*AT_START));
        assert!(used() < hw::time::process_cpu());
    }
}
