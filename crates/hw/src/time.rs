//! CPU time, and the timestamp counter (TSC) as a clock.

use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

/// Returns the CPU time of the calling thread.
#[must_use]
pub fn thread_cpu() -> Duration {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the CPU time of the process, over all threads.
#[must_use]
pub fn process_cpu() -> Duration {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Returns the nanoseconds of `CLOCK_MONOTONIC_RAW`, which NTP does not adjust.
#[must_use]
pub fn monotonic_raw_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC_RAW).as_nanos() as u64
}

/// Returns the nanoseconds since the Unix epoch (`CLOCK_REALTIME`).
#[must_use]
pub fn realtime_ns() -> i64 {
    read(libc::CLOCK_REALTIME).as_nanos() as i64
}

fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a writable timespec.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Duration::ZERO;
    }
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// Whether the TSC runs at a constant rate in all power states (CPUID 80000007h, EDX bit 8).
static INVARIANT_TSC: LazyLock<bool> = LazyLock::new(|| {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::__cpuid;
        // Every x86-64 CPU has this leaf, which returns the highest extended leaf.
        let highest = __cpuid(0x8000_0000).eax;
        highest >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
});

/// Reads the timestamp counter, in about 10 ns. If it is not invariant, or the CPU is not x86-64, a
/// tick is a nanosecond of [`monotonic_raw_ns`]. [`TickRate`] converts ticks to time.
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    if *INVARIANT_TSC {
        // SAFETY: every x86-64 CPU has the instruction, and Linux allows it in user space.
        return unsafe { core::arch::x86_64::_rdtsc() };
    }
    monotonic_raw_ns()
}

/// The rate of [`ticks`], measured against `CLOCK_MONOTONIC_RAW`.
///
/// ```
/// let rate = hw::time::TickRate::get();
/// let before = hw::time::ticks();
/// let took_ns = rate.to_ns(hw::time::ticks() - before);
/// # assert!(took_ns < 1_000_000_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TickRate {
    per_second: f64,
    /// Nanoseconds per tick, times 2^40.
    ns_scaled: u64,
    /// Ticks per nanosecond, times 2^40.
    ticks_scaled: u64,
}

/// Fractional bits of the scaled rates.
const SCALE_BITS: u32 = 40;

/// How long [`TickRate::get`] measures. Both ends are accurate to about 20 ns, so the error is one
/// part per million.
const CALIBRATION: Duration = Duration::from_millis(40);

/// Readings at each end of a calibration, of which the fastest is used.
const READINGS: u32 = 32;

impl TickRate {
    /// Returns the rate. The first call in a process measures it, which takes 40 ms.
    #[must_use]
    pub fn get() -> Self {
        static RATE: OnceLock<TickRate> = OnceLock::new();
        *RATE.get_or_init(|| Self::calibrate(CALIBRATION))
    }

    /// Measures the rate for about `time`.
    fn calibrate(time: Duration) -> Self {
        if !*INVARIANT_TSC {
            return Self::from_per_second(1e9);
        }
        let (ticks_before, ns_before) = read_both();
        std::thread::sleep(time);
        let (ticks_after, ns_after) = read_both();
        let elapsed_ns = ns_after.saturating_sub(ns_before).max(1);
        let ticks = ticks_after.saturating_sub(ticks_before).max(1);
        Self::from_per_second(ticks as f64 * 1e9 / elapsed_ns as f64)
    }

    /// Creates a known rate.
    #[must_use]
    pub fn from_per_second(per_second: f64) -> Self {
        let scale = (1u64 << SCALE_BITS) as f64;
        Self {
            per_second,
            ns_scaled: (1e9 / per_second * scale) as u64,
            ticks_scaled: (per_second / 1e9 * scale) as u64,
        }
    }

    /// Returns the ticks per second.
    #[must_use]
    pub fn per_second(self) -> f64 {
        self.per_second
    }

    /// Converts ticks to nanoseconds.
    #[inline]
    #[must_use]
    pub fn to_ns(self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.ns_scaled)) >> SCALE_BITS) as u64
    }

    /// Converts nanoseconds to ticks.
    #[inline]
    #[must_use]
    pub fn to_ticks(self, ns: u64) -> u64 {
        ((u128::from(ns) * u128::from(self.ticks_scaled)) >> SCALE_BITS) as u64
    }
}

/// Reads the counter and the clock at the same moment, as nearly as possible.
fn read_both() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..READINGS {
        let before = ticks();
        let ns = monotonic_raw_ns();
        let after = ticks();
        let took = after.wrapping_sub(before);
        if took < best.0 {
            best = (took, before.wrapping_add(took / 2), ns);
        }
    }
    (best.1, best.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_uses_cpu_time() {
        let before = thread_cpu();
        let sum = (0..5_000_000u64).fold(0u64, |sum, number| std::hint::black_box(sum ^ number));
        assert!(thread_cpu() > before, "{sum}");
        assert!(process_cpu() >= thread_cpu());
    }

    #[test]
    fn converts_between_ticks_and_nanoseconds() {
        let rate = TickRate::from_per_second(2.6e9);
        assert_eq!(rate.to_ticks(1_000_000_000), 2_600_000_000 - 1);
        // The scaled rate has twelve significant digits, so a day is accurate to a microsecond.
        let day_ns = 86_400_000_000_000;
        assert!(rate.to_ns(rate.to_ticks(day_ns)).abs_diff(day_ns) < 1_000);
        assert_eq!(TickRate::from_per_second(1e9).to_ns(u64::MAX), u64::MAX);
    }

    #[test]
    fn a_measured_rate_agrees_with_the_clock() {
        let rate = TickRate::calibrate(Duration::from_millis(20));
        let (ticks_before, ns_before) = read_both();
        std::thread::sleep(Duration::from_millis(20));
        let (ticks_after, ns_after) = read_both();
        let by_ticks = rate.to_ns(ticks_after - ticks_before) as f64;
        let by_clock = (ns_after - ns_before) as f64;
        // The traffic generator needs one part per thousand. A machine that stalls during the
        // readings is wrong by microseconds in 20 ms.
        assert!(
            (by_ticks / by_clock - 1.0).abs() < 0.01,
            "{by_ticks} {by_clock}"
        );
    }
}
