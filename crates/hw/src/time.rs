//! Processor time.

use std::time::Duration;

/// Processor time that the calling thread has used.
#[must_use]
pub fn thread_cpu() -> Duration {
    cpu(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Processor time that the process has used, all threads together.
#[must_use]
pub fn process_cpu() -> Duration {
    cpu(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn cpu(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a timespec to be filled.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Duration::ZERO;
    }
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_processor_time() {
        let before = thread_cpu();
        let sum = (0..5_000_000u64).fold(0u64, |sum, number| std::hint::black_box(sum ^ number));
        assert!(thread_cpu() > before, "{sum}");
        assert!(process_cpu() >= thread_cpu());
    }
}
